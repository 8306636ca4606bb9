"""Rows with types."""

from __future__ import annotations

from typing import NamedTuple

import apsw
import pytest
from msgspec import Struct

from backstory.store.schema import fetch, fetch_one

TWO = "select 1 as number, 'one' as word union all select 2, null order by 1"


class Pair(NamedTuple):
    number: int
    word: str | None


class Named(Struct, frozen=True, kw_only=True):
    number: int
    word: str | None


@pytest.fixture
def db() -> apsw.Connection:
    return apsw.Connection(":memory:")


def test_rows_are_tuples(db: apsw.Connection) -> None:
    assert fetch(db, tuple[int, str | None], TWO) == [(1, "one"), (2, None)]


def test_rows_are_values_of_a_class(db: apsw.Connection) -> None:
    assert [each.word for each in fetch(db, Pair, TWO)] == ["one", None]
    assert fetch(db, Named, TWO) == [Named(number=1, word="one"), Named(number=2, word=None)]


def test_one_row_is_the_first_or_none(db: apsw.Connection) -> None:
    assert fetch_one(db, Pair, TWO) == Pair(1, "one")
    assert fetch_one(db, Pair, "select 1, 'x' where ? = 2", (1,)) is None
    assert fetch(db, Pair, "select 1, 'x' where ? = 2", (1,)) == []


def test_values_are_bound(db: apsw.Connection) -> None:
    assert fetch(db, tuple[str], "select ?", ("it's",)) == [("it's",)]


@pytest.mark.parametrize("sql", ["select 1", "select 1, 'one', 2"])
@pytest.mark.parametrize("shape", [tuple[int, str | None], Pair, Named])
def test_a_row_of_another_length_is_refused(db: apsw.Connection, shape: type[object], sql: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        fetch(db, shape, sql)
    with pytest.raises((TypeError, ValueError)):
        fetch_one(db, shape, sql)
