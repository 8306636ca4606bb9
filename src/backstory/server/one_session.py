"""One session of the server as a store of its own: made of its frames, and read by the reader of every face."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import contextmanager
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast, overload

import msgspec
from msgspec.structs import replace

from backstory.bounds import iso
from backstory.exchange import frames
from backstory.exchange.frames import Frame, head_of, joined
from backstory.exchange.imported import Staging
from backstory.exchange.json_lines import FORMAT, End, FileHead, SessionEnd
from backstory.ingest.json_import import JsonImport
from backstory.model import encoded
from backstory.server.shelves import line_kind
from backstory.workspace.located import LocatedSession
from backstory.workspace.opening import open_workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from psycopg import Cursor

    from backstory.server.jobs import ShelfPlace
    from backstory.workspace.workspace import Workspace


class WholeSession(NamedTuple):
    """A session up to where it is seen."""

    place: ShelfPlace
    epoch: int
    frames: int
    events: int
    chain: bytes


def whole_session(rows: Cursor[Any], place: ShelfPlace) -> WholeSession | None:
    """Return up to where a session is seen; None where it is not there."""
    row = rows.execute(_SEEN, place).fetchone()
    if row is None:
        return None
    epoch, frames, events, chain = row
    return WholeSession(place, epoch, frames, events, bytes(chain))


def frames_of(rows: Cursor[Any], session: WholeSession) -> PackedFrames:
    """Return the frames of a session, as they came."""
    found = rows.execute(_FRAMES, (*session.place, session.epoch, session.frames)).fetchall()
    return PackedFrames([head.encode() + b"\n" + bytes(data) for head, data in found])


class PackedFrames(Sequence[Frame]):
    """Frames that were checked before. Only the last one that was asked for is unpacked."""

    def __init__(self, packed: list[bytes]) -> None:
        self._packed = packed
        self._last: tuple[int, Frame] | None = None

    @property
    def events(self) -> int:
        """The number of events in all of them."""
        return sum(head_of(each[: frames.HEAD_BYTES_MAX]).events for each in self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    @overload
    def __getitem__(self, at: int) -> Frame: ...
    @overload
    def __getitem__(self, at: slice) -> list[Frame]: ...
    def __getitem__(self, at: int | slice) -> Frame | list[Frame]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        if self._last is None or self._last[0] != at:
            self._last = at, frames.read_again(self._packed[at])
        return self._last[1]


def build(parts: PackedFrames, path: Path, now: Callable[[], int], most: int | None = None) -> None:
    """Make a store of a session's frames at ``path``, which appears when it is whole. ``most``: its last events alone.

    Raises FrameDamaged, ImportRefused, DiskFull, CannotWrite.
    """
    made = path.with_name(f"{path.name}.{os.getpid()}.part")
    made.unlink(missing_ok=True)
    try:
        with Staging(made, now=now) as staged:
            lines = joined(parts) if most is None else _last_events(joined(parts), parts.events, most)
            reader = JsonImport(staged, "the frames of a session", trusted=True, strict=True)
            reader.read(cast("IO[bytes]", _Export(lines, now())))
        made.chmod(0o600)
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)


@contextmanager
def opened(path: Path, uid: str, now: Callable[[], int]) -> Iterator[tuple[Workspace, LocatedSession]]:
    """Give the workspace of such a store, and the session. Raises SessionNotFound, StoreDamaged."""
    home = str(path.parent)
    with open_workspace(home, {"BACKSTORY_HOME": home, "HOME": home}, store=str(path), now=now) as workspace:
        store = workspace.home_store
        # It was made here, of what its owner sent.
        workspace.believe(store)
        yield workspace, LocatedSession(store, store.session(uid))


def _last_events(lines: Iterable[bytes], events: int, most: int) -> Iterator[bytes]:
    """The lines of a session with its last events alone."""
    left_out = max(events - most, 0)
    for line in lines:
        kind = line_kind(line)
        if kind == b"event" and left_out:
            left_out -= 1
            continue
        if kind == b"session_end":
            end = msgspec.json.decode(line, type=SessionEnd)
            yield encoded(replace(end, events=min(events, most))) + b"\n"
        else:
            yield line


class _Export:
    """Lines of a session as a file that is an export of it, read line by line."""

    def __init__(self, lines: Iterable[bytes], now: int) -> None:
        head = FileHead(format=FORMAT, made_by="a team's server", exported=iso(now) or "", bytes=False, redacted=True)
        self._lines = chain([encoded(head) + b"\n"], lines, [encoded(End(sessions=1)) + b"\n"])

    def readline(self, _most: int = -1) -> bytes:
        """Return the next line; nothing at the end."""
        for line in self._lines:
            return line
        return b""


_SEEN = """
select epoch, frames, events, chain from session where tenant = %s and person = %s and uid = %s and machine = %s
"""
_FRAMES = """
select head, data from frame where tenant = %s and person = %s and session = %s and machine = %s
  and epoch = %s and number <= %s order by number
"""
