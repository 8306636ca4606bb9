"""What ``schema.sql`` and ``derived.sql`` say, for those who ask it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from backstory.lazy_regex import lazy_regex

_FOLDER = Path(__file__).parent
_COMMENT = lazy_regex(r"--[^\n]*")
_RUNNING_ID = lazy_regex(r"last_native_id\s+text generated always as \((\w+)\) virtual")


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
