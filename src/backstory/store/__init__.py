"""Our file. ``Store``: each method is one transaction and one call; the SQL lives in the modules beside it.

>>> store = open_store("/tmp/project/.backstory/sessions.bks")   # doctest: +SKIP
>>> session = store.create_session("Fix the build")              # doctest: +SKIP
>>> store.append_events(session, [UserMessage(content="hi")])    # doctest: +SKIP
"""

from __future__ import annotations

import os
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from backstory.errors import StoreDamaged
from backstory.lazy import lazy_module
from backstory.model import Complete
from backstory.store import schema
from backstory.store.database import Database, id_of
from backstory.store.file import maintenance
from backstory.store.tables import (
    branches,
    compactions,
    decisions,
    events,
    logs,
    plan,
    session_filter,
    sessions,
    turns,
)
from backstory.store.tables.session_filter import ListFilter
from backstory.store.tables.sessions import Cursor, Part, Session, Workplace

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    import apsw

    from backstory.ask.readonly import Answer
    from backstory.ask.search import SearchResult
    from backstory.ask.sql_functions import FullForm
    from backstory.ask.sql_scope import SqlScope
    from backstory.conversation.tree import Point
    from backstory.model import Event, Turn, TurnWithEvents
    from backstory.store.file.verify import Verified
    from backstory.store.intake.append import Written
    from backstory.store.intake.batches import RecordBatch
    from backstory.store.intake.own_log import OwnLog
    from backstory.store.tables import runs, side_texts
    from backstory.store.tables.branches import BranchName, TreePosition, TreeTurn
    from backstory.store.tables.events import StoredEvent
    from backstory.store.tables.logs import FileStamp, Log, UnpackedChunks
    from backstory.store.tables.runs import Orphan, RunStart
    from backstory.store.tables.session_filter import Filter
else:
    side_texts = lazy_module("backstory.store.tables.side_texts")

__all__ = [
    "BranchName",
    "FileStamp",
    "Filter",
    "Log",
    "Orphan",
    "RecordBatch",
    "RunStart",
    "SearchResult",
    "Session",
    "Store",
    "StoredEvent",
    "TreePosition",
    "TreeTurn",
    "Verified",
    "Workplace",
    "Written",
    "cleanup_orphans",
    "open_store",
]  # fmt: skip

T = TypeVar("T")
P = ParamSpec("P")
ROWS_MAX = 10_000
"""The most rows of an answer to SQL that are given, unless it is said otherwise."""
TIMEOUT_S = 5.0
PROJECT_STORE = Path(".backstory") / "sessions.bks"


_HOMES = {
    "BranchName": "store.tables.branches", "FileStamp": "store.tables.logs", "Filter": "store.tables.session_filter",
    "Log": "store.tables.logs", "Orphan": "store.tables.runs", "RecordBatch": "store.intake.batches",
    "RunStart": "store.tables.runs", "SearchResult": "ask.search", "StoredEvent": "store.tables.events",
    "TreePosition": "store.tables.branches", "TreeTurn": "store.tables.branches", "Verified": "store.file.verify",
    "Written": "store.intake.append",
}  # fmt: skip
"""Names whose modules most commands do not need, imported when they are asked for."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"backstory.{_HOMES[name]}"), name)
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


class Store(Database):
    """One store file. Reading methods never change it; writing methods are one transaction each.

    What docs/api.md promises. Anything else is asked by ``ask`` and written by ``change``, with functions of the
    modules beside this one.

    Errors: StoreNotFound when it is read before it exists, StoreBusy, StoreReadOnly, DiskFull, NotAStore, StoreTooNew,
    StoreTooOld, StoreDamaged. Use it as a context manager, or call ``close``.
    """

    # sessions -------------------------------------------------------------------------------------------------------

    def create_session(
        self, name: str | None = None, worktree: str | os.PathLike[str] | None = None, *, at: Workplace | None = None
    ) -> Session:
        """A new session, numbered; the file is created by the first one. ``at`` says where it is at work."""
        self.begin()
        return self.decide(self._begin_session, self.new_uid(), name, worktree, at)

    def find_or_create(
        self, name: str, worktree: str | os.PathLike[str] | None = None, *, at: Workplace | None = None
    ) -> Session:
        """The session called ``name``; where there is none it is begun, in the same transaction as it was looked for.

        However many ask at once, they get one session. An empty name is nobody's: it always begins one.
        """
        uid = self.new_uid()

        def find(db: apsw.Connection) -> Session | None:
            known = sessions.called(db, name) if name else None
            return None if known is None else sessions.get(db, known)

        # Looked for without a lock first: a session that is there needs none.
        if (found := self.ask_or(None, find)) is None:
            self.begin()
            found = self.decide(lambda db: find(db) or self._begin_session(db, uid, name, worktree, at))
        return self.as_shown(found)

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
            created_ms=self.now(),
        )
        if at is not None:
            sessions.place(db, session_id, at)
        return sessions.get(db, session_id)

    def session(self, wanted: str | int) -> Session:
        """The session meant by a number (S3), a name, an agent's own id or the start of a uid, or by its id here."""

        def get(db: apsw.Connection) -> Session:
            by_name = not self.is_elsewhere
            return sessions.get(db, sessions.find(db, wanted, by_name=by_name) if isinstance(wanted, str) else wanted)

        return self.as_shown(self.ask(get))

    def sessions(
        self,
        *,
        project: str | None = None,
        folder: str | None = None,
        agent: str | None = None,
        subagents: bool = False,
        unread: bool = False,
        after: Cursor | None = None,
        limit: int = -1,
        offset: int = 0,
    ) -> list[Session]:
        """Sessions, the last active first; subagents' own sessions only when asked for. -1 = no limit.

        ``unread``: also the files that are kept and that nobody understands, each a session of its own.
        ``after``: only those behind this (last_active, uid).
        """
        wanted = ListFilter(project=project, folder=folder, agent=agent, subagents=subagents, unread=unread)
        return self.list_sessions(wanted, after=after, limit=limit, offset=offset)

    def list_sessions(
        self, wanted: ListFilter, *, after: Cursor | None = None, limit: int = -1, offset: int = 0
    ) -> list[Session]:
        """The sessions that fit, the last active first; as ``sessions``."""
        at = None if after is None else sessions.Position(None, *after)
        found = self.ask(sessions.listed, self.as_recorded(wanted), Part(at=at, limit=limit, offset=offset))
        return [self.as_shown(each) for _, each in found]

    def several_sessions(self, session_ids: Sequence[int]) -> list[Session]:
        """The sessions with these ids, in no order."""
        return [self.as_shown(each) for each in self.ask(sessions.several, session_ids)]

    def children(self, session: Session | int) -> list[Session]:
        """The sessions that come from this one."""
        return [self.as_shown(each) for each in self.ask(sessions.children, id_of(session))]

    def has(self, uid: str) -> bool:
        """Return True if a session is here."""
        return self.ask_or(False, sessions.has, uid)

    def uids(self) -> list[str]:
        """The uid of every session."""
        return self.ask_or([], sessions.uids)

    def last_session(self, worktree: str | os.PathLike[str]) -> Session | None:
        """The numbered session that was last active in a worktree, else of all."""
        here = _absolute(worktree)
        last = self.ask_or(None, sessions.last_active, here, self.moves.earlier(here))
        return None if last is None else self.as_shown(last)

    def choose_session(self, session: Session | int, worktree: str | os.PathLike[str]) -> None:
        """Make this the ``last_session`` of a worktree, until another is chosen there."""
        chosen = self.last_session(worktree)
        # A choice that changes nothing costs no sync.
        if chosen is None or chosen.id != id_of(session):
            self.decide(sessions.choose, id_of(session), _absolute(worktree))

    def rename(self, session: Session | int, name: str) -> None:
        """Call a session ``name``; '' takes its name away."""
        self._decide(session, [plan.NAME], lambda db, each: sessions.rename(db, each, name))

    def remove(self, *sessions_: Session | int) -> list[str]:
        """Remove sessions and their subagents', with their bytes; gives their uids. Reading the logs again skips them.

        Nothing of them stays in the file. Raises NotErased where that could not be done: they are removed all the
        same, and ``optimize`` erases what is left.
        """
        return maintenance.remove(self, [id_of(each) for each in sessions_])

    # turns and events -----------------------------------------------------------------------------------------------

    def append_events(self, session: Session | int, new: Sequence[Event]) -> int:
        """Store events behind a session's others; gives the number of the last one.

        Each is kept in full as a line of JSON, and as what ``compact_event`` leaves of it. A ``Complete`` among them
        ends the turn before it, as ``mark_completed`` does.
        """

        made = self._append(lambda db: partial(self._own_log(db, session).batches, new))
        return made[-1].next_seq - 1

    def _own_log(self, db: apsw.Connection, session: Session | int) -> OwnLog:
        from backstory.store.intake.own_log import OwnLog

        return OwnLog(db, sessions.get(db, id_of(session)).id, self.now(), self.new_uid)

    def mark_completed(
        self, session: Session | int, duration_ms: int | None, cost_usd: float | None, success: bool = True
    ) -> None:
        """Say how a session's last turn ended, how long it took and what it cost; the session's columns are sums."""

        end = Complete(success=success, duration_ms=duration_ms, cost_usd=cost_usd)
        self._append(lambda db: partial(self._own_log(db, session).end_batches, end))

    def cleanup_orphans(self, running: Container[str] = ()) -> list[Orphan]:
        """Close the turns that a crash left without an ending, one by one, and return them; then there are none.

        ``running``: uids of turns whose rest is still to come. One that comes all the same replaces what was closed.
        """
        from backstory.store.tables import runs

        if not self.ask_or(False, lambda db: bool(runs.found(db, running))):
            return []
        closed, now = list[runs.Orphan](), self.now()
        left: list[runs.Left] = []

        def look(db: apsw.Connection) -> Callable[[], list[RecordBatch]]:
            # One at a time: each closing moves the numbers that the next one begins with.
            left[:] = [runs.left(db, *each) for each in runs.found(db, running)[:1]]
            return lambda: [runs.closing(each, now) for each in left]

        while self._append(look):
            closed += [each.orphan for each in left]
        return closed

    def turns(self, session: Session | int) -> list[Turn]:
        """A session's turns, in the order of their prompts."""
        return self.ask(turns.of_session, id_of(session))

    def events(self, session: Session | int, *, after: tuple[int, int] = (0, -1), limit: int = -1) -> list[StoredEvent]:
        """A session's events in order, from the one behind ``after`` = (seq, part) on."""
        return self.ask(events.of_session, id_of(session), after=after, limit=limit)

    def event(self, event_id: int) -> StoredEvent | None:
        """The event with this id; below 0, the summary, file or section that a search found under it."""
        if event_id < schema.FILE_ROWS:
            return self.ask(side_texts.as_event, event_id)
        if event_id < 0:
            return self.ask(compactions.as_event, -event_id)
        return self.ask(events.get, event_id)

    def context_turns(self, session: Session | int, budget_chars: int, to: Point | None = None) -> list[TurnWithEvents]:
        """The turns that lead to a record with their events, oldest first; so many as fill a context of that size.

        None: to where the session goes on, which is its newest turn or what was checked out.
        """
        return self.ask(events.context_turns, id_of(session), budget_chars, to)

    def told_turns(self, session: Session | int, budget_chars: int, to: Point | None = None) -> list[TurnWithEvents]:
        """The earlier name of ``context_turns``. It warns, and goes away with version 1."""
        import warnings

        warnings.warn("Store.told_turns is now Store.context_turns", DeprecationWarning, stacklevel=2)
        return self.context_turns(session, budget_chars, to)

    # logs -----------------------------------------------------------------------------------------------------------

    def log(self, log_id: int) -> Log | None:
        """One log."""
        return self.ask(logs.get, log_id)

    def logs(self, session: Session | int | None = None) -> list[Log]:
        """The logs of a session, or all."""
        return self.ask(logs.all_logs) if session is None else self.ask(logs.of_session, id_of(session))

    def read_log(self, log_id: int, start: int, length: int, *, checked: bool = True) -> bytes:
        """Bytes of a log, checked unless it is only to look at them, which is quicker; raises StoreDamaged."""
        if not checked:
            return self._of_one_moment(logs.look_at, log_id, start, length)
        return self._of_one_moment(logs.read, log_id, start, length, self._chunks)

    @cached_property
    def _chunks(self) -> UnpackedChunks:
        return logs.UnpackedChunks()

    def stream_log(self, log_id: int, start: int = 0) -> Iterator[bytes]:
        """A log's bytes, a chunk at a time, checked; raises StoreDamaged. No statement stays open between two."""
        at = start
        while piece := self._of_one_moment(logs.piece, log_id, at):
            yield piece
            at += len(piece)

    def _of_one_moment(
        self, question: Callable[Concatenate[apsw.Connection, P], bytes], *args: P.args, **kwargs: P.kwargs
    ) -> bytes:
        """Answer from a log's chunks, which another process may join between two looks."""
        try:
            return self.ask(question, *args, **kwargs)
        except StoreDamaged:
            # What is whole in one moment is whole.
            with self.snapshot():
                return self.ask(question, *args, **kwargs)

    # the tree -------------------------------------------------------------------------------------------------------

    def tree(self, session: Session | int, *, removed: bool = False, pruned: bool = False) -> list[TreeTurn]:
        """A session's turns as a tree shows them, in the order of their prompts; removed ones only when asked for.

        ``pruned``: also what is left of those that were pruned since, which is where they were.
        """
        return self.ask(branches.of_session, id_of(session), removed=removed, pruned=pruned)

    def leaf(self, session: Session | int) -> Point | None:
        """The record that the next prompt follows; None in a session without turns."""
        return self.ask(branches.leaf, id_of(session))

    def branch_length(self, session: Session | int, to: Point | None = None) -> int:
        """Return the number of turns that lead to a record; None: to where the session goes on."""
        return self.ask(branches.length, id_of(session), to or self.leaf(session))

    def place(self, session: Session | int, seq: int) -> TreePosition:
        """Return the place of the record @``seq`` in the tree; raises RecordNotFound, BranchRemoved."""
        return self.ask(branches.place, id_of(session), seq)

    def checkout(self, session: Session | int, point: Point) -> None:
        """Let a session's next prompt follow a record; raises RecordNotFound."""
        self.decide(branches.check_out, id_of(session), point, self.now())

    def branch_names(self, session: Session | int, *, removed: bool = False) -> list[BranchName]:
        """Return the names of a session's branches; those of removed ones only when asked for."""
        return self.ask(branches.names, id_of(session), removed=removed)

    def name_branch(self, session: Session | int, name: str, point: Point) -> None:
        """Call the branch with this tip ``name``, which stays with its end as that grows.

        Raises RecordNotFound, BranchNameTaken.
        """
        now, about = self.now(), [plan.about_branch(name)]
        self._decide(session, about, lambda db, each: branches.name_branch(db, each, name, point, now))

    def unname_branch(self, session: Session | int, name: str) -> None:
        """Take a branch's name away."""
        self._decide(session, [plan.about_branch(name)], lambda db, each: branches.unname_branch(db, each, name))

    def remove_turns(self, session: Session | int, uids: Sequence[str]) -> int:
        """Remove turns from a session's tree, until ``restore_turns`` or ``prune_turns``; returns how many."""
        gone, now = list(uids), self.now()
        about = [plan.TURN + uid for uid in gone]
        return self._decide(session, about, lambda db, each: branches.remove(db, each, gone, now))

    def restore_turns(self, session: Session | int, uid: str) -> int:
        """Bring back the turns that were removed together with this one; gives how many."""

        def restore(db: apsw.Connection) -> int:
            back = branches.restore(db, sessions.get(db, id_of(session)).id, uid)
            decisions.note(db, id_of(session), [plan.TURN + each for each in back], self.now())
            return len(back)

        return self.decide(restore)

    def prune_turns(self, session: Session | int | None = None) -> int:
        """Drop what removed turns hold, of one session or of all, for good; gives how many turns that were."""
        return maintenance.prune_turns(self, None if session is None else id_of(session))

    def _decide(self, session: Session | int, about: Sequence[str], change: Callable[[apsw.Connection, int], T]) -> T:
        """Write what a person decided about a session, with the time."""

        def decide(db: apsw.Connection) -> T:
            made = change(db, sessions.get(db, id_of(session)).id)
            decisions.note(db, id_of(session), about, self.now())
            return made

        return self.decide(decide)

    # finding --------------------------------------------------------------------------------------------------------

    def search(
        self,
        query: str | None,
        wanted: Filter | None = None,
        *,
        limit: int = 20,
        hits_per_session: int | None = 1,
        ranked: bool = True,
        near: bool = True,
        sort: str = "score",
        counts: bool = True,
    ) -> SearchResult:
        """The best hits of ``query``, so many of each session (None: all), ``limit`` at most.

        ``near``: after what fits also what fits in other forms of the words, and the like; other forms in a prompt
        come before words that only tools printed. ``sort="time"``: the sessions that were last active first. Not
        ``ranked``: every event that has the words (None: every event with a text), of the newest sessions first.
        Without ``counts`` the number of all that is found may be too low.
        """
        from backstory.ask import search

        asked = self.as_recorded(wanted or session_filter.Filter())
        if not ranked or query is None:
            return self.ask(search.every, query, asked, limit=limit)
        return self.ask(
            search.search,
            query,
            asked,
            now=self.now(),
            limit=limit,
            hits_per_session=hits_per_session,
            near=near,
            sort=sort,
            counts=counts,
        )

    def sessions_named(self, wanted: Filter, *, limit: int = 20) -> SearchResult:
        """The sessions that a filter lets through, the last active first, each by where it names the ref asked for."""
        from backstory.ask import search

        return self.ask(search.listed, self.as_recorded(wanted), limit=limit)

    def execute_read_only(
        self,
        sql: str,
        limit: int = ROWS_MAX,
        *,
        parameters: Sequence[Any] = (),
        timeout_s: float = TIMEOUT_S,
        full_form: FullForm | None = None,
        scope: SqlScope | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> Answer:
        """The answer to one reading SQL statement, over the views that docs/sql.md describes; see readonly.execute."""
        from backstory.ask import readonly

        return readonly.execute(
            self.path, sql, limit=limit, timeout_s=timeout_s, parameters=parameters, full_form=full_form,
            prices=self.prices_file, scope=scope, is_cancelled=is_cancelled,
        )  # fmt: skip

    # the file -------------------------------------------------------------------------------------------------------

    def verify(self, progress: Callable[[int, int], None] = lambda done, total: None) -> Verified:
        """Check everything that can be checked; see ``store/file/verify.py``."""
        return maintenance.check(self, progress)

    def backup(self, target: Path) -> int:
        """Copy the store as it is now into a single new file; gives its size in bytes."""
        from backstory.store.file import backup

        return backup.write(self.path, target)

    def erase(self) -> None:
        """Leave nothing in the file of what was removed from it: a second time there is nothing to do.

        Raises NotErased when another process, or a full disk, is in the way.
        """
        maintenance.erase(self)

    def optimize(self, before: int, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        """Make the file smaller: pack logs that were last written before this time (ms) harder, and merge the index.

        Each transaction is short; it may be stopped at any time. ``progress`` receives logs done and to do. A file that
        may still hold something that was removed, as those of earlier versions may, is written anew.
        """
        maintenance.optimize(self, before, progress)


def cleanup_orphans(store: Store, running: Container[str] = ()) -> list[Orphan]:
    """The same as ``store.cleanup_orphans``."""
    return store.cleanup_orphans(running)


def _absolute(folder: str | os.PathLike[str]) -> str:
    """A folder by a name that means the same from everywhere; an empty name stays one."""
    named = os.fspath(folder)
    return os.path.normpath(Path(named).absolute()) if named else ""
