"""A store of somebody else copied aside, with its queue: it is never opened where it lies, and so never changed.

A copy counts only if nothing was written meanwhile. What SQLite kept of a transaction that was cut off comes with it.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from backstory import errors
from backstory.store.file import connection
from backstory.store.private import as_ours
from backstory.store.tables.queue import path_beside

if TYPE_CHECKING:
    from pathlib import Path

NAME = "other.bks"
COPY_BYTES = 1024 * 1024
COPIES_MAX = 5
"""The most copies of a store that is written meanwhile."""
JOURNALS = ("", "-journal", "-wal")
SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a journal that names another file, which SQLite would delete."""
_FROM = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
Stamp = tuple[int, int, int]


def copy_aside(path: Path, folder: Path) -> Path:
    """Copy a store, and the queue beside it, into a folder of ours; returns where the copy lies.

    Raises StoreNotFound, NotAStore, StoreBusy, DiskFull, CannotWrite.
    """
    if not connection.exists(path):
        raise errors.StoreNotFound(path)
    connection.check_header(path)
    target = folder / NAME
    _copy_whole(path, target)
    if path_beside(path).exists():
        _copy_whole(path_beside(path), path_beside(target))
    return target


def _copy_whole(path: Path, target: Path) -> None:
    """Copy a database with its journals as they are at one moment."""
    for _ in range(COPIES_MAX):
        before = _stamps(path)
        for ending in JOURNALS:
            target.with_name(target.name + ending).unlink(missing_ok=True)
        try:
            for ending, (_, _, size) in before.items():
                _copy(path.with_name(path.name + ending), target.with_name(target.name + ending), size)
        except FileNotFoundError:
            continue
        if _stamps(path) == before:
            _check_journal(path, target)
            return
    raise errors.StoreBusy(path)


def _stamps(path: Path) -> dict[str, Stamp]:
    found = dict[str, Stamp]()
    for ending in JOURNALS:
        try:
            status = path.with_name(path.name + ending).stat()
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(status.st_mode):
            raise errors.NotAStore(path, "it is no regular file")
        found[ending] = status.st_ino, status.st_mtime_ns, status.st_size
    return found


def _copy(source: Path, target: Path, size: int) -> None:
    """Copy the first ``size`` bytes of a file, for us alone."""
    try:
        opened = os.open(source, _FROM)
    except PermissionError as refused:
        raise errors.NotAStore(source, "it may not be read") from refused
    with os.fdopen(opened, "rb") as file:
        try:
            with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
                while size > 0 and (data := file.read(min(size, COPY_BYTES))):
                    copy.write(data)
                    size -= len(data)
        except OSError as refused:
            raise as_ours(target, refused) from refused


def _check_journal(path: Path, target: Path) -> None:
    journal = target.with_name(target.name + "-journal")
    if journal.exists():
        with journal.open("rb") as file:
            file.seek(max(journal.stat().st_size - len(SUPER_JOURNAL), 0))
            if file.read() == SUPER_JOURNAL:
                raise errors.NotAStore(path, "its journal names another file")
