"""Who runs a session: the lock, and the owner's row with its heartbeat.

A lock of the operating system is the right to write a session: it is released at once when its holder dies, and a
holder that is merely slow or stopped keeps it. The row beside it names the holder to people and to other machines.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from backstory.errors import BackstoryError, SessionElsewhere
from backstory.runs.lock import LOCKS, SessionLock
from backstory.store.queue import HEARTBEAT_S, Owner, Queue

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backstory.store import Store


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
        self._owner = Owner(session_uid=session_uid, pid=os.getpid(), host=host(), started=now(), heartbeat=now())
        self._beating: threading.Thread | None = None
        self._over = threading.Event()

    @property
    def holder(self) -> str:
        """Who holds the lock, as they wrote it."""
        return self._lock.holder

    def take(self) -> bool:
        """Take the lock; False if another process of this machine holds it. Raises SessionElsewhere, CannotWrite."""
        if not self._lock.take():
            return False
        try:
            known = self.queue.owner(self.session_uid)
        except BackstoryError as refused:
            self.trouble, known = refused, None
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


def _heard_of(owner: Owner, now: int) -> Owner:
    return Owner(session_uid=owner.session_uid, pid=owner.pid, host=owner.host, started=owner.started, heartbeat=now)


def host() -> str:
    """What this machine is called."""
    return os.uname().nodename


def is_held(home: Path, session_uid: str) -> bool:
    """Return True if a process of this machine runs a session just now."""
    return SessionLock(home / LOCKS, session_uid).is_held
