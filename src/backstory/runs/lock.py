"""The lock on a session, whose holder may write it; and the owner's row, which says who that is on which machine."""

from __future__ import annotations

import fcntl
import os
import threading
from typing import TYPE_CHECKING

from backstory.errors import BackstoryError, SessionElsewhere
from backstory.store.moves import refuse_if_moved
from backstory.store.private import as_ours, make_private_folder
from backstory.store.tables.queue import HEARTBEAT_S, Queue, QueueOwner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backstory.store import Store


LOCKS = "locks"
"""The folder below BACKSTORY_HOME with the locks on sessions."""
LOCK_S = 2.0
"""The longest wait for a session's lock."""
POLL_S = 0.025
"""The time between two looks at what is waited for."""


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


# who runs a session ---------------------------------------------------------------------------------------------------


class SessionLease:
    """The right to run a session, while it is held. ``queue`` is the session's store's.

    A queue that cannot be used does not prevent a run: ``trouble`` is what is wrong with it.
    """

    def __init__(
        self,
        home: Path,
        store: Store,
        session_uid: str,
        now: Callable[[], int],
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.queue = Queue(store.path, report)
        self.session_uid = session_uid
        self.trouble: BackstoryError | None = None
        self._lock = SessionLock(home / LOCKS, session_uid)
        self._path, self._now = store.path, now
        self._owner = QueueOwner(session_uid=session_uid, pid=os.getpid(), host=host(), started=now(), heartbeat=now())
        self._beating: threading.Thread | None = None
        self._over = threading.Event()

    @property
    def holder(self) -> str:
        """The holder of the lock, as it named itself."""
        return self._lock.holder

    def take(self) -> bool:
        """Take the lock; False if another process of this machine holds it. Raises SessionElsewhere, CannotWrite."""
        if not self._lock.take():
            return False
        try:
            known = self.queue.owner(self.session_uid)
        except BackstoryError as refused:
            self.trouble, known = refused, None
        # A row of this machine proves nothing: its process would hold the lock.
        if known is not None and known.host != self._owner.host and known.is_fresh(self._now()):
            self._lock.release()
            raise SessionElsewhere(self.session_uid, known.pid, known.host)
        return True

    def show_owner(self) -> None:
        """Write the owner's row, and again every five seconds. Raises SessionElsewhere."""
        if self._beating is not None or self.trouble is not None:
            return
        try:
            other = self.queue.own(self._owner)
        except BackstoryError as refused:
            self.trouble = refused
            return
        if other is not None:
            raise SessionElsewhere(self.session_uid, other.pid, other.host)
        self._beating = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._beating.start()

    def _beat(self) -> None:
        # A connection is used by one thread. What cannot be written now is written five seconds later.
        with Queue(self._path, patience_s=0.0) as queue:
            while not self._over.wait(HEARTBEAT_S):
                try:
                    queue.own(_heard_of(self._owner, self._now()))
                except BackstoryError:
                    # A disk that is full now may not be later; the lock is what counts.
                    continue

    def release(self) -> None:
        """Release the session, the row first: whoever finds the lock free finds no owner."""
        self._over.set()
        if self._beating is not None:
            self._beating.join()
            self._beating = None
            try:
                self.queue.disown(self._owner)
            except BackstoryError as refused:
                self.trouble = refused
        self.queue.close()
        self._lock.release()
        self._over = threading.Event()


def _heard_of(owner: QueueOwner, now: int) -> QueueOwner:
    return QueueOwner(
        session_uid=owner.session_uid, pid=owner.pid, host=owner.host, started=owner.started, heartbeat=now
    )


def host() -> str:
    """Return the name of this machine."""
    return os.uname().nodename


def is_held(home: Path, session_uid: str) -> bool:
    """Return True if a process of this machine runs a session just now."""
    return SessionLock(home / LOCKS, session_uid).is_held
