"""What ``schema.sql`` and ``derived.sql`` say, for those who ask it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from backstory.lazy import lazy_regex

_FOLDER = Path(__file__).parent
_COMMENT = lazy_regex(r"--[^\n]*")
_RUNNING_ID = lazy_regex(r"last_native_id\s+text generated always as \((\w+)\) virtual")
_TABLE = lazy_regex(r"^create (virtual )?table (?:if not exists )?(\w+)(.*?)\n\)([^\n]*);$", re.MULTILINE | re.DOTALL)
_COLUMN = lazy_regex(r"^  (\w+)\s+(integer|text|real|blob)\b((?:(?!--).)*)(?:-- ([^:\n]*))?", re.MULTILINE)
KEPT, LOCAL, DERIVED, DECIDED = "kept", "local", "derived", "decided"
"""What a column is: see the head of ``schema.sql``."""
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
    """What makes our tables: those of what is kept, and those of what is derived."""
    kept, derived = ((_FOLDER / name).read_text("utf-8") for name in ("schema.sql", "derived.sql"))
    return kept, derived


@cache
def sources() -> tuple[str, ...]:
    """The statements that make our tables, without comments."""
    return tuple(_COMMENT.sub("", text) for text in texts())


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
