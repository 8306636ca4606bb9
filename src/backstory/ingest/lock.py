"""The lock of an ingest into the home store, for processes that ingest only if no other process does.

It is a lock on the home folder itself, so that no file is left behind, and the kernel releases it when its holder dies.
Processes that follow the logs hold a second, shared lock all the time.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from backstory.store.moves import refuse_if_moved
from backstory.store.private import as_ours, make_private_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


WATCHING = "watching"
"""The file of the shared lock, in the folder of all locks."""


@contextmanager
def watch_lock(locks: Path) -> Iterator[None]:
    """Hold the shared lock of log followers while the block runs. Raises HomeWasMoved, HomeIsMoving, CannotWrite."""
    make_private_folder(locks)
    try:
        file = os.open(locks / WATCHING, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as refused:
        raise as_ours(locks / WATCHING, refused) from refused
    try:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # Asked while the lock is held: who moves the home leaves its mark first and looks for locks then, so one of the
        # two sees the other.
        refuse_if_moved(locks.parent)
        yield
    finally:
        os.close(file)


@contextmanager
def ingest_lock(home: Path) -> Iterator[bool]:
    """Hold the lock while the block runs, if it is free; gives True if it was. Does not wait for it."""
    try:
        folder = os.open(home, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        is_ours = False
        # Some file systems know no lock on a folder.
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = True
        yield is_ours
    finally:
        os.close(folder)
