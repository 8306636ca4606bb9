"""Our file. ``Store``: each method is one transaction and one call; the SQL lives in the modules beside it.

>>> store = open_store("/tmp/project/.backstory/sessions.bks")   # doctest: +SKIP
>>> session = store.create_session("Fix the build")              # doctest: +SKIP
>>> store.append_events(session, [UserMessage(content="hi")])    # doctest: +SKIP
"""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.model import Complete
from backstory.store import sessions
from backstory.store.branches import Named, TreePosition, TreeTurn
from backstory.store.database import id_of
from backstory.store.events import StoredEvent
from backstory.store.merging import Merging
from backstory.store.sessions import Session, Workplace

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    import apsw

    from backstory.model import Event
    from backstory.store import orphans
    from backstory.store.append import Written
    from backstory.store.batches import RecordBatch
    from backstory.store.logs import FileStamp, Log
    from backstory.store.orphans import Orphan
    from backstory.store.own_log import OwnLog
    from backstory.store.replicate import Taken
    from backstory.store.runs import RunStart
    from backstory.store.search import SearchResult
    from backstory.store.session_filter import Filter
    from backstory.store.verify import Verified


__all__ = [
    "FileStamp",
    "Filter",
    "Log",
    "Named",
    "Orphan",
    "RecordBatch",
    "RunStart",
    "SearchResult",
    "Session",
    "Store",
    "StoredEvent",
    "Taken",
    "TreePosition",
    "TreeTurn",
    "Verified",
    "Workplace",
    "Written",
    "cleanup_orphans",
    "open_store",
]  # fmt: skip

PROJECT_STORE = Path(".backstory") / "sessions.bks"


_HOMES = {
    "FileStamp": "logs", "Filter": "session_filter", "Log": "logs", "Orphan": "orphans", "RecordBatch": "batches",
    "RunStart": "runs", "SearchResult": "search", "Taken": "replicate", "Verified": "verify", "Written": "append",
}  # fmt: skip
"""Names whose modules most commands do not need, imported when they are asked for."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def open_store(
    path: str | os.PathLike[str] | None = None,
    *,
    shared: bool = False,
    now: Callable[[], int] | None = None,
    randomness: Callable[[int], bytes] = os.urandom,
) -> Store:
    """The store at ``path`` (None: ``.backstory/sessions.bks`` below the current folder).

    Nothing is created or opened yet: the file appears with the first session. ``shared`` is for the
    machine's own store, which many programs read while it grows. ``now`` gives ms since 1970.
    """
    return Store(Path(path) if path is not None else PROJECT_STORE, shared=shared, now=now, randomness=randomness)


class Store(Merging):
    """One store file. Reading methods never change it; writing methods are one transaction each.

    What docs/api.md promises for writing stands here; the rest by who uses it, each part on top of the one before:
    ``database``, ``reading``, ``ingesting``, ``maintenance``, ``branching``, ``replication``, ``merging``.

    Errors: StoreNotFound when it is read before it exists, StoreBusy, StoreReadOnly, DiskFull, NotAStore, StoreTooNew,
    StoreTooOld, StoreDamaged. Use it as a context manager, or call ``close``.
    """

    def create_session(
        self, name: str | None = None, worktree: str | os.PathLike[str] | None = None, *, at: Workplace | None = None
    ) -> Session:
        """A new session, numbered; the file is created by the first one. ``at`` says where it is at work."""
        uid = self._new_uid()
        return self._write(lambda db: self._begin_session(db, uid, name, worktree, at), decided=True)

    def find_or_create(
        self, name: str, worktree: str | os.PathLike[str] | None = None, *, at: Workplace | None = None
    ) -> Session:
        """The session called ``name``; where there is none it is begun, in the same transaction as it was looked for.

        However many ask at once, they get one session. An empty name is nobody's: it always begins one.
        """
        uid = self._new_uid()

        def find(db: apsw.Connection) -> Session | None:
            known = sessions.called(db, name) if name else None
            return None if known is None else sessions.get(db, known)

        found = self._read_if_begun(find, None) or self._write(
            lambda db: find(db) or self._begin_session(db, uid, name, worktree, at), decided=True
        )
        return self._as_shown(found)

    def _begin_session(
        self,
        db: apsw.Connection,
        uid: str,
        name: str | None,
        worktree: str | os.PathLike[str] | None,
        at: Workplace | None,
    ) -> Session:
        session_id = sessions.create(
            db,
            uid=uid,
            owner=str(db.execute("select value from meta where key = 'store_id'").get),
            name=name or "",
            worktree=_absolute(worktree) if worktree is not None else "",
            created_ms=self._now(),
        )
        if at is not None:
            sessions.place(db, session_id, at)
        return sessions.get(db, session_id)

    def append_events(self, session: Session | int, new: Sequence[Event]) -> int:
        """Store events behind a session's others; gives the number of the last one.

        Each is kept in full as a line of JSON, and as what ``compact_event`` leaves of it. A ``Complete`` among them
        ends the turn before it, as ``mark_completed`` does.
        """

        made = self._append(lambda db: partial(self._own_log(db, session).batches, new))
        return made[-1].next_seq - 1

    def _own_log(self, db: apsw.Connection, session: Session | int) -> OwnLog:
        from backstory.store.own_log import OwnLog

        return OwnLog(db, sessions.get(db, id_of(session)).id, self._now(), self._new_uid)

    def mark_completed(
        self, session: Session | int, duration_ms: int | None, cost_usd: float | None, success: bool = True
    ) -> None:
        """Say how a session's last turn ended, how long it took and what it cost; the session's columns are sums."""

        end = Complete(success=success, duration_ms=duration_ms, cost_usd=cost_usd)
        self._append(lambda db: partial(self._own_log(db, session).end_batches, end))

    def place_session(self, session: Session | int, at: Workplace) -> None:
        """Say where a session of ours is at work."""
        self._change(lambda db: sessions.place(db, id_of(session), at))

    def last_session(self, worktree: str | os.PathLike[str]) -> Session | None:
        """The numbered session that was last active in a worktree, else of all."""
        here = _absolute(worktree)
        earlier = self.moves.earlier(here)
        last = self._read_if_begun(lambda db: sessions.last_active(db, here, earlier), None)
        return None if last is None else self._as_shown(last)

    def choose_session(self, session: Session | int, worktree: str | os.PathLike[str]) -> None:
        """Have ``last_session`` of a worktree be this one, until another is chosen there."""
        chosen = self.last_session(worktree)
        if chosen is None or chosen.id != id_of(session):
            self._change(lambda db: sessions.choose(db, id_of(session), _absolute(worktree)), decided=True)

    def drop_if_empty(self, session: Session | int) -> None:
        """Remove a session in which nothing has happened yet; it leaves no trace but its number."""
        self._change(lambda db: sessions.drop_if_empty(db, id_of(session)))

    def cleanup_orphans(self, running: Container[str] = ()) -> list[Orphan]:
        """Close the turns that a crash left without an ending, one by one, and return them; then there are none.

        ``running``: uids of turns whose rest is still to come. One that comes all the same replaces what was closed.
        """
        from backstory.store import orphans

        if not self._read_if_begun(lambda db: bool(orphans.found(db, running)), otherwise=False):
            return []
        closed, now = list[orphans.Orphan](), self._now()
        left: list[orphans.Left] = []

        def look(db: apsw.Connection) -> Callable[[], list[RecordBatch]]:
            left[:] = [orphans.left(db, *each) for each in orphans.found(db, running)[:1]]
            return lambda: [orphans.closing(each, now) for each in left]

        while self._append(look):
            closed += [each.orphan for each in left]
        return closed

    def rename(self, session: Session | int, name: str) -> None:
        """Call a session ``name``; '' takes its name away."""
        from backstory.store.plan import NAME

        self._decide(session, [NAME], lambda db, each: sessions.rename(db, sessions.get(db, each).id, name))


def cleanup_orphans(store: Store, running: Container[str] = ()) -> list[Orphan]:
    """The same as ``store.cleanup_orphans``."""
    return store.cleanup_orphans(running)


def _absolute(folder: str | os.PathLike[str]) -> str:
    """A folder by a name that means the same from everywhere; an empty name stays one."""
    named = os.fspath(folder)
    return os.path.normpath(Path(named).absolute()) if named else ""
