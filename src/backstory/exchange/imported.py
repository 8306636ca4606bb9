"""A session of an import, taken over from the store that it was put into: whether, and how. Never commits.

A session that is here from its own log, or from the store that owns it, is not touched. One that came by an import is
replaced by one that says more, and by none that says less.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from backstory import ids
from backstory.exchange import replicate
from backstory.lazy import lazy_module
from backstory.store import Store
from backstory.store.database import believed
from backstory.store.file import connection
from backstory.store.intake import claims, coverage, derived_tables
from backstory.store.schema import fetch, fetch_one
from backstory.store.tables import copies, decisions, event_rows, lineage, plan, sessions, turns
from backstory.store.tables.logs import COPY, JSON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import apsw

    from backstory.derive.facts import DerivedFacts
    from backstory.store.tables import pruned
else:
    pruned = lazy_module("backstory.store.tables.pruned")


class Came(StrEnum):
    """The outcome of importing a session."""

    NEW = "new"
    UPDATED = "updated"
    """It says more than what an earlier import said."""
    SAME = "same"
    LESS = "less"
    """An earlier import said more."""
    DIFFERS = "differs"
    """Each of both has something that the other one lacks."""
    OWN = "own"
    """It is here from its own log, or from the store that owns it."""
    REMOVED = "removed"
    """A person removed it here."""
    TRUSTED = "trusted"
    """It says more than an earlier import that was trusted, and nobody trusted this one."""
    SHARED = "shared"
    """It repeats a turn that is known here from another place, and nobody trusted it."""


def take(
    db: apsw.Connection, source: str, uid: str, path: Path, texts: event_rows.ReadyTexts, *, trusted: bool, now: int,
    is_followed: bool = False, is_anew: bool = False,
) -> Came:  # fmt: skip
    """Take a session over, or say why not. ``path``: the file that it came in; ``texts`` are for the caller to index.

    ``is_followed``: what is here came from the same place, which decides by now what its logs are, and say.
    ``is_anew``: that place took back what it said before.
    Without ``trusted`` it is marked as from elsewhere, its logs are copies that no log of ours is taken for, and it
    claims none. Raises StoreDamaged.
    """
    identity = ids.session_identity(uid)
    if db.execute("select exists (select 1 from forgotten where substr(uid, 11) = ?)", (identity,)).get:
        return Came.REMOVED
    known = fetch_one(
        db, tuple[int, str, str | None, str | None],
        "select id, uid, owner, elsewhere from sessions where substr(uid, 11) = ?", (identity,),
    )  # fmt: skip
    if known is not None and not _is_imported(db, known[0]):
        return Came.OWN
    if not trusted and _shares_turn(db, source, uid):
        return Came.SHARED
    if known is not None:
        says = Came.UPDATED if is_anew else _compared(db, source, known[0], uid, is_followed=is_followed)
        # What was trusted by nobody so far is by whoever imports it again with trust.
        if says == Came.UPDATED and not trusted and known[3] is None:
            return Came.TRUSTED
        if says != Came.UPDATED and not (says == Came.SAME and trusted and known[3] is not None):
            if says == Came.SAME and trusted:
                _decide(db, source, known[1], uid)
            return says
    note = None if known is None else pruned.noted(db, known[0])
    old = set[str]() if known is None or note is None else copies.turn_uids(db, [known[0]])
    _put(db, source, uid, known, path, texts, trusted=trusted, now=now)
    if note is not None:
        # The turns that were pruned here are pruned again by whoever imports, or by the next ingest.
        pruned.note_again(db, uid, note, old)
    return Came.NEW if known is None else Came.UPDATED


def take_removals(db: apsw.Connection, removed: Iterable[tuple[str, int]]) -> list[int]:
    """Note that sessions were removed elsewhere; returns the ids of those here that are to be removed, too."""
    going = list[int]()
    for uid, at in removed:
        identity = ids.session_identity(uid)
        here: int | None = db.execute("select id from sessions where substr(uid, 11) = ?", (identity,)).get
        if here is None:
            db.execute("insert or ignore into forgotten(uid, at) values (?, ?)", (uid, at))
        elif _is_imported(db, here):
            newest = db.execute("select coalesce(max(started), 0) from turns where session_id = ?", (here,)).get
            going += [here] if newest <= at else []
    return going


def _is_imported(db: apsw.Connection, session_id: int) -> bool:
    """Return True if a session is here from an import alone: nothing of it was read from a file of this machine."""
    return bool(
        db.execute(
            "select imported is not null and not exists (select 1 from logs where session_id = ?1 "
            "and size is not null) and not exists (select 1 from log_places p join logs l on l.id = p.log_id "
            "where l.session_id = ?1) from sessions where id = ?1",
            (session_id,),
        ).get
    )


def _shares_turn(db: apsw.Connection, source: str, uid: str) -> bool:
    """Return True if a session holds a turn that is known here from something else than an import."""
    return bool(
        db.execute(
            f"select exists (select 1 from {source}.sessions o join {source}.turns t on t.session_id = o.id "
            "join main.turns h on h.uid = t.uid join main.sessions s on s.id = h.session_id "
            "where o.uid = ? and s.imported is null)",
            (uid,),
        ).get
    )


def _compared(db: apsw.Connection, source: str, known: int, uid: str, *, is_followed: bool) -> Came:
    """Compare two copies of a session, ours and that of the import, by what each has and the other lacks."""
    other = int(db.execute(f"select id from {source}.sessions where uid = ?", (uid,)).get)
    # What is masked says other texts, and gives way to what has the bytes of its logs.
    is_followed |= _has_bytes(db, source, other) and not _has_bytes(db, "main", known)
    ours = _says_more(db, "main", known, source, other, (0, -1) if is_followed else range(len(_MORE)))
    theirs = _says_more(db, source, other, "main", known, range(len(_MORE)))
    if theirs:
        return Came.DIFFERS if ours else Came.UPDATED
    return Came.LESS if ours else Came.SAME


def _has_bytes(db: apsw.Connection, name: str, session_id: int) -> bool:
    """Return True if a session has a log of its own bytes, not one that was made of its events."""
    asked = f"select exists (select 1 from {name}.logs where session_id = ? and {_KIND} <> '{JSON}')"
    return bool(db.execute(asked, (session_id,)).get)


def _says_more(db: apsw.Connection, one: str, one_id: int, other: str, other_id: int, asked: Sequence[int]) -> bool:
    """Return True if one of two has a turn, an event, a byte, a file or a summary that the other one lacks."""
    return any(
        db.execute(f"select exists ({question})", (one_id, other_id)).get
        for question in (_MORE[number].format(one=one, other=other) for number in asked)
    )


_TURN_OF = "coalesce((select uid from {0}.turns where id = e.turn_id), '')"
_EVENTS_OF = (
    f"select {_TURN_OF} as turn, count(*) as events, coalesce(sum(char_len), 0) as chars "
    "from {0}.events e where session_id = {1} group by 1"
)
_KIND = f"replace(kind, '{COPY}', '')"
_MORE = (
    "select 1 from {one}.turns t left join {other}.turns o on o.uid = t.uid and o.session_id = ?2 "
    "where t.session_id = ?1 and (o.uid is null or (t.outcome is not null and o.outcome is null))",
    f"with a as ({_EVENTS_OF.format('{one}', '?1')}), b as ({_EVENTS_OF.format('{other}', '?2')}) "
    "select 1 from a left join b using (turn) where a.events > coalesce(b.events, 0) "
    "or (a.events = b.events and a.chars > b.chars)",
    f"with b as (select agent, native_id, turn_uid, generation, {_KIND} as kind, read_to from {{other}}.logs "
    f"where session_id = ?2) select 1 from {{one}}.logs a where a.session_id = ?1 and {_KIND} <> '{JSON}' "
    f"and not exists (select 1 from b where b.agent = a.agent and b.native_id = a.native_id and b.kind = {_KIND} "
    "and b.turn_uid is a.turn_uid and b.generation = a.generation and b.read_to >= a.read_to)",
    "select 1 from {one}.sidecars c join {one}.logs l on l.id = c.log_id where l.session_id = ?1 and not exists ("
    "select 1 from {other}.sidecars d join {other}.logs m on m.id = d.log_id where m.session_id = ?2 "
    "and d.name = c.name and d.mtime_ns >= c.mtime_ns)",
    "select 1 from {one}.compactions c where c.session_id = ?1 and not exists (select 1 from {other}.compactions d "
    "where d.session_id = ?2 and d.after_seq = c.after_seq and d.summary = c.summary)",
)


def _put(
    db: apsw.Connection,
    source: str,
    uid: str,
    known: tuple[int, str, str | None, str | None] | None,
    path: Path,
    texts: event_rows.ReadyTexts,
    *,
    trusted: bool,
    now: int,
) -> None:
    """Put a session in the place of ours, if there is one; what was decided here later stays."""
    if known is None:
        session_id = replicate.replace_session(db, source, uid, None, texts)
        _copy_decisions(db, source, uid)
    else:
        mine = decisions.session_states(db, uids=[known[1]])[known[1]]
        other = decisions.session_states(db, source, uids=[uid])[uid]
        if known[1] != uid:
            decisions.forget(db, known[1])
        session_id = replicate.replace_session(db, source, uid, (known[0], known[2], None), texts)
        decided = plan.merge(other, mine) if trusted else replace(mine.decided, leaf=other.decided.leaf)
        decisions.write(db, uid, plan.fitting(decided, other), mine.turns)
    replicate.copy_count(db, source, uid, session_id)
    # Of a log that was made of the events nothing is read again.
    db.execute(
        f"update logs set pending = (select o.pending from {source}.logs o where o.native_id = logs.native_id "
        f"and o.kind = logs.kind) where session_id = ? and kind in ('{JSON}', '{COPY}{JSON}') and derived > 0",
        (session_id,),
    )
    db.execute(
        "update sessions set imported = ?, elsewhere = ? where id = ?",
        (now, None if trusted else str(path).encode("utf-8", "backslashreplace").decode(), session_id),
    )
    if not trusted:
        _part_from_ours(db, session_id)
    replicate.link_relatives(db, session_id, uid)
    sessions.go_on_numbering(db)
    if trusted:
        runs = fetch(db, tuple[str], "select uid from turns where session_id = ? and native_id <> ''", (session_id,))
        for (turn_uid,) in runs:
            claims.link_run_to_log(db, session_id, turn_uid)
    lineage.link_copies_of(db, session_id)
    connection.check_session(db, session_id, path, is_bounded=False)


def _part_from_ours(db: apsw.Connection, session_id: int) -> None:
    """Cut the link between a session and relatives that are here from something else than an import."""
    was_covered = coverage.is_covered(db, session_id)
    db.execute(
        "update sessions set parent_identity = null, relation = null where id = ? and exists ("
        "select 1 from sessions p where substr(p.uid, 11) = sessions.parent_identity and p.imported is null)",
        (session_id,),
    )
    coverage.settle(db, session_id, was_covered=was_covered)


def _copy_decisions(db: apsw.Connection, source: str, uid: str) -> None:
    """Take over what was set in the context of a session that is new here, and when each thing was decided."""
    decisions.copy_rows(db, source, uid)


def _decide(db: apsw.Connection, source: str, uid: str, theirs: str) -> None:
    """Take over what was decided later in the import about a session that is the same here."""
    mine, other = (
        decisions.session_states(db, uids=[uid])[uid],
        decisions.session_states(db, source, uids=[theirs])[theirs],
    )
    decided = plan.fitting(plan.merge(mine, other), mine)
    if decided != mine.decided:
        decisions.write(db, uid, decided, other.turns)


# staging --------------------------------------------------------------------------------------------------------------
# A store of its own that an import is put into before anything of it is taken over: it is whole then, and checked.


ROWS_AT_ONCE = 5_000
BYTES_AT_ONCE = 16 * 1024 * 1024


TEXTS = "staged_texts"
_TEXTS_TABLE = f"create table {TEXTS}(event_id integer primary key, seq integer, scope text, content text)"
"""The texts of events as they are to be indexed: once, where the session comes to stay."""


class StagedFacts(Struct):
    """Facts from events on their way; the ids of their session's turns, by their uids."""

    session_id: int
    turn_ids: dict[str, int]
    found: DerivedFacts
    answers: dict[str, str]


class StagedRows(Struct):
    """Rows on their way, by their table; of ``events`` with the session, see ``event_rows.insert``."""

    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    events: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    texts: list[tuple[int, int, str, str]] = field(default_factory=list)
    """The texts of events to be indexed: the event's place in ``events``, its record, the scope, the text."""
    facts: list[StagedFacts] = field(default_factory=list)
    counts: list[tuple[int | None, int | None, int]] = field(default_factory=list)
    """Sizes of contexts, which are written once all is there that they are counted from."""
    rows: int = 0
    bytes: int = 0

    def add(self, table: str, size: int = 0, /, **row: Any) -> None:
        """Add a row, by the names of its columns. ``size``: its bytes, where it may have many."""
        self.tables.setdefault(table, []).append(row)
        self.rows += 1
        self.bytes += size

    def add_event(self, session_id: int, row: tuple[Any, ...], *, size: int, scope: str = "", text: str = "") -> None:
        """Add the row of an event, from its column ``seq`` to ``length``; ``text``: to be indexed, if its scope is."""
        if scope:
            self.texts.append((len(self.events), row[0], scope, text))
        self.events.append((session_id, row))
        self.rows += 1
        self.bytes += size + len(text)

    def clear(self) -> None:
        """Remove all."""
        self.tables.clear()
        self.events.clear()
        self.texts.clear()
        self.facts.clear()
        self.counts.clear()
        self.rows = self.bytes = 0

    @property
    def is_full(self) -> bool:
        """True if they are so many that they should be written."""
        return self.rows >= ROWS_AT_ONCE or self.bytes >= BYTES_AT_ONCE


class Staging(Store):
    """The store; see the module. Nothing of it outlives its process, so many sessions are written at once."""

    _held = 0
    """The bytes and rows that were put since all was written."""

    def put(self, rows: StagedRows) -> None:
        """Put rows in, and empty them. Raises StoreDamaged for rows that no store could hold, and puts none in."""
        self._held += rows.bytes + rows.rows
        self._put(lambda db: _write(db, rows))
        rows.clear()
        if self._held >= BYTES_AT_ONCE:
            self.settle()

    def settle(self) -> None:
        """Write all that was put."""
        self._held, db = 0, self.writer()
        with connection.translated(self.path):
            if db.in_transaction:
                db.execute("commit")

    def _put(self, change: Callable[[apsw.Connection], None]) -> None:
        db = self.writer()
        with connection.translated(self.path), believed(self.path):
            if not db.in_transaction:
                db.execute("begin immediate")
            with db:
                change(db)

    def drop_session(self, session_id: int) -> None:
        """Remove what would keep another copy of a session out; its other rows are never read."""

        def drop(db: apsw.Connection) -> None:
            db.execute("delete from logs where session_id = ?", (session_id,))
            db.execute("delete from sessions where id = ?", (session_id,))

        self._put(drop)

    def writer(self) -> apsw.Connection:
        is_new = self._writer is None
        db = super().writer()
        if is_new:
            # What belongs together comes in any order.
            db.execute("pragma foreign_keys = off")
            # Rows that no store could hold are taken back.
            db.execute("pragma journal_mode = memory")
            db.execute("pragma synchronous = off")
            db.execute(_TEXTS_TABLE)
        return db


def _write(db: apsw.Connection, rows: StagedRows) -> None:
    for table, found in rows.tables.items():
        for columns, alike in groupby(found, key=tuple):
            values = ", ".join(f":{name}" for name in columns)
            db.executemany(f"insert into {table}({', '.join(columns)}) values ({values})", alike)
    first_id = event_rows.next_event_id(db)
    for session_id, events in groupby(rows.events, key=itemgetter(0)):
        event_rows.insert(db, session_id, [row for _, row in events])
    db.executemany(
        f"insert into {TEXTS}(event_id, seq, scope, content) values (?, ?, ?, ?)",
        [(first_id + number, *text) for number, *text in rows.texts],
    )
    for each in rows.facts:
        event_ids = {row[:2]: first_id + n for n, (of, row) in enumerate(rows.events) if of == each.session_id}
        derived_tables.write(db, each.session_id, each.found, each.turn_ids, event_ids)
        turns.note_answers(db, each.turn_ids, each.answers)
    db.executemany("update sessions set context_chars = ?, context_limit = ? where id = ?", rows.counts)
