"""The turns of two copies of a session: those that one lacks, and of one turn the copy that has more events.

The other store is attached as ``source``. A turn that is taken keeps its numbers where they are free; else it gets new
ones, and those behind it as well, so that their order stays. Never commits.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from backstory.derive import index_text
from backstory.exchange import merge_logs
from backstory.exchange.copying import facts, statement
from backstory.exchange.replicate import EVENTS_AT_ONCE
from backstory.model import Parts, event_from_json
from backstory.store import codec
from backstory.store.intake import coverage
from backstory.store.schema import CONTENT, fetch
from backstory.store.tables import event_rows
from backstory.store.tables.logs import COPY
from backstory.store.tables.runs import LOST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import apsw

    from backstory.exchange.merge_logs import BytesLeft
    from backstory.store.codec import EventCodec

TURNS_AT_ONCE = 200
_PLACED = ("uid", "parent_uid", "parent_seq", "first_seq", "last_seq")
"""The columns that place a turn in its copy of the session."""


class Sides(NamedTuple):
    """A session as both stores have it: the name the other is attached under, its id there, and here."""

    source: str
    old: int
    new: int


class Pair(NamedTuple):
    """A turn of the other store, with ours of the same uid; None where there is none."""

    id: int
    uid: str
    first_seq: int
    last_seq: int
    parent_uid: str | None
    parent_seq: int | None
    removed: int | None
    events: int
    our_id: int | None
    our_first: int | None
    our_last: int | None
    our_events: int
    has_other_facts: bool
    """Their row says another thing of it than ours."""
    has_other_bytes: bool
    is_pruned_here: bool


def pairs(db: apsw.Connection, sides: Sides, after: tuple[int, int]) -> list[Pair]:
    """The next turns of the other store behind a place, in the order of their prompts."""
    source, old, new = sides
    theirs, ours = (", ".join(f"{side}.{name}" for name in facts("turns", _PLACED)) for side in "on")
    return fetch(
        db,
        Pair,
        "select o.id, o.uid, o.first_seq, o.last_seq, o.parent_uid, o.parent_seq, o.removed, "
        f"(select count(*) from {source}.events e where e.session_id = ?1 and e.seq between o.first_seq and o.last_seq "
        "and e.turn_id = o.id), n.id, n.first_seq, n.last_seq, (select count(*) from events e where e.session_id = ?2 "
        f"and e.seq between n.first_seq and n.last_seq and e.turn_id = n.id), ({theirs}) is not ({ours}), "
        f"(select total(read_to) from {source}.logs where turn_uid = o.uid and session_id = ?1) "
        f"<> (select total(read_to) from logs where turn_uid = o.uid and session_id = ?2), "
        f"coalesce(n.removed is not null and n.prompt = '', 0) from {source}.turns o "
        "left join turns n on n.session_id = ?2 and n.uid = o.uid where o.session_id = ?1 "
        "and (o.first_seq, o.id) > (?3, ?4) order by o.first_seq, o.id limit ?5",
        (old, new, *after, TURNS_AT_ONCE),
    )


# which of both ---------------------------------------------------------------------------------------------------


def is_theirs_better(db: apsw.Connection, sides: Sides, pair: Pair) -> bool:
    """Return True if the other store's copy of a turn replaces ours: it has more events, or as many that say more."""
    if _is_pruned(db, "main", sides.new, pair.our_id):
        return False
    if pair.events != pair.our_events:
        return pair.events > pair.our_events
    ours, theirs = (
        _digest(db, *side) for side in (("main", sides.new, pair.our_id), (sides.source, sides.old, pair.id))
    )
    said = facts("turns", _PLACED)
    return ours != theirs and (
        (_rank(db, sides.source, pair.id, said), theirs) > (_rank(db, "main", pair.our_id, said), ours)
    )


def take_facts(db: apsw.Connection, sides: Sides, pair: Pair) -> bool:
    """Give the row of a turn the values of theirs, where those are more; returns whether it did.

    A person who pruned a turn removed what it says, but not how it went.
    """
    is_pruned = _is_pruned(db, "main", sides.new, pair.our_id) or _is_pruned(db, sides.source, sides.old, pair.id)
    if not is_pruned and pair.events != pair.our_events:
        return False
    said = facts("turns", (*_PLACED, "prompt") if is_pruned else _PLACED)
    if _rank(db, sides.source, pair.id, said) <= _rank(db, "main", pair.our_id, said):
        return False
    columns = ", ".join(said)
    db.execute(
        f"update turns set ({columns}) = (select {columns} from {sides.source}.turns where id = ?) where id = ?",
        (pair.id, pair.our_id),
    )
    return True


def _rank(db: apsw.Connection, schema: str, turn_id: int | None, columns: Sequence[str]) -> tuple[Any, ...]:
    """Return a key by which the fuller row of a turn sorts last; the same for the same row in either store."""
    (row,) = db.execute(f"select {', '.join(columns)} from {schema}.turns where id = ?", (turn_id,)).fetchall()
    said = dict(zip(columns, row, strict=True))
    is_whole = said["outcome"] is not None and said["stop_reason"] != LOST
    return (is_whole, said["outcome"] is not None, sum(value is not None for value in row), repr(row))


def _digest(db: apsw.Connection, schema: str, session_id: int, turn_id: int | None) -> bytes:
    """A hash of what the events of a turn say, whatever their numbers."""
    codecs: dict[int, EventCodec] = {}
    digest, after, parts = sha256(), (0, -1), Parts()
    while rows := fetch(
        db,
        tuple[int, int, int | None, str, bytes | str],
        f"select seq, part, at, kind, data from {schema}.events where session_id = ? and turn_id = ? "
        f"and seq between (select first_seq from {schema}.turns where id = ?2) "
        f"and (select last_seq from {schema}.turns where id = ?2) and (seq, part) > (?, ?) "
        "order by seq, part limit ?",
        (session_id, turn_id, *after, EVENTS_AT_ONCE),
    ):
        for seq, part, at, kind, data in rows:
            digest.update(repr((parts.of(seq, part), at, kind, codec.unpack_event(db, codecs, data))).encode())
        after = rows[-1][0], rows[-1][1]
    return digest.digest()


def _is_pruned(db: apsw.Connection, schema: str, session_id: int, turn_id: int | None) -> bool:
    """Return True if a person removed a turn, and what it held."""
    return bool(
        db.execute(
            f"select exists (select 1 from {schema}.turns t where id = ? and removed is not null and prompt = '' "
            f"and not exists (select 1 from {schema}.events e where e.session_id = ? "
            f"and e.seq between t.first_seq and t.last_seq and e.turn_id = t.id and e.kind in {CONTENT}))",
            (turn_id, session_id),
        ).get
    )


# taking one -----------------------------------------------------------------------------------------------------


def shift_for(db: apsw.Connection, sides: Sides, pair: Pair, before: int) -> int:
    """By how much a turn's numbers grow here; ``before``: by how much those of the turn before it did."""
    is_free = pair.first_seq + before > 0 and _is_free(db, sides, pair, before)
    return before if is_free else next_seq(db, sides.new) - pair.first_seq


def next_seq(db: apsw.Connection, session_id: int) -> int:
    return int(
        db.execute(
            "select max(next_seq, coalesce((select max(seq) + 1 from events where session_id = ?1), 1), "
            "coalesce((select max(last_seq) + 1 from turns where session_id = ?1), 1)) from sessions where id = ?1",
            (session_id,),
        ).get
    )


def _is_free(db: apsw.Connection, sides: Sides, pair: Pair, shift: int) -> bool:
    """Return True if a turn's numbers, so many greater, are free: those that lie among them do so in the other store.

    Turns may lie among each other where a log was rewritten: what was added has later numbers, wherever it stands.
    """
    source, old, new = sides
    as_there = (
        f"exists (select 1 from {source}.turns o where o.session_id = :old and o.uid = t.uid "
        "and o.first_seq + :shift = t.first_seq and o.last_seq + :shift >= t.last_seq)"
    )
    theirs = f"exists (select 1 from {source}.events o where o.session_id = :old and o.seq = e.seq - :shift and turn_id"
    found = db.execute(
        f"""
        select exists (
          select 1 from events e where session_id = :new and seq between :first and :last and ({theirs} = :turn)
          or not iif(turn_id is null, {theirs} is null), coalesce((
            select {as_there} from turns t where t.id = e.turn_id
          ), 0)))
        ) or exists (
          select 1 from turns t where session_id = :new and first_seq between :first and :last and uid <> :uid
          and not {as_there}
        ) or coalesce((
          select last_seq >= :first and not {as_there} from turns t
          where session_id = :new and first_seq < :first and uid <> :uid order by first_seq desc limit 1
        ), 0)
        """,
        {
            "old": old, "new": new, "uid": pair.uid, "turn": pair.id, "shift": shift,
            "first": pair.first_seq + shift, "last": pair.last_seq + shift,
        },
    )  # fmt: skip
    return not found.get


def drop_ours(db: apsw.Connection, sides: Sides, pair: Pair, kept: set[int], numbered: set[int]) -> int | None:
    """Remove our copy of a turn, but for its bytes; returns when a person removed it.

    ``kept``: its logs that are theirs now as well; ``numbered``: logs of the session whose numbers are right.
    """
    spans = list(_own_spans(db, sides.new, pair))
    for (log_id,) in fetch(db, tuple[int], "select id from logs where session_id = ?", (sides.new,)):
        for first, last in spans if log_id not in numbered else ():
            merge_logs.unnumber(db, log_id, first, last)
    event_rows.delete_events(db, "session_id = ? and turn_id = ?", (sides.new, pair.our_id))
    rows = fetch(
        db, tuple[int, str], "select id, kind from logs where session_id = ? and turn_uid = ?", (sides.new, pair.uid)
    )
    for log_id, kind in rows:
        if log_id not in kept:
            db.execute("update logs set kind = ? where id = ?", (f"{COPY}{kind.removeprefix(COPY)}", log_id))
    removed: int | None = db.execute("select removed from turns where id = ?", (pair.our_id,)).get
    db.execute("delete from turns where id = ?", (pair.our_id,))
    return removed


def _own_spans(db: apsw.Connection, session_id: int, pair: Pair) -> Iterator[tuple[int, int]]:
    """The first and last numbers of the pieces of our turn, without events of others that lie among its records."""
    first, last = pair.our_first or 0, pair.our_last or 0
    within = "session_id = ? and seq between ? and ? and turn_id is not ?"
    asked = f"select distinct seq from events where {within} order by seq"
    for (seq,) in fetch(db, tuple[int], asked, (session_id, first, last, pair.our_id)):
        if first < seq:
            yield first, seq - 1
        first = seq + 1
    if first <= last:
        yield first, last


def turn_copy(db: apsw.Connection, source: str) -> str:
    """SQL that copies a turn of the other store."""
    placed = {
        "session_id": ":new", "parent_seq": ":parent_seq", "first_seq": "first_seq + :shift",
        "last_seq": "last_seq + :shift", "removed": "null",
    }  # fmt: skip
    return statement(db, source, "turns", "id = :turn", placed)


def take(
    db: apsw.Connection, sides: Sides, pair: Pair, copy: str, shift: int, log_ids: dict[int, int], budget: BytesLeft
) -> None:
    """Copy a turn of the other store, its numbers that much greater. ``log_ids``: our logs by theirs."""
    source, _, new = sides
    place = parent_seq(db, sides, pair.parent_uid, pair.parent_seq)
    db.execute(copy, {"new": new, "shift": shift, "parent_seq": place, "turn": pair.id})
    turn_id = db.last_insert_rowid()
    if coverage.is_covered(db, new):
        db.execute(
            f"insert into turn_texts(turn_id, answer) select ?, answer from {source}.turn_texts where turn_id = ?",
            (turn_id, pair.id),
        )
    copy_events(
        db, sides, f"turn_id = {pair.id} and seq between {pair.first_seq} and {pair.last_seq}", turn_id, shift, log_ids,
        budget,
    )  # fmt: skip
    db.execute("update sessions set next_seq = max(next_seq, ?) where id = ?", (pair.last_seq + shift + 1, new))


def parent_seq(db: apsw.Connection, sides: Sides, parent: str | None, seq: int | None) -> int | None:
    """The record of ours that is a record of theirs in a turn which both have."""
    if parent is None or seq is None:
        return seq
    found = db.execute(
        f"select n.first_seq - o.first_seq from {sides.source}.turns o join turns n on n.uid = o.uid "
        "and n.session_id = ? where o.session_id = ? and o.uid = ?",
        (sides.new, sides.old, parent),
    ).get
    return seq + int(found or 0)


def move_children(db: apsw.Connection, session_id: int, uid: str, by: int, old: tuple[int, int]) -> None:
    """Renumber all references to records of a turn that moved ``by`` so many numbers."""
    if not by:
        return
    db.execute(
        "update turns set parent_seq = parent_seq + ? where session_id = ? and parent_uid = ?", (by, session_id, uid)
    )
    db.execute(
        "update branches set leaf_seq = leaf_seq + ? where session_id = ? and leaf_uid = ?", (by, session_id, uid)
    )
    db.execute("update sessions set leaf_seq = leaf_seq + ? where id = ? and leaf_uid = ?", (by, session_id, uid))
    db.execute(
        "update compactions set after_seq = after_seq + ? where session_id = ? and after_seq between ? and ?",
        (by, session_id, *old),
    )


class _Event(NamedTuple):
    """An event of the other store, as its row has it."""

    seq: int
    part: int
    at: int | None
    kind: str
    data: bytes | str
    char_len: int
    log_id: int | None
    position: int | None
    length: int | None


def copy_events(
    db: apsw.Connection,
    sides: Sides,
    where: str,
    turn_id: int | None,
    shift: int,
    log_ids: dict[int, int],
    budget: BytesLeft,
) -> None:
    """Copy those events of the other store, with what is searched of them; ``where`` is a condition on events."""
    codecs: dict[int, EventCodec] = {}
    after, parts = (0, -1), Parts()
    while rows := fetch(
        db,
        _Event,
        "select seq, part, at, kind, data, char_len, log_id, position, length "
        f"from {sides.source}.events where session_id = ? and {where} and (seq, part) > (?, ?) "
        "order by seq, part limit ?",
        (sides.old, *after, EVENTS_AT_ONCE),
    ):
        copied, texts = [], list[tuple[str | None, str]]()
        for seq, part, at, kind, data, char_len, log_id, position, length in rows:
            ours = log_ids.get(log_id or 0)
            place = (ours, position, length) if ours is not None else (None, None, None)
            copied.append((seq + shift, parts.of(seq, part), turn_id, at, kind, data, char_len, *place))
            event = event_from_json(codec.unpack_event(db, codecs, data))
            scope, text = index_text.searchable(event, in_index=True) or (None, "")
            texts.append((scope, index_text.index_text(text, scope) if scope is not None else ""))
            budget.spend(len(data))
        first_id = event_rows.insert(db, sides.new, copied)
        event_rows.index_texts(
            db,
            sides.new,
            [
                (first_id + n, row[0], scope, text)
                for n, (row, (scope, text)) in enumerate(zip(copied, texts, strict=True))
                if scope
            ],
        )
        after = (rows[-1][0], rows[-1][1])
