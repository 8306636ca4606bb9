"""Two small agents whose sessions are folders that read as one log: chunks named after their content, and events."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path, PurePath
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import field

from backstory.agents import jsonl
from backstory.agents.contract import Agent, FolderOrder, LogRoot
from backstory.agents.turn_fold import TurnState
from backstory.model import LogIdentity, Parsed
from tests.agents.example import Reader, record_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class SeenState(TurnState, kw_only=True):
    seen: list[str] = field(default_factory=list)


class SeenReader(Reader):
    """Takes a record once."""

    def read(self, line: bytes, seq: int) -> Parsed:
        record = record_in(line)
        seen: list[str] = self._state.seen  # type: ignore[attr-defined]
        if record is not None and record.id in seen:
            return Parsed(None, [], self._turn_at(seq))
        if record is not None:
            seen.append(record.id)
        return super().read(line, seq)


class Logs:
    def __init__(self, name: str, head: str) -> None:
        self._name, self._head = name, head

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        return [LogRoot(folder=home / f".{self._name}", root=home / f".{self._name}")]

    def is_log(self, path: Path) -> bool:
        return path.name == self._head

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        return LogIdentity(native_id=path.parent.name) if record_in(head.partition(b"\n")[0]) else None

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> Reader:
        return SeenReader(self._name, identity, state, SeenState)

    def is_whole(self, line: bytes) -> bool:
        return record_in(line) is not None

    def native_id_of(self, line: bytes) -> str | None:
        return record.id if (record := record_in(line)) else None


class Chunks:
    head, watched = "CURRENT", ("title.json",)

    def folder_of(self, below: PurePath) -> PurePath | None:
        return PurePath(below.parts[0]) if below.parts and below.parts[0].startswith("s-") else None

    def order(self, names: Sequence[str], read: Callable[[str], bytes]) -> FolderOrder:
        try:
            wanted = [str(each) for each in json.loads(read("CURRENT"))["chunks"]]
        except (OSError, ValueError, RecursionError, TypeError, KeyError):
            return FolderOrder(names=[], missing="CURRENT cannot be read")
        missing = [each for each in wanted if each not in names]
        return FolderOrder(names=wanted, missing=f"{missing[0]} is missing" if missing else None)

    def records(self, name: str, content: bytes) -> Sequence[tuple[int, int]] | None:
        return jsonl.elements(content)


class Events:
    head, watched = "events", ("state.json",)

    def folder_of(self, below: PurePath) -> PurePath | None:
        return PurePath(below.parts[0]) if below.parts and below.parts[0].startswith("s-") else None

    def order(self, names: Sequence[str], read: Callable[[str], bytes]) -> FolderOrder:
        return FolderOrder(names=[each for each in names if each.startswith("events/")])

    def records(self, name: str, content: bytes) -> Sequence[tuple[int, int]] | None:
        return [(0, len(content.rstrip()))] if jsonl.is_whole(content.rstrip()) else None


CHUNKED = Agent(name="chunked", title="Chunked", log=Logs("chunked", "CURRENT"), folders=Chunks())
EVENTFUL = Agent(name="eventful", title="Eventful", log=Logs("eventful", "events"), folders=Events())


def register(agent: Agent, monkeypatch: Any) -> Agent:
    """Have an agent known as if it came with the package."""
    module = ModuleType(f"backstory.agents.{agent.name}")
    module.AGENT = agent  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    return agent


def said(number: int, text: str = "") -> bytes:
    """A record: a prompt where the number is odd, else an answer."""
    at = f"2026-11-01T10:{number // 60 % 60:02}:{number % 60:02}Z"
    role = "user" if number % 2 else "assistant"
    return json.dumps({"id": f"r{number}", "role": role, "text": text or f"said {number}", "at": at}).encode()


class ChunkedSession:
    """A session's folder, as an agent extends its chunk under another name each time."""

    def __init__(self, home: Path, name: str = "s-1") -> None:
        self.folder = home / ".chunked" / name
        (self.folder / "chunks").mkdir(parents=True)
        self.said: list[bytes] = []
        self.full: list[str] = []
        """Chunks that are not extended any more."""
        self.last = ""
        self._time = 1_780_000_000_000_000_000

    def append(self, *records: bytes) -> None:
        self.said += records
        content = b"[" + b",".join(self.said) + b"]\n"
        self.write(content)

    def write(self, content: bytes) -> None:
        before, self.last = self.last, f"chunks/{hashlib.sha256(content).hexdigest()}.json"
        self.put(self.last, content)
        if before and before != self.last:
            (self.folder / before).unlink()
        self.put("CURRENT", json.dumps({"chunks": [*self.full, self.last]}).encode())

    def put(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        self._time += 1_000_000_000
        os.utime(path, ns=(self._time, self._time))


class EventSession:
    """A session's folder with one file an event."""

    def __init__(self, home: Path, name: str = "s-1") -> None:
        self.folder = home / ".eventful" / name
        (self.folder / "events").mkdir(parents=True)
        self._time = 1_780_000_000_000_000_000

    def put(self, number: int, content: bytes) -> Path:
        path = self.folder / "events" / f"{number:05}.json"
        path.write_bytes(content)
        self._time += 1_000_000_000
        # The folder's own time is what a new file changes.
        os.utime(path.parent, ns=(self._time, self._time))
        return path


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by its path below it."""
    return {
        each.relative_to(folder).as_posix(): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()
    }
