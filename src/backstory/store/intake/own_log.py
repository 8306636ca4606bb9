"""Events appended through the API, as batches; and the refs of events of any log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backstory.conversation.tree import Point
from backstory.derive.facts import DerivedFacts
from backstory.errors import SessionNotFound
from backstory.model import At, Complete, Event, LogIdentity, Record, Turn, UserMessage, event_to_json, own_line
from backstory.store import codec
from backstory.store.intake.batches import BatchContent, RecordBatch, chunks_of
from backstory.store.schema import fetch, fetch_one
from backstory.store.tables import events, logs, runs, turns
from backstory.store.tables.logs import API

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import apsw


class OwnLog:
    """The log of what a session is appended with through the API, as it goes on from what the store says now.

    Asked of the store is all when this is made; what is appended is packed, and derived from, afterwards.
    """

    def __init__(self, db: apsw.Connection, session_id: int, now: int, new_uid: Callable[[], str]) -> None:
        self._now, self._new_uid = now, new_uid
        session = fetch_one(db, tuple[str, str | None], "select uid, cwd from sessions where id = ?", (session_id,))
        if session is None:
            raise SessionNotFound(str(session_id))
        self._uid, self._cwd = session
        # A run's log of this kind holds the messages that its agent was sent.
        log = fetch_one(
            db,
            tuple[int, int],
            "select id, read_to from logs where session_id = ? and kind = ? and turn_uid is null",
            (session_id, API),
        )
        log_id: int = log[0] if log else 0
        self._read_to: int = log[1] if log else 0
        # The hash of the log's end spans lines of several batches.
        self._tail = logs.read(db, log_id, max(self._read_to - logs.TAIL_BYTES, 0), logs.TAIL_BYTES)
        self._content = BatchContent(logs.pending(db, log_id))
        start = runs.start_of(db, session_id)
        self._seq = self._next_seq = start.next_seq
        self._leaf = self._expected_leaf = start.leaf
        newest = turns.newest(db, session_id)
        self._turn = newest[1] if newest else None
        self._changed = [self._turn] if self._turn else []
        self._follows_leaf = True
        self._lines: list[bytes] = []
        self._at = self._read_to

    def batches(self, new: Sequence[Event]) -> list[RecordBatch]:
        """Return the batches for these events: one for each turn that they end, and one for those behind.

        Each is kept in its compact form, with its full form as a line of JSON. A UserMessage begins a turn; the others
        belong to the turn before them, and a Complete ends that.
        """
        made = []
        for some in _up_to_ends(new):
            for event in some:
                self._take(event)
            # The end that a batch brings is that of its last turn, so no batch goes on behind one.
            made.append(self._cut(some[-1] if some and isinstance(some[-1], Complete) else None))
            made[-1].last_active = self._now
        return made

    def end_batches(self, end: Complete) -> list[RecordBatch]:
        """Keep, as a line without a number, how the session's last turn ended; see ``turns.complete``."""
        body = msgspec.json.encode({"success": end.success, "duration_ms": end.duration_ms, "cost_usd": end.cost_usd})
        self._keep(own_line(self._now, self._turn.uid if self._turn else None, "complete", body))
        self._changed = []
        return [self._cut(end)]

    def _take(self, event: Event) -> None:
        if isinstance(event, UserMessage):
            parent = self._leaf
            self._turn = Turn(
                uid=self._new_uid(), agent=API, first_seq=self._seq, prompt=event.content, started=self._now,
                parent_uid=parent.uid if parent else None, parent_seq=parent.seq if parent else None,
            )  # fmt: skip
            self._changed.append(self._turn)
        turn = self._turn
        if turn is not None:
            turn.last_seq, turn.ended = self._seq, self._now
            self._leaf = Point(turn.uid, self._seq)
            if turn.outcome is None:
                # Nobody has reported how long it took, so it lasts until now.
                turn.duration_ms = None
        uid = turn.uid if turn else None
        line, start = own_line(self._now, uid, "event", event_to_json(event)), self._at
        self._keep(line)
        self._content.add(Record([(0, event)], uid, self._now), self._seq, self._cwd, start, len(line))
        self._content.count(start, self._at, self._seq)
        self._seq += 1

    def _keep(self, line: bytes) -> None:
        self._lines += line, b"\n"
        self._at += len(line) + 1

    def _cut(self, end: Complete | None) -> RecordBatch:
        """The batch of what came since the last one."""
        start, data = self._read_to, b"".join(self._lines)
        self._read_to, self._tail = self._at, (self._tail + data)[-logs.TAIL_BYTES :]
        batch = RecordBatch(
            agent=API, identity=LogIdentity(native_id=self._uid), session_uid=self._uid, kind=API,
            expected_read_to=start, expected_next_seq=self._next_seq, follows_leaf=self._follows_leaf,
            expected_leaf=self._expected_leaf, read_to=self._read_to, parsed_to=self._read_to, next_seq=self._seq,
            tail_hash=codec.chunk_digest(self._tail), pending=self._content.pending(), chunks=chunks_of(start, data),
            turns=self._changed, end=end,
        )  # fmt: skip
        # What follows is written together with it.
        self._next_seq, self._follows_leaf, self._lines = self._seq, False, []
        if end is not None and self._turn is not None:
            self._turn = turns.completed(self._turn, end)
        self._changed = [self._turn] if self._turn else []
        return self._content.move_to(batch, self._cwd)


def _up_to_ends(new: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Events in pieces, each of which goes to the end of a turn; one piece where none ends."""
    start = 0
    for number, event in enumerate(new, 1):
        if isinstance(event, Complete):
            yield new[start:number]
            start = number
    if start < len(new) or not new:
        yield new[start:]


def refs_kept(db: apsw.Connection, session_id: int) -> tuple[int, DerivedFacts, dict[str, int]]:
    """Return the refs in events of a session's turns that are not removed, its next number and the ids of turns."""
    from backstory.derive.deriver import Deriver

    next_seq = int(db.execute("select next_seq from sessions where id = ?", (session_id,)).get or 0)
    rows = fetch(
        db, tuple[int, str], "select id, uid from turns where session_id = ? and removed is null", (session_id,)
    )
    uids: dict[int, str] = dict(rows)
    deriver, after = Deriver(), (0, -1)
    # In windows: all events of a long session would not fit a small machine's memory.
    while window := events.of_session(db, session_id, after=after, limit=events.TOLD_AT_ONCE):
        for each in window:
            if each.turn_id is None or each.turn_id in uids:
                uid = uids.get(each.turn_id) if each.turn_id is not None else None
                deriver.take(each.event, At(each.seq, each.part, uid, each.at), None)
        after = (window[-1].seq, window[-1].part)
    return next_seq, DerivedFacts(refs=deriver.cut(None).refs), {uid: id for id, uid in uids.items()}
