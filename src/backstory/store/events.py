"""Events in the store: reading them back, and appending those that come through the API. Never commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.conversation.context import ToldTurn, chars_at_least
from backstory.conversation.tree import Point
from backstory.derive.facts import Found
from backstory.model import (
    AssistantText,
    At,
    Event,
    Tool,
    ToolCall,
    Turn,
    UserMessage,
    event_from_json,
    event_to_json,
    own_line,
)
from backstory.store import branches, codec, derived_tables, kinds, logs, slices, turns
from backstory.store.logs import API

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import apsw

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


def get(db: apsw.Connection, event_id: int) -> StoredEvent | None:
    """The event with this id."""
    rows = db.execute(f"select {_COLUMNS} from events where id = ?", (event_id,)).fetchall()
    return _unpacked(db, rows)[0] if rows else None


def edits(db: apsw.Connection, turn_uid: str, *, is_log: bool) -> list[StoredEvent]:
    """The calls of a turn that change files, in order: in the agent's own log of it, or in a session of ours."""
    rows = db.execute(
        f"select {', '.join(f'e.{name}' for name in _COLUMNS.split(', '))} from turns t "
        "join sessions s on s.id = t.session_id join events e on e.session_id = s.id and e.turn_id = t.id "
        f"where t.uid = ? and s.owner is {'' if is_log else 'not '}null "
        f"and e.kind in {kinds.CALLS} order by e.seq, e.part",
        (turn_uid,),
    ).fetchall()
    told = _unpacked(db, rows)
    return [each for each in told if isinstance(each.event, ToolCall) and each.event.tool in (Tool.EDIT, Tool.WRITE)]


def context_turns(db: apsw.Connection, session_id: int, budget_chars: int, to: Point | None = None) -> list[ToldTurn]:
    """The turns that lead to a record (None: where the session goes on) with their events, oldest first.

    The last of them, so many that together they exceed ``budget_chars``; each up to where the next one follows it.
    """
    told: list[ToldTurn] = []
    room, backwards = budget_chars, _Backwards(db, session_id)
    for turn_id, turn, cut in turns.upwards(db, session_id, to or branches.leaf(db, session_id)):
        events = backwards.of_turn(turn_id, turn.first_seq, cut)
        room -= len(turn.prompt) + sum(map(chars_at_least, events))
        if cut < turn.last_seq:
            turn.outcome, turn.last_seq = None, cut
        # The prompt is told by the turn itself.
        told.append(ToldTurn(turn=turn, events=events[1:] if events and isinstance(events[0], UserMessage) else events))
        if room < 0:
            break
    return told[::-1]


class _Backwards:
    """A session's events, read backwards some at a time; a turn that lies elsewhere is gone to."""

    def __init__(self, db: apsw.Connection, session_id: int) -> None:
        self._db, self._session_id = db, session_id
        self._codecs: dict[int, codec.EventCodec] = {}
        self._waiting: dict[int | None, list[tuple[int, Event]]] = {}
        self._from, self._behind = (1, 0), 1
        """What was read: from this (seq, part) on, up to this seq."""

    def of_turn(self, turn_id: int, first: int, last: int) -> list[Event]:
        """The events of a turn up to its record ``last``."""
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
                event = event_from_json(turns.unpack_event(self._db, self._codecs, data))
                self._waiting.setdefault(of_turn, []).append((seq, event))
            self._from = (rows[-1][0], rows[-1][1]) if len(rows) == TOLD_AT_ONCE else (0, 0)
        found = [event for seq, event in self._waiting.pop(turn_id, []) if seq <= last]
        return found[::-1]


def append(
    db: apsw.Connection, session_id: int, events: Sequence[Event], *, now: int, new_uid: Callable[[], str]
) -> int:
    """Store events in their compact form, with their full form kept as a log of JSON lines; gives the last seq.

    A UserMessage begins a turn; the others belong to the turn before them.
    """
    from backstory.derive.deriver import Deriver  # a reader does not need it

    log_id, position = _api_log(db, session_id)
    seq = first_seq = _next_seq(db, session_id)
    newest = turns.newest(db, session_id)
    turn = newest[1] if newest else None
    leaf = branches.leaf(db, session_id)
    changed: dict[str, Turn] = {turn.uid: turn} if turn else {}
    answers: dict[str, str] = {}
    new, lines = [], []
    deriver = Deriver(logs.pending(db, log_id))
    cwd = db.execute("select cwd from sessions where id = ?", (session_id,)).get
    for event in events:
        if isinstance(event, UserMessage):
            turn = Turn(
                uid=new_uid(),
                agent=API,
                first_seq=seq,
                prompt=event.content,
                started=now,
                parent_uid=leaf.uid if leaf else None,
                parent_seq=leaf.seq if leaf else None,
            )
            changed[turn.uid] = turn
        if turn is not None:
            turn.last_seq, turn.ended = seq, now
            leaf = Point(turn.uid, seq)
            if turn.outcome is None:
                # Nobody has reported how long it took, so it lasts until now.
                turn.duration_ms = None
            if isinstance(event, AssistantText):
                answers[turn.uid] = event.text
        line = own_line(now, turn.uid if turn else None, "event", event_to_json(event))
        new.append(slices.packed(event, seq, 0, turn.uid if turn else None, now, position, len(line)))
        deriver.take(event, At(seq, 0, turn.uid if turn else None, now), cwd)
        lines.append(line)
        position, seq = position + len(line) + 1, seq + 1
    turn_ids = _store(db, session_id, log_id, new, lines, first_seq, list(changed.values()), answers)
    derived_tables.write(db, session_id, deriver.cut(cwd), turn_ids)
    waiting = deriver.state()
    db.execute(
        "update logs set pending = ?, derived = ? where id = ?",
        (codec.pack_chunk(waiting) if waiting else None, derived_tables.VERSION, log_id),
    )
    # What is said last is what the next prompt follows, whatever was checked out before.
    db.execute(
        "update sessions set next_seq = ?, last_active = ?, leaf_seq = iif(?, null, leaf_seq) where id = ?",
        (seq, now, turn is not None and seq > first_seq, session_id),
    )
    turns.sum_up(db, session_id)
    return seq - 1


def find_refs_again(db: apsw.Connection, session_id: int) -> None:
    """Note what the events of a session name, where its first mention is gone and another is not."""
    from backstory.derive.deriver import Deriver

    rows: list[Any] = db.execute("select id, uid from turns where session_id = ?", (session_id,)).fetchall()
    uids: dict[int, str] = dict(rows)
    cwd = db.execute("select cwd from sessions where id = ?", (session_id,)).get
    deriver, after = Deriver(), (0, -1)
    while window := of_session(db, session_id, after=after, limit=TOLD_AT_ONCE):
        for each in window:
            uid = uids.get(each.turn_id) if each.turn_id is not None else None
            deriver.take(each.event, At(each.seq, each.part, uid, each.at), cwd)
        after = (window[-1].seq, window[-1].part)
        derived_tables.write(db, session_id, Found(refs=deriver.cut(cwd).refs), {uid: id for id, uid in uids.items()})


def _store(
    db: apsw.Connection,
    session_id: int,
    log_id: int,
    new: list[slices.NewEvent],
    lines: list[bytes],
    first_seq: int,
    changed: list[Turn],
    answers: dict[str, str],
) -> dict[str, int]:
    turn_ids = turns.upsert(db, session_id, changed)
    slices.insert_events(db, session_id, log_id, new, turn_ids)
    turns.note_answers(db, turn_ids, answers)
    data = b"".join(line + b"\n" for line in lines)
    start = int(db.execute("select read_to from logs where id = ?", (log_id,)).get)
    if data:
        logs.append(db, log_id, start, data)
        logs.insert_runs(db, log_id, [logs.Run(start, start + len(data), first_seq, len(lines))])
    return turn_ids


def note_end(
    db: apsw.Connection, session_id: int, at: int, duration_ms: int | None, cost_usd: float | None, success: bool
) -> None:
    """Keep, as a line without a number, how a session's last turn ended; see ``turns.complete``."""
    log_id, position = _api_log(db, session_id)
    newest = turns.newest(db, session_id)
    body = msgspec.json.encode({"success": success, "duration_ms": duration_ms, "cost_usd": cost_usd})
    line = own_line(at, newest[1].uid if newest else None, "complete", body)
    logs.append(db, log_id, position, line + b"\n")


def _next_seq(db: apsw.Connection, session_id: int) -> int:
    # Another program may have added events by hand, which leaves next_seq behind.
    return int(
        db.execute(
            "select max(next_seq, coalesce((select max(seq) + 1 from events where session_id = ?1), 1)) "
            "from sessions where id = ?1",
            (session_id,),
        ).get
    )


def _api_log(db: apsw.Connection, session_id: int) -> tuple[int, int]:
    # A run's log of this kind holds the words that its agent was told.
    found = db.execute(
        "select id, read_to from logs where session_id = ? and kind = ? and turn_uid is null", (session_id, API)
    ).fetchone()
    if found:
        return found[0], found[1]
    uid = db.execute("select uid from sessions where id = ?", (session_id,)).get
    db.execute("insert into logs(session_id, agent, kind, native_id) values (?, ?, ?, ?)", (session_id, API, API, uid))
    return db.last_insert_rowid(), 0


def _unpacked(db: apsw.Connection, rows: list[tuple[object, ...]]) -> list[StoredEvent]:
    codecs: dict[int, codec.EventCodec] = {}
    return [
        StoredEvent(
            event=event_from_json(turns.unpack_event(db, codecs, data)),  # type: ignore[arg-type]
            **dict(zip(_COLUMNS.split(", ")[:-1], row, strict=True)),  # type: ignore[arg-type]
        )
        for *row, data in rows
    ]
