"""Rows with types: what a statement selects, by position, as tuples or as values of a class.

A shape is ``tuple[int, str | None]``, a NamedTuple, or a Struct whose fields are in the order of the columns. It is
checked that a row has as many columns as its shape; which types they hold is what ``schema.sql`` promises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import apsw

R = TypeVar("R")


def fetch(db: apsw.Connection, shape: type[R], sql: str, values: Sequence[Any] = ()) -> list[R]:
    """Every row of a statement in this shape."""
    found = db.execute(sql, values).fetchall()
    if not found:
        return []
    make = _maker(shape)
    return [make(row) for row in found]


def fetch_one(db: apsw.Connection, shape: type[R], sql: str, values: Sequence[Any] = ()) -> R | None:
    """The first row of a statement in this shape; None when there is none."""
    row = db.execute(sql, values).fetchone()
    return None if row is None else _maker(shape)(row)


def _maker(shape: type[R]) -> Callable[[Any], R]:
    """What makes a value of this shape of a row; it raises ValueError or TypeError where their lengths differ."""
    if get_origin(shape) is tuple:
        return _checked(len(get_args(shape)))
    if issubclass(shape, Struct):
        fields = shape.__struct_fields__
        return lambda row: shape(**dict(zip(fields, row, strict=True)))
    return lambda row: shape(*row)


def _checked(columns: int) -> Callable[[Any], Any]:
    def as_it_is(row: tuple[object, ...]) -> object:
        if len(row) != columns:
            raise ValueError(f"{columns} columns were expected, not {len(row)}")
        return row

    return as_it_is
