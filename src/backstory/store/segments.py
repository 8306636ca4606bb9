"""The segments of the search index: when they are merged, and how much of them at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backstory.store import (
    connection,
)

if TYPE_CHECKING:
    import apsw


BULK_CRISIS_MERGE = 500
"""The most segments of the index that are merged at once even while that is put off: FTS5 has room for 2,000 in all."""


SEGMENTS_MAX = 1_500
"""An index with more segments is merged before anything is written: merging takes room itself."""


SEARCHED_SEGMENTS = 32
"""An index in no more segments than these is searched well; later writers merge them as they go."""


MERGE_PAGES = 2_000
"""The index is merged in steps of so many pages, so that no other writer waits for long."""


MERGE_STEPS_MAX = 10_000


def set_index(db: apsw.Connection, **settings: int) -> None:
    for name, value in settings.items():
        db.execute("insert into search_index(search_index, rank) values (?, ?)", (name, value))


def merge_index(db: apsw.Connection, *, is_first: bool) -> bool:
    """One step of merging; whether there is more to do. A negative number of pages begins anew with all segments."""
    before = db.total_changes()
    set_index(db, merge=-MERGE_PAGES if is_first else MERGE_PAGES)
    return db.total_changes() - before > 1


def merge_whole(db: apsw.Connection, path: Path) -> None:
    """Merge the index into one segment, in short transactions."""
    for step in range(MERGE_STEPS_MAX):
        with connection.writing(db, path):
            is_more = merge_index(db, is_first=step == 0)
        if not is_more:
            break


def has_too_many_segments(db: apsw.Connection) -> bool:
    # The numbers of segments are given anew from the lowest, so that a low one answers without counting.
    if (db.execute("select max(segid) from search_index_idx").get or 0) <= SEGMENTS_MAX:
        return False
    return bool(db.execute("select count(distinct segid) > ? from search_index_idx", (SEGMENTS_MAX,)).get)


def is_in_bulk(db: apsw.Connection) -> bool:
    """Return True if the index has the settings of a bulk load: one goes on, or was killed."""
    return bool(db.execute("select count(*) from search_index_config where k = 'automerge' and v = 0").get)


def needs_care(db: apsw.Connection) -> bool:
    """Return True if who opens the store to write gives the index its settings back, or merges it, first."""
    return is_in_bulk(db) or has_too_many_segments(db)


def is_scattered(db: apsw.Connection) -> bool:
    """Return True if a search looks into so many segments that merging them is worth its time."""
    return bool(db.execute("select count(distinct segid) > ? from search_index_idx", (SEARCHED_SEGMENTS,)).get)


def reset_index(db: apsw.Connection) -> None:
    set_index(db, automerge=4, crisismerge=16, hashsize=1024 * 1024)
