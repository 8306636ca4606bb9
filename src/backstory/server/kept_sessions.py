"""Stores of single sessions, kept in files while they are read: made of frames, within a bound for each organisation.

A file is of one state of one session on one shelf; its name tells nothing. Whether that is still so is asked of the
database each time. One that is broken is made anew, and what is changed or removed is erased.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections import Counter
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from backstory.errors import BackstoryError, SessionNotFound
from backstory.server import one_session
from backstory.server.one_session import WholeSession, whole_session
from backstory.store.private import make_private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.server.database import TeamDatabase
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.workspace import Workspace

BYTES_MAX = 256 * 1024 * 1024
"""The most that is kept of one organisation, unless a setting says otherwise."""
BUILT_AT_ONCE = 2
WHOLE_EVENTS = 2_000
"""A session with more events is given by its last ones first: to make the whole takes longer than a person waits."""
LAST_EVENTS = 500
LAST = ".last"
A = TypeVar("A")


class KeptSessions:
    """The files. ``folder``: theirs alone; ``most``: their bytes for one organisation; ``now`` gives the time."""

    def __init__(
        self, database: TeamDatabase, folder: Path, most: int = BYTES_MAX,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:  # fmt: skip
        self._database, self._folder, self._most, self._now = database, folder, most, now
        self._building = threading.Semaphore(BUILT_AT_ONCE)
        self._locks, self._guard = dict[str, threading.Lock](), threading.Lock()
        self._users = Counter[str]()

    def begin(self) -> None:
        """Erase what an earlier server left: what was removed meanwhile is not known."""
        if self._folder.is_dir():
            shutil.rmtree(self._folder, ignore_errors=True)

    def ask(
        self, session: WholeSession, question: Callable[[Workspace, LocatedSession], A], last: int | None = None
    ) -> tuple[A, bool]:
        """Return the answer of a question to a session's store, and whether that has the whole session.

        ``last``: so many of the last events are enough. Raises SessionNotFound where it was changed or removed
        meanwhile, and what making the store raises.
        """
        path, whole = self._path(session), True
        if last is not None and last <= LAST_EVENTS and session.events > WHOLE_EVENTS and not path.exists():
            path, whole = path.with_suffix(LAST), False
        try:
            return self._asked(session, path, question, whole=whole), whole
        except BackstoryError:
            # It may be broken, or erased at this moment.
            path.unlink(missing_ok=True)
            return self._asked(session, path, question, whole=whole), whole

    def erase(self, tenant: int, person: int | None = None, uid: str | None = None) -> None:
        """Erase the files of a session, of a person, or of an organisation."""
        of = "" if person is None else f"{person:x}-" if uid is None else f"{person:x}-{_hashed(uid)}-"
        for each in self._of(tenant):
            if each.name.startswith(of):
                each.unlink(missing_ok=True)

    def _asked(
        self, session: WholeSession, path: Path, question: Callable[[Workspace, LocatedSession], A], *, whole: bool
    ) -> A:
        with self._alone(path):
            if not path.exists():
                self._build(session, path, whole=whole)
            with suppress(FileNotFoundError):
                os.utime(path)
        with one_session.opened(path, session.place.uid, self._ms) as (workspace, located):
            return question(workspace, located)

    def _build(self, session: WholeSession, path: Path, *, whole: bool) -> None:
        make_private_folder(path.parent)
        with self._building:
            with self._database.of(session.place.tenant) as rows:
                parts = one_session.frames_of(rows, session)
            if not parts:
                raise SessionNotFound(session.place.uid)
            one_session.build(parts, path, self._ms, None if whole else LAST_EVENTS)
        with self._database.of(session.place.tenant) as rows:
            still = whole_session(rows, session.place)
        if still != session:
            # Who changed or removed it erased what was there then.
            path.unlink(missing_ok=True)
            raise SessionNotFound(session.place.uid)
        self._shrink(session.place.tenant, path)

    def _shrink(self, tenant: int, newest: Path) -> None:
        """Erase what was read longest ago, until the rest is within the bound."""
        stats = dict[str, os.stat_result]()
        for each in self._of(tenant):
            with suppress(FileNotFoundError):
                stats[str(each)] = each.stat()
        size = sum(each.st_size for each in stats.values())
        for path, stat in sorted(stats.items(), key=lambda each: each[1].st_mtime_ns):
            if size <= self._most:
                return
            if path != str(newest):
                Path(path).unlink(missing_ok=True)
                size -= stat.st_size

    def _of(self, tenant: int) -> list[Path]:
        folder = self._folder / f"{tenant:x}"
        # What is being made is looked at again by who makes it.
        return [each for each in folder.iterdir() if each.suffix != ".part"] if folder.is_dir() else []

    def _path(self, session: WholeSession) -> Path:
        tenant, person, uid, machine = session.place
        state = f"{session.epoch}-{session.frames}-{session.chain.hex()[:16]}"
        name = f"{person:x}-{_hashed(uid)}-{_hashed(machine)}-{state}.db"
        return self._folder / f"{tenant:x}" / name

    @contextmanager
    def _alone(self, path: Path) -> Iterator[None]:
        """One at a time makes a file; who waits for it finds it."""
        key = str(path)
        with self._guard:
            self._users[key] += 1
            lock = self._locks.setdefault(key, threading.Lock())
        try:
            with lock:
                yield
        finally:
            with self._guard:
                self._users[key] -= 1
                if not self._users[key]:
                    del self._users[key], self._locks[key]

    def _ms(self) -> int:
        return int(self._now().timestamp() * 1_000)


def is_whole(located: LocatedSession) -> bool:
    """Return True if the store of a session has all of it, and not its last events alone."""
    return located.store.path.suffix != LAST


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
