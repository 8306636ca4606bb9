"""Opening a store, and every way that can go wrong, said in a sentence; and checking that its tables are ours.

Readers open read-write with ``query_only`` so that SQLite can finish what a crash interrupted and take its
side files away again; only in a folder that cannot be written is the file opened read-only.
"""

from __future__ import annotations

import os
import re
import sys
import weakref
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from backstory import errors, ids
from backstory.derive import naming
from backstory.lazy import lazy_module, lazy_regex
from backstory.store import moves, private, schema
from backstory.store.file import waiting
from backstory.store.schema import fetch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.store.file import values
    from backstory.store.tables import turns
else:
    turns = lazy_module("backstory.store.tables.turns")
    values = lazy_module("backstory.store.file.values")


APPLICATION_ID = 0x626B7374  # "bkst"
BUSY_TIMEOUT_MS = 3_000
PAGE_SIZE = 8192
CACHE_KIB = 16 * 1024
STATEMENTS_KEPT = 400
"""The statements that a writer keeps prepared: a session that is copied is written and checked by two hundred."""
SQLITE_HEADER = b"SQLite format 3\0"
SQLITE_HEADER_BYTES = 100
APPLICATION_ID_AT = 68


class Cursor(apsw.Cursor):
    """Gives text that is not UTF-8, which a store of an earlier version may hold, with replacement characters.

    A row with such text is asked for again, with its text as bytes.
    """

    _given = 0

    def __next__(self) -> Any:
        try:
            row = super().__next__()
        except UnicodeDecodeError:
            if not self.is_readonly:
                raise
            row = self._again(self._given)
        self._given += 1
        return row

    def fetchone(self) -> Any:
        """The next row; None behind the last."""
        return next(self, None)

    @property
    def get(self) -> Any:
        """As that of SQLite's own cursor: the only value, the only row, or all of them."""
        try:
            return super().get
        except UnicodeDecodeError:
            if not self.is_readonly:
                raise
        given = [row[0] if len(row) == 1 else row for row in Cursor(self.connection).execute(self.expanded_sql)]
        return given[0] if len(given) == 1 else given

    def _again(self, number: int) -> tuple[Any, ...]:
        """A row by its number, from 0 on, whatever bytes its text has."""
        names = [f"c{each}" for each in range(len(self.get_description()))]
        values = ", ".join(
            f"iif(typeof({each}) = 'text', cast({each} as blob), {each}), typeof({each})" for each in names
        )
        # Made whole before it is read, so that its order stays.
        sql = (
            f"with given({', '.join(names)}) as materialized (\n{self.expanded_sql.rstrip().rstrip(';')}\n) "
            f"select {values} from given limit 1 offset {number}"
        )
        (found,) = apsw.Cursor(self.connection).execute(sql)
        return tuple(
            value.decode("utf-8", "replace") if kind == "text" else value
            for value, kind in zip(found[::2], found[1::2], strict=True)
        )


def exists(path: Path) -> bool:
    """Return True if a store lies at ``path``; an empty file is one that was never finished."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def check_path(path: Path) -> None:
    """Check that a path is text. Raises PathNotText."""
    try:
        str(path).encode()
    except UnicodeEncodeError as refused:
        raise errors.PathNotText(path) from refused


def is_interrupted(path: Path) -> bool:
    """Return True if a transaction goes on, or was cut off and is still to be undone."""
    return path.with_name(path.name + "-journal").exists()


def side_files(path: Path) -> list[Path]:
    """The files that SQLite keeps beside a database while it is used."""
    return [path.with_name(path.name + ending) for ending in ("-journal", "-wal", "-shm")]


COPY_BYTES_MAX = 256 * 1024 * 1024
"""The largest store of an earlier schema that is read as a copy in memory."""


def open_reader(path: Path) -> apsw.Connection:
    """A connection that changes nothing; raises StoreNotFound, NotAStore and what ``translated`` raises."""
    if not exists(path):
        raise errors.StoreNotFound(path)
    check_path(path)
    check_header(path)
    with translated(path):
        if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
            db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        else:
            # A WAL store in a folder that cannot be written can only be read as one that nobody changes.
            quiet = not path.with_name(path.name + "-wal").exists()
            name = f"file:{_quoted(path)}?immutable=1" if quiet else f"file:{_quoted(path)}"
            db = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        _prepare(db)
        db.execute("pragma query_only = 1")
        if db.pragma("page_count") == 0:
            # Its first transaction was interrupted, and SQLite has just undone what there was of it.
            db.close()
            raise errors.StoreNotFound(path)
        try:
            check_tables(db, path)
            if not db.execute(_HAS_LIST_KEYS).get:
                db.execute(f"pragma query_only = 0; {_NO_LIST_KEYS}; pragma query_only = 1")
        except BaseException:
            db.close()
            raise
    return db


def copied_in_memory(path: Path) -> apsw.Connection:
    """A copy of a store that lies in memory, and may be changed; raises StoreOutdated for one that is too large."""
    with translated(path), closing(open_reader(path)) as db:
        if path.stat().st_size > COPY_BYTES_MAX:
            raise errors.StoreOutdated(path)
        copy = apsw.Connection(":memory:")
        with copy.backup("main", db, "main") as copying:
            copying.step()
        _prepare(copy)
        return copy


def open_writer(path: Path) -> apsw.Connection:
    """A connection that may change an existing store, or begin one in a file that is missing or empty."""
    check_path(path)
    if exists(path):
        check_header(path)
    else:
        if path.name == moves.STORE:
            moves.refuse_if_moved(path.parent)
        _begin_file(path)
    with translated(path):
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=STATEMENTS_KEPT)
        _prepare(db)
        # Else SQLite plans a statement anew for each value of a parameter that an index might depend on. A reader does:
        # a filter with a star uses its index that way.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        # What is deleted is overwritten: free pages and pages' free places hold nothing of it.
        db.execute("pragma secure_delete = 1")
        if db.pragma("page_count") == 0:
            db.execute(f"pragma page_size = {PAGE_SIZE}")
        be_durable(db, always=False)
    if path.name == moves.STORE:
        # Who moves the home asks first who has its store open; so this is asked once it is open.
        try:
            moves.refuse_if_moved(path.parent)
        except BaseException:
            db.close()
            raise
    return db


def share(db: apsw.Connection) -> None:
    """Let others read the machine's own store while it is written: its journal becomes a WAL.

    A store is begun with a rollback journal, so that an interrupted beginning leaves nothing of it. While
    others use the file its journal stays as it is, until the next time.
    """
    if db.pragma("journal_mode") == "wal":
        return
    try:
        db.execute("pragma journal_mode = wal")
    except apsw.BusyError:
        return
    be_durable(db, always=False)


def be_durable(db: apsw.Connection, *, always: bool) -> None:
    """Choose how hard a commit is pushed to the disk.

    A rollback journal is always synced with its folder (EXTRA). The WAL of the home store needs that only
    for what people decided and for runs (``always``): the rest can be read from the logs again.
    """
    wal = db.pragma("journal_mode") == "wal"
    db.execute(f"pragma synchronous = {('full' if always else 'normal') if wal else 'extra'}")
    if sys.platform == "darwin":
        db.execute("pragma fullfsync = 1")


@contextmanager
def lasting(db: apsw.Connection, path: Path) -> Iterator[None]:
    """Put commits of this block on the disk before it ends, whatever the journal."""
    with translated(path):
        be_durable(db, always=True)
    try:
        yield
    finally:
        # What was committed stays so; a connection that goes on being careful hurts nobody.
        with suppress(apsw.Error):
            be_durable(db, always=False)


@contextmanager
def undoing(db: apsw.Connection, path: Path) -> Iterator[None]:
    """Take back everything written in this block, so that its journal need not be removed durably."""
    with translated(path):
        db.execute("pragma synchronous = full")
    try:
        yield
    finally:
        with suppress(apsw.Error):
            be_durable(db, always=False)


@contextmanager
def writing(db: apsw.Connection, path: Path, *, first: bool = False) -> Iterator[apsw.Connection]:
    """One transaction: all of the block, or nothing of it. ``first``: the one that begins the file."""
    with translated(path), waiting.put_off():
        # auto_vacuum writes the first page by itself, unless a transaction is open that has written nothing.
        db.execute("begin; pragma auto_vacuum = incremental" if first else "begin immediate")
        try:
            yield db
            db.execute("commit")
        except BaseException:
            if db.in_transaction:
                db.execute("rollback")
            raise


@contextmanager
def attached(db: apsw.Connection, path: Path, source: Path) -> Iterator[None]:
    """Have another file at hand as ``source``; inside of a block that has it already, that one's."""
    if any(name == "source" and file == str(source) for _, name, file in db.execute("pragma database_list")):
        yield
        return
    with translated(source):
        db.execute("attach database ? as source", (str(source),))
    try:
        yield
    finally:
        # A disk that is full may be so here, too.
        with translated(path):
            db.execute("detach database source")


@contextmanager
def alone(db: apsw.Connection, path: Path) -> Iterator[None]:
    """A part of a transaction: all of the block, or nothing of it, and the transaction goes on."""
    with translated(path):
        db.execute("savepoint alone")
        try:
            yield
        except BaseException:
            # SQLite may have taken back all of the transaction.
            if db.in_transaction:
                db.execute("rollback to alone; release alone")
            raise
        db.execute("release alone")


@contextmanager
def reading(db: apsw.Connection, path: Path) -> Iterator[apsw.Connection]:
    """Several questions about one moment, asked by who will write."""
    with translated(path):
        db.execute("begin")
        try:
            yield db
        finally:
            if db.in_transaction:
                db.execute("rollback")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as refused:
        raise errors.StoreBusy(path) from refused
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as refused:
        raise errors.StoreReadOnly(path) from refused
    except apsw.FullError as refused:
        raise errors.DiskFull(path) from refused
    except apsw.NotADBError as refused:
        raise errors.NotAStore(path, "SQLite cannot read it") from refused
    except apsw.CorruptError as refused:
        raise errors.StoreDamaged(path, str(refused)) from refused
    except apsw.ConstraintError as refused:
        raise errors.StoreRefused(path, str(refused)) from refused
    except apsw.IOError as refused:
        raise errors.StoreFailed(path, str(refused)) from refused


def _begin_file(path: Path) -> None:
    try:
        private.make_folder(path.parent)
        # SQLite would make it with the umask's mode, and its side files take the mode of the file.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as refused:
        if isinstance(refused, PermissionError) or refused.errno == 30:  # EROFS
            raise errors.StoreReadOnly(path) from refused
        if refused.errno == 28:  # ENOSPC
            raise errors.DiskFull(path) from refused
        raise errors.StoreFailed(path, refused.strerror or str(refused)) from refused


_HAS_LIST_KEYS = "select exists (select 1 from main.sqlite_schema where name = 'list_keys')"
_NO_LIST_KEYS = (
    "create temp view list_keys as select id as session_id, null as most_usd, null as heading from main.sessions"
)
"""Stands in for the table where an earlier version made the store: all of it is worked out when it is asked for."""


def _prepare(db: apsw.Connection) -> None:
    db.cursor_factory = Cursor
    db.create_scalar_function("folded", lambda *title: naming.folded(*title), 1, deterministic=True)
    # SQLite holds the function, so one that held its connection would keep it open for ever.
    itself = weakref.ref(db)
    db.create_scalar_function("saying", lambda *of: (here := itself()) and turns.saying(here, *of), 2)
    # The timeout comes first: even reading a pragma needs a lock.
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    db.execute(f"pragma foreign_keys = 1; pragma trusted_schema = 0; pragma cache_size = -{CACHE_KIB}")


def check_header(path: Path) -> None:
    """Raise NotAStore unless a file says of itself that it is a store; only its first bytes are read."""
    try:
        with path.open("rb") as file:
            header = file.read(SQLITE_HEADER_BYTES)
    except PermissionError as refused:
        raise errors.StoreReadOnly(path) from refused
    except OSError as refused:
        raise errors.NotAStore(path, refused.strerror or str(refused)) from refused
    # A clone may bring such a link, and SQLite would follow it.
    if linked := next((each.name for each in side_files(path) if each.is_symlink()), None):
        raise errors.NotAStore(path, f"{linked} beside it is a link, and what SQLite writes there would go elsewhere")
    if not header.startswith(SQLITE_HEADER):
        raise errors.NotAStore(path, "it is no SQLite file")
    # Asked of the bytes, because SQLite would checkpoint or roll back another program's file to answer.
    if header[APPLICATION_ID_AT : APPLICATION_ID_AT + 4] != APPLICATION_ID.to_bytes(4, "big"):
        raise errors.NotAStore(path, "another program's database")


def _quoted(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path))


# tables that somebody else may have made ------------------------------------------------------------------------------


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
    # A missing table is no danger: a store of an earlier version lacks some.
    if there.get(SEARCH_INDEX, "virtual") != "virtual" or not _is_index_ours(db):
        raise errors.NotAStore(path, "its search index is not one of ours")
    if counted := _counted(db, [each for each in _tables() if each in there]):
        raise errors.NotAStore(path, f"its {counted!r} has a column that is worked out when it is read")


def take_out_triggers(db: apsw.Connection, path: Path) -> list[str]:
    """Drop the triggers of a store that are not ours, inside the caller's transaction; gives their names."""
    # By name and body: a trigger under one of our names may do anything.
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
    # Not among the values: a turn inserted by hand may have any uid in a store of our own.
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
        (schema.json_list(tables),),
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
        # Any commit of another process makes what was found worthless.
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
