"""Read-only SQL over one store: a person's or an agent's own questions, asked of views whose columns stay.

Each question gets a connection of its own that can only read: ``query_only``, and an authorizer that lets through
nothing but reading. It ends at a deadline, at a number of rows or bytes, or when it needs too much memory; what came
until then is given, and said to be cut off.
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
from msgspec import Struct

from backstory import errors, sqlite_memory
from backstory.ask import sql_functions
from backstory.ask.costs import price_table
from backstory.lazy import lazy_regex
from backstory.store import moves, schema
from backstory.store.file import connection, migrate
from backstory.store.intake.claims import CLAIMED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from backstory.ask.sql_functions import FullForm
    from backstory.ask.sql_scope import Guard, SqlScope

BYTES_MAX = 50_000_000
"""The most of an answer that is kept in memory, counted with CELL_BYTES for each value beside its own length."""
CELL_BYTES = 16
ROW_BYTES = 64
HEAP_BYTES = 128 * 1024 * 1024
"""Bytes that SQLite may use to answer, in addition to its earlier use."""
STEPS_BETWEEN_LOOKS = 5_000
"""The clock is looked at every so many steps of SQLite's machine: about every tenth of a millisecond."""
VALUE_BYTES_MAX = 16 * 1024 * 1024
LIMITS = {
    apsw.SQLITE_LIMIT_SQL_LENGTH: 1_000_000,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 250,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 250,
    apsw.SQLITE_LIMIT_COLUMN: 500,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 100,
    apsw.SQLITE_LIMIT_VDBE_OP: 1_000_000,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}

_READING = frozenset({apsw.SQLITE_READ, apsw.SQLITE_SELECT, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE})
_NEEDED_BY_INDEX = "data_version"
_DANGEROUS = frozenset(
    {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "sqlite_log", "rtreecheck"}
)
"""Functions that reach beyond the store."""
_UNBOUNDED = frozenset({"json_patch", "jsonb_patch"})
"""Functions whose time grows with the square of what they are given, where no clock is looked at."""
_CHANGING = frozenset({
    "alter", "analyze", "attach", "begin", "commit", "create", "delete", "detach", "drop", "end", "insert", "pragma",
    "reindex", "release", "replace", "rollback", "savepoint", "update", "vacuum",
})  # fmt: skip
_TOKEN = lazy_regex(
    r"""'[^']*(?:'|\Z)|"[^"]*(?:"|\Z)|`[^`]*(?:`|\Z)|\[[^\]]*(?:\]|\Z)"""
    r"""|--[^\n]*|/\*.*?(?:\*/|\Z)|;|[^'"`\[;/-]+|.""",
    re.DOTALL,
)
_VIEW = lazy_regex(r"^-- (\w+): (.+)\ncreate temp view \1\(\n(.*?)^\) as\n", re.MULTILINE | re.DOTALL)
_HERE = lazy_regex(r"\bhere\((.+?), s\.created\)")
_COLUMN = lazy_regex(r"^ +(\w+),? +-- (.+)$", re.MULTILINE)


class Answer(Struct, frozen=True, kw_only=True):
    """The answer to a question. ``stopped_by``: the limit that cut it off: ``rows``, ``bytes``, ``time``, or None."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    elapsed_ms: int
    stopped_by: str | None = None

    @property
    def truncated(self) -> bool:
        """True if there may be more rows."""
        return self.stopped_by is not None


class View(Struct, frozen=True):
    """A view: its name, what it holds, and its columns with what each means."""

    name: str
    meaning: str
    columns: dict[str, str]


FUNCTIONS = {
    "event_text(session_id, seq[, part])": "the words of an event, in the compact form",
    "event_json(session_id, seq[, part])": "the compact form of an event, as JSON",
    "event_full(session_id, seq[, part])": "the whole event, read from the log that is kept, as JSON",
}


@cache
def _views_sql() -> str:
    sql = Path(__file__).with_name("views.sql").read_text("utf-8")
    for name in ("FILE_ROWS", "SECTION_ROWS", "SECTIONS_MAX"):
        sql = sql.replace(name, str(getattr(schema, name)))
    return sql


def views() -> list[View]:
    """All that can be asked, with a word on each column."""
    return [View(name, said, dict(_COLUMN.findall(body))) for name, said, body in _VIEW.findall(_views_sql())]


def execute(
    path: Path,
    sql: str,
    *,
    limit: int,
    timeout_s: float,
    parameters: Sequence[Any] = (),
    full_form: FullForm | None = None,
    value_bytes_max: int = VALUE_BYTES_MAX,
    prices: Path | None = None,
    scope: SqlScope | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Answer:
    """The answer of the store at ``path`` to one reading statement; with a ``scope`` of its sessions alone.

    At most ``limit`` rows are given. With a higher ``value_bytes_max`` the first row is given however large it is. The
    clock is looked at between SQLite's steps, so one call of a function on a value of many megabytes can take some
    seconds longer than ``timeout_s``; once ``is_cancelled`` it ends as if the time was up. Raises SqlWrong,
    OnlyReading, SqlTooSlow, SqlTooBig, StoreOutdated, and what
    opening a store raises.
    """
    began = time.monotonic()
    _check_statement(sql)
    guard = _guard(scope, sql)
    db = _open(path, full_form, value_bytes_max, prices, guard)
    refused = _only_let_read(db, guard)
    rows: list[tuple[Any, ...]] = []
    columns: list[str] = []
    stopped_by = None
    try:
        heap_bytes = max(HEAP_BYTES, 4 * value_bytes_max)
        explained, bounded = _explained(refused, value_bytes_max, heap_bytes), sqlite_memory.bounded(heap_bytes)
        with _interrupted(db, began + timeout_s, is_cancelled), connection.translated(path), explained, bounded:
            gives_first = value_bytes_max > VALUE_BYTES_MAX
            stopped_by = _step(db, sql, parameters, limit, columns, rows, guard, gives_first=gives_first)
    except apsw.InterruptError as late:
        if not rows:
            raise errors.SqlTooSlow(timeout_s) from late
        stopped_by = "time"
    finally:
        db.close(True)
    elapsed_ms = round((time.monotonic() - began) * 1000)
    return Answer(columns=columns, rows=rows, elapsed_ms=elapsed_ms, stopped_by=stopped_by)


@contextmanager
def _interrupted(db: apsw.Connection, deadline: float, is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """Interrupt what a connection does once the clock (``time.monotonic``) is past the deadline, or on request."""
    db.set_progress_handler(lambda: is_cancelled() or time.monotonic() > deadline, STEPS_BETWEEN_LOOKS)
    # The index works through many pages in one of SQLite's steps, but reads each by a statement of its own.
    alarm = threading.Timer(max(0.0, deadline - time.monotonic()), db.interrupt)
    alarm.daemon = True
    alarm.start()
    try:
        yield
    finally:
        alarm.cancel()
        alarm.join()


def _step(
    db: apsw.Connection,
    sql: str,
    parameters: Sequence[Any],
    limit: int,
    columns: list[str],
    rows: list[tuple[Any, ...]],
    guard: Guard | None,
    *,
    gives_first: bool,
) -> str | None:
    """Fill in columns and rows; what stopped it, if anything did."""
    cursor = db.cursor()

    def note_columns(cursor: apsw.Cursor, _sql: str, _values: Any) -> bool:
        columns.extend(each[0] for each in cursor.get_description())
        if guard is not None:
            guard.is_asked = True
        return True

    # The columns of a statement without a row are known only here.
    cursor.exec_trace = note_columns
    room = BYTES_MAX
    for row in cursor.execute(sql, tuple(parameters) or None):
        if len(rows) >= limit:
            return "rows"
        room -= ROW_BYTES + sum(CELL_BYTES + (len(cell) if isinstance(cell, str | bytes) else 0) for cell in row)
        if room < 0 and (rows or not gives_first):
            return "bytes"
        rows.append(row)
    return None


def _check_statement(sql: str) -> None:
    """Raise SqlWrong unless this is one statement, OnlyReading for one that begins with a word that changes."""
    if "\0" in sql:
        raise errors.SqlWrong("it holds a NUL character")
    try:
        sql.encode()
    except UnicodeEncodeError as refused:
        raise errors.SqlWrong("it is not UTF-8 text") from refused
    first, is_over = "", False
    for token in _TOKEN.findall(sql):
        if token == ";":
            is_over = bool(first)
        elif token.strip() and not token.startswith(("--", "/*")):
            if is_over:
                raise errors.SqlWrong("there are several statements; give one at a time")
            first = first or token
    if not first:
        raise errors.SqlWrong("there is no statement in it")
    word = re.match(r"\w*", first.strip())
    if word and word.group().lower() in _CHANGING:
        raise errors.OnlyReading(word.group().upper())


def _guard(scope: SqlScope | None, sql: str) -> Guard | None:
    if scope is None:
        return None
    from backstory.ask.sql_scope import Guard, names_main  # few ask for less than all

    # SQLite reads a byte order mark as a space.
    tokens = _TOKEN.findall(sql.replace("\ufeff", " "))
    if names_main(token for token in tokens if not token.startswith(("--", "/*"))):
        raise errors.OnlyReading("main., which means the tables below the views,")
    return Guard(scope)


def _open(
    path: Path, full_form: FullForm | None, value_bytes_max: int, prices: Path | None, guard: Guard | None
) -> apsw.Connection:
    table = price_table(prices)
    db = connection.open_reader(path)
    try:
        with connection.translated(path):
            migrate.schema_version(db, path)
            if not migrate.is_current(db, path):
                raise errors.StoreOutdated(path)
            folders = moves.load(db, path)
            _make_views(db, guard, are_moved=bool(folders))
        if folders:
            sql_functions.register_folders(db, folders)
        sql_functions.register(db, full_form, value_bytes_max, table, guard)
        for which, most in (LIMITS | {apsw.SQLITE_LIMIT_LENGTH: value_bytes_max}).items():
            db.limit(which, most)
    except BaseException:
        db.close(True)
        raise
    return db


def _make_views(db: apsw.Connection, guard: Guard | None, *, are_moved: bool) -> None:
    # Below `query_only` not even a view of the connection's own can be made.
    db.execute("pragma query_only = 0")
    # Unqualified names would mean the views.
    claimed = re.sub(r"\b(from|join) (turns|sessions)\b", r"\1 main.\2", CLAIMED)
    helpers = (
        "create temp view claimed(id, shown) as select s.id, (select r.session_id from main.turns r "
        "join main.sessions o on o.id = r.session_id where r.native_id = s.native_id and o.owner is not null "
        "order by r.id limit 1) from main.sessions s "
        f"where exists (select 1 from main.sessions where owner is not null) and {claimed};"
        # The last thing that the model said or called in each turn: what the turn used is returned with it.
        "create temp view answers as select e.id, t.input_tokens, t.output_tokens, t.cache_read_tokens, "
        "t.cache_write_tokens, t.api_latency_ms from main.events e join main.turns t on t.id = e.turn_id "
        f"where e.kind in {schema.ANSWERS} and e.id = (select p.id from main.events p "
        "where p.session_id = t.session_id and p.turn_id = t.id and p.seq between t.first_seq and t.last_seq "
        f"and p.kind in {schema.ANSWERS} order by p.seq desc, p.part desc limit 1);"
    )
    db.execute(helpers)
    # Where no folder was moved the columns themselves are asked for, so that their indexes serve.
    views = _views_sql() if are_moved else _HERE.sub(r"\1", _views_sql())
    if guard is not None:
        guard.fill(db)
        views = guard.views(db, helpers, views)
    db.execute(views)
    db.execute("pragma query_only = 1")


def _only_let_read(db: apsw.Connection, guard: Guard | None) -> list[str]:
    """Refuse all but reading from now on; the list holds what was refused."""
    refused: list[str] = []

    def authorize(action: int, first: str | None, second: str | None, schema: str | None, by: str | None) -> int:
        is_guarded = guard is not None and action == apsw.SQLITE_READ
        if guard is not None and is_guarded and not guard.may_read(first or "", second or "", schema, by):
            refused.append(f"reading {first}, which is none of the views,")
            return apsw.SQLITE_DENY
        if action == apsw.SQLITE_FUNCTION and (second or "").lower() in _DANGEROUS | _UNBOUNDED:
            refused.append(f"the function {second}")
            return apsw.SQLITE_DENY
        if action in _READING or (action == apsw.SQLITE_PRAGMA and first == _NEEDED_BY_INDEX):
            return apsw.SQLITE_OK
        name = apsw.mapping_authorizer_function[action]
        refused.append(str(name).removeprefix("SQLITE_").replace("_", " "))
        return apsw.SQLITE_DENY

    db.authorizer = authorize
    return refused


@contextmanager
def _explained(refused: list[str], value_bytes_max: int, heap_bytes: int) -> Iterator[None]:
    """SQLite's words on a statement as ours."""
    try:
        yield
    except (apsw.AuthError, apsw.ReadOnlyError) as failed:
        raise errors.OnlyReading(refused[0] if refused else None) from failed
    except (apsw.TooBigError, apsw.NoMemError, MemoryError) as failed:
        raise errors.SqlTooBig(value_bytes_max, heap_bytes) from failed
    except apsw.BindingsError as failed:
        raise errors.SqlWrong(str(failed)) from failed
    except UnicodeDecodeError as failed:
        raise errors.SqlWrong("a text in the answer is not UTF-8; ask for hex(…) of it") from failed
    except apsw.SQLError as failed:
        # What is said of a view that a statement would change comes before the authorizer is asked.
        if refused or "because it is a view" in str(failed):
            raise errors.OnlyReading(refused[0] if refused else None) from failed
        raise errors.SqlWrong(str(failed)) from failed
