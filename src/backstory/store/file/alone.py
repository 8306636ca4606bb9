"""A database as one file that nobody else has open, and whether that file is whole."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import apsw

from backstory.store.file import connection
from backstory.store.file.verify import pages

if TYPE_CHECKING:
    from pathlib import Path


def settle_alone(path: Path) -> None:
    """Put what SQLite keeps beside a database into its file, on the disk; the file alone is the database then.

    What belongs to no transaction is undone. Raises StoreBusy while another process has it open, and what
    ``connection.translated`` raises.
    """
    with connection.translated(path), closing(_opened(path)) as db:
        # Only who has a WAL for himself may end it: that moves its pages, and tells that nobody reads or writes.
        if db.pragma("journal_mode") == "wal":
            db.execute("pragma journal_mode = delete")
        db.execute("begin exclusive; commit")
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def problems(path: Path) -> list[str]:
    """Return the problems that SQLite finds in the pages of a database that nobody else has open."""
    with connection.translated(path), closing(_opened(path)) as db:
        return pages(db)


def _opened(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    db.set_busy_timeout(connection.BUSY_TIMEOUT_MS)
    return db
