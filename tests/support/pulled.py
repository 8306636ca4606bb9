"""Machines that pull from each other in one process: the far end answers in a thread, over pipes that may be cut."""

from __future__ import annotations

import io
import os
import threading
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, cast

from backstory.config import Config
from backstory.errors import BackstoryError
from backstory.store import open_store
from backstory.sync.serving import serve
from backstory.sync.sources import FarSource
from backstory.sync.wire import greeting
from backstory.workspace.stores.pulling import Pulled, pull
from backstory.workspace.workspace import Workspace
from tests.support.clock import NOW
from tests.support.machines import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backstory.sync.far_end import FarEnd

LATER = NOW + 90 * 86_400_000


class PullingMachine(Machine):
    """A machine with agents' logs, whose home store pulls and is pulled from."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # It is later than all that recorded logs say.
        self.store = open_store(self.store_path, shared=True, now=lambda: LATER)
        folder = folder.resolve()
        (folder / "work").mkdir(parents=True, exist_ok=True)
        settings = folder / "config.toml"
        self.workspace = Workspace(
            lambda: Config(settings, None, is_installed=lambda *_: True, agents=list, make_folder=lambda _: None),
            folder, folder / "work", now=lambda: LATER,
        )  # fmt: skip

    def close(self) -> None:
        self.workspace.close()
        super().close()

    def pull(self, other: PullingMachine, cut: Callable[[IO[bytes]], IO[bytes]] = lambda answers: answers) -> Pulled:
        """Pull from another machine. ``cut`` may put something between the far end's answers and us."""
        with far_end(other, cut) as (far, hello_id):
            return pull(self.workspace, FarSource(far, "ssh://there", hello_id))


class _Streams:
    """The streams of a far end."""

    def __init__(self, answers: IO[bytes], asked: IO[bytes]) -> None:
        self.answers, self.asked = answers, asked


@contextmanager
def far_end(other: PullingMachine, cut: Callable[[IO[bytes]], IO[bytes]]) -> Iterator[tuple[FarEnd, str]]:
    """Have a machine answer in a thread."""
    asked, answers = os.pipe(), os.pipe()

    def answer() -> None:
        with (
            suppress(BrokenPipeError, BackstoryError),
            open_store(other.store_path, shared=True, now=lambda: LATER) as store,
            os.fdopen(asked[0], "rb") as reading,
            os.fdopen(answers[1], "wb") as writing,
        ):
            serve(store, reading, writing)

    thread = threading.Thread(target=answer)
    thread.start()
    heard = os.fdopen(answers[0], "rb")
    asking = os.fdopen(asked[1], "wb")
    try:
        stream = cut(heard)
        hello = greeting(stream)
        assert hello is not None
        yield cast("FarEnd", _Streams(stream, asking)), hello.id
    finally:
        heard.close()
        with suppress(BrokenPipeError):
            asking.close()
        thread.join()


class CutStream(io.RawIOBase):
    """A stream that ends behind so many bytes."""

    def __init__(self, stream: IO[bytes], left: int) -> None:
        self._stream, self._left = stream, left

    def readable(self) -> bool:
        return True

    def readinto(self, into: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(min(len(into), self._left, 4_096))
        self._left -= len(data)
        into[: len(data)] = data
        return len(data)


def cut_after(count: int) -> Callable[[IO[bytes]], IO[bytes]]:
    return lambda stream: io.BufferedReader(CutStream(stream, count), 1)


class Counted(io.RawIOBase):
    """A stream whose bytes are counted, and the places where its lines begin noted."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.count = stream, 0
        self.starts = list[int]()

    def readable(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> bytes:
        self.starts.append(self.count)
        line = self._stream.readline(-1 if size is None else size)
        self.count += len(line)
        return line

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data


def counting(streams: list[Counted]) -> Callable[[IO[bytes]], IO[bytes]]:
    """Put a stream that counts between, and into a list."""

    def count(stream: IO[bytes]) -> IO[bytes]:
        streams.append(Counted(stream))
        return cast("IO[bytes]", streams[-1])

    return count
