"""One session of a JSON export, checked line by line and turned into rows of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backstory.conversation.compact import compact_event
from backstory.derive import index_text
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
from backstory.ingest.json_log import OmittedLog, StagedLog, Wrong
from backstory.model import KINDS, Outcome, Parts, event_from_json, event_to_json
from backstory.store import codec
from backstory.store.tables import sidecars
from backstory.store.tables.decisions import DECIDED

if TYPE_CHECKING:
    from backstory.exchange.json_lines import Line, RowLine, SessionLine
    from backstory.exchange.staging import Rows
    from backstory.model import Event

OUTCOMES = frozenset(each.value for each in Outcome)


class Ids(msgspec.Struct):
    """The ids that rows got last."""

    session: int = 0
    log: int = 0
    turn: int = 0


class StagedSession:
    """Takes the lines of a session. ``has_bytes``: whether they hold the logs' bytes.

    Without ``trusted`` what people decided is left out, and the logs are copies. Raises Wrong, and ValueError.
    """

    def __init__(self, rows: Rows, line: SessionLine, ids: Ids, *, has_bytes: bool, trusted: bool) -> None:
        ids.session += 1
        self.id, self.uid = ids.session, line.uid
        self._rows, self._line, self._ids = rows, line, ids
        self._has_bytes, self._trusted = has_bytes, trusted
        self._turns: dict[str, int] = {}
        self._logs: list[StagedLog] = []
        self._omitted = None if has_bytes else OmittedLog(line.uid, self.id, self._next_log())
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
                self._add_event(line)
            case BranchLine():
                if self._trusted:
                    self._check_seq(line.leaf_seq)
                    self._add("branches", line)
                ms_of(line.created)
            case SummaryLine():
                self._add_summary(line)

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
        self._rows.counts.append((self._line.context_chars, self._line.context_limit, self.id))

    def _add_session(self) -> None:
        line, trusted = self._line, self._trusted
        if ms_of(line.created) is None:
            raise Wrong("it does not say when the session began")
        self._check_seq(line.leaf_seq)
        self._rows.add("sessions", id=self.id, **row_of(line, trusted=trusted))
        for name in dict.fromkeys(line.branches):
            self._rows.add("session_branches", session_id=self.id, branch=name)
        if trusted and line.decided:
            decided = msgspec.json.encode(dict(sorted(line.decided.items()))).decode()
            self._rows.add("meta", key=DECIDED + line.uid, value=decided)

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
        if line.answer is not None:
            self._rows.add("turn_texts", len(line.answer), turn_id=turn_id, answer=line.answer)

    def _add_event(self, line: EventLine) -> None:
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
            self._omitted.take(line, row, self._rows)
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
    if not text.startswith(b'{"' + event.kind.encode() + b'"') or event.kind not in KINDS:
        raise Wrong("its event is none of a kind that is known here")
    return event
