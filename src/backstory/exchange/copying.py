"""Rows copied from one session to another, of this store or of one attached to it. Never commits.

Which columns a copy has is what ``schema.sql`` says of them, so a new one is copied wherever sessions are.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from backstory.store import schema

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import apsw

_FileVersion = tuple[str, int, int]
_known: WeakKeyDictionary[apsw.Connection, tuple[_FileVersion, dict[str, frozenset[str]]]] = WeakKeyDictionary()
"""The columns of the store that was copied from last, by table: every session asks for them again."""


def names(table: str, but: Collection[str] = ()) -> tuple[str, ...]:
    """The columns that every copy of a row has: those that are kept, and what people decided.

    Where the whole table is derived, all but its own key.
    """
    found = schema.names(table, schema.KEPT, schema.DECIDED) or schema.names(table, schema.DERIVED)
    return tuple(each for each in found if each not in but and each != "id")


def facts(table: str, but: Collection[str] = ()) -> tuple[str, ...]:
    """The columns of what is so, whatever people decided."""
    return tuple(each for each in schema.names(table, schema.KEPT) if each not in but)


def copy_rows(
    db: apsw.Connection, source: str, table: str, where: str, instead: Mapping[str, str], values: Mapping[str, Any]
) -> None:
    """Insert copies of rows, see ``statement``. ``values``: its parameters."""
    db.execute(statement(db, source, table, where, instead), dict(values))


def statement(db: apsw.Connection, source: str, table: str, where: str, instead: Mapping[str, str]) -> str:
    """SQL that inserts copies of the rows of ``source`` for which a condition holds; in it ``o`` is the row.

    ``instead``: SQL over that row, for the columns that are other ones here, keys among them. A column that the other
    store does not have yet has its default.
    """
    there = _columns_there(db, source, table)
    copied = {**{name: name for name in names(table) if name in there}, **instead}
    return (
        f"insert into main.{table}({', '.join(copied)}) select {', '.join(copied.values())} from {source}.{table} o "
        f"where {where}"
    )


def _columns_there(db: apsw.Connection, source: str, table: str) -> frozenset[str]:
    """The columns that a table has in ``source``; none if it is not there."""
    path = db.db_filename(source)
    # Another file may be attached under the same name, or lie at the same path.
    version = path, Path(path).stat().st_ino if path else 0, int(db.pragma("schema_version", schema=source))
    known = _known.get(db)
    if known is None or known[0] != version:
        known = _known[db] = version, {}
    columns = known[1]
    if table not in columns:
        asked = db.execute("select name from pragma_table_info(?, ?)", (table, source))
        columns[table] = frozenset(str(name) for (name,) in asked)
    return columns[table]
