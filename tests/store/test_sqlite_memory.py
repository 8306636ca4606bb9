"""The memory of SQLite while questions of others are answered."""

from __future__ import annotations

import apsw

from backstory.sqlite_memory import bounded


def test_questions_at_once_share_the_limit_of_the_first_and_leave_none() -> None:
    before = apsw.hard_heap_limit(-1)
    with bounded(10_000_000):
        limit = apsw.hard_heap_limit(-1)
        assert limit >= 10_000_000
        with bounded(99_000_000):
            assert apsw.hard_heap_limit(-1) == limit
        assert apsw.hard_heap_limit(-1) == limit
    assert apsw.hard_heap_limit(-1) == before
