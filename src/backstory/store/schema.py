"""The tables and columns of ``schema.sql`` and ``derived.sql``; rows of statements with types; lists for SQL."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

from backstory import model
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import apsw

    from backstory.model import Event


_FOLDER = Path(__file__).parent
_SQL_COMMENT = lazy_regex(r"--[^\n]*")
_RUNNING_ID = lazy_regex(r"last_native_id\s+text generated always as \((\w+)\) virtual")
_TABLE = lazy_regex(r"^create (virtual )?table (?:if not exists )?(\w+)(.*?)\n\)([^\n]*);$", re.MULTILINE | re.DOTALL)
_COLUMN = lazy_regex(r"^  (\w+)\s+(integer|text|real|blob)\b((?:(?!--).)*)(?:-- ([^:\n]*))?", re.MULTILINE)
KEPT, LOCAL, DERIVED, DECIDED = "kept", "local", "derived", "decided"
"""The kinds of columns: see the head of ``schema.sql``."""
FATES = frozenset({KEPT, LOCAL, DERIVED, DECIDED})


class Table(NamedTuple):
    """A table as it is declared: its name, and what is between its brackets."""

    name: str
    body: str
    is_virtual: bool
    has_rowid: bool


class Column(NamedTuple):
    """A column as it is declared."""

    name: str
    kind: str
    """integer, text, real or blob."""
    is_required: bool
    """It is never NULL."""
    fate: str
    """One of FATES; "" where nothing says it."""
    is_plain: bool | None
    """Its text is given to others as it is, or masked; None where nothing says it."""
    is_computed: bool
    """It is worked out from others when it is read."""


@cache
def texts() -> tuple[str, str]:
    """Return the SQL of our tables: those that are kept, and those that are derived."""
    kept, derived = ((_FOLDER / name).read_text("utf-8") for name in ("schema.sql", "derived.sql"))
    return kept, derived


@cache
def sources() -> tuple[str, ...]:
    """The statements that make our tables, without comments."""
    return tuple(_SQL_COMMENT.sub("", text) for text in texts())


@cache
def running_id_column() -> str:
    """The column of ``sessions`` for the native id of a run whose output is not stored yet.

    ``last_native_id`` reads it, and cannot be written. Its own name is older than that, and stands in ``schema.sql``.
    """
    found = _RUNNING_ID.search(sources()[0])
    assert found is not None
    return found.group(1)


@cache
def tables() -> tuple[Table, ...]:
    """Every table that the statements make."""
    return tuple(
        Table(name, body, bool(virtual), "without rowid" not in how)
        for sql in sources()
        for virtual, name, body, how in _TABLE.findall(sql)
    )


@cache
def columns() -> dict[str, tuple[Column, ...]]:
    """The columns of each table that holds rows of its own, but for those that are worked out from others."""
    return {table: tuple(each for each in found if not each.is_computed) for table, found in _declared().items()}


@cache
def _declared() -> dict[str, tuple[Column, ...]]:
    return {
        table: tuple(_column(*found, fate=fate) for found in _COLUMN.findall(body))
        for text, fate in zip(texts(), ("", DERIVED), strict=True)
        for virtual, table, body, _ in _TABLE.findall(text)
        if not virtual
    }


def _column(name: str, kind: str, how: str, said: str, *, fate: str) -> Column:
    is_required = "not null" in how or "primary key" in how
    words = said.split()
    if fate:
        # What is derived is masked unless its column says otherwise: a forgotten mark hides too much, never too little.
        is_plain: bool | None = words[:1] == ["plain"]
    else:
        fate = words[0] if words and words[0] in FATES else ""
        is_plain = {"plain": True, "masked": False}.get(words[1]) if len(words) > 1 else None
    return Column(name, kind, is_required, fate, is_plain, "generated always" in how)


@cache
def names(table: str, *fates: str) -> tuple[str, ...]:
    """The columns of a table that are one of these, in their order."""
    return tuple(each.name for each in columns()[table] if each.fate in fates)


@cache
def plain_texts(table: str) -> frozenset[str]:
    """The columns whose text is given to others as it is; every other text is masked, also one that nothing marks."""
    return frozenset(each.name for each in _declared().get(table, ()) if each.is_plain)


# rows of the search index ---------------------------------------------------------------------------------------------


FILE_ROWS = -(1 << 40)
"""The row of a file's text is so many below 0, and its sidecar's id further; rows of summaries lie above."""
SECTION_ROWS = -(1 << 41)
"""The rows of a checkpoint's sections, likewise: its id times SECTIONS_MAX, and the number of the section."""
SECTIONS_MAX = 8
SECTIONS = "json_each('[0,1,2,3,4,5]')"
SUMMARY_ROWS = "select -id from compactions where session_id = ?1"
OTHER_ROWS = (
    f"{SUMMARY_ROWS} union all "
    f"select {FILE_ROWS} - sidecar_id from side_texts where session_id = ?1 and event_id is null union all "
    f"select {SECTION_ROWS} - c.id * {SECTIONS_MAX} - n.value from checkpoints c, {SECTIONS} n "
    "where c.session_id = ?1"
)
"""The rows of a session that are not events': of its summaries, its files, the sections of its checkpoints."""
SUMMARY_IS_THERE = "exists (select 1 from compactions where id = -c.id and undone = 0)"
IS_THERE = (
    f"case when c.id > {FILE_ROWS} then {SUMMARY_IS_THERE} "
    f"when c.id > {SECTION_ROWS} then exists (select 1 from side_texts where sidecar_id = {FILE_ROWS} - c.id "
    "and event_id is null) "
    f"else exists (select 1 from checkpoints where id = ({SECTION_ROWS} - c.id) / {SECTIONS_MAX}) end"
)
"""The condition that what a row ``c`` below 0 is of is there."""


HAS_PRUNED = "select exists (select 1 from pruned)"
"""True in a store with a session that was pruned in part. Hardly any has one, and the others pay for no more."""


# rows with types ------------------------------------------------------------------------------------------------------


R = TypeVar("R")


def fetch(db: apsw.Connection, shape: type[R], sql: str, values: Sequence[Any] = ()) -> list[R]:
    """Every row of a statement in this shape."""
    return _shaped(shape, db.execute(sql, values).fetchall())


def fetch_by(db: apsw.Connection, shape: type[R], sql: str, values: Sequence[Any] = ()) -> dict[int, list[R]]:
    """The rows of a statement by their first column, an id; what is behind that in this shape."""
    rows: list[Any] = db.execute(sql, values).fetchall()
    found: dict[int, list[R]] = {}
    for (key, *_), each in zip(rows, _shaped(shape, [row[1:] for row in rows]), strict=True):
        found.setdefault(key, []).append(each)
    return found


def fetch_one(db: apsw.Connection, shape: type[R], sql: str, values: Sequence[Any] = ()) -> R | None:
    """The first row of a statement in this shape; None when there is none."""
    row = db.execute(sql, values).fetchone()
    return None if row is None else _shaped(shape, [row])[0]


def _shaped(shape: type[R], found: list[Any]) -> list[R]:
    """The rows in this shape; raises ValueError or TypeError where they have more columns or fewer."""
    if not found:
        return found
    if get_origin(shape) is tuple:
        # All rows of a statement have the same number of columns.
        if len(found[0]) != len(get_args(shape)):
            raise ValueError(f"{len(get_args(shape))} columns were expected, not {len(found[0])}")
        return found
    # By name and not by place, and strict: a query that lost a column fails in the first test that asks it.
    if issubclass(shape, Struct):
        fields = shape.__struct_fields__
        return [shape(**dict(zip(fields, row, strict=True))) for row in found]
    return [shape(*row) for row in found]


# lists for SQL --------------------------------------------------------------------------------------------------------


def sql_list(kinds: Iterable[type[Event]]) -> str:
    """Kinds as the right side of an ``in``.

    >>> sql_list([model.Plan, model.Error])
    "('Plan', 'Error')"
    """
    return "(" + ", ".join(f"'{each.kind}'" for each in kinds) + ")"


def json_list(values: Iterable[int | str]) -> str:
    """Values as one parameter, which ``json_each`` takes apart.

    >>> json_list([1, 2])
    '[1,2]'
    """
    return msgspec.json.encode(list(values)).decode()


CONTENT = sql_list(model.CONTENT_KINDS)
MESSAGES = sql_list(model.MESSAGE_KINDS)
TEXTS = sql_list(model.TEXT_KINDS)
ANSWERS = sql_list(model.ANSWER_KINDS)
FROM_MODEL = sql_list(model.MODEL_KINDS)
TOOLS = sql_list(model.TOOL_KINDS)
CALLS = sql_list([model.ToolCall])
READ = sql_list(model.READ_KINDS)
