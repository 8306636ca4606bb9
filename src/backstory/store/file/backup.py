"""The store as one new file: all of it as it was at one moment, or no file; or as one file that nobody else has open.

``VACUUM INTO`` reads in one transaction, so nobody who writes beside it begins it anew, and copies only what the store
holds: no free pages, and so nothing that was removed.
"""

from __future__ import annotations

import os
import secrets
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import apsw

from backstory import errors
from backstory.store.file import connection, migrate
from backstory.store.private import make_folder, publish, sync

if TYPE_CHECKING:
    from pathlib import Path

RANDOM_BYTES = 8
STEPS_BETWEEN_LOOKS = 100_000
"""Steps of SQLite between two looks for Ctrl-C."""


def write(path: Path, target: Path) -> int:
    """Copy the store at ``path`` into a new file; returns its size in bytes.

    The file gets its name when it is whole and on the disk. What is cut off before has a name of its own kind, which
    says that it is a part.
    """
    if os.path.lexists(target):
        raise errors.FileInTheWay(target)
    db = connection.open_reader(path)
    part = target.with_name(f".backstory-{secrets.token_hex(RANDOM_BYTES)}.part")
    try:
        with connection.translated(path):
            migrate.schema_version(db, path)
        try:
            make_folder(part.parent)
        except OSError as refused:
            raise errors.CannotWrite(target, refused.strerror or str(refused)) from refused
        try:
            _begin(part)
            _copy(db, path, part, target)
            sync(part)
            publish(part, target)
            sync(target.parent)
        except FileExistsError as refused:
            raise errors.FileInTheWay(target) from refused
        except OSError as refused:
            raise errors.CannotWrite(target, refused.strerror or str(refused)) from refused
    finally:
        db.close()
        for ending in ("", "-journal"):
            with suppress(OSError):
                part.with_name(part.name + ending).unlink()
    return target.stat().st_size


def _begin(part: Path) -> None:
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _copy(db: apsw.Connection, path: Path, part: Path, target: Path) -> None:
    # Being called now and then is what lets Python hear a signal in a statement of many seconds.
    db.set_progress_handler(lambda: False, STEPS_BETWEEN_LOOKS)
    with connection.translated(path):
        # It is the copy that is written: the store stays as it is.
        db.execute("pragma query_only = 0")
        try:
            db.execute("vacuum into ?", (str(part),))
        except apsw.FullError as refused:
            raise errors.DiskFull(target) from refused


def settle(path: Path) -> None:
    """Put what SQLite keeps beside a database into its file, on the disk; the file alone is the database then.

    What belongs to no transaction is undone. Raises StoreBusy while another process has it open, and what
    ``connection.translated`` raises.
    """
    with connection.translated(path), closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
        db.set_busy_timeout(connection.BUSY_TIMEOUT_MS)
        # Only who has a WAL for himself may end it: that moves its pages, and tells that nobody reads or writes.
        if db.pragma("journal_mode") == "wal":
            db.execute("pragma journal_mode = delete")
        db.execute("begin exclusive; commit")
    sync(path)
