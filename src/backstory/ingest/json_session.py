"""One session of a JSON export, checked line by line and turned into rows of a store."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from backstory.agents.jsonl import LINE_BYTES_MAX
from backstory.conversation.compact import compact_event
from backstory.derive import index_text
from backstory.derive.deriver import Deriver
from backstory.errors import ContextFull, ContextUnusable
from backstory.exchange.imported import StagedFacts
from backstory.exchange.json_lines import (
    BranchLine,
    BytesLine,
    EventLine,
    LogLine,
    NumbersLine,
    SessionEnd,
    SidecarLine,
    SummaryLine,
    TurnLine,
    ms_of,
)
from backstory.exchange.portable import row_of
from backstory.lazy import lazy_module
from backstory.model import KINDS, AssistantText, At, Outcome, Parts, encoded, event_from_json, event_to_json
from backstory.store import codec
from backstory.store.intake import derived_tables
from backstory.store.tables import logs, sidecars
from backstory.store.tables.decisions import DECIDED, context_rows
from backstory.store.tables.logs import API, COPY, FILE, JSON, STDERR, STREAM, SeqRange

if TYPE_CHECKING:
    from backstory.exchange.imported import StagedRows
    from backstory.exchange.json_lines import Line, RowLine, SessionLine
    from backstory.model import Event
    from backstory.store.tables import pruned
else:
    pruned = lazy_module("backstory.store.tables.pruned")

OUTCOMES = frozenset(each.value for each in Outcome)
_BEGINS = {kind: b'{"' + kind.encode() + b'"' for kind in KINDS}


class Ids(msgspec.Struct):
    """The ids that rows got last."""

    session: int = 0
    log: int = 0
    turn: int = 0


class StagedSession:
    """Takes the lines of a session. ``has_bytes``: whether they hold the logs' bytes.

    Without ``trusted`` what people decided is left out, and the logs are copies. Raises Wrong, and ValueError.
    """

    def __init__(self, rows: StagedRows, line: SessionLine, ids: Ids, *, has_bytes: bool, trusted: bool) -> None:
        ids.session += 1
        self.id, self.uid = ids.session, line.uid
        self._rows, self._line, self._ids = rows, line, ids
        self._has_bytes, self._trusted = has_bytes, trusted
        self._turns: dict[str, int] = {}
        self._logs: list[StagedLog] = []
        self._omitted = None if has_bytes else OmittedLog(line, self.id, self._next_log())
        self._place, self._parts = (0, 0), Parts()
        """The record and part of the last event, and today's numbers of parts."""
        self._events = 0
        self._add_session()

    def take(self, line: Line) -> None:
        """Take a line of it, behind those before."""
        match line:
            case LogLine():
                self._begin_log(line)
            case NumbersLine():
                self._log(line.log).number(line, self._rows, self._line.next_seq)
            case BytesLine():
                self._log(line.log).keep(line, self._rows)
            case SidecarLine():
                self._keep_sidecar(line)
            case TurnLine():
                self._add_turn(line)
            case EventLine():
                self.add_event(line)
            case BranchLine():
                if self._trusted:
                    self._check_seq(line.leaf_seq)
                    self._add("branches", line)
                ms_of(line.created)
            case SummaryLine():
                self._add_summary(line)

    def settle(self) -> None:
        """Add what its events add up to, before the rows that came are written."""
        if self._omitted is not None:
            self._omitted.settle(self._rows, self._turns)

    def end(self, line: SessionEnd) -> None:
        """Check that all of it came."""
        self._end_log()
        kept = sum(log.length for log in self._logs) if self._has_bytes else 0
        found = SessionEnd(uid=self._line.uid, turns=len(self._turns), events=self._events, bytes=kept)
        if line != found:
            raise Wrong(
                f"it says {line.turns} turns, {line.events} events and {line.bytes} bytes of session {line.uid}; "
                f"before it are {found.turns}, {found.events} and {found.bytes} of session {found.uid}"
            )
        if self._omitted is not None:
            self._omitted.end(self._rows, trusted=self._trusted)
        if self._line.pruned is not None:
            # Its logs are as pruned as they are to be.
            for each in self._logs if self._omitted is None else [self._omitted]:
                self._rows.add(
                    "pruned", session_id=self.id, log_id=each.id, name="", start=pruned.WHOLE, length=each.length
                )
        self._rows.counts.append((self._line.context_chars, self._line.context_limit, self.id))

    def _add_session(self) -> None:
        line, trusted = self._line, self._trusted
        if ms_of(line.created) is None:
            raise Wrong("it does not say when the session began")
        self._check_seq(line.leaf_seq)
        self._rows.add("sessions", id=self.id, **row_of(line, trusted=trusted))
        if line.pruned is not None:
            self._check_seq(line.pruned.next_seq - 1)
            self._rows.add(
                "pruned", session_id=self.id, log_id=0, name="", start=0, length=line.pruned.next_seq,
                what=" ".join(line.pruned.what), at=ms_of(line.pruned.at),
            )  # fmt: skip
        for name in dict.fromkeys(line.branches):
            self._rows.add("session_branches", session_id=self.id, branch=name)
        if trusted and line.decided:
            decided = msgspec.json.encode(dict(sorted(line.decided.items()))).decode()
            self._rows.add("meta", key=DECIDED + line.uid, value=decided)
        try:
            context = context_rows(line.uid, line.context)
        except (ContextFull, ContextUnusable) as refused:
            raise Wrong(str(refused)) from None
        for key, value in context if trusted else ():
            self._rows.add("meta", key=key, value=value)

    def _next_log(self) -> int:
        self._ids.log += 1
        return self._ids.log

    def _begin_log(self, line: LogLine) -> None:
        self._end_log()
        if self._turns or self._events:
            raise Wrong("the logs of a session come before its turns")
        if line.log != len(self._logs) + 1:
            raise Wrong(f"it is log {line.log}, and log {len(self._logs) + 1} was to come")
        self._check_seq(line.tail_seq)
        self._logs.append(StagedLog(line, self._next_log()))

    def _log(self, number: int) -> StagedLog:
        if number != len(self._logs) or self._turns or self._events or not self._has_bytes:
            raise Wrong(f"a line of log {number} does not belong here")
        return self._logs[-1]

    def _end_log(self) -> None:
        if self._logs and self._has_bytes:
            self._logs[-1].end(self._rows, self.id, trusted=self._trusted)

    def _keep_sidecar(self, line: SidecarLine) -> None:
        log = self._log(line.log)
        log.note_sidecar(line)
        kept = sidecars.pack(line.name, line.mtime_ns, line.data)
        self._rows.add(
            "sidecars", len(kept.frame), log_id=log.id, name=kept.name, size=kept.size, mtime_ns=kept.mtime_ns,
            sha256=kept.digest, data=kept.frame,
        )  # fmt: skip

    def _add_turn(self, line: TurnLine) -> None:
        self._end_log()
        if self._events:
            raise Wrong("the turns of a session come before its events")
        if line.uid in self._turns:
            raise Wrong(f"turn {line.uid} is in this session already")
        if line.outcome is not None and line.outcome not in OUTCOMES:
            raise Wrong(f"{line.outcome[:40]!r} is no outcome of a turn")
        self._check_seq(line.parent_seq, line.first_seq, line.last_seq)
        self._ids.turn += 1
        self._turns[line.uid] = turn_id = self._ids.turn
        self._add("turns", line, len(line.prompt), id=turn_id)
        # Without logs they are found in the events.
        if line.answer is not None and self._omitted is None:
            self._rows.add("turn_texts", len(line.answer), turn_id=turn_id, answer=line.answer)

    def add_event(self, line: EventLine) -> None:
        """Take an event, behind those before."""
        self._end_log()
        if (line.seq, line.part) <= self._place:
            raise Wrong(f"record {line.seq}, part {line.part} does not come behind the event before it")
        self._place = line.seq, line.part
        self._check_seq(line.seq)
        if line.turn is not None and line.turn not in self._turns:
            raise Wrong(f"turn {line.turn[:40]!r} is not in this session")
        event, at = _event(line.event), ms_of(line.at)
        short = _event(line.short) if bytes(line.short) else compact_event(event)
        data = codec.shipped_codec().pack(event_to_json(short))
        chars = index_text.char_len(event) if line.chars is None else line.chars
        turn_id = self._turns[line.turn] if line.turn is not None else None
        row = (line.seq, self._parts.of(line.seq, line.part), turn_id, at, event.kind, data, chars)
        if self._omitted is None:
            self._rows.add_event(self.id, (*row, *self._where(line)), size=len(data))
        else:
            self._omitted.take(line, event, row, self._rows)
        self._events += 1

    def _where(self, line: EventLine) -> tuple[int | None, int | None, int | None]:
        """The log of an event's record, and where in it that is."""
        if line.log is None:
            return None, line.position, line.length
        if line.log > len(self._logs):
            raise Wrong(f"log {line.log} is not in this session")
        log = self._logs[line.log - 1]
        if line.position is None or line.length is None or line.position + line.length > log.length:
            raise Wrong(f"it lies behind the end of log {line.log}")
        return log.id, line.position, line.length

    def _add_summary(self, line: SummaryLine) -> None:
        if ms_of(line.created) is None or line.after_seq >= self._line.next_seq:
            raise Wrong("it covers records that the session does not have")
        self._add("compactions", line, len(line.summary))

    def _add(self, table: str, line: RowLine, size: int = 0, **keys: int) -> None:
        self._rows.add(table, size, session_id=self.id, **keys, **row_of(line, trusted=self._trusted))

    def _check_seq(self, *seqs: int | None) -> None:
        for seq in seqs:
            if seq is not None and seq >= self._line.next_seq:
                raise Wrong(f"record {seq} is not before next_seq, which is {self._line.next_seq}")


def _event(data: msgspec.Raw) -> Event:
    """An event of a kind that is known: of another one nothing would be left."""
    text = bytes(data).strip()
    event = event_from_json(text)
    if not text.startswith(_BEGINS.get(event.kind, b"\0")):
        raise Wrong("its event is none of a kind that is known here")
    return event


# json log -------------------------------------------------------------------------------------------------------------
# A log of a JSON export: its bytes as they come, or, where they were left out, a log made of its events.


LOG_KINDS = frozenset(f"{before}{kind}" for kind in (FILE, STREAM, STDERR, API, JSON) for before in ("", COPY))
BLOCK_BYTES = codec.CHUNK_BYTES


class Wrong(Exception):
    """A reason why a value in a line cannot be."""


class StagedLog:
    """Takes the lines of a log. Raises Wrong, and ValueError."""

    def __init__(self, line: LogLine, log_id: int) -> None:
        if line.kind not in LOG_KINDS:
            raise Wrong(f"{line.kind[:40]!r} is no kind of log")
        if max(line.parsed_to, line.told_to or 0) > line.length:
            raise Wrong("what was parsed of it is longer than it is")
        self.id, self.length = log_id, line.length
        self._line = line
        self._bytes = _Bytes(log_id)
        self._numbered_to, self._names, self._is_over = 0, set[str](), False

    def number(self, line: NumbersLine, rows: StagedRows, next_seq: int) -> None:
        """Note the numbers of its records."""
        for start, stop, first_seq, records in line.ranges:
            if not self._numbered_to <= start < stop <= self.length or first_seq + records > next_seq:
                raise Wrong(f"records {first_seq} to {first_seq + records - 1} cannot lie from byte {start} to {stop}")
            self._numbered_to = stop
            rows.add("numbers", log_id=self.id, start=start, stop=stop, first_seq=first_seq, records=records)

    def keep(self, line: BytesLine, rows: StagedRows) -> None:
        """Take the next of its bytes."""
        if line.start != self._bytes.end or line.start + len(line.data) > self.length:
            raise Wrong(f"bytes from {line.start} on came, and byte {self._bytes.end} of {self.length} was to come")
        check_digest(line.data, line.sha256)
        self._bytes.add(line.data, rows)

    def note_sidecar(self, line: SidecarLine) -> None:
        """Check a file beside it."""
        if line.name in self._names:
            raise Wrong(f"the file {line.name[:80]!r} is beside this log already")
        check_digest(line.data, line.sha256)
        self._names.add(line.name)

    def end(self, rows: StagedRows, session_id: int, *, trusted: bool) -> None:
        """Add its row; a second time nothing."""
        if self._is_over:
            return
        self._is_over, line = True, self._line
        if self._bytes.end != self.length:
            raise Wrong(f"of {self.length} bytes of log {line.log} {self._bytes.end} came before it")
        tail_hash, frames = self._bytes.finish(rows)
        said = row_of(line, trusted=trusted) | {"kind": kind_of(line.kind, trusted=trusted)}
        rows.add("logs", id=self.id, session_id=session_id, tail_hash=tail_hash, frames=frames, **said)


class OmittedLog:
    """Makes a log of a session's events, a line for each record: so their full forms are kept without its own logs.

    Such a line is ``{"at":…,"turn":…,"events":[[part,{…}],…]}``. What its events add up to is derived as they come, so
    that nothing of such a log is left to be read again.
    """

    def __init__(self, session: SessionLine, session_id: int, log_id: int) -> None:
        self._uid, self._session_id, self.id = session.uid, session_id, log_id
        self._bytes = _Bytes(log_id)
        self._record: list[tuple[EventLine, Event, tuple[Any, ...]]] = []
        """The events of the last record, each with its row up to the columns that say where that lies."""
        self._range: SeqRange | None = None
        self._deriver, self._cwd = Deriver(), session.cwd or None
        self._answers = dict[str, str]()
        self._is_derived = True

    @property
    def length(self) -> int:
        """The number of its bytes so far."""
        return self._bytes.end

    def take(self, line: EventLine, event: Event, row: tuple[Any, ...], rows: StagedRows) -> None:
        """Take an event, with its row as far as it is known."""
        if self._record and self._record[0][0].seq != line.seq:
            self._flush(rows)
        self._record.append((line, event, row))

    def settle(self, rows: StagedRows, turn_ids: dict[str, int]) -> None:
        """Add what was derived since the last time."""
        found = self._deriver.cut(self._cwd)
        rows.facts.append(StagedFacts(self._session_id, turn_ids, found, self._answers))
        self._answers = {}

    def end(self, rows: StagedRows, *, trusted: bool) -> None:
        """Add what is left, and the log's own row."""
        self._flush(rows)
        self._add_range(rows)
        tail_hash, frames = self._bytes.finish(rows)
        pending = self._deriver.state() if self._is_derived else None
        rows.add(
            "logs", id=self.id, session_id=self._session_id, agent=API, kind=kind_of(JSON, trusted=trusted),
            native_id=self._uid, tail_hash=tail_hash, read_to=self._bytes.end, parsed_to=self._bytes.end, frames=frames,
            derived=derived_tables.VERSION if self._is_derived else 0,
            pending=codec.pack_text(pending) if pending else None,
        )  # fmt: skip

    def _flush(self, rows: StagedRows) -> None:
        if not self._record:
            return
        first, _, (*_, at, _kind, _data, _chars) = self._record[0]
        events = [(int(row[1]), msgspec.Raw(bytes(line.event))) for line, _, row in self._record]
        text = encoded({"at": at, "turn": first.turn, "events": events})
        start = self._bytes.end
        self._bytes.add(text + b"\n", rows)
        self._number(first.seq, start, rows)
        # A longer line is not read.
        self._is_derived = self._is_derived and len(text) <= LINE_BYTES_MAX
        for _, event, row in self._record:
            scope, words = self._derived(event, At(first.seq, row[1], first.turn, at))
            place = self.id, start, len(text)
            rows.add_event(self._session_id, (*row, *place), size=len(row[-2]), scope=scope, text=words)
        self._record.clear()

    def _derived(self, event: Event, where: At) -> tuple[str, str]:
        """Note what an event says, as who reads such a log does; returns its scope and the text to be indexed."""
        try:
            self._deriver.take(event, where, self._cwd)
            if where.turn_uid is not None and isinstance(event, AssistantText):
                self._answers[where.turn_uid] = event.text
            scope, text = index_text.searchable(event, in_index=True) or ("", "")
            return scope, index_text.index_text(text, scope) if scope else ""
        except Exception:
            # Whatever it stumbles over: such a log is read again, as others are.
            self._is_derived = False
            return "", ""

    def _number(self, seq: int, start: int, rows: StagedRows) -> None:
        if self._range is not None and self._range.takes(start, seq):
            self._range.records += 1
            self._range.stop = self._bytes.end
        else:
            self._add_range(rows)
            self._range = SeqRange(start, self._bytes.end, seq, 1)

    def _add_range(self, rows: StagedRows) -> None:
        if (each := self._range) is not None:
            rows.add(
                "numbers", log_id=self.id, start=each.start, stop=each.stop, first_seq=each.first_seq,
                records=each.records,
            )  # fmt: skip


class _Bytes:
    """The bytes of a log, packed in blocks as large as those of a log that was read from a file."""

    def __init__(self, log_id: int) -> None:
        self._log_id = log_id
        self._held = bytearray()
        self._packed_to, self._tail = 0, b""

    @property
    def end(self) -> int:
        """The number of lines."""
        return self._packed_to + len(self._held)

    def add(self, data: bytes, rows: StagedRows) -> None:
        """Add bytes behind the others."""
        self._held += data
        while len(self._held) >= BLOCK_BYTES:
            self._pack(bytes(self._held[:BLOCK_BYTES]), rows)
            del self._held[:BLOCK_BYTES]

    def finish(self, rows: StagedRows) -> tuple[bytes, int]:
        """Pack what is left; gives the hash of the last bytes, and how many small chunks there are."""
        small = bool(self._held)
        if small:
            self._pack(bytes(self._held), rows)
            self._held.clear()
        return codec.chunk_digest(self._tail), int(small)

    def _pack(self, data: bytes, rows: StagedRows) -> None:
        chunk = logs.pack(self._packed_to, data)
        rows.add(
            "chunks", len(chunk.frame), log_id=self._log_id, start=chunk.start, length=chunk.length,
            sha256=chunk.digest, data=chunk.frame,
        )  # fmt: skip
        self._packed_to += len(data)
        self._tail = (self._tail + data)[-logs.TAIL_BYTES :]


def kind_of(kind: str, *, trusted: bool) -> str:
    """The kind that a log is kept as: what nobody trusted is no log that one of ours could be taken for."""
    return kind if trusted or kind.startswith(COPY) else f"{COPY}{kind}"


def check_digest(data: bytes, sha256: str) -> None:
    """Raise Wrong where bytes are not what their SHA-256 says."""
    if hashlib.sha256(data).hexdigest() != sha256:
        raise Wrong("its bytes do not match their sha256")
