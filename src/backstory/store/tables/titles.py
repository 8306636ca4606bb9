"""Titles that summaries give: a summary names the session that holds its leaf, wherever it stands. Never commits.

An agent may write a summary into the log that it begins next, whatever that is about. What logs say is noted when they
are read, in any order; whose titles the summaries are is settled when all is read. What a session's own log calls it
comes before a summary. A record that several sessions hold is that of the session which began first: the others are
copies of it, and a summary of the original says nothing of where a copy went.
"""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING, Any

from backstory.ids import RECORD_KEY_BYTES
from backstory.store.schema import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

    from backstory.derive.facts import DerivedFacts
    from backstory.model import FoundSummary


def note(db: apsw.Connection, log_id: int, found: DerivedFacts) -> None:
    """Note the summaries of a piece of a log, and the ids of its records."""
    if found.summaries:
        db.executemany(
            "insert into summaries(log_id, leaf, title) values (?, ?, ?)",
            [(log_id, each.leaf, each.title) for each in found.summaries],
        )
    if found.record_ids:
        # One row for a piece of a log: a row for each record would make a table as long as that of events.
        db.execute("insert into record_ids(log_id, ids) values (?, ?)", (log_id, found.record_ids))
        _note_leaves(db, db.last_insert_rowid(), _keys(found.record_ids))


def note_again(db: apsw.Connection, session_id: int, log_id: int, found: DerivedFacts) -> None:
    """Note the same of a log that is derived again. Of a copy nothing is noted: its records are the original's."""
    if not db.execute("select kind = 'file' from logs where id = ?", (log_id,)).get:
        return
    note(db, log_id, found)
    # An earlier version took a summary for the log's own word.
    _note_lent(db, session_id, found.summaries)


def note_own(db: apsw.Connection, session_id: int) -> None:
    """Note that a session has the title that its own log gives it."""
    db.execute("delete from lent_titles where session_id = ?", (session_id,))


def clear(db: apsw.Connection, session_id: int) -> None:
    """Remove what is noted of a session's logs; titles that came of it stay until all is settled."""
    for table in ("record_ids", "summaries"):
        db.execute(f"delete from {table} where log_id in (select id from logs where session_id = ?)", (session_id,))


def are_due(db: apsw.Connection) -> bool:
    """Return True if there are summaries without a known session, or titles whose summary is gone."""
    return bool(
        db.execute(
            "select exists (select 1 from summaries where is_settled = 0) "
            "or exists (select 1 from lent_titles where summary_id is null)"
        ).get
    )


def assign(db: apsw.Connection) -> None:
    """Give sessions the titles that summaries have for them, and take back those that none has any more."""
    if not are_due(db):
        return
    _seek_leaves(db)
    titles = _titles(db)
    lent = fetch(db, tuple[int], "select session_id from lent_titles")
    for (session_id,) in lent:
        # Its summary was removed, or belongs to another session since more logs were read.
        if session_id not in titles:
            db.execute("update sessions set title = null where id = ?", (session_id,))
            note_own(db, session_id)
    for session_id, (summary_id, title) in titles.items():
        db.execute(
            "insert into lent_titles(session_id, summary_id) select id, ?2 from sessions where id = ?1 and "
            # What the session's own log calls it is never replaced.
            "(title is null or id in (select session_id from lent_titles)) "
            "on conflict(session_id) do update set summary_id = excluded.summary_id",
            (session_id, summary_id),
        )
        db.execute(
            "update sessions set title = ?1 where id = ?2 and title is not ?1 "
            "and id in (select session_id from lent_titles)",
            (title, session_id),
        )
    db.execute("update summaries set is_settled = 1 where is_settled = 0")


def _titles(db: apsw.Connection) -> dict[int, tuple[int, str]]:
    """Return the summary that each session is called after, with its words.

    It is the one whose leaf stands last in the session; of several with one leaf it is that of the session which began
    last. This looks at what the logs say alone, so that the order in which they come makes no difference.
    """
    rows = fetch(
        db,
        tuple[bytes, str, int, int, int, int, str, int, int, str],
        "select m.leaf, h.uid, h.id, hl.generation, f.piece, f.place, t.uid, tl.generation, m.id, m.title "
        "from summary_leaves f join record_ids p on p.id = f.piece join logs hl on hl.id = p.log_id "
        "join sessions h on h.id = hl.session_id join summaries m on m.leaf = f.leaf join logs tl on tl.id = m.log_id "
        "join sessions t on t.id = tl.session_id",
    )
    owners: dict[bytes, str] = {}
    for leaf, uid, *_ in rows:
        # Uids begin with a time, so the smallest is that of the session that began first.
        owners[leaf] = min(uid, owners.get(leaf, uid))
    best: dict[int, tuple[Any, ...]] = {}
    for leaf, uid, session_id, *rank in rows:
        if owners[leaf] == uid:
            best[session_id] = max(best.get(session_id, ()), tuple(rank))
    return {session_id: (rank[-2], rank[-1]) for session_id, rank in best.items()}


def _seek_leaves(db: apsw.Connection) -> None:
    """Look for the leaves of new summaries among all records, once for all of them."""
    # Compared as numbers in an array: a large store has millions of records.
    wanted = {_key(leaf) for (leaf,) in db.execute("select leaf from summaries where is_settled = 0")}
    pieces: Iterable[Any] = db.execute("select id, ids from record_ids") if wanted else ()
    found = [
        (_bytes(key), piece, keys.index(key))
        for piece, held in pieces
        for keys in [_keys(held)]
        for key in wanted.intersection(keys)
    ]
    db.executemany("insert or ignore into summary_leaves(leaf, piece, place) values (?, ?, ?)", found)


def _note_leaves(db: apsw.Connection, piece: int, keys: array[int]) -> None:
    """Note which of a piece's records are leaves of summaries that are known; those are to be settled again."""
    known = fetch(db, tuple[bytes], "select distinct leaf from summaries limit ?", (len(keys) + 1,))
    if len(known) > len(keys):
        # Of few records each is looked up, so that what is added to a log does not cost what is known of all.
        ask = "select exists (select 1 from summaries where leaf = ?)"
        known = [(leaf,) for leaf in map(_bytes, keys) if db.execute(ask, (leaf,)).get]
    for key in {_key(leaf) for (leaf,) in known}.intersection(keys):
        db.execute(
            "insert or ignore into summary_leaves(leaf, piece, place) values (?, ?, ?)",
            (_bytes(key), piece, keys.index(key)),
        )
        db.execute("update summaries set is_settled = 0 where leaf = ?", (_bytes(key),))


def _note_lent(db: apsw.Connection, session_id: int, summaries: Iterable[FoundSummary]) -> None:
    for each in summaries:
        db.execute(
            "insert or ignore into lent_titles(session_id, summary_id) "
            "select id, null from sessions where id = ? and title = ?",
            (session_id, each.title),
        )


def _keys(held: bytes) -> array[int]:
    return array("Q", held)


def _key(leaf: bytes) -> int:
    return int.from_bytes(leaf, sys.byteorder)


def _bytes(key: int) -> bytes:
    return key.to_bytes(RECORD_KEY_BYTES, sys.byteorder)
