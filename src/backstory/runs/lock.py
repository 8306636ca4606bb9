"""The lock on a session: its holder may write the session; checking it blocks nobody."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from backstory.errors import BackstoryError
from backstory.store.moved_home import refuse_if_moved
from backstory.store.private import as_ours, make_private_folder

if TYPE_CHECKING:
    from pathlib import Path

LOCKS = "locks"
"""The folder below BACKSTORY_HOME with the locks on sessions."""


class SessionLock:
    """The right to write a session: the kernel releases it when its holder dies."""

    def __init__(self, locks: Path, session_uid: str) -> None:
        self._path = locks / session_uid
        self._file: int | None = None

    def take(self) -> bool:
        """Take the lock; False if somebody else has it. Raises HomeWasMoved, HomeIsMoving."""
        make_private_folder(self._path.parent)
        try:
            file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as refused:
            raise as_ours(self._path, refused) from refused
        if not _is_taken_for_us(file):
            os.close(file)
            return False
        try:
            # Who moves the home asks first which locks are taken; so this is asked once this one is.
            refuse_if_moved(self._path.parent.parent)
        except BackstoryError:
            os.close(file)
            raise
        holder = f"process {os.getpid()} on {os.uname().nodename}".encode()
        # Some file systems flush a file that is truncated and rewritten, which takes as long as a sync.
        os.pwrite(file, holder, 0)
        os.ftruncate(file, len(holder))
        self._file = file
        return True

    @property
    def is_held(self) -> bool:
        """True if another process has the lock now."""
        try:
            file = os.open(self._path, os.O_RDONLY)
        except OSError:
            return False
        try:
            return not _may_share(file)
        finally:
            os.close(file)

    @property
    def holder(self) -> str:
        """The holder of the lock, as it wrote itself."""
        try:
            return self._path.read_text("utf-8") or "another process"
        except OSError:
            return "another process"

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def taken_locks(locks: Path) -> list[str]:
    """The names of the locks in a folder that processes hold, alone or together."""
    return [path.name for path in sorted(locks.iterdir()) if is_taken(path)] if locks.is_dir() else []


def is_taken(path: Path) -> bool:
    """Return True if processes hold the lock on a file or folder, alone or together."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # A file system without locks.
        return False
    finally:
        os.close(file)
    return False


def _is_taken_for_us(file: int) -> bool:
    """Take a lock. A process that only checks it holds it for an instant, and is ignored."""
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if not _may_share(file):
                return False
            fcntl.flock(file, fcntl.LOCK_UN)
        else:
            return True


def _may_share(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
