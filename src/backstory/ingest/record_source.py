"""Chooses the reader of a log's records by the kind of log, for every caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backstory import agents
from backstory.agents.bounded import stream_reader
from backstory.derive.facts import RecordFacts
from backstory.ingest.unread import reader_of
from backstory.model import LogIdentity, OwnLine, Record, SessionFacts, event_from_json
from backstory.store.tables.logs import API, JSON, STDERR, STREAM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from backstory.agents.contract import Agent, LogReader, StreamReader
    from backstory.derive.facts import DerivedFacts
    from backstory.model import Turn

_own_line = msgspec.json.Decoder(OwnLine)


def record_source(
    kind: str,
    agent: Agent | str,
    identity: LogIdentity,
    *,
    state: bytes | None = None,
    earlier: Callable[[], Iterable[bytes]] = tuple,
    turn_uid: str | None = None,
    cwd: str | None = None,
    reader: StreamReader | None = None,
) -> RecordSource:
    """Return the reader of a log of this kind, from ``state`` on.

    Of a run's outputs it is the ``reader`` that both have in common, else a new one; ``turn_uid`` is the run's turn.
    """
    if kind in (API, JSON):
        return _OwnLines(cwd)
    if reader is not None:
        return _Stream(reader, is_error=kind == STDERR, turn_uid=turn_uid, cwd=cwd)
    known = agents.load(agent) if isinstance(agent, str) else agent
    if kind in (STREAM, STDERR):
        reader = stream_reader(known)
        return _Stream(reader, is_error=kind == STDERR, turn_uid=turn_uid, cwd=cwd)
    return _AgentLog(reader_of(known, identity, state, earlier), cwd)


class RecordSource:
    """Reads records in their order. Of turns, and of facts about their session, only an agent's own log knows."""

    facts = SessionFacts()

    def __init__(self, cwd: str | None) -> None:
        self._cwd = cwd
        self.unknown: Mapping[str, int] = {}
        """Types of records that the adapter does not know, with how often each came."""

    @property
    def cwd(self) -> str | None:
        """The folder that their session is in, as far as it is known by now."""
        return self._cwd

    def read(self, line: bytes, seq: int) -> Record:
        """Return the content of a record whose number is ``seq``."""
        raise NotImplementedError

    def turns(self) -> list[Turn]:
        """The turns that records since the last call began or changed."""
        return []

    def state(self) -> bytes:
        """All that is needed to go on later."""
        return b""

    def note_found(self, found: DerivedFacts) -> None:
        """Add what stands by itself in records since the last call."""

    def has_reported(self) -> bool:
        """Return True if a record since the last call reports of a subagent."""
        return False


class _AgentLog(RecordSource):
    """An agent's own log."""

    def __init__(self, reader: LogReader, cwd: str | None) -> None:
        self._reader, self._cwd = reader, cwd
        self._found = RecordFacts()
        self._has_reports = False

    @property
    def facts(self) -> SessionFacts:  # type: ignore[override]
        return self._reader.session

    @property
    def unknown(self) -> Mapping[str, int]:  # type: ignore[override]
        return self._reader.unknown

    @property
    def cwd(self) -> str | None:
        return self._cwd or self._reader.session.cwd

    def read(self, line: bytes, seq: int) -> Record:
        parsed = self._reader.read(line, seq)
        self._found.take(parsed)
        self._has_reports = self._has_reports or parsed.has_reports
        return Record(parsed.events, parsed.turn.uid if parsed.turn else None, parsed.at)

    def turns(self) -> list[Turn]:
        return list(self._reader.touched())

    def state(self) -> bytes:
        return self._reader.state()

    def note_found(self, found: DerivedFacts) -> None:
        self._found.move_to(found)

    def has_reported(self) -> bool:
        has_reports, self._has_reports = self._has_reports, False
        return has_reports


class _Stream(RecordSource):
    """An output of a run."""

    def __init__(self, reader: StreamReader, *, is_error: bool, turn_uid: str | None, cwd: str | None) -> None:
        super().__init__(cwd)
        self._reader, self._is_error, self._turn_uid = reader, is_error, turn_uid

    def read(self, line: bytes, seq: int) -> Record:
        if self._is_error:
            return Record(list(enumerate(self._reader.stderr(line))), self._turn_uid)
        parsed = self._reader.read(line)
        return Record(parsed.events, self._turn_uid, parsed.at, takes_number=parsed.takes_number, delta=parsed.delta)


class _OwnLines(RecordSource):
    """Lines of our own: what a session was appended with, and the messages sent to a running agent."""

    def read(self, line: bytes, seq: int) -> Record:
        own = _own_line.decode(line)
        if own.events:
            return Record([(part, event_from_json(bytes(each))) for part, each in own.events], own.turn, own.at)
        event = bytes(own.event)
        return Record([(0, event_from_json(event))] if event else [], own.turn, own.at)
