"""Values that their column cannot hold as ours are made: of one session, or of what belongs to no session.

SQLite keeps any value in any column, and text of any bytes. So the rows of a store that somebody else may have written
are asked for what ``schema.sql`` declares: the kind, UTF-8, a range, a length. Reads only.
"""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import apsw

from backstory import ids
from backstory.bounds import INTEGER_MAX, LINE_BYTES_MAX, NUMBER_MAX
from backstory.model import AssistantText, ToolCall, ToolResult
from backstory.store import schema
from backstory.store.codec import UNPACKED_BYTES_MAX
from backstory.store.schema import fetch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.store.schema import Column

ROWS_MAX = 20
"""The most rows of a table that are named."""
NS_MAX = 9 * 10**18
"""The latest time of a file, ns since 1970: in the year 2255."""

_LOGS = "log_id in (select id from logs where session_id = ?1)"
_TURNS = "turn_id in (select id from turns where session_id = ?1)"
_OF_SESSION = {
    "sessions": "id = ?1",
    **dict.fromkeys(
        (
            "logs", "turns", "events", "branches", "compactions", "session_files", "session_refs", "session_branches",
            "checkpoints", "lent_titles", "list_keys", "session_values", "side_texts",
        ),
        "session_id = ?1",
    ),
    **dict.fromkeys(("chunks", "numbers", "sidecars", "record_ids", "summaries"), _LOGS),
    **dict.fromkeys(("turn_texts", "written_turns"), _TURNS),
    "file_touches": "file_id in (select id from session_files where session_id = ?1)",
    "call_results": "call_id in (select id from events where session_id = ?1)",
    "summary_leaves": "piece in (select id from record_ids where " + _LOGS + ")",
}  # fmt: skip
"""The tables with rows of sessions, and which of them are one's."""
_LINKS = ("session_id", "log_id", "turn_id", "file_id", "call_id", "piece")
"""The columns by which a row is a session's, one in each of these tables."""
_ANY = ("key", "device", "inode")
"""Numbers of the system, and hashes: all 64 bits of them."""
_COUNTS = ("_tokens", "_ms", "_chars", "_window", "_limit", "char_len", "size")
"""The last parts of names of columns that hold an agent's counts: it may count as far as it likes."""
_MEANT = {"integer": "an integer in range", "real": "an amount", "text": "text that can be kept", "blob": "bytes"}
_PACKED = ("events", "data")
"""Text in old stores, a blob since."""
_MOST_EVENTS = " and ".join(f"kind <> '{each.kind}'" for each in (ToolCall, ToolResult, AssistantText))
"""No event of the kinds that most are of: a word is sooner compared than looked through."""
_NO_WORD = "({0} glob '*[^A-Za-z]*' or octet_length({0}) <> length({0}))"
"""Text of more than letters: the length ends at a NUL."""
_TEXTS = {
    "events": f"data < x'' or {_MOST_EVENTS} and {_NO_WORD.format('kind')}",
    "file_touches": f"to_path is not null or {_NO_WORD.format('action')}",
}
"""The rows whose text must be decoded to be checked, in tables where most have none."""
_UID = f"octet_length(uid) = {ids.UID_LENGTH} and length(uid) = {ids.UID_LENGTH} and uid not glob '*[^{ids.ALPHABET}]*'"
"""The condition that a uid is as ours are made: see ``foreign.is_uid``."""


def of_session(db: apsw.Connection, session_id: int, *, is_bounded: bool) -> Iterator[str]:
    """Name what is wrong with the rows of a session.

    ``is_bounded``: text is no longer than a line of an export, and no number larger than one has there.
    """
    there = _there(db)
    for table in schema.tables():
        if table.name in _OF_SESSION:
            rows = _Rows(table.name, _OF_SESSION[table.name], there)
            yield from _wrong(db, rows, (session_id,), is_bounded=is_bounded)


def of_no_session(db: apsw.Connection, *, is_bounded: bool, are_others_whole: bool = False) -> Iterator[str]:
    """Name what is wrong with rows that belong to no session, or do not say to which.

    ``are_others_whole``: those of every session are known to be, so they say to which.
    """
    there = _there(db)
    for table in schema.tables():
        rows = _Rows(table.name, "true", there)
        if table.name in _OF_SESSION:
            if are_others_whole:
                continue
            # A row with a link of another kind would belong to no session, and so be checked with none.
            yield from _of_wrong_kind(db, rows, (), is_bounded=True, only=_LINKS)
        elif not table.is_virtual:
            yield from _wrong(db, rows, (), is_bounded=is_bounded)


def are_whole(db: apsw.Connection, *, is_bounded: bool) -> bool:
    """Return True if all rows of all sessions are right, and each turn has a uid: faster than asking for each."""
    there = _there(db)
    rows = (_Rows(each.name, "true", there) for each in schema.tables() if each.name in _OF_SESSION)
    return all(_are_whole(db, each, (), is_bounded=is_bounded) for each in rows if each.columns) and not (
        db.execute(f"select exists (select 1 from turns where not ({_UID}))").get
    )


_columns: WeakKeyDictionary[apsw.Connection, tuple[int, frozenset[tuple[str, str]]]] = WeakKeyDictionary()
"""The columns that were found last, with the version of the schema that had them: asked for again for each session."""


def _there(db: apsw.Connection) -> frozenset[tuple[str, str]]:
    """The columns of a store, each with its table: one of an earlier version lacks some until it is written."""
    version, known = fetch(db, tuple[int], "pragma schema_version")[0][0], _columns.get(db)
    if known is None or known[0] != version:
        asked = "select asked.value, info.name from json_each(?) asked, pragma_table_info(asked.value, 'main') info"
        found = frozenset(fetch(db, tuple[str, str], asked, (schema.json_list(schema.columns()),)))
        known = _columns[db] = version, found
    return known[1]


class _Rows(NamedTuple):
    """Rows of a table: which, as a condition."""

    table: str
    holding: str
    there: frozenset[tuple[str, str]]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that the table has in this store."""
        return tuple(each for each in schema.columns()[self.table] if (self.table, each.name) in self.there)

    @property
    def names(self) -> str:
        """The column that says which row one is, where there is one."""
        return "rowid" if next(each for each in schema.tables() if each.name == self.table).has_rowid else "null"

    def place(self, row: int | None) -> str:
        """Name a row for a person."""
        return self.table if row is None else f"{self.table} row {row}"


def _wrong(db: apsw.Connection, rows: _Rows, of: tuple[int, ...], *, is_bounded: bool) -> Iterator[str]:
    if rows.columns and not _are_whole(db, rows, of, is_bounded=is_bounded):
        problems = list(_of_wrong_kind(db, rows, of, is_bounded=is_bounded))
        yield from problems
        # A text that is too long is not read.
        if not problems or not is_bounded:
            yield from _no_text(db, rows, of)


def _are_whole(db: apsw.Connection, rows: _Rows, of: tuple[int, ...], *, is_bounded: bool) -> bool:
    """Return True if every value of some rows is what its column holds, asked in one statement."""
    try:
        # A cursor of SQLite's own, which puts nothing in the place of what it cannot read.
        return all(map(itemgetter(0), apsw.Cursor(db).execute(_whole_sql(rows, is_bounded=is_bounded), of)))
    except UnicodeDecodeError:
        return False


@cache
def _whole_sql(rows: _Rows, *, is_bounded: bool) -> str:
    """Rows of which each begins with whether its values fit, and has the texts to be decoded behind that."""
    columns = rows.columns
    fit = _all_fit(rows.table, columns, is_bounded=is_bounded)
    texts = [f", {_text(each.name)}" for each in columns if each.kind == "text"]
    # Rows whose text is plain letters are judged inside SQLite; to bring them to Python is what takes time.
    wanted = _TEXTS.get(rows.table, "true" if texts else "false")
    return f"select {fit}{''.join(texts)} from {rows.table} where {rows.holding} and ({wanted} or not ({fit}))"


def _all_fit(table: str, columns: tuple[Column, ...], *, is_bounded: bool) -> str:
    """The condition that all values of a row fit, short for the many rows that do."""
    # Their sum is tested once instead of the type of each: a store has millions of rows of mostly numbers.
    numbers = [each for each in columns if each.kind == "integer" and _most(each, is_bounded=True) == NUMBER_MAX]
    kept = [each.name if each.is_required else f"ifnull({each.name}, 0)" for each in numbers]
    within = [f"+{each} between {-NUMBER_MAX} and {NUMBER_MAX}" for each in kept]
    # Text is larger than every number, and a sum with a fraction in it is no integer.
    within += [f"typeof({' + '.join(kept)}) = 'integer'"] * bool(kept)
    others = (each for each in columns if each not in numbers)
    return " and ".join([*within, *(f"({_fits(table, each, is_bounded=is_bounded)})" for each in others)])


def _text(name: str) -> str:
    """A text as it is to be decoded; nothing where it is none that could be kept, which is found out apart."""
    return f"iif(typeof({name}) = 'text' and octet_length({name}) <= {UNPACKED_BYTES_MAX}, {name}, null)"


def _of_wrong_kind(
    db: apsw.Connection, rows: _Rows, of: tuple[int, ...], *, is_bounded: bool, only: tuple[str, ...] = ()
) -> Iterator[str]:
    """Name rows with a value of another kind than their column says, or out of its range."""
    if not rows.columns:
        return
    sql = _kinds_sql(rows, is_bounded=is_bounded, only=only)
    for row, problem in fetch(db, tuple[int | None, str], sql, of):
        yield f"{rows.place(row)}: {problem}"


@cache
def _kinds_sql(rows: _Rows, *, is_bounded: bool, only: tuple[str, ...]) -> str:
    columns = [each for each in rows.columns if not only or each.name in only]
    tests = [(each.name, _fits(rows.table, each, is_bounded=is_bounded), _MEANT[each.kind]) for each in columns]
    which = " ".join(f"when not ({test}) then '{name} is not {meant}'" for name, test, meant in tests)
    odd = " and ".join(f"({test})" for _, test, _ in tests) or "true"
    return (
        f"select {rows.names}, case {which or 'when false then null'} end from {rows.table} where {rows.holding} "
        f"and not ({odd}) limit {ROWS_MAX}"
    )


def _fits(table: str, column: Column, *, is_bounded: bool) -> str:
    """The condition under which a value is what its column holds; never NULL itself."""
    name, kind = column.name, column.kind
    match kind:
        case "integer":
            most = _most(column, is_bounded=is_bounded)
            fits = f"typeof({name}) = 'integer' and {name} between {-most} and {most}"
        case "real":
            fits = f"typeof({name}) in ('real', 'integer') and {name} between 0 and {float(INTEGER_MAX)}"
        case "text":
            # Text comes behind every number, and a blob behind every text.
            fits = f"{name} >= ''" if (table, name) == _PACKED else f"typeof({name}) = 'text'"
            fits += f" and octet_length({name}) <= {LINE_BYTES_MAX}" * is_bounded
        case _:
            fits = f"typeof({name}) = 'blob'" + (f" and octet_length({name}) <= {UNPACKED_BYTES_MAX}" * is_bounded)
    return fits if column.is_required else f"{name} is null or ({fits})"


def _most(column: Column, *, is_bounded: bool) -> int:
    name = column.name
    # Agents' counts are kept as they came in a store of our own; only what another store may hold is bounded.
    if name in _ANY or (not is_bounded and name.endswith(_COUNTS)):
        return INTEGER_MAX
    return NS_MAX if name.endswith("_ns") else NUMBER_MAX


def _no_text(db: apsw.Connection, rows: _Rows, of: tuple[int, ...]) -> Iterator[str]:
    """Name rows with text that is not UTF-8."""
    texts = [each.name for each in rows.columns if each.kind == "text"]
    wanted = "".join(f", iif(typeof({name}) = 'text', cast({name} as blob), null)" for name in texts)
    named = 0
    for row, *found in db.execute(f"select {rows.names}{wanted} from {rows.table} where {rows.holding}", of):
        for name, value in zip(texts, found, strict=True):
            if value is not None and not _is_utf8(value):
                yield f"{rows.place(row)}: {name} is not UTF-8 text"
                named += 1
        if named >= ROWS_MAX:
            return


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
