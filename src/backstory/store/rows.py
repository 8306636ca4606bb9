"""Rows with types: what a statement selects, by position, as tuples or as values of a class.

A shape is ``tuple[int, str | None]``, a NamedTuple, or a Struct whose fields are in the order of the columns. It is
checked that a row has as many columns as its shape; which types they hold is what ``schema.sql`` promises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

R = TypeVar("R")


def fetch(db: apsw.Connection, shape: type[R], sql: str, values: Sequence[Any] = ()) -> list[R]:
    """Every row of a statement in this shape."""
    return _shaped(shape, db.execute(sql, values).fetchall())


def fetch_one(db: apsw.Connection, shape: type[R], sql: str, values: Sequence[Any] = ()) -> R | None:
    """The first row of a statement in this shape; None when there is none."""
    row = db.execute(sql, values).fetchone()
    return None if row is None else _shaped(shape, [row])[0]


def _shaped(shape: type[R], found: list[Any]) -> list[R]:
    """The rows in this shape; raises ValueError or TypeError where they have more columns or fewer."""
    if get_origin(shape) is tuple:
        # All rows of a statement have the same number of columns.
        if found and len(found[0]) != len(get_args(shape)):
            raise ValueError(f"{len(get_args(shape))} columns were expected, not {len(found[0])}")
        return found
    if issubclass(shape, Struct):
        fields = shape.__struct_fields__
        return [shape(**dict(zip(fields, row, strict=True))) for row in found]
    return [shape(*row) for row in found]
