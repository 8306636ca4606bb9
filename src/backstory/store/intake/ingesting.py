"""Changes of a whole store while logs are put into it: a lot at once, and links between their turns."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from backstory import errors
from backstory.lazy import lazy_module
from backstory.store.database import BULK_CRISIS_MERGE, is_scattered, reset_index, set_index
from backstory.store.file.maintenance import keep_wal_short, merge_index

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

    from backstory.store.database import Database
    from backstory.store.intake import retold, written
    from backstory.store.tables import lineage, titles
else:
    lineage = lazy_module("backstory.store.tables.lineage")
    retold = lazy_module("backstory.store.intake.retold")
    titles = lazy_module("backstory.store.tables.titles")
    written = lazy_module("backstory.store.intake.written")

BULK_HASH_BYTES = 32 * 1024 * 1024
BULK_WAL_PAGES = 8_192
WAL_PAGES = 1_000
WAL_PART = 4
FREE_SHARE = 50
"""One page in so many may be free when an ingest is done."""


def link_retold(store: Database) -> int:
    """Link turns that another program retold to those of the agents' own logs; returns how many are linked now."""
    found = store.ask_or(None, retold.links)
    if found is None:
        return 0
    store.change(retold.link, found)
    return len(found.turns)


def settle_written(store: Database) -> None:
    """Link turns of logs that we wrote for agents to those that they were written of, as far as these are here."""
    while not store.ask_or(True, written.is_settled):
        store.change(lambda db: lineage.link_copies(db, written.settle(db)))


@contextmanager
def bulk(store: Database, *, is_bulk: bool = True, is_rewriting: bool = False) -> Iterator[None]:
    """A block in which logs are written: a lot, with ``begin_bulk`` before it and ``end_bulk`` behind it, or not.

    ``is_rewriting``: what is there is written anew, so the WAL is kept short beside the file. If the block fails the
    index gets its settings back, and is merged by those who write next.
    """
    if is_bulk:
        begin_bulk(store, store.ask(_part_of_pages) if is_rewriting else BULK_WAL_PAGES)
    try:
        yield
        if store.ask_or(False, titles.are_due):
            store.change(titles.assign)
        if is_bulk and is_rewriting:
            keep_wal_short(store)
        if is_bulk:
            end_bulk(store)
        elif store.has_written and store.ask(_has_many_free_pages):
            store.give_pages_back()
    except BaseException:
        # Where even that fails, opening the store again does it.
        with suppress(errors.BackstoryError):
            if is_bulk:
                _leave_bulk(store)
        raise


def begin_bulk(store: Database, wal_pages: int = BULK_WAL_PAGES) -> None:
    """Put off merging the index, and emptying the WAL, while a lot is written; ``end_bulk`` does both once."""
    store.write(lambda db: set_index(db, automerge=0, crisismerge=BULK_CRISIS_MERGE, hashsize=BULK_HASH_BYTES))
    store.writer().wal_autocheckpoint(wal_pages)


def end_bulk(store: Database) -> None:
    """Give the index its settings back, and the free pages; an index in many segments is merged first."""
    if store.ask(is_scattered):
        merge_index(store)
    _leave_bulk(store)
    store.give_pages_back()


def _leave_bulk(store: Database) -> None:
    store.writer().wal_autocheckpoint(WAL_PAGES)
    store.write(reset_index)


def _part_of_pages(db: apsw.Connection) -> int:
    """The pages of a WAL that is short beside its file."""
    return max(WAL_PAGES, min(int(db.pragma("page_count")) // WAL_PART, BULK_WAL_PAGES))


def _has_many_free_pages(db: apsw.Connection) -> bool:
    """Return True if enough of the file is free, as after merging the index, to be worth giving back."""
    return int(db.pragma("freelist_count")) * FREE_SHARE > int(db.pragma("page_count"))
