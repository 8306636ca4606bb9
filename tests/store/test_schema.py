"""Each column says what copies and readers of it may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import pytest

from backstory.store import schema

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXTS = schema.texts()


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    for each in (schema.sources, schema.tables, schema.columns, schema._declared, schema.names, schema.plain_texts):
        each.cache_clear()


def _columns() -> dict[str, dict[str, str]]:
    """The columns as SQLite knows them, with their types."""
    db = apsw.Connection(":memory:")
    for text in _TEXTS:
        db.execute(text)
    return {
        table: {str(row[1]): str(row[2]) for row in db.execute(f"pragma table_xinfo({table})") if row[6] != 1}
        for table in schema.columns()
    }


def test_every_column_says_how_copies_of_its_row_treat_it() -> None:
    said = {table: {each.name: each.fate for each in found} for table, found in schema._declared().items()}
    assert {table: set(found) for table, found in said.items()} == {
        table: set(found) for table, found in _columns().items()
    }
    assert [
        (table, name) for table, found in said.items() for name, fate in found.items() if fate not in schema.FATES
    ] == []


def test_every_text_that_is_kept_says_whether_secrets_in_it_are_masked() -> None:
    undecided = [
        (table, each.name)
        for table, found in schema._declared().items()
        for each in found
        if each.fate != schema.DERIVED and each.kind == "text" and each.is_plain is None
    ]
    assert undecided == []


def test_a_column_that_says_nothing_is_in_no_copy_and_its_text_is_masked(patched: pytest.MonkeyPatch) -> None:
    kept, derived = _TEXTS
    marked = "  prompt             text not null"
    assert kept.count(marked) == 1
    patched.setattr(schema, "texts", lambda: (kept.replace(marked, f"  said text,    -- of nobody\n{marked}"), derived))
    _forget()
    (said,) = (each for each in schema.columns()["turns"] if each.name == "said")
    assert (said.fate, said.is_plain) == ("", None)
    assert "said" not in schema.names("turns", *schema.FATES)
    assert "said" not in schema.plain_texts("turns")
