"""What ``schema.sql`` and ``derived.sql`` say, for those who ask it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from backstory.lazy_regex import lazy_regex

_FOLDER = Path(__file__).parent
_COMMENT = lazy_regex(r"--[^\n]*")
_RUNNING_ID = lazy_regex(r"last_native_id\s+text generated always as \((\w+)\) virtual")
_TABLE = lazy_regex(r"^create (virtual )?table (?:if not exists )?(\w+)(.*?)\n\)([^\n]*);$", re.MULTILINE | re.DOTALL)
_COLUMN = lazy_regex(r"^  (\w+)\s+(integer|text|real|blob)\b(?! generated)(.*)$", re.MULTILINE)


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


@cache
def sources() -> tuple[str, ...]:
    """The statements that make our tables, without comments."""
    return tuple(_COMMENT.sub("", (_FOLDER / name).read_text("utf-8")) for name in ("schema.sql", "derived.sql"))


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
    return {
        table.name: tuple(
            Column(name, kind, "not null" in rest or "primary key" in rest)
            for name, kind, rest in _COLUMN.findall(table.body)
        )
        for table in tables()
        if not table.is_virtual
    }
