"""Erasing of removed content from the file too: from free pages, from gaps in pages, from the index, from the WAL.

``secure_delete`` overwrites what a statement deletes, but not the copies of it that SQLite left behind whenever it
rebuilt a page, and the index keeps the words of deleted rows until it is merged. So whoever removes a session merges
the index, writes the file anew, and empties the WAL. A mark in ``meta`` says that nothing is left to erase: a store
begun by an earlier version lacks it, and so does one whose erasing was cut off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory import errors
from backstory.store.file import connection

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import apsw

MARK = "erased"
BUSY_TRIES_MAX = 10
"""The most attempts at a file that others use, ``connection.BUSY_TIMEOUT_MS`` each."""


def is_due(db: apsw.Connection) -> bool:
    """Return True if the file may hold something that was removed."""
    return not db.execute("select count(*) from meta where key = ?", (MARK,)).get


def note_removal(db: apsw.Connection) -> None:
    """Note that something was removed, in the transaction that removes it: a crash must not hide what is left."""
    db.execute("delete from meta where key = ?", (MARK,))


def note_done(db: apsw.Connection) -> None:
    """Note that nothing is left to erase."""
    db.execute("insert or replace into meta(key, value) values (?, '1')", (MARK,))


def patiently(path: Path, step: Callable[[], None]) -> None:
    """Do a step of erasing, though others use the file; raises NotErased when they do not end, or the disk is full."""
    # Each try waits SQLite's own time-out, so this is half a minute.
    for _ in range(BUSY_TRIES_MAX):
        try:
            step()
            return
        except errors.StoreBusy:
            continue
        except errors.DiskFull as refused:
            raise errors.NotErased(path, "the disk, or the folder for temporary files, is full") from refused
    raise errors.NotErased(path, "another process goes on using it")


def rewrite(db: apsw.Connection, path: Path) -> None:
    """Write the file anew, from what it holds."""
    with connection.translated(path):
        db.execute("vacuum")


def empty_wal(db: apsw.Connection, path: Path) -> None:
    """Move what is in the WAL into the file, and cut it off; raises StoreBusy while somebody reads what was before."""
    with connection.translated(path):
        # The first column says that a reader was in the way; SQLite then cuts nothing off and raises nothing.
        if db.pragma("journal_mode") == "wal" and db.execute("pragma wal_checkpoint(truncate)").fetchall()[0][0]:
            raise errors.StoreBusy(path)
