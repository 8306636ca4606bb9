"""The smallest agent: its logs are only read. ``~/.example/NAME.jsonl``, a line ``{"id", "role", "text", "at"}``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory import ids
from backstory.agents.contract import Agent, LogRoot
from backstory.agents.turn_fold import TurnFold, TurnState, lengthen
from backstory.model import AssistantText, Event, LogIdentity, Parsed, UserMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path


class Record(Struct):
    id: str
    role: str
    text: str
    at: str


class Logs:
    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        return [LogRoot(folder=home / ".example", root=home / ".example")]

    def is_log(self, path: Path) -> bool:
        return path.suffix == ".jsonl"

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        return LogIdentity(native_id=path.stem) if record_in(head.partition(b"\n")[0]) else None

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> Reader:
        return Reader("example", identity, state, TurnState)

    def is_whole(self, line: bytes) -> bool:
        return record_in(line) is not None

    def native_id_of(self, line: bytes) -> str | None:
        record = record_in(line)
        return record.id if record else None


class Reader(TurnFold[TurnState]):
    def read(self, line: bytes, seq: int) -> Parsed:
        record = record_in(line)
        if record is None or record.role not in ("user", "assistant"):
            return Parsed(None, [(0, self.unknown.emit("record"))], None)
        at = ids.parse_time_ms(record.at)
        event: Event = AssistantText(text=record.text)
        if record.role == "user":
            self._begin_turn(record.id, record.text, at, seq)
            event = UserMessage(content=record.text)
        if turn := self._turn_at(seq):
            lengthen(turn, at)
        return Parsed(at, [(0, event)], turn)


def record_in(line: bytes) -> Record | None:
    try:
        return msgspec.json.decode(line, type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


AGENT = Agent(name="example", title="Example", log=Logs())
