"""The bytes of two copies of a log: how far they agree, and what one of them lacks, some megabytes at a time.

The other store is attached as ``source``. Of two copies the longer is kept if the shorter is its beginning; else both
are. What was copied before a kill is the beginning of what is to be copied, so it is gone on with. Never commits.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from backstory.exchange.copying import copy_rows
from backstory.store import codec
from backstory.store.schema import fetch, fetch_one
from backstory.store.tables import lent, pruned
from backstory.store.tables.logs import API, COPY, FILE, SeqRange, insert_seq_ranges, pack

if TYPE_CHECKING:
    import apsw

SLICE_BYTES = 16 * 1024 * 1024
"""The most of a store that is copied in one transaction."""
COPIED = -2
"""In place of the version that derived a log: its bytes have come, what is derived of them comes in the end."""
_KIND = f"replace(kind, '{COPY}', '')"
_UNREAD = {
    "tail_hash": "null", "tail_seq": "null", "told_to": "null", "read_to": "0", "parsed_to": "0", "frames": "0",
}  # fmt: skip
"""The state of a log before any of its bytes is here."""
_STATE = "first_hash, tail_hash, modified, native_id, parsed_to, told_to, frames"


class BytesLeft:
    """The number of bytes that may still be written in this transaction."""

    def __init__(self) -> None:
        self.left = SLICE_BYTES

    def spend(self, size: int) -> None:
        """Count what was written."""
        self.left -= size

    @property
    def is_spent(self) -> bool:
        """True if the transaction is to end."""
        return self.left <= 0


class TheirLog(NamedTuple):
    """A log of the other store; ``kind`` without the mark of a copy."""

    id: int
    kind: str
    turn_uid: str | None
    agent: str
    native_id: str
    read_to: int


class Match(Struct, frozen=True, kw_only=True):
    """Our log that goes on as theirs, or None."""

    id: int | None = None
    has_all: bool = False
    """Ours holds all bytes of theirs."""
    shared: int = 0
    """First bytes that another log of ours shares with theirs."""
    is_diverged: bool = False
    """True if each of the two logs holds bytes that the other lacks."""


class _Mark(NamedTuple):
    id: int
    start: int
    length: int
    sha256: bytes


def of_session(db: apsw.Connection, source: str, session_id: int, turn_uid: str | None) -> list[TheirLog]:
    """The logs of a session of the other store, of one turn or of none."""
    asked = f"select id, {_KIND}, turn_uid, agent, native_id, read_to from {source}.logs where session_id = ? and"
    if turn_uid is None:
        return fetch(db, TheirLog, f"{asked} turn_uid is null order by id", (session_id,))
    return fetch(db, TheirLog, f"{asked} turn_uid = ? order by id", (session_id, turn_uid))


def match(db: apsw.Connection, source: str, session_id: int, theirs: TheirLog) -> Match:
    """The log of ours that is theirs, as far as one of both is the beginning of the other."""
    # The agent's id of a run may have come later.
    of = "native_id" if theirs.turn_uid is None else "turn_uid"
    rows = fetch(
        db,
        tuple[int, int],
        f"select id, read_to from logs where session_id = ? and agent = ? and {_KIND} = ? and {of} = ? "
        f"{'and turn_uid is null' if theirs.turn_uid is None else ''} order by id",
        (session_id, theirs.agent, theirs.kind, theirs.turn_uid or theirs.native_id),
    )
    shares = [(log_id, read_to, _common(db, source, log_id, theirs.id)) for log_id, read_to in rows]
    whole = [log_id for log_id, _, common in shares if common == theirs.read_to]
    begun = [(common, log_id) for log_id, read_to, common in shares if common == read_to]
    chosen = whole[0] if whole else max(begun)[1] if begun else None
    others = [each for each in shares if each[0] != chosen]
    return Match(
        id=chosen,
        has_all=bool(whole),
        shared=max((common for *_, common in others), default=0),
        is_diverged=any(common < min(read_to, theirs.read_to) for _, read_to, common in others),
    )


def begin(db: apsw.Connection, source: str, session_id: int, theirs: TheirLog, *, as_copy: bool) -> int:
    """A log without bytes yet, to copy theirs into; ``as_copy``: its session's own one is another. Returns its id."""
    is_taken = as_copy or (theirs.kind == API and theirs.turn_uid is None and _has_own(db, session_id))
    kind = f"{COPY}{theirs.kind}" if is_taken and theirs.kind != FILE else None
    generation = 1
    if theirs.kind == FILE:
        last = "select max(generation) from logs where agent = ? and native_id = ? and kind = 'file'"
        generation = (db.execute(last, (theirs.agent, theirs.native_id)).get or 0) + 1
    ours = {"session_id": ":session", "kind": "coalesce(:kind, kind)", "generation": ":generation"} | _UNREAD
    values = {"session": session_id, "kind": kind, "generation": generation, "log": theirs.id}
    copy_rows(db, source, "logs", "id = :log", ours, values)
    return db.last_insert_rowid()


def _has_own(db: apsw.Connection, session_id: int) -> bool:
    asked = "select exists (select 1 from logs where session_id = ? and kind = ? and turn_uid is null)"
    return bool(db.execute(asked, (session_id, API)).get)


def copy_bytes(db: apsw.Connection, source: str, ours: int, theirs: TheirLog, budget: BytesLeft) -> bool:
    """Copy what our log lacks of theirs, as much as there is room for; returns whether it is all there."""
    at = int(db.execute("select read_to from logs where id = ?", (ours,)).get)
    while at < theirs.read_to:
        if budget.is_spent:
            return False
        at = _copy_chunk(db, source, ours, theirs.id, at)
        budget.spend(
            int(db.execute("select length(data) from chunks where log_id = ? order by start desc limit 1", (ours,)).get)
        )
        # What stands behind it is bytes alone until all of them are here.
        db.execute("update logs set told_to = coalesce(told_to, read_to), read_to = ? where id = ?", (at, ours))
    return True


def _copy_chunk(db: apsw.Connection, source: str, ours: int, theirs: int, at: int) -> int:
    """Copy the bytes from ``at`` to the end of the chunk that holds them; returns where that is."""
    mark = _mark(db, source, theirs, at)
    assert mark is not None
    if mark.start == at and not _has_lender(db, source, mark):
        copy_rows(db, source, "chunks", "id = :chunk", {"log_id": ":ours"}, {"ours": ours, "chunk": mark.id})
    else:
        chunk = pack(at, _bytes(db, source, mark)[at - mark.start :])
        db.execute(
            "insert into chunks(log_id, start, length, sha256, data) values (?, ?, ?, ?, ?)",
            (ours, chunk.start, chunk.length, chunk.digest, chunk.frame),
        )
    return mark.start + mark.length


def _has_lender(db: apsw.Connection, schema: str, mark: _Mark) -> bool:
    """Return True if a chunk is made of another log, which need not be where its copy goes."""
    return bool(db.execute(f"select lender is not null from {schema}.chunks where id = ?", (mark.id,)).get)


def adopt_state(db: apsw.Connection, source: str, ours: int, theirs: TheirLog, before: int) -> None:
    """Say of our log, which has all bytes of theirs now, how far it was parsed there. ``before``: the bytes it had.

    What its reader keeps beside it names records by their numbers there: it reads the log's bytes again.
    """
    db.execute(
        f"update logs set ({_STATE}) = (select {_STATE} from {source}.logs where id = ?), state = null, "
        "pending = null, tail_seq = null, derived = ? where id = ?",
        (theirs.id, COPIED, ours),
    )
    # Chunks that were cut where ours ended are joined when the log has been idle for a while.
    db.execute(
        "update logs set frames = max(frames, 2) where id = ?1 and (select count(*) from chunks where log_id = ?1) <> "
        f"(select count(*) from {source}.chunks where log_id = ?2)",
        (ours, theirs.id),
    )
    copy_sidecars(db, source, ours, theirs.id)
    session_id = int(db.execute("select session_id from logs where id = ?", (ours,)).get)
    pruned.copy_log(db, source, theirs.id, session_id, ours, before)


def copy_sidecars(db: apsw.Connection, source: str, ours: int, theirs: int) -> bool:
    """Keep of each file beside a log the version written last; returns whether any came."""
    before = db.total_changes()
    newer = (
        "log_id = :theirs and not exists (select 1 from main.pruned p join main.logs l on l.session_id = p.session_id "
        "where l.id = :ours and p.name = o.name and p.start >= 0) on conflict(log_id, name) do update set "
        "size = excluded.size, mtime_ns = excluded.mtime_ns, sha256 = excluded.sha256, data = excluded.data "
        "where (excluded.mtime_ns, excluded.sha256) > (sidecars.mtime_ns, sidecars.sha256)"
    )
    copy_rows(db, source, "sidecars", newer, {"log_id": ":ours"}, {"ours": ours, "theirs": theirs})
    return db.total_changes() != before


def _common(db: apsw.Connection, source: str, ours: int, theirs: int) -> int:
    """Return the number of first bytes that two logs share."""
    at = 0
    while True:
        one, other = _mark(db, "main", ours, at), _mark(db, source, theirs, at)
        if one is None or other is None:
            return at
        if one[1:] == other[1:]:
            at += one.length
            continue
        mine, their = _bytes(db, "main", one)[at - one.start :], _bytes(db, source, other)[at - other.start :]
        size = min(len(mine), len(their))
        if mine[:size] != their[:size]:
            if (stop := _pruned_to(db, source, ours, theirs, at)) is not None:
                at = stop
                continue
            return at + _first_difference(mine[:size], their[:size])
        at += size


def _pruned_to(db: apsw.Connection, source: str, ours: int, theirs: int, at: int) -> int | None:
    """Return the end of bytes that one of two logs has and that were pruned of the other; None where they differ."""
    for (schema, log_id), (other_schema, other) in pairwise([("main", ours), (source, theirs), ("main", ours)]):
        if schema != "main" and not pruned.is_table_there(db, schema):
            continue
        found = pruned.range_at(db, schema, log_id, at)
        if found is None:
            continue
        data = _between(db, other_schema, other, found.start, found.stop)
        # Of a log that ends within them it is known by its first record that it is this one.
        if len(data) < found.length or codec.chunk_digest(data) == found.sha256:
            return found.start + len(data)
    return None


def _between(db: apsw.Connection, schema: str, log_id: int, start: int, stop: int) -> bytes:
    pieces, at = list[bytes](), start
    while at < stop and (mark := _mark(db, schema, log_id, at)) is not None:
        pieces.append(_bytes(db, schema, mark)[at - mark.start : stop - mark.start])
        at = mark.start + mark.length
    return b"".join(pieces)


def _first_difference(one: bytes, other: bytes) -> int:
    """Return the first place where two different texts of one length differ."""
    low, high = 0, len(one)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle)
    return low


def _mark(db: apsw.Connection, schema: str, log_id: int, at: int) -> _Mark | None:
    """The chunk that holds the byte at a place of a log; None behind its end."""
    found = fetch_one(
        db,
        _Mark,
        f"select id, start, length, sha256 from {schema}.chunks where log_id = ? and start <= ? order by start desc "
        "limit 1",
        (log_id, at),
    )
    return found if found is not None and at < found.start + found.length else None


def _bytes(db: apsw.Connection, schema: str, mark: _Mark) -> bytes:
    frame, lender = db.execute(f"select data, lender from {schema}.chunks where id = ?", (mark.id,)).get
    return lent.unpacked(db, schema, mark.length, mark.sha256, frame, lender)


# numbers --------------------------------------------------------------------------------------------------------


class _Range(NamedTuple):
    start: int
    stop: int
    first_seq: int
    records: int


def adopt_numbers(db: apsw.Connection, source: str, ours: int, theirs: int, shift: int = 0) -> None:
    """Number the records of our log, which has all bytes of theirs, as theirs are, by so many more."""
    db.execute("delete from numbers where log_id = ?", (ours,))
    shifted = {"log_id": ":ours", "first_seq": "first_seq + :shift"}
    copy_rows(db, source, "numbers", "log_id = :theirs", shifted, {"ours": ours, "shift": shift, "theirs": theirs})


def number(db: apsw.Connection, source: str, ours: int, theirs: int, first: int, last: int, shift: int) -> None:
    """Number those records of our log whose numbers in theirs are from ``first`` to ``last``, by so many more."""
    for each in _ranges(db, source, theirs, first, last):
        low, high = max(first, each.first_seq), min(last, each.first_seq + each.records - 1)
        start = each.start if low == each.first_seq else _place(db, source, theirs, low, each)
        stop = each.stop if high == each.first_seq + each.records - 1 else _place(db, source, theirs, high + 1, each)
        if start is None or stop is None or stop <= start:
            continue
        # A turn among whose records this one lies has numbered it.
        if not db.execute(_IS_NUMBERED, (ours, start, stop)).get:
            insert_seq_ranges(db, ours, [SeqRange(start, stop, low + shift, high - low + 1)])


_IS_NUMBERED = "select exists (select 1 from numbers where log_id = ? and start <= ? and stop >= ?)"


def unnumber(db: apsw.Connection, log_id: int, first: int, last: int) -> None:
    """Take from records of a log of ours their numbers from ``first`` to ``last``: they are bytes alone then."""
    for each in _ranges(db, "main", log_id, first, last):
        end = each.first_seq + each.records
        start = _place(db, "main", log_id, first, each) if each.first_seq < first else each.start
        stop = _place(db, "main", log_id, last + 1, each) if last + 1 < end else each.stop
        db.execute("delete from numbers where log_id = ? and start = ?", (log_id, each.start))
        kept = [
            (each.start, start, each.first_seq, first - each.first_seq),
            (stop, each.stop, last + 1, end - last - 1),
        ]
        db.executemany(
            "insert into numbers(log_id, start, stop, first_seq, records) values (?, ?, ?, ?, ?)",
            [
                (log_id, *row)
                for row in kept
                if row[0] is not None and row[1] is not None and row[0] < row[1] and row[3] > 0
            ],
        )


def _ranges(db: apsw.Connection, schema: str, log_id: int, first: int, last: int) -> list[_Range]:
    return fetch(
        db,
        _Range,
        f"select start, stop, first_seq, records from {schema}.numbers where log_id = ? and first_seq <= ? "
        "and first_seq + records > ? order by start",
        (log_id, last, first),
    )


def _place(db: apsw.Connection, schema: str, log_id: int, seq: int, within: _Range) -> int | None:
    """Return the place in a log where the record with this number begins, or the next one of which events are known."""
    session = db.execute(f"select session_id from {schema}.logs where id = ?", (log_id,)).get
    found = db.execute(
        f"select position from {schema}.events where session_id = ? and seq >= ? and seq < ? and log_id = ? "
        "order by seq, part limit 1",
        (session, seq, within.first_seq + within.records, log_id),
    ).get
    return within.stop if found is None else int(found)
