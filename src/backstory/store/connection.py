"""Opening a store, and every way that can go wrong, said in a sentence.

Readers open read-write with ``query_only`` so that SQLite can finish what a crash interrupted and take its
side files away again; only in a folder that cannot be written is the file opened read-only.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from backstory import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

APPLICATION_ID = 0x626B7374  # "bkst"
BUSY_TIMEOUT_MS = 3_000
PAGE_SIZE = 8192
CACHE_KIB = 16 * 1024
SQLITE_HEADER = b"SQLite format 3\0"


def exists(path: Path) -> bool:
    """Whether a store lies at ``path``; an empty file is one that was never finished."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def open_reader(path: Path) -> apsw.Connection:
    """A connection that changes nothing; raises StoreNotFound, NotAStore and what ``translated`` raises."""
    if not exists(path):
        raise errors.StoreNotFound(path)
    _check_header(path)
    with translated(path):
        if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
            db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        else:
            # A WAL store in a folder that cannot be written can only be read as one that nobody changes.
            quiet = not path.with_name(path.name + "-wal").exists()
            name = f"file:{_quoted(path)}?immutable=1" if quiet else f"file:{_quoted(path)}"
            db = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        _prepare(db)
        db.execute("pragma query_only = 1")
        _check_application(db, path)
    return db


def open_writer(path: Path, *, shared: bool) -> apsw.Connection:
    """A connection that may change an existing store, or begin one in a file that is missing or empty.

    ``shared`` chooses the journal of a store that is begun: WAL for the machine's own, which other programs
    read while it grows; a rollback journal for one that must be a single file whenever nobody writes.
    """
    if exists(path):
        _check_header(path)
    else:
        _begin_file(path)
    with translated(path):
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        _prepare(db)
        if db.pragma("page_count") == 0:
            db.execute(f"pragma page_size = {PAGE_SIZE}; pragma auto_vacuum = incremental")
            db.execute(f"pragma journal_mode = {'wal' if shared else 'delete'}")
        else:
            _check_application(db, path)
        be_durable(db, always=False)
    return db


def be_durable(db: apsw.Connection, *, always: bool) -> None:
    """Choose how hard a commit is pushed to the disk.

    A rollback journal is always synced with its folder (EXTRA). The WAL of the home store needs that only
    for what people decided (``always``): the rest can be read from the logs again.
    """
    wal = db.pragma("journal_mode") == "wal"
    db.execute(f"pragma synchronous = {('full' if always else 'normal') if wal else 'extra'}")
    if sys.platform == "darwin":
        db.execute("pragma fullfsync = 1")


@contextmanager
def writing(db: apsw.Connection, path: Path) -> Iterator[apsw.Connection]:
    """One transaction: all of the block, or nothing of it."""
    with translated(path):
        db.execute("begin immediate")
        try:
            yield db
            db.execute("commit")
        except BaseException:
            if db.in_transaction:
                db.execute("rollback")
            raise


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as refused:
        raise errors.StoreBusy(path) from refused
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as refused:
        raise errors.StoreReadOnly(path) from refused
    except apsw.FullError as refused:
        raise errors.DiskFull(path) from refused
    except apsw.NotADBError as refused:
        raise errors.NotAStore(path, "SQLite cannot read it") from refused
    except apsw.CorruptError as refused:
        raise errors.StoreDamaged(path, str(refused)) from refused
    except apsw.IOError as refused:
        raise errors.StoreFailed(path, str(refused)) from refused


def _begin_file(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as refused:
        if isinstance(refused, PermissionError) or refused.errno == 30:  # EROFS
            raise errors.StoreReadOnly(path) from refused
        if refused.errno == 28:  # ENOSPC
            raise errors.DiskFull(path) from refused
        raise errors.StoreFailed(path, refused.strerror or str(refused)) from refused


def _prepare(db: apsw.Connection) -> None:
    # The timeout comes first: even reading a pragma needs a lock.
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    db.execute(f"pragma foreign_keys = 1; pragma cache_size = -{CACHE_KIB}")


def _check_header(path: Path) -> None:
    try:
        with path.open("rb") as file:
            header = file.read(len(SQLITE_HEADER))
    except PermissionError as refused:
        raise errors.StoreReadOnly(path) from refused
    except OSError as refused:
        raise errors.NotAStore(path, refused.strerror or str(refused)) from refused
    if header != SQLITE_HEADER:
        raise errors.NotAStore(path, "it is no SQLite file")


def _check_application(db: apsw.Connection, path: Path) -> None:
    if db.pragma("application_id") != APPLICATION_ID:
        db.close()
        raise errors.NotAStore(path, "another program's database")


def _quoted(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path))
