"""The memory of SQLite while questions of others are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from backstory.sqlite_memory import bounded, share_pages

if TYPE_CHECKING:
    from pathlib import Path


def test_questions_at_once_share_the_limit_of_the_first_and_leave_none() -> None:
    before = apsw.hard_heap_limit(-1)
    with bounded(10_000_000):
        limit = apsw.hard_heap_limit(-1)
        assert limit >= 10_000_000
        with bounded(99_000_000):
            assert apsw.hard_heap_limit(-1) == limit
        assert apsw.hard_heap_limit(-1) == limit
    assert apsw.hard_heap_limit(-1) == before


def test_connections_share_the_room_for_pages(tmp_path: Path) -> None:
    path, before = str(tmp_path / "large.db"), apsw.soft_heap_limit(-1)
    with apsw.Connection(path) as db:
        db.execute("create table large(data)")
        db.executemany("insert into large values (zeroblob(?))", [(3_000,)] * 1_300)
    db.close()
    used = apsw.memory_used()
    share_pages(used + 1_000_000)
    try:
        connections = [apsw.Connection(path) for _ in range(4)]
        for each in connections:
            each.execute("pragma cache_size = -16000").fetchall()
            assert each.execute("select count(*) from large where hex(data) > ''").get == 1_300
        assert apsw.memory_used() - used < 4_000_000
    finally:
        share_pages(before)
    for each in connections:
        each.close()
