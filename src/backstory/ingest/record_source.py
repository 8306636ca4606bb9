"""From the bytes of a growing file to its records: the one way to read a log, a spool, or what is kept of either.

``RecordLines`` cuts bytes into lines and numbers those that hold anything, ``record_source`` chooses the reader that
parses them. Where the bytes come from, and what becomes of the records, is the caller's part.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory import agents
from backstory.agents.bounded import stream_reader
from backstory.agents.jsonl import BLANK, FOLDER_LINE, LineReader
from backstory.derive.facts import RecordFacts
from backstory.ingest.unread import reader_of
from backstory.model import LogIdentity, OwnLine, Record, SessionFacts, Unknown, event_from_json
from backstory.store.tables.logs import API, FAILED, JSON, OVERSIZE, STDERR, STREAM

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from backstory.agents.contract import Agent, LogReader, StreamReader
    from backstory.derive.facts import DerivedFacts
    from backstory.model import Turn

_own_line = msgspec.json.Decoder(OwnLine)


class NumberedLine(Struct, frozen=True, gc=False):
    """A line that is a record: its start, the start of the next one, its content, and its number in the session."""

    start: int
    stop: int
    content: bytes | None
    """Without its end; None: it is too long to be parsed."""
    seq: int


class RecordLines:
    """Cuts the bytes of a growing file into numbered lines. ``number``: by start and content; None for no record."""

    def __init__(self, number: Callable[[int, bytes | None], int | None], reader: LineReader) -> None:
        self._number, self._reader = number, reader

    @property
    def start(self) -> int:
        """The start of the line that has not ended: the end of the last whole one."""
        return self._reader.start

    @property
    def read_to(self) -> int:
        """The end of the bytes that came."""
        return self._reader.read_to

    def feed(self, block: bytes) -> Iterator[NumberedLine]:
        """The records that the next bytes finish."""
        for start, stop, line in self._reader.lines(block):
            if (line is None or line.strip(BLANK)) and (seq := self._number(start, line)) is not None:
                yield NumberedLine(start, stop, line, seq)

    def unfinished(self, is_whole: Callable[[bytes], bool] | None = None) -> NumberedLine | None:
        """The last record, whose end has not come; None if it holds nothing, or is not whole."""
        start, line = self._reader.start, self._reader.unfinished
        if not (line is None or line.strip(BLANK)) or (is_whole is not None and not is_whole(line or b"")):
            return None
        seq = self._number(start, line)
        return None if seq is None else NumberedLine(start, self._reader.read_to, line, seq)


class LogNumbers:
    """Numbers the records of an agent's log. ``known``: numbers that records of the session's other logs have."""

    def __init__(
        self, agent: Agent, next_seq: int, tail_seq: int | None, known: dict[str, deque[int]] | None = None
    ) -> None:
        self._agent, self.next_seq, self.tail_seq, self.known = agent, next_seq, tail_seq, known
        """``tail_seq``: the number of the unfinished line, kept for when its end comes."""

    def __call__(self, start: int, line: bytes | None) -> int:
        """The number of the next record: the one it had before, else a new one."""
        if self.tail_seq is not None:
            seq, self.tail_seq = self.tail_seq, None
            return seq
        if self.known and line is not None and (numbers := self.known.get(record_key(self._agent, line))):
            # A record that comes several times has a number for each time, in order.
            return numbers.popleft()
        self.next_seq += 1
        return self.next_seq - 1


def record_key(agent: Agent, line: bytes) -> str:
    """By what a record is known again in a rewritten log: its own id, else its content."""
    try:
        native_id = agent.log.native_id_of(line)
    except Exception:
        # The record that it fails at has no id to name.
        native_id = None
    return native_id or hashlib.sha256(line).hexdigest()


def looks_whole(agent: Agent, line: bytes) -> bool:
    """Return True if a line without its end is a whole record, which can only get its end."""
    try:
        return bool(line) and agent.log.is_whole(line)
    except Exception:
        return False


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
    on_report: Callable[[bytes], None] | None = None,
) -> RecordSource:
    """Return the reader of a log of this kind, from ``state`` on.

    Of a run's outputs it is the ``reader`` that both have in common, else a new one; ``turn_uid`` is the run's turn.
    ``on_report`` receives each line that reports of a subagent.
    """
    if kind in (API, JSON):
        return _OwnLines(cwd)
    if reader is not None:
        return _Stream(reader, is_error=kind == STDERR, turn_uid=turn_uid, cwd=cwd)
    known = agents.load(agent) if isinstance(agent, str) else agent
    if kind in (STREAM, STDERR):
        reader = stream_reader(known)
        return _Stream(reader, is_error=kind == STDERR, turn_uid=turn_uid, cwd=cwd)
    return _AgentLog(reader_of(known, identity, state, earlier), cwd, on_report)


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

    def parse(self, line: NumberedLine) -> Record:
        """Return the content of any line: Unknown where it is too long, or its adapter fails at it."""
        try:
            return Record([(0, Unknown(type=OVERSIZE))]) if line.content is None else self.read(line.content, line.seq)
        except Exception:
            # What is shown while it grows must not end with one record; storing it counts the failure.
            return Record([(0, Unknown(type=FAILED))])

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

    def __init__(self, reader: LogReader, cwd: str | None, on_report: Callable[[bytes], None] | None) -> None:
        self._reader, self._cwd, self._on_report = reader, cwd, on_report
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
        if line.startswith(FOLDER_LINE):
            return Record([])
        parsed = self._reader.read(line, seq)
        self._found.take(parsed)
        if parsed.has_reports:
            self._has_reports = True
            if self._on_report is not None:
                self._on_report(line)
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
