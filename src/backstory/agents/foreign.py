"""Databases that other programs wrote, read under bounds: anything may stand in them, and a clone may bring them.

Only a copy that is ours is opened, with the journals that lay beside the original, so that its last committed state
is read. A journal that names another file is refused: SQLite would delete that file. Only real tables are read, so no
code of the database's own runs, whatever else it holds. A value, a session, the time and the memory have limits.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

import apsw

from backstory import sqlite_memory
from backstory.agents.contract import UnreadableDatabase
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from backstory.agents.contract import OpenTables

Row = dict[str, Any]

VALUE_BYTES_MAX = 32 * 1024 * 1024
"""A larger value is left out, which is reported."""
SESSION_BYTES_MAX = 128 * 1024 * 1024
"""The most bytes in memory of one session, counted with CELL_BYTES for each value besides its own length."""
CELL_BYTES = 64
HEAP_BYTES = 4 * VALUE_BYTES_MAX
"""The most bytes that SQLite may use besides those that it used before."""
COMPUTING_S_MAX = 30.0
"""The processor time for the questions to one database; waiting does not count."""
STEPS_BETWEEN_LOOKS = 5_000
"""The clock is looked at every so many steps of SQLite's machine."""
WORDS_MAX = 200
JOURNAL = "-journal"
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""The first bytes of a rollback journal, and its last ones only if it names another file."""
_IS_TABLE = lazy_regex(r"create\s+table\b", re.IGNORECASE)
_GIVEN = 0
"""SQLite's mark of a column that is neither generated nor hidden."""


class TooLarge(UnreadableDatabase):
    """A session that does not fit into the memory it may have; others of its database may."""


class Journal(Enum):
    """The action that a rollback journal asks for."""

    NOTHING = "nothing"
    ROLLBACK = "rollback"
    ANOTHER_FILE = "another file"


def asks_for(first: bytes, last: bytes) -> Journal:
    """Return the action that a journal with these first and last eight bytes asks for."""
    # One that was settled is emptied, or only its first bytes are.
    if first[:1] in (b"", b"\0"):
        return Journal.NOTHING
    return Journal.ANOTHER_FILE if last == JOURNAL_MAGIC else Journal.ROLLBACK


class ForeignDatabase:
    """A database that nobody else has open. See ``opened``."""

    left_out: int
    """The number of values since the last ``begin_session`` that were too large."""

    def __init__(self, db: apsw.Connection, text: Callable[[bytes], Any], limit: int) -> None:
        self._db, self._text, self._limit = db, text, limit
        self._columns: dict[str, tuple[str, ...]] = {}
        self._selected: dict[str, str] = {}
        self._spent = self._began = 0.0
        self.begin_session()
        db.set_progress_handler(self._is_late, STEPS_BETWEEN_LOOKS)
        encoding = self._execute("pragma encoding")[0][0]
        self._codec = "" if encoding == "UTF-8" else "utf-16-be" if encoding.endswith("be") else "utf-16-le"

    def begin_session(self) -> None:
        """Begin another session, with limits of its own."""
        self._room = self._limit
        self.left_out = 0

    @property
    def is_empty(self) -> bool:
        """True if nothing at all was ever made in it."""
        return not self._execute("select 1 from sqlite_schema limit 1")

    def columns(self, table: str) -> tuple[str, ...]:
        """The columns of a table that hold what was written there; none when there is no such table.

        Raises UnreadableDatabase when something else has that name.
        """
        if table not in self._columns:
            self._columns[table] = tuple(self._look_up(table))
        return self._columns[table]

    def _look_up(self, table: str) -> Iterator[str]:
        # A view in a table's place could compute for ever, and a virtual table run what its module does.
        named = self._execute(
            "select type, substr(sql, 1, 20) from sqlite_schema where name = ? collate nocase "
            "and type in ('table', 'view')",
            (table,),
        )
        for kind, sql in named:
            if kind != "table" or not _IS_TABLE.match(str(sql)):
                what = "virtual table" if kind == "table" else "view"
                raise UnreadableDatabase(f"its {table} is a {what}, and only real tables are read")
            # What is generated follows from the other columns, by a formula of the database's own.
            found = self._execute("select name, hidden from pragma_table_xinfo(?)", (table,))
            yield from (name for name, hidden in found if hidden == _GIVEN)

    def rows(self, table: str, rest: str = "", values: Sequence[Any] = ()) -> list[Row]:
        """The rows of a table that has columns. ``rest``: what comes after ``from table t``."""
        columns = self.columns(table)
        if table not in self._selected:
            self._selected[table] = f'select {", ".join(map(_typed, columns))} from "{table}" t '
        found = self._execute(self._selected[table] + rest, values)
        return [dict(zip(columns, self._values(row), strict=True)) for row in found]

    def select(
        self, table: str, given: Sequence[str], rest: str = "", values: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        """Return expressions of a table's rows; nothing where it has no columns."""
        if not self.columns(table):
            return []
        found = self._execute(f'select {", ".join(map(_typed_expression, given))} from "{table}" t {rest}', values)
        return [tuple(self._values(row)) for row in found]

    def distinct(self, table: str, column: str) -> list[Any]:
        """The values in a column, each once, in order."""
        found = self._execute(f'select distinct {_typed(column)} from "{table}" t order by 2')
        return [value for row in found for value in self._values(row)]

    def _values(self, row: tuple[Any, ...]) -> Iterator[Any]:
        for kind, value in zip(row[::2], row[1::2], strict=True):
            if value is None and kind != "null":
                self.left_out += 1
            yield self._decoded(value) if kind == "text" and value is not None else value

    def _decoded(self, data: bytes) -> Any:
        if self._codec:
            data = data.decode(self._codec, "replace").encode()
        return self._text(data)

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self._began = time.thread_time()
        found = []
        try:
            with in_words(), sqlite_memory.bounded(HEAP_BYTES):
                for row in self._db.execute(sql, tuple(values)):
                    lengths = (len(cell) if isinstance(cell, str | bytes) else 0 for cell in row)
                    self._room -= CELL_BYTES * len(row) + sum(lengths)
                    if self._room < 0:
                        raise TooLarge(f"it is larger than {self._limit >> 20} MB")
                    found.append(row)
        finally:
            self._spent += time.thread_time() - self._began
        return found

    def _is_late(self) -> bool:
        return self._spent + time.thread_time() - self._began > COMPUTING_S_MAX


def left_out(db: OpenTables) -> str:
    """Return the remark on a session of which values were left out."""
    values = "1 value" if db.left_out == 1 else f"{db.left_out} values"
    return f"{values} of more than {VALUE_BYTES_MAX >> 20} MB left out"


def _typed(column: str) -> str:
    """The type of a value and the value, a text as its bytes, because they may be no text; NULL for one too large."""
    return _typed_expression('t."' + column.replace('"', '""') + '"')


def _typed_expression(of: str) -> str:
    given = f"case typeof({of}) when 'text' then cast({of} as blob) else {of} end"
    return f"typeof({of}), case when octet_length({of}) > {VALUE_BYTES_MAX} then null else {given} end"


@contextmanager
def opened(
    copy: Path, text: Callable[[bytes], Any], *, only: frozenset[str] | None = None, limit: int | None = None
) -> Iterator[ForeignDatabase]:
    """A copy of a database, for reading. ``text`` makes values of bytes that were stored as text.

    ``only``: the tables that may be read, of which all may if it is None; ``limit``: else SESSION_BYTES_MAX. Raises
    UnreadableDatabase.
    """
    with in_words():
        _settle(copy)
        with _reading(str(copy), apsw.SQLITE_OPEN_READONLY, text, only, limit) as db:
            yield db


@contextmanager
def opened_in_place(
    database: Path, text: Callable[[bytes], Any], *, only: frozenset[str], limit: int | None = None
) -> Iterator[ForeignDatabase]:
    """A database that its program has open, for reading where it lies. Raises UnreadableDatabase.

    Its shared memory has to lie beside it: it is only read, too, so that no file is made or changed.
    """
    name = f"{database.absolute().as_uri()}?mode=ro&readonly_shm=1"
    with in_words(), _reading(name, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, text, only, limit) as db:
        yield db


@contextmanager
def _reading(
    name: str, flags: int, text: Callable[[bytes], Any], only: frozenset[str] | None, limit: int | None
) -> Iterator[ForeignDatabase]:
    db = apsw.Connection(name, flags=flags)
    try:
        _bind(db)
        if only is not None:
            db.authorizer = _of_these(only)
        db.execute("begin")
        yield ForeignDatabase(db, text, SESSION_BYTES_MAX if limit is None else limit)
    finally:
        db.close(True)


def _of_these(only: frozenset[str]) -> Callable[..., int]:
    """Refuse to read any table but these and the schema."""
    known = {*only, "sqlite_schema", "sqlite_master", "pragma_table_xinfo"}

    def is_allowed(action: int, table: str | None, *_: str | None) -> int:
        is_other = action == apsw.SQLITE_READ and table is not None and table.lower() not in known
        return apsw.SQLITE_DENY if is_other else apsw.SQLITE_OK

    return is_allowed


def _settle(copy: Path) -> None:
    """Undo in a copy what its journal says was never committed: a file that is only read cannot have one."""
    journal = copy.with_name(f"{copy.name}{JOURNAL}")
    try:
        with journal.open("rb") as file:
            first = file.read(len(JOURNAL_MAGIC))
            file.seek(max(0, journal.stat().st_size - len(JOURNAL_MAGIC)))
            asked = asks_for(first, file.read())
    except FileNotFoundError:
        return
    match asked:
        case Journal.ANOTHER_FILE:
            raise UnreadableDatabase("its journal names another file, so what was committed is unknown")
        case Journal.NOTHING:
            journal.unlink()
        case Journal.ROLLBACK:
            db = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                _bind(db)
                with sqlite_memory.bounded(HEAP_BYTES):
                    db.execute("pragma schema_version").fetchall()
            finally:
                db.close(True)


def _bind(db: apsw.Connection) -> None:
    """Let nothing that stands in a database do more than be read."""
    db.limit(apsw.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX + 1024 * 1024)
    db.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    db.execute("pragma trusted_schema = 0; pragma cell_size_check = 1")


@contextmanager
def in_words() -> Iterator[None]:
    """Raise errors of SQLite as UnreadableDatabase."""
    try:
        yield
    except apsw.InterruptError as late:
        raise UnreadableDatabase(f"to read it took longer than {COMPUTING_S_MAX:g} s") from late
    except (apsw.TooBigError, apsw.NoMemError, MemoryError) as refused:
        raise TooLarge(f"it needs more than {HEAP_BYTES >> 20} MB of memory to be read") from refused
    except apsw.Error as refused:
        # SQLite cites what stands in the file.
        raise UnreadableDatabase(f"{refused!s:.{WORDS_MAX}}") from refused
    except UnicodeError as refused:
        # Of a damaged schema even the words that say so may be no text.
        raise UnreadableDatabase("it is malformed") from refused
