"""The smallest agent: its logs are only read. ``~/.example/NAME.jsonl``, a line ``{"id", "role", "text", "at"}``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory import ids
from backstory.agents.contract import Agent, LogRoot
from backstory.model import AssistantText, Event, LogIdentity, Parsed, SessionFacts, Turn, Unknown, UserMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path


class Record(Struct):
    id: str
    role: str
    text: str
    at: str


class State(Struct):
    session: SessionFacts = field(default_factory=SessionFacts)
    turn: Turn | None = None


class Logs:
    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        return [LogRoot(folder=home / ".example", root=home / ".example")]

    def is_log(self, path: Path) -> bool:
        return path.suffix == ".jsonl"

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        return LogIdentity(native_id=path.stem) if record_in(head.partition(b"\n")[0]) else None

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> Reader:
        return Reader(msgspec.json.decode(state, type=State) if state else State())

    def is_whole(self, line: bytes) -> bool:
        return record_in(line) is not None

    def native_id_of(self, line: bytes) -> str | None:
        record = record_in(line)
        return record.id if record else None


class Reader:
    def __init__(self, state: State) -> None:
        self._state, self.session = state, state.session
        self.unknown: dict[str, int] = {}
        self._touched: dict[str, Turn] = {}

    def read(self, line: bytes, seq: int) -> Parsed:
        record = record_in(line)
        if record is None or record.role not in ("user", "assistant"):
            self.unknown["record"] = self.unknown.get("record", 0) + 1
            return Parsed(None, [(0, Unknown(type="record"))], None)
        at, event = ids.parse_time_ms(record.at), self._event(record, seq)
        if turn := self._state.turn:
            turn.last_seq, turn.ended = seq, at
            self._touched[turn.uid] = turn
        return Parsed(at, [(0, event)], turn)

    def _event(self, record: Record, seq: int) -> Event:
        if record.role == "assistant":
            return AssistantText(text=record.text)
        before, uid = self._state.turn, ids.turn_uid("example", record.id)
        turn = Turn(uid=uid, agent="example", native_id=record.id, prompt=record.text, first_seq=seq)
        if before is not None:
            turn.parent_uid, turn.parent_seq = before.uid, before.last_seq
        turn.started = ids.parse_time_ms(record.at)
        self._state.turn = turn
        return UserMessage(content=record.text)

    def touched(self) -> Iterator[Turn]:
        turns, self._touched = self._touched, {}
        return iter(turns.values())

    def state(self) -> bytes:
        return msgspec.json.encode(self._state)


def record_in(line: bytes) -> Record | None:
    try:
        return msgspec.json.decode(line, type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


AGENT = Agent(name="example", title="Example", log=Logs())
