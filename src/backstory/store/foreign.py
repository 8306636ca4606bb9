"""A store's tables as somebody else may have made them: what must be so before a row is read, or one is written.

A file that calls itself a store may hold a view in the place of a table, or triggers that act when it is written. What
is read must be a table of ours, which gives no more than its rows; triggers that are not ours are taken out first.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from backstory import errors, ids
from backstory.lazy import lazy_module, lazy_regex
from backstory.store import kinds, schema
from backstory.store.rows import fetch

if TYPE_CHECKING:
    from pathlib import Path

    import apsw

    from backstory.store import values
else:
    values = lazy_module("backstory.store.values")

SEARCH_INDEX = "search_index"
_TRIGGER = lazy_regex(r"^create trigger (?:if not exists )?(\w+) (.*?\nend);$", re.MULTILINE | re.DOTALL)
_IS_TRIGGER = lazy_regex(r"\W*create\W+(temp\w*\W+)?trigger\b", re.IGNORECASE)
_STORED = lazy_regex(r"create trigger (\w+) (.*)", re.IGNORECASE | re.DOTALL)
_FORMER = ("turn_follows",)
"""Triggers that ours had once: they go too, and are nothing to tell a person."""
_COMMENT = lazy_regex(r"--[^\n]*")
ASKED_ALONE_MAX = 4
"""The sessions of a store are checked together where more of them are to be copied, and they are a part of it."""
PART = 10
"""Such a part is a tenth: to look at a session alone takes the time of ten among others."""
_GENERATED = f"last_native_id text generated always as ({schema.running_id_column()}) virtual"


def check_tables(db: apsw.Connection, path: Path) -> None:
    """Raise NotAStore unless all that is read of a store is a table that gives its rows and nothing else."""
    known = fetch(db, tuple[object, object], "select name, type from pragma_table_list where schema = 'main'")
    there = {str(name).lower(): kind for name, kind in known}
    for name in sorted(_tables()):
        if there.get(name, "table") != "table":
            raise errors.NotAStore(path, f"its {name!r} is no table")
    if there.get(SEARCH_INDEX, "virtual") != "virtual" or not _is_index_ours(db):
        raise errors.NotAStore(path, "its search index is not one of ours")
    if counted := _counted(db, [each for each in _tables() if each in there]):
        raise errors.NotAStore(path, f"its {counted!r} has a column that is worked out when it is read")


def take_out_triggers(db: apsw.Connection, path: Path) -> list[str]:
    """Drop the triggers of a store that are not ours, inside the caller's transaction; gives their names."""
    ours = {(name, _plain(body)) for sql in schema.sources() for name, body in _TRIGGER.findall(sql)}
    dropped = []
    rows = fetch(db, tuple[object, object, object], "select name, type, sql from sqlite_schema where sql is not null")
    for name, kind, sql in rows:
        if kind != "trigger" and not _IS_TRIGGER.match(str(sql)):
            continue
        stored = _STORED.fullmatch(str(sql))
        # SQLite goes by the text, so a row that is filed as something else would be missed.
        if kind != "trigger" or stored is None or stored.group(1) != name:
            raise errors.NotAStore(path, f"its {name!r} is not what it is filed as")
        if (name, _plain(stored.group(2))) not in ours:
            db.execute(f'drop trigger "{name}"')
            if name not in _FORMER:
                dropped.append(str(name))
    return dropped


def put_back_triggers(db: apsw.Connection) -> None:
    """Make those of our triggers that are not there, inside the caller's transaction."""
    there = {str(name) for (name,) in db.execute("select name from sqlite_schema where type = 'trigger'")}
    for sql in schema.sources():
        for name, body in _TRIGGER.findall(sql):
            if name not in there:
                db.execute(f"create trigger {name} {body}")


def check_session(db: apsw.Connection, session_id: int, path: Path, *, is_bounded: bool = True) -> None:
    """Raise SessionDamaged unless the rows of a session are what their columns say; ``is_bounded``: see ``values``.

    Names of turns are looked at too: they are as ours are made.
    """
    if (problem := next(values.of_session(db, session_id, is_bounded=is_bounded), None)) is not None:
        raise errors.SessionDamaged(path, problem)
    uids = fetch(db, tuple[object], "select uid from turns where session_id = ?", (session_id,))
    if not all(is_uid(uid) for (uid,) in uids):
        raise errors.SessionDamaged(path, "a turn has no uid")


def check_rest(db: apsw.Connection, path: Path, *, is_bounded: bool = True, are_others_whole: bool = False) -> None:
    """Raise StoreDamaged unless the rows that belong to no session are what their columns say: see ``values``."""
    problems = values.of_no_session(db, is_bounded=is_bounded, are_others_whole=are_others_whole)
    if (problem := next(problems, None)) is not None:
        raise errors.StoreDamaged(path, problem)


def check_uids(db: apsw.Connection, path: Path) -> None:
    """Raise NotAStore where the store or a session has a uid that is none: files are named after them."""
    rows = fetch(db, tuple[object], "select value from meta where key = 'store_id' union all select uid from sessions")
    if not all(is_uid(uid) for (uid,) in rows):
        raise errors.NotAStore(path, "it, or a session in it, has no uid")


def is_uid(text: object) -> bool:
    """Return True if this is written as our uids are."""
    return isinstance(text, str) and len(text) == ids.UID_LENGTH and set(text) <= set(ids.ALPHABET)


@cache
def _tables() -> frozenset[str]:
    """The tables of a store, but for its index."""
    return frozenset(table.name for table in schema.tables() if not table.is_virtual)


def _is_index_ours(db: apsw.Connection) -> bool:
    """Return True if the index is made as ours is: another may read a view whenever it is asked."""
    bodies = [table.body for table in schema.tables() if table.name == SEARCH_INDEX]
    stored = fetch(
        db,
        tuple[object],
        "select sql from sqlite_schema where sql like '%search_index using%' or name = ?",
        (SEARCH_INDEX,),
    )
    begin = f"create virtual table {SEARCH_INDEX} "
    return all(
        _plain(_COMMENT.sub("", str(sql))).lower() == begin + _plain(body).lower() + " )"
        for (sql,) in stored
        for body in bodies
    )


def _counted(db: apsw.Connection, tables: list[str]) -> str | None:
    """A table with a column that is worked out from others, other than the one that ours have."""
    rows = fetch(
        db,
        tuple[object, object],
        "select asked.value, info.name from json_each(?) asked, pragma_table_xinfo(asked.value) info "
        "where info.hidden in (2, 3)",
        (kinds.json_list(tables),),
    )
    for name in dict.fromkeys(str(table) for table, _ in rows):
        counted = [str(column) for table, column in rows if table == name]
        sql = str(db.execute("select sql from sqlite_schema where type = 'table' and lower(name) = ?", (name,)).get)
        if counted != ["last_native_id"] or _GENERATED not in _plain(_COMMENT.sub("", re.sub(r"/\*.*?\*/", "", sql))):
            return name
    return None


def _plain(sql: str) -> str:
    return " ".join(sql.split())


class Wholeness:
    """Remembers while a store is open whether all its sessions are known to be whole."""

    def __init__(self) -> None:
        self._whole_at: int | None = None
        """The version of the file, see SQLite's data_version, in which every session was whole."""

    def check_session(self, db: apsw.Connection, session_id: int, path: Path, *, is_bounded: bool) -> None:
        """Raise SessionDamaged unless a session holds what another store can hold; see ``foreign.check_session``."""
        if not self._is_known(db):
            check_session(db, session_id, path, is_bounded=is_bounded)

    def check(self, db: apsw.Connection, uid: str, path: Path, *, is_bounded: bool) -> None:
        """The same by a uid, whose session may not be here."""
        if self._is_known(db):
            return
        session_id: int | None = db.execute("select id from sessions where uid = ?", (uid,)).get
        if session_id is not None:
            self.check_session(db, session_id, path, is_bounded=is_bounded)

    def _is_known(self, db: apsw.Connection) -> bool:
        return self._whole_at is not None and self._whole_at == db.data_version()

    def check_rest(self, db: apsw.Connection, path: Path, *, is_bounded: bool, asking: int) -> None:
        """Raise StoreDamaged unless what belongs to no session is as ours are made.

        ``asking``: how many sessions will be checked; where these are many, it is done here for all together.
        """
        sessions = int(db.execute("select count(*) from sessions").get)
        are_many = asking > max(ASKED_ALONE_MAX, sessions // PART)
        is_whole = are_many and values.are_whole(db, is_bounded=is_bounded)
        self._whole_at = db.data_version() if is_whole else None
        check_rest(db, path, is_bounded=is_bounded, are_others_whole=is_whole)
