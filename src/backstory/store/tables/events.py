"""Events in the store: reading them back. Never commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.lazy import lazy_module
from backstory.model import Event, TurnWithEvents, UserMessage, event_from_json
from backstory.store import codec, schema
from backstory.store.tables import branches, turns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from backstory.conversation import context
    from backstory.conversation.tree import Point
else:
    context = lazy_module("backstory.conversation.context")

TOLD_AT_ONCE = 400


class StoredEvent(Struct, frozen=True, kw_only=True):
    """An event as kept: its compact form, and where its record lies."""

    id: int
    seq: int
    part: int
    turn_id: int | None
    at: int | None
    kind: str
    char_len: int
    log_id: int | None
    position: int | None
    length: int | None
    event: Event


_COLUMNS = "id, seq, part, turn_id, at, kind, char_len, log_id, position, length, data"


def of_session(
    db: apsw.Connection, session_id: int, *, after: tuple[int, int] = (0, -1), limit: int = -1
) -> list[StoredEvent]:
    """A session's events in order, from the one behind ``after`` = (seq, part) on."""
    rows = db.execute(
        f"select {_COLUMNS} from events where session_id = ? and (seq, part) > (?, ?) order by seq, part limit ?",
        (session_id, *after, limit),
    ).fetchall()
    return _unpacked(db, rows)


class OutlinedEvent(Struct, frozen=True, kw_only=True):
    """An event without what it says."""

    seq: int
    part: int
    turn_id: int | None
    at: int | None
    kind: str
    char_len: int


def outline(db: apsw.Connection, session_id: int) -> list[OutlinedEvent]:
    """Every event of a session, in order; nothing is unpacked."""
    names = OutlinedEvent.__struct_fields__
    rows = db.execute(f"select {', '.join(names)} from events where session_id = ? order by seq, part", (session_id,))
    return [OutlinedEvent(**dict(zip(names, row, strict=True))) for row in rows]


class EventColumns(Struct, frozen=True, kw_only=True):
    """Events in order, without what they say: a list for each fact, which costs a tenth of a value for each event."""

    seqs: list[int]
    parts: list[int]
    turn_ids: list[int | None]
    kinds: list[str]
    chars: list[int]


def columns(db: apsw.Connection, session_id: int, last: int | None = None, up_to: int | None = None) -> EventColumns:
    """Every event of a session in order, or the last so many, of records up to ``up_to``; nothing is unpacked."""
    found = "select seq, part, turn_id, kind, char_len from events where session_id = ?1"
    if up_to is not None:
        found = f"{found} and seq <= {up_to}"
    if last is not None:
        found = f"select * from ({found} order by seq desc, part desc limit {last})"
    # One row: SQLite makes the lists, and other threads run meanwhile.
    row = db.execute(
        "select json_group_array(seq), json_group_array(part), json_group_array(turn_id), json_group_array(kind), "
        f"json_group_array(char_len) from ({found} order by seq, part)",
        (session_id,),
    ).fetchall()[0]
    seqs, parts, turn_ids, kinds, chars = [msgspec.json.decode(str(text), type=list[Any]) for text in row]
    return EventColumns(seqs=seqs, parts=parts, turn_ids=turn_ids, kinds=kinds, chars=chars)


def seq_behind(db: apsw.Connection, session_id: int, seq: int, many: int) -> int | None:
    """The record of the event that is so many behind the first one of a record; None if the session has fewer."""
    sql = "select seq from events where session_id = ? and seq >= ? order by seq, part limit 1 offset ?"
    found = db.execute(sql, (session_id, seq, many)).get
    return None if found is None else int(found)


def of_records(db: apsw.Connection, session_id: int, seqs: Sequence[int]) -> list[StoredEvent]:
    """The events of these records, in order."""
    rows = db.execute(
        f"select {_COLUMNS} from events where session_id = ? and seq in (select value from json_each(?)) "
        "order by seq, part",
        (session_id, schema.json_list(seqs)),
    ).fetchall()
    return _unpacked(db, rows)


_KEPT = "not exists (select 1 from turns t where t.id = events.turn_id and t.removed is not null)"
"""The condition that leaves out events of branches that a person removed."""


def count(db: apsw.Connection, session_id: int) -> int:
    """Count the events of a session."""
    return int(db.execute("select count(*) from events where session_id = ?", (session_id,)).get)


def seqs_around(db: apsw.Connection, session_id: int, seq: int, before: int, after: int) -> list[int]:
    """The numbers of records with events that are shown: so many before one, itself, and so many behind it."""
    where = f"session_id = ? and kind in {schema.READ} and {_KEPT}"
    earlier = f"select distinct seq from events where {where} and seq < ? order by seq desc limit ?"
    later = f"select distinct seq from events where {where} and seq >= ? order by seq limit ?"
    found = [*db.execute(earlier, (session_id, seq, before)), *db.execute(later, (session_id, seq, after + 1))]
    return sorted(int(str(each)) for (each,) in found)


def seqs_after(db: apsw.Connection, session_id: int, first: int, limit: int) -> list[int]:
    """The numbers of records with events, from one on."""
    sql = f"select distinct seq from events where session_id = ? and seq >= ? and {_KEPT} order by seq limit ?"
    return [int(str(each)) for (each,) in db.execute(sql, (session_id, first, limit))]


def get(db: apsw.Connection, event_id: int) -> StoredEvent | None:
    """The event with this id."""
    rows = db.execute(f"select {_COLUMNS} from events where id = ?", (event_id,)).fetchall()
    return _unpacked(db, rows)[0] if rows else None


def context_turns(
    db: apsw.Connection, session_id: int, budget_chars: int, to: Point | None = None, after_seq: int = 0
) -> list[TurnWithEvents]:
    """The turns that lead to a record (None: where the session goes on) with their events, oldest first.

    The last of them, so many that together they exceed ``budget_chars``; each up to where the next one follows it.
    ``after_seq``: a record of theirs; what happened up to it is left out.
    """
    given: list[TurnWithEvents] = []
    room, backwards = budget_chars, _Backwards(db, session_id)
    for turn_id, turn, cut in turns.upwards(db, session_id, to or branches.leaf(db, session_id)):
        # A summary may end inside a turn, of which the rest is given.
        is_rest = turn.first_seq <= after_seq <= cut
        events = backwards.of_turn(turn_id, after_seq + 1 if is_rest else turn.first_seq, cut)
        if is_rest and not events:
            break
        room -= len(turn.prompt) + sum(map(context.chars_at_least, events))
        if cut < turn.last_seq:
            # Seen from a branch that leaves it here, the turn had not ended.
            turn.outcome, turn.last_seq = None, cut
        if not is_rest and events and isinstance(events[0], UserMessage):
            # The turn itself has the prompt.
            events = events[1:]
        given.append(TurnWithEvents(turn=turn, events=events, is_rest=is_rest))
        if is_rest or room < 0:
            break
    return given[::-1]


def chars_at_most(db: apsw.Connection, session_id: int, around_each: int) -> int:
    """A bound on the characters of a session's events with so many around each; nothing is unpacked."""
    query = "select coalesce(sum(char_len + ?), 0) from events where session_id = ?"
    return int(db.execute(query, (around_each, session_id)).get)


class _Backwards:
    """A session's events, read backwards some at a time; a turn that lies elsewhere is gone to."""

    def __init__(self, db: apsw.Connection, session_id: int) -> None:
        self._db, self._session_id = db, session_id
        self._codecs: dict[int, codec.EventCodec] = {}
        self._waiting: dict[int | None, list[tuple[int, Event]]] = {}
        self._from, self._behind = (1, 0), 1
        """The range that was read: from this (seq, part) on, up to this seq."""

    def of_turn(self, turn_id: int, first: int, last: int) -> list[Event]:
        """The events of a turn from its record ``first`` to ``last``."""
        # A branch jumps back over turns of others, and reading these would cost more than to begin anew.
        if not self._from[0] <= last + 1 <= self._behind:
            self._waiting.clear()
            self._from, self._behind = (last + 1, 0), last + 1
        while self._from > (first, 0):
            rows: list[Any] = self._db.execute(
                "select seq, part, turn_id, data from events where session_id = ? and (seq, part) < (?, ?) "
                "order by seq desc, part desc limit ?",
                (self._session_id, *self._from, TOLD_AT_ONCE),
            ).fetchall()
            for seq, _, of_turn, data in rows:
                event = event_from_json(codec.unpack_event(self._db, self._codecs, data))
                self._waiting.setdefault(of_turn, []).append((seq, event))
            self._from = (rows[-1][0], rows[-1][1]) if len(rows) == TOLD_AT_ONCE else (0, 0)
        found = [event for seq, event in self._waiting.pop(turn_id, []) if first <= seq <= last]
        return found[::-1]


def _unpacked(db: apsw.Connection, rows: list[tuple[object, ...]]) -> list[StoredEvent]:
    codecs: dict[int, codec.EventCodec] = {}
    return [
        StoredEvent(
            event=event_from_json(codec.unpack_event(db, codecs, data)),  # type: ignore[arg-type]
            **dict(zip(_COLUMNS.split(", ")[:-1], row, strict=True)),  # type: ignore[arg-type]
        )
        for *row, data in rows
    ]


def record_numbers(db: apsw.Connection, session_id: int) -> list[int]:
    """The numbers of all records of a session, in order, with those of events that no record is behind."""
    asked = (
        "select n.first_seq, n.records from numbers n join logs l on l.id = n.log_id where l.session_id = ? "
        "union select seq, 1 from events where session_id = ?"
    )
    ranges = schema.fetch(db, tuple[int, int], asked, (session_id, session_id))
    return sorted({seq for first, records in ranges for seq in range(first, first + records)})
