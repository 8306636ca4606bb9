"""Our file. ``Store``: each method is one transaction and one call; the SQL lives in the modules beside it.

>>> store = open_store("/tmp/project/.backstory/sessions.bks")   # doctest: +SKIP
>>> session = store.create_session("Fix the build")              # doctest: +SKIP
>>> store.append_events(session, [UserMessage(content="hi")])    # doctest: +SKIP
"""

from __future__ import annotations

import os
import time
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from backstory import errors, ids
from backstory.model import Complete
from backstory.store import (
    append,
    branches,
    claims,
    connection,
    copies,
    costs,
    derived_tables,
    erasing,
    events,
    foreign,
    logs,
    migrate,
    orphans,
    readonly,
    replicate,
    retelling,
    runs,
    search,
    sessions,
    sidecars,
    titles,
    turns,
    verify,
)
from backstory.store.append import Written
from backstory.store.batches import RecordBatch
from backstory.store.branches import Named, Place, TreeTurn
from backstory.store.claims import UsageTold
from backstory.store.copies import Holder
from backstory.store.events import StoredEvent
from backstory.store.logs import Log, Run, SeenPlace
from backstory.store.orphans import Orphan
from backstory.store.readonly import Answer
from backstory.store.replicate import Taken
from backstory.store.runs import RunStart
from backstory.store.search import Filter, Found
from backstory.store.sessions import Session, Workplace
from backstory.store.sidecars import Beside, Kept, Mark
from backstory.store.verify import Verified

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence

    import apsw

    from backstory.conversation.context import ToldTurn
    from backstory.conversation.tree import Point, Span
    from backstory.derive.pricing import Cost
    from backstory.model import Event, Turn
    from backstory.store.sql_functions import FullForm

T = TypeVar("T")

__all__ = [
    "Answer", "Filter", "Found", "Log", "Named", "Orphan", "Place", "RecordBatch", "RunStart", "SeenPlace", "Session",
    "Store", "StoredEvent", "Taken", "TreeTurn", "Verified", "Workplace", "Written", "cleanup_orphans",
    "open_store",
]  # fmt: skip

_HAS = "select count(*) from sessions where uid = ?"
PROJECT_STORE = Path(".backstory") / "sessions.bks"
BULK_CRISIS_MERGE = 500
"""So many segments of the index are merged at once even while that is put off: FTS5 has room for 2,000 in all."""
SEGMENTS_MAX = 1_500
"""An index with more segments is merged before anything is written: merging takes room itself."""
BULK_HASH_BYTES = 32 * 1024 * 1024
BULK_WAL_PAGES = 8_192
WAL_PAGES = 1_000
MERGE_PAGES = 2_000
"""The index is merged in steps of so many pages, so that no other writer waits for long."""
MERGE_STEPS_MAX = 10_000


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


class Store:
    """One store file. Reading methods never change it; writing methods are one transaction each.

    Errors: StoreNotFound when it is read before it exists, StoreBusy, StoreReadOnly, DiskFull, NotAStore,
    StoreTooNew, StoreDamaged. Use it as a context manager, or call ``close``.
    """

    def __init__(
        self,
        path: Path,
        *,
        shared: bool = False,
        now: Callable[[], int] | None = None,
        randomness: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.path = path.absolute()
        self._shared = shared
        self._now = now or (lambda: time.time_ns() // 1_000_000)
        self._randomness = randomness
        self._reader: apsw.Connection | None = None
        self._writer: apsw.Connection | None = None
        self._id_to_take: str | None = None
        self.is_elsewhere = False
        """Nobody has trusted it: its sessions are told to be from elsewhere, their names count for nothing, and none
        of its triggers acts."""
        self.refuses_writes = False
        """Writing raises NotTrusted."""
        self.prices_file: Path | None = None
        """A person's own prices, which stand in for those that come with the program."""

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def make_ready(self) -> None:
        """Bring a store of an earlier version to today's tables, if it is there; acting commands do so anyway."""
        if self.exists:
            self._writing_connection()

    def close(self) -> None:
        """Let go of the file; with the last connection its side files go too."""
        for db in (self._reader, self._writer):
            if db is not None:
                db.close()
        self._reader = self._writer = None

    @property
    def exists(self) -> bool:
        """Whether the file is there, and was ever finished."""
        if not connection.exists(self.path):
            return False
        if self._reader is None and self._writer is None and connection.is_interrupted(self.path):
            # Opening it undoes what there is of a first transaction that was cut off.
            try:
                self._reading_connection()
            except errors.StoreNotFound:
                return False
            except errors.BackstoryError:
                return True
        return True

    @property
    def id(self) -> str:
        """The store's own id, kept in the file."""
        return self._read(lambda db: str(db.execute("select value from meta where key = 'store_id'").get))

    def begin_as(self, store_id: str) -> None:
        """Have a store that is not there yet begin with this id."""
        self._id_to_take = store_id

    def new_id(self) -> str:
        """An id that no store has."""
        return self._new_uid()

    # sessions -------------------------------------------------------------------------------------------------

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

        return self._read_if_begun(find, None) or self._write(
            lambda db: find(db) or self._begin_session(db, uid, name, worktree, at), decided=True
        )

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

    def _own_log(self, db: apsw.Connection, session: Session | int) -> events.OwnLog:
        return events.OwnLog(db, sessions.get(db, _id(session)).id, self._now(), self._new_uid)

    def mark_completed(
        self, session: Session | int, duration_ms: int | None, cost_usd: float | None, success: bool = True
    ) -> None:
        """Say how a session's last turn ended, how long it took and what it cost; the session's columns are sums."""

        end = Complete(success=success, duration_ms=duration_ms, cost_usd=cost_usd)
        self._append(lambda db: partial(self._own_log(db, session).end_batches, end))

    def place_session(self, session: Session | int, at: Workplace) -> None:
        """Say where a session of ours is at work."""
        self._change(lambda db: sessions.place(db, _id(session), at))

    def last_session(self, worktree: str | os.PathLike[str]) -> Session | None:
        """The numbered session that was last active in a worktree, else of all."""
        last = self._read_if_begun(lambda db: sessions.last_active(db, _absolute(worktree)), None)
        return None if last is None else self._told(last)

    def choose_session(self, session: Session | int, worktree: str | os.PathLike[str]) -> None:
        """Have ``last_session`` of a worktree be this one, until another is chosen there."""
        chosen = self.last_session(worktree)
        if chosen is None or chosen.id != _id(session):
            self._change(lambda db: sessions.choose(db, _id(session), _absolute(worktree)), decided=True)

    def take_session(self, source: Store, uid: str) -> None:
        """Copy a session that another store owns, as it is there now, in place of what is kept of it here."""
        self._write_from(source, lambda db, name: replicate.take(db, name, uid))

    def continue_session(
        self,
        source: Store,
        uid: str,
        holding: Point | None = None,
        *,
        worktree: str | os.PathLike[str] | None = None,
    ) -> Session:
        """The session here that goes on from one of ``source``; at first it is made, with copies of its turns.

        ``holding``: it has this record; where the one that is here lacks it, another is made. ``worktree``: where
        one that is made begins; None: where the other did.
        """
        begun = None if worktree is None else os.fspath(worktree)

        def go_on(db: apsw.Connection, name: str) -> Session:
            known = replicate.continuation_of(db, uid, holding)
            if known is None:
                owner = str(db.execute("select value from meta where key = 'store_id'").get)
                number = sessions.next_number(db)
                new = replicate.Continuation(uid=self._new_uid(), owner=owner, number=number, worktree=begun)
                known = replicate.continue_from(db, name, uid, new)
            return sessions.get(db, known)

        return self._write_from(source, go_on)

    def rebuild_from(self, source: Store, store_id: str) -> int:
        """Make this store again, with its id, from what another one has of it; gives how many sessions came back."""
        uids = [uid for uid in source.owned_by(store_id) if not source.is_forgotten(uid)]
        if not uids or (self.exists and self.session_count()):
            return 0
        self._id_to_take = store_id

        def take_all(db: apsw.Connection, name: str) -> int:
            for uid in uids:
                replicate.take(db, name, uid)
            sessions.go_on_numbering(db)
            return len(uids)

        return self._write_from(source, take_all)

    def owned_by(self, store_id: str) -> list[str]:
        """The uids of sessions that the store with this id owns, in the order of their numbers."""
        return self._read_if_begun(lambda db: sessions.owned_by(db, store_id), [])

    def check_writable(self) -> None:
        """Raise now what writing would raise: StoreReadOnly, StoreBusy, DiskFull, …"""

        def try_it(db: apsw.Connection) -> None:
            # Changing a page begins the journal, which a folder may refuse.
            db.execute("insert into meta(key, value) values ('tried', '')")
            raise _Undone

        with suppress(_Undone):
            self._change(try_it)

    def drop_if_empty(self, session: Session | int) -> None:
        """Remove a session in which nothing has happened yet; it leaves no trace but its number."""
        self._change(lambda db: sessions.drop_if_empty(db, _id(session)))

    def cleanup_orphans(self, running: Container[str] = ()) -> list[Orphan]:
        """Close the turns that a crash left without an ending, one by one, and tell which; then there are none.

        ``running``: uids of turns whose rest is still to come. One that comes all the same replaces what was closed.
        """
        if not self._read_if_begun(lambda db: bool(orphans.found(db, running)), otherwise=False):
            return []
        closed, now = list[Orphan](), self._now()
        left: list[orphans.Left] = []

        def look(db: apsw.Connection) -> Callable[[], list[RecordBatch]]:
            left[:] = [orphans.left(db, *each) for each in orphans.found(db, running)[:1]]
            return lambda: [orphans.closing(each, now) for each in left]

        while self._append(look):
            closed += [each.orphan for each in left]
        return closed

    def hand_over(self, source: Store, uid: str, *, has_all: bool) -> None:
        """Have a session as another store has it: ``has_all`` says that all it holds was written here too."""
        if self.path == source.path or self.is_forgotten(uid):
            return
        if has_all:
            session = source.session(uid)
            self._write(lambda db: sessions.call_alike(db, session))
            self.take_branches(source, uid)
        else:
            self.take_session(source, uid)

    def catch_up(self, source: Store) -> int:
        """Have the sessions that another store owns as they are there; gives how many were copied.

        Those that cannot be copied are named when the others are: raises SessionsNotCopied, SessionDiverged.
        """
        here: dict[str, tuple[object, ...]] = self._read_if_begun(lambda db: sessions.states(db, source.id), {})
        copied = 0
        differing, failed = list[str](), dict[str, str]()
        for uid, state in source._read(lambda db: sessions.states(db, source.id)).items():
            if here.get(uid) == state or self.is_forgotten(uid):
                continue
            try:
                self.take_session(source, uid)
                copied += 1
            except errors.SessionDiverged:
                differing.append(uid)
            except Exception as refused:
                if not errors.is_for_one_only(refused):
                    raise
                failed[uid] = errors.in_words(refused)
        if failed:
            raise errors.SessionsNotCopied(source.path, failed | dict.fromkeys(differing, "it has other turns here"))
        if differing:
            raise errors.SessionDiverged(", ".join(differing))
        return copied

    def origins(self, uids: Sequence[str]) -> dict[str, str | None]:
        """Of those sessions that are known here, by identity, the store from elsewhere that each was taken from.

        None for those that are this store's own, also when they were removed since.
        """
        identities = [ids.session_identity(uid) for uid in uids]
        return self._read_if_begun(lambda db: sessions.origins(db, identities), {})

    def mark_elsewhere(self, uids: Sequence[str], elsewhere: str) -> None:
        """Say of sessions, as far as they are here, which store from elsewhere they came with."""
        self._change(lambda db: sessions.mark_elsewhere(db, uids, elsewhere))

    def uids(self) -> list[str]:
        """The uid of every session."""
        return self._read_if_begun(sessions.uids, [])

    def take_elsewhere(self, source: Store, uid: str, told: Taken) -> bool:
        """Copy a session that is not here out of a store from elsewhere; not one with a turn known from another place.

        Raises StoreDamaged for one that is not as ours are made.
        """
        if not foreign.is_uid(uid):
            raise errors.StoreDamaged(source.path, "a session has no uid")

        def take(db: apsw.Connection, name: str) -> bool:
            with _believed(source.path):
                if replicate.shared_turn(db, name, uid, told.elsewhere):
                    return False
                session_id = replicate.take_elsewhere(db, name, uid, told)
                foreign.check_session(db, session_id, source.path)
            return True

        return self._write_from(source, take)

    def usage_from_logs(self, store_id: str) -> list[UsageTold]:
        """Tokens of runs in sessions of another store that only the agents' own logs told."""
        nothing: list[UsageTold] = []
        return self._read_if_begun(lambda db: claims.usage_from_logs(db, store_id), nothing)

    def fill_in_usage(self, told: Sequence[UsageTold]) -> None:
        """Note tokens of runs whose streams did not tell them."""
        is_new = self._read(lambda db: claims.lack_usage(db, told))
        if is_new:
            self._change(lambda db: claims.fill_in_usage(db, told))

    def has(self, uid: str) -> bool:
        """Whether a session is here."""
        return self._read_if_begun(lambda db: bool(db.execute(_HAS, (uid,)).get), False)

    def owner_of(self, uid: str) -> str | None:
        """The id of the store that owns a session; None where its log does, or it is not here."""
        return self._read_if_begun(lambda db: sessions.owner(db, uid), None)

    def is_forgotten(self, uid: str) -> bool:
        """Whether a person removed this session here."""
        return self._read_if_begun(lambda db: sessions.is_forgotten(db, uid), False)

    def has_run(self, session_uid: str, turn_uid: str) -> bool:
        """Whether a run is over and here, whole or as far as it was not lost."""
        return self._read_if_begun(lambda db: runs.has_ended(db, session_uid, turn_uid), False)

    def run_start(self, session_uid: str, turn_uid: str) -> RunStart:
        """Where a run begins in its session as it is now; raises SessionNotFound."""
        return self._read(lambda db: runs.start_in(db, session_uid, turn_uid))

    def sessions(
        self,
        *,
        project: str | None = None,
        folder: str | None = None,
        agent: str | None = None,
        helpers: bool = False,
        unread: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> list[Session]:
        """Sessions, the last active first; helpers' own sessions only when asked for. -1 = no limit.

        ``unread``: also the files that are kept and that nobody understands, each a session of its own.
        """
        found = self._read(
            lambda db: sessions.listed(
                db, project=project, folder=folder, agent=agent, helpers=helpers, unread=unread, limit=limit,
                offset=offset,
            )
        )  # fmt: skip
        return [self._told(each) for each in found]

    def session(self, wanted: str | int) -> Session:
        """The session meant by a number (S3), a name, an agent's own id or the start of a uid, or by its id here."""

        def get(db: apsw.Connection) -> Session:
            by_name = not self.is_elsewhere
            return sessions.get(db, sessions.find(db, wanted, by_name=by_name) if isinstance(wanted, str) else wanted)

        return self._told(self._read(get))

    def _told(self, session: Session) -> Session:
        """A session as this store may tell it: what people elsewhere called it counts for nothing."""
        return msgspec.structs.replace(session, name="", elsewhere=str(self.path)) if self.is_elsewhere else session

    def context_turns(self, session: Session | int, budget_chars: int, to: Point | None = None) -> list[ToldTurn]:
        """The turns that lead to a record with their events, oldest first; so many as fill a context of that size.

        None: to where the session goes on, which is its newest turn or what was checked out.
        """
        return self._read(lambda db: events.context_turns(db, _id(session), budget_chars, to))

    def told_turns(self, session: Session | int, budget_chars: int, to: Point | None = None) -> list[ToldTurn]:
        """The earlier name of ``context_turns``. It warns, and goes away with version 1."""
        import warnings

        warnings.warn("Store.told_turns is now Store.context_turns", DeprecationWarning, stacklevel=2)
        return self.context_turns(session, budget_chars, to)

    def turn_count(self, session: Session | int) -> int:
        """How many turns a session has."""
        return self._read(lambda db: turns.count(db, _id(session)))

    def children(self, session: Session | int) -> list[Session]:
        """The sessions that come from this one."""
        return [self._told(each) for each in self._read(lambda db: sessions.children(db, _id(session)))]

    def folders(self) -> list[str]:
        """The folders that sessions began in, and the roots of their worktrees; none of a store that is not there."""
        return self._read_if_begun(sessions.folders, [])

    def session_count(self) -> int:
        """How many sessions there are, helpers' included."""
        return self._read(sessions.count)

    def rename(self, session: Session | int, name: str) -> None:
        """Call a session ``name``; '' takes its name away."""
        session_id = _id(session)
        self._change(lambda db: sessions.rename(db, sessions.get(db, session_id).id, name), decided=True)

    def remove(self, *sessions_: Session | int) -> list[str]:
        """Remove sessions and their helpers', with their bytes; gives their uids. Reading the logs again skips them.

        Nothing of them stays in the file. Raises NotErased where that could not be done: they are removed all the
        same, and ``optimize`` erases what is left.
        """

        def remove(db: apsw.Connection) -> list[str]:
            doomed = [sessions.get(db, _id(each)).id for each in sessions_]
            erasing.note_removal(db)
            # It is merged once, when all are removed.
            _set_index(db, automerge=0)
            uids = [uid for each in doomed for uid in sessions.remove(db, each, self._now())]
            titles.settle(db)
            _reset_index(db)
            return uids

        removed = self._change(remove, decided=True)
        self.erase()
        return removed

    def doomed(self, session: Session | int) -> dict[str, list[Log]]:
        """The uids of what ``remove`` would remove with a session, itself too, each with its logs."""
        return self._read(
            lambda db: {uid: logs.of_session(db, each) for each, uid in sessions.doomed(db, _id(session))}
        )

    def turn_uids(self, sessions_: Sequence[str]) -> set[str]:
        """The uids of the turns of these sessions, as far as they are here."""
        return self._read_if_begun(
            lambda db: copies.turn_uids(
                db, [sessions.find(db, uid) for uid in sessions_ if db.execute(_HAS, (uid,)).get]
            ),
            set[str](),
        )

    def holders(self, turn_uids: Collection[str]) -> list[Holder]:
        """The sessions here that have any of these turns."""
        return self._read_if_begun(lambda db: copies.holders(db, turn_uids), list[Holder]())

    def erase(self) -> None:
        """Leave nothing in the file of what was removed from it: a second time there is nothing to do.

        Raises NotErased when another process, or a full disk, is in the way.
        """
        if not self._read(erasing.is_due):
            return
        db = self._writing_connection()
        for step in (
            self._merge_index,
            lambda: erasing.rewrite(db, self.path),
            lambda: erasing.empty_wal(db, self.path),
            lambda: self._write(erasing.note_done),
        ):
            erasing.patiently(self.path, step)

    def unforget(self) -> int:
        """Let removed sessions be read again; gives how many there were."""
        return self._write(sessions.unforget, decided=True)

    # the tree -------------------------------------------------------------------------------------------------

    def tree(self, session: Session | int, *, removed: bool = False, pruned: bool = False) -> list[TreeTurn]:
        """A session's turns as a tree shows them, in the order of their prompts; removed ones only when asked for.

        ``pruned``: also what is left of those that were pruned since, which is where they were.
        """
        return self._read(lambda db: branches.of_session(db, _id(session), removed=removed, pruned=pruned))

    def leaf(self, session: Session | int) -> Point | None:
        """The record that the next prompt follows; None in a session without turns."""
        return self._read(lambda db: branches.leaf(db, _id(session)))

    def branch_length(self, session: Session | int, to: Point | None = None) -> int:
        """How many turns lead to a record; None: to where the session goes on."""
        return self._read(lambda db: branches.length(db, _id(session), to or branches.leaf(db, _id(session))))

    def place(self, session: Session | int, seq: int) -> Place:
        """Where the record @``seq`` is in the tree; raises RecordNotFound, BranchRemoved."""
        return self._read(lambda db: branches.place(db, _id(session), seq))

    def checkout(self, session: Session | int, point: Point) -> None:
        """Have a session's next prompt follow a record."""
        self._change(lambda db: branches.check_out(db, _id(session), point), decided=True)

    def branch_names(self, session: Session | int, *, removed: bool = False) -> list[Named]:
        """What a session's branches are called; the names of removed ones only when asked for."""
        return self._read(lambda db: branches.names(db, _id(session), removed=removed))

    def name_branch(self, session: Session | int, name: str, point: Point) -> None:
        """Call the branch with this tip ``name``; raises BranchNameTaken. The name goes on with what follows."""
        self._change(lambda db: branches.call(db, _id(session), name, point, self._now()), decided=True)

    def unname_branch(self, session: Session | int, name: str) -> None:
        """Take a branch's name away."""
        self._change(lambda db: branches.uncall(db, _id(session), name), decided=True)

    def remove_turns(self, session: Session | int, uids: Sequence[str]) -> int:
        """Remove turns from a session's tree, until ``restore_turns`` or ``prune_turns``; gives how many."""
        return self._change(lambda db: branches.remove(db, _id(session), uids, self._now()), decided=True)

    def restore_turns(self, session: Session | int, uid: str) -> int:
        """Bring back the turns that were removed together with this one; gives how many."""
        return self._change(lambda db: branches.restore(db, _id(session), uid), decided=True)

    def removed_turns(self, session: Session | int) -> list[TreeTurn]:
        """The turns that can be restored, the last removed first."""
        return self._read(lambda db: branches.removed(db, _id(session)))

    def prune_turns(self, session: Session | int | None = None) -> int:
        """Drop what removed turns hold, of one session or of all, for good; gives how many turns that were."""
        todo = self._read(branches.prunable) if session is None else [_id(session)]

        dropped = sum(self._prune(each) for each in todo)
        if dropped:
            self.erase()
        return dropped

    def _prune(self, session_id: int) -> int:
        """Drop what removed turns of a session hold; what they named first may be named elsewhere, too."""

        def prune(db: apsw.Connection) -> int | None:
            if (db.execute("select next_seq from sessions where id = ?", (session_id,)).get or 0) != next_seq:
                return None
            erasing.note_removal(db)
            count = branches.prune(db, session_id)
            derived_tables.write(db, session_id, named, turn_ids)
            return count

        for _ in range(append.APPEND_TRIES):
            next_seq, named, turn_ids = self._read(lambda db: events.refs_kept(db, session_id))
            if (count := self._change(prune)) is not None:
                return count
        raise errors.StoreBusy(self.path)

    def take_branches(self, source: Store, uid: str) -> None:
        """Have a session's names, removals and leaf as another store has them."""
        if source.path == self.path or not self.has(uid):
            return
        theirs = source._read(lambda db: branches.state(db, uid))
        if self._read(lambda db: branches.state(db, uid)) != theirs:
            self._write_from(source, lambda db, name: branches.copy_of(db, name, uid), decided=True)

    def files_touched(self, session: Session | int, spans: Sequence[Span]) -> dict[str, str]:
        """The files that records of a session touched, each with what was done to it."""
        return self._read(lambda db: branches.touched(db, _id(session), spans))

    # what is in a session -------------------------------------------------------------------------------------

    def turns(self, session: Session | int) -> list[Turn]:
        """A session's turns, in the order of their prompts."""
        return self._read(lambda db: turns.of_session(db, _id(session)))

    def turn_costs(self, session: Session | int) -> dict[str, Cost]:
        """What each turn of a session cost, by its uid. Raises ConfigBroken for a person's own prices."""
        table = costs.price_table(self.prices_file)
        return self._read(lambda db: {each.uid: each.cost for each in costs.Costs(db, table).turns(_id(session))})

    def session_costs(self, sessions: Iterable[Session | int]) -> dict[int, Cost]:
        """What sessions cost with their subagents, by their ids; a copied turn counts where it was first."""
        table, wanted = costs.price_table(self.prices_file), [_id(each) for each in sessions]

        def read(db: apsw.Connection) -> dict[int, Cost]:
            asked = costs.Costs(db, table, estimates=False)
            return {each: asked.session(each) for each in wanted}

        return self._read(read)

    def turn_numbers(self, session: Session | int) -> dict[int, int]:
        """The number (1, 2, …) of each of a session's turns, by the id that events name."""
        return self._read(lambda db: turns.numbers(db, _id(session)))

    def events(self, session: Session | int, *, after: tuple[int, int] = (0, -1), limit: int = -1) -> list[StoredEvent]:
        """A session's events in order, from the one behind ``after`` = (seq, part) on."""
        return self._read(lambda db: events.of_session(db, _id(session), after=after, limit=limit))

    def turn_uid(self, turn_id: int) -> str | None:
        """The uid of the turn that events name by this id."""
        return self._read(lambda db: turns.uid(db, turn_id))

    def edits_of(self, turn_uid: str, *, is_log: bool) -> list[StoredEvent]:
        """A turn's calls that change files, in order: as the agent's own log or as a session of ours tells them."""
        return self._read(lambda db: events.edits(db, turn_uid, is_log=is_log))

    def event(self, event_id: int) -> StoredEvent | None:
        """The event with this id."""
        return self._read(lambda db: events.get(db, event_id))

    def search(
        self,
        query: str | None,
        wanted: Filter | None = None,
        *,
        limit: int = 20,
        hits_per_session: int | None = 1,
        ranked: bool = True,
        near: bool = True,
        sort: str = search.BY_SCORE,
    ) -> Found:
        """The best hits of ``query``, so many of each session (None: all), ``limit`` at most.

        ``near``: after what fits also what fits in other forms of the words, and the like. ``sort="time"``: the
        sessions that were last active first. Not ``ranked``: every event that has the words (None: every event with a
        text), of the newest sessions first.
        """
        asked = wanted or Filter()
        if not ranked or query is None:
            return self._read(lambda db: search.every(db, query, asked, limit=limit))
        return self._read(
            lambda db: search.search(
                db, query, asked, now=self._now(), limit=limit, hits_per_session=hits_per_session, near=near, sort=sort
            )
        )

    def sessions_named(self, wanted: Filter, *, limit: int = 20) -> Found:
        """The sessions that a filter lets through, the last active first, each by where it names the ref asked for."""
        return self._read(lambda db: search.listed(db, wanted, limit=limit))

    def execute_read_only(
        self,
        sql: str,
        limit: int = readonly.ROWS_MAX,
        *,
        parameters: Sequence[Any] = (),
        timeout_s: float = readonly.TIMEOUT_S,
        full_form: FullForm | None = None,
    ) -> Answer:
        """The answer to one reading SQL statement, over the views that docs/sql.md describes; see readonly.execute."""
        return readonly.execute(
            self.path, sql, limit=limit, timeout_s=timeout_s, parameters=parameters, full_form=full_form,
            prices=self.prices_file,
        )  # fmt: skip

    # logs -----------------------------------------------------------------------------------------------------

    def places(self) -> dict[str, SeenPlace]:
        """Every file that was looked at, by path, as it was then."""
        return self._read_if_begun(logs.places, {})

    def log(self, log_id: int) -> Log | None:
        """One log."""
        return self._read(lambda db: logs.get(db, log_id))

    def pending_calls(self, log_id: int) -> bytes | None:
        """What ``deriver`` left of a log: calls whose results had not come when it was read."""
        return self._read(lambda db: logs.pending(db, log_id))

    def logs(self, session: Session | int | None = None) -> list[Log]:
        """The logs of a session, or all."""
        return self._read(lambda db: logs.all_logs(db) if session is None else logs.of_session(db, _id(session)))

    def salvage_logs(self) -> tuple[list[Log], list[int]]:
        """The logs that a store still knows, damaged or not, and the ids of those whose rows cannot be read."""
        return self._read(logs.salvaged)

    def logs_of(self, agent: str, native_id: str) -> list[Log]:
        """The logs of one of an agent's sessions."""
        return self._read_if_begun(lambda db: logs.of_native_id(db, agent, native_id), [])

    def next_seq(self, uid: str) -> int:
        """The number that the next record of a session gets; 1 for a session that is not here."""
        return self._read_if_begun(lambda db: sessions.next_seq(db, ids.session_identity(uid)), 1)

    def read_log(self, log_id: int, start: int, length: int, *, checked: bool = True) -> bytes:
        """Bytes of a log, checked unless it is only to look at them, which is quicker; raises StoreDamaged."""
        return self._read(lambda db: logs.read(db, log_id, start, length, checked=checked))

    def stream_log(self, log_id: int) -> Iterator[bytes]:
        """All bytes of a log, a chunk at a time, checked; raises StoreDamaged."""
        db = self._reading_connection()
        pieces = logs.stream(db, log_id)
        while True:
            with connection.translated(self.path), _checked(self.path):
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece

    def sidecar_marks(self) -> dict[tuple[int, str], Mark]:
        """Size and mtime (ns) of every sidecar when it was last read, by its log's id and its name."""
        return self._read_if_begun(sidecars.marks, {})

    def sidecars(self, log_id: int) -> list[Kept]:
        """The small files that an agent keeps beside a log."""
        return self._read(lambda db: sidecars.of_log(db, log_id))

    def read_sidecar(self, sidecar_id: int) -> bytes:
        """A sidecar's bytes, checked; raises StoreDamaged."""
        return self._read(lambda db: sidecars.read(db, sidecar_id))

    def sidecar_ending_in(self, log_id: int, ending: str) -> int | None:
        """The id of a sidecar of this log, or of the session that its session helps, whose name ends so."""
        return self._read(lambda db: sidecars.ending_in(db, log_id, ending))

    def keep_sidecars(self, pieces: Sequence[Beside]) -> None:
        """Keep sidecars of several logs as they are now, and what they say."""

        def write_all(db: apsw.Connection) -> None:
            for piece in pieces:
                sidecars.write(db, piece)

        self._write(write_all)

    def chunk_marks(self, log_id: int) -> list[tuple[int, int, bytes]]:
        """(start, length, sha256) of each chunk of a log."""
        return self._read(lambda db: logs.chunk_marks(db, log_id))

    def runs(self, log_id: int) -> list[Run]:
        """The numbers of a log's records, in the order of their places."""
        return self._read(lambda db: logs.runs(db, log_id))

    def append(self, batches: Sequence[RecordBatch]) -> list[Written]:
        """Store batches of records in one transaction; each is taken, or refused on its own if the store moved on."""
        # A spool goes once its run is stored, so the run's end is on the disk by then.
        ends = any(batch.run is not None and batch.run.is_last for batch in batches)
        return self._write(lambda db: append.write_all(db, batches), decided=ends)

    def mark_stale(self, log_id: int) -> None:
        """Have what a log says derived again by the next ingest."""
        self._write(lambda db: db.execute("update logs set derived = 0 where id = ?", (log_id,)))

    def untold_logs(self) -> list[Log]:
        """The logs of which something is kept as bytes only, because storing what it says failed."""
        return self._read_if_begun(logs.untold, [])

    def remember_places(self, places: Iterable[SeenPlace], moved: Iterable[tuple[int, str, str]] = ()) -> None:
        """Note files as they are now, so that they need not be opened again.

        ``moved``: (log id, path, path below the agent's own folder) of logs that lie elsewhere now.
        """

        def remember(db: apsw.Connection) -> None:
            for place in places:
                logs.remember_place(db, place)
            for log_id, path, relpath in moved:
                db.execute("update logs set path = ?, relpath = ? where id = ?", (path, relpath, log_id))

        self._write(remember)

    def note_ctimes(self, ctimes: Mapping[str, int]) -> None:
        """Note the ctime of files, by path, that an earlier version looked at."""
        self._write(lambda db: logs.note_ctimes(db, ctimes))

    def drop_logs(self, log_ids: Sequence[int], *, in_favour_of: int) -> None:
        """Remove logs whose every record another log of the session holds too."""

        self._write(lambda db: retelling.drop_logs(db, log_ids, in_favour_of))

    def drop_reported(self, log_ids: Sequence[int]) -> None:
        """Remove logs that were made of what other logs report, with all that they say: the session is read anew."""

        def drop(db: apsw.Connection) -> None:
            for log_id in log_ids:
                retelling.drop_reported(db, log_id)

        self._write(drop)

    def replace_unread(self, log_id: int, understood: int) -> bool:
        """Remove a log that nobody understood, and its session, if another one holds all of its bytes by now."""

        def replace(db: apsw.Connection) -> bool:
            old, new = logs.get(db, log_id), logs.get(db, understood)
            if old is None or new is None or new.read_to < old.read_to:
                return False
            retelling.drop_logs(db, [log_id], understood)
            sessions.drop_read(db, understood)
            return True

        return self._write(replace)

    def fold_idle(self, before: int) -> int:
        """Fold the small chunks of logs that were last written before this time (ms); gives how many logs."""

        def fold(db: apsw.Connection) -> int:
            idle: list[tuple[Any, ...]] = db.execute(
                "select id from logs where frames > 1 and coalesce(modified, 0) < ?", (before,)
            ).fetchall()
            for (log_id,) in idle:
                logs.fold(db, log_id, idle=True)
            return len(idle)

        waiting = self._read(
            lambda db: (
                db.execute(
                    "select exists (select 1 from logs where frames > 1 and coalesce(modified, 0) < ?)", (before,)
                ).get
            )
        )
        return self._write(fold) if waiting else 0

    # the file -------------------------------------------------------------------------------------------------

    def verify(self, progress: Callable[[int, int], None] = lambda done, total: None) -> Verified:
        """Check everything that can be checked; see ``store/verify.py``."""
        # A connection of its own: what FTS5 remembers of the index in another is not renewed for this check.
        db = connection.open_reader(self.path)
        try:
            with connection.translated(self.path):
                migrate.schema_version(db, self.path)
                return verify.verify(db, progress)
        finally:
            db.close()

    def backup(self, target: Path) -> int:
        """Copy the store as it is now into a single new file; gives its size in bytes."""
        from backstory.store import backup

        return backup.write(self.path, target)

    # telling again ---------------------------------------------------------------------------------------------

    def sessions_to_derive(self, *, only_stale: bool) -> list[int]:
        """The ids of the sessions to derive again: all, or those that an earlier version derived."""
        self.make_ready()
        return self._read_if_begun(lambda db: retelling.sessions(db, only_stale=only_stale), list[int]())

    def clear_derived(self, session_id: int) -> None:
        """Remove what is derived of a session, to derive it again."""
        self._change(lambda db: retelling.clear(db, session_id))

    def rederive(self, batch: RecordBatch, *, events_too: bool) -> None:
        """Store what a log that was read again says: what is derived, and with ``events_too`` its events and turns."""
        self._change(lambda db: append.rederive(db, batch, events_too=events_too))

    def rederive_unlogged(self, session_id: int) -> None:
        """Derive what no log of a session says: the prompts of its runs."""
        batch = self._read(lambda db: retelling.unlogged(db, session_id))
        if batch is not None:
            self.rederive(batch, events_too=False)

    def drop_turns_but(self, session_id: int, told: set[str], read: dict[int, int]) -> None:
        """Remove the turns of a session that were not told again, if its logs are as they were ``read`` (to where)."""
        self._change(lambda db: retelling.drop_turns_but(db, session_id, told, read))

    def mark_gone(self, log_ids: list[int], now: int) -> int:
        """Note which logs' files are gone; gives how many sessions have none left."""
        return self._change(lambda db: retelling.mark_gone(db, log_ids, now))

    def counts(self) -> dict[str, int]:
        """How many sessions, turns, events, files, refs and checkpoints there are."""
        return self._read(retelling.counts)

    def run_folder(self, log_id: int) -> str | None:
        """The folder that the run whose stream a log is was in."""
        return self._read(lambda db: logs.run_folder(db, log_id))

    def turn_uid_of(self, log_id: int) -> str | None:
        """The turn whose stream a log is; None for a whole session's log."""
        return self._read(lambda db: logs.turn_uid(db, log_id))

    def optimize(self, before: int, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        """Make the file smaller: pack logs that were last written before this time (ms) harder, and merge the index.

        Each transaction is short; it may be stopped at any time. ``progress`` is told logs done and to do. A file that
        may still hold something that was removed, as those of earlier versions may, is written anew.
        """
        todo = self._read(lambda db: logs.to_repack(db, before))
        for number, log_id in enumerate(todo, 1):
            start: int | None = 0
            while start is not None:
                start = self._change(partial(logs.repack, log_id=log_id, start=start))
            progress(number, len(todo))
        self.begin_bulk()
        self.end_bulk()
        self.erase()

    @contextmanager
    def bulk(self, *, is_bulk: bool = True) -> Iterator[None]:
        """A block in which logs are written: a lot, with ``begin_bulk`` before it and ``end_bulk`` behind it, or not.

        If the block fails the index gets its settings back, and is merged by those who write next.
        """
        if is_bulk:
            self.begin_bulk()
        try:
            yield
            if self._read_if_begun(titles.are_due, otherwise=False):
                self._change(titles.settle)
            if is_bulk:
                self.end_bulk()
        except BaseException:
            # Where even that fails, opening the store again does it.
            with suppress(errors.BackstoryError):
                if is_bulk:
                    self._leave_bulk()
            raise

    def begin_bulk(self) -> None:
        """Put off merging the index, and emptying the WAL, while a lot is written; ``end_bulk`` does both once."""
        self._write(lambda db: _set_index(db, automerge=0, crisismerge=BULK_CRISIS_MERGE, hashsize=BULK_HASH_BYTES))
        self._writing_connection().wal_autocheckpoint(BULK_WAL_PAGES)

    def end_bulk(self) -> None:
        """Merge the index into one piece, a step at a time, and give its settings and the free pages back."""
        self._merge_index()
        self._leave_bulk()
        self._give_pages_back()

    def _leave_bulk(self) -> None:
        self._writing_connection().wal_autocheckpoint(WAL_PAGES)
        self._write(_reset_index)

    # how ------------------------------------------------------------------------------------------------------

    def _merge_index(self) -> None:
        with connection.translated(self.path):
            _merge_whole(self._writing_connection(), self.path)

    def _new_uid(self) -> str:
        return ids.new_uid(self._now(), self._randomness(10))

    def _read(self, question: Callable[[apsw.Connection], T]) -> T:
        with (
            _believed(self.path) if self.is_elsewhere else nullcontext(),
            connection.translated(self.path),
            _checked(self.path),
        ):
            return question(self._reading_connection())

    def _read_if_begun(self, question: Callable[[apsw.Connection], T], otherwise: T) -> T:
        try:
            return self._read(question)
        except errors.StoreNotFound:
            return otherwise

    def _write_from(self, source: Store, change: Callable[[apsw.Connection, str], T], *, decided: bool = False) -> T:
        """Write with another store beside; ``change`` is told the name to read it under."""
        if source.path == self.path:
            return self._write(lambda db: change(db, "main"), decided=decided)
        source.session_count()  # opens it, so that a file that is no store of ours is refused
        db = self._writing_connection()
        with connection.translated(source.path):
            db.execute("attach database ? as source", (str(source.path),))
        try:
            return self._write(lambda db: change(db, "source"), decided=decided)
        finally:
            db.execute("detach database source")

    def _change(self, change: Callable[[apsw.Connection], T], *, decided: bool = False) -> T:
        """Write to a store that is there; unlike ``_write`` this begins none."""
        if not self.exists:
            raise errors.StoreNotFound(self.path)
        return self._write(change, decided=decided)

    def _write(self, change: Callable[[apsw.Connection], T], *, decided: bool = False) -> T:
        db = self._writing_connection()
        with connection.lasting(db, self.path) if decided else nullcontext():  # noqa: SIM117
            with connection.writing(db, self.path), _checked(self.path):
                return change(db)

    def _append(self, look: Callable[[apsw.Connection], Callable[[], list[RecordBatch]]]) -> list[RecordBatch]:
        """Store what is made of what the store says now; made again when another process was faster.

        ``look`` asks the store, and what it gives makes the batches.
        """
        if not self.exists:
            raise errors.StoreNotFound(self.path)
        db = self._writing_connection()
        for _ in range(append.APPEND_TRIES - 1):
            with connection.reading(db, self.path), _checked(self.path):
                make = look(db)
            made = make()
            if not made or self.append(made)[0].refused is None:
                return made
        with connection.writing(db, self.path), _checked(self.path):
            made = look(db)()
            append.write_all(db, made)
        return made

    def _give_pages_back(self) -> None:
        with connection.translated(self.path):
            # One page is given back per step, so the statement has to be stepped to its end.
            for _ in self._writing_connection().execute("pragma incremental_vacuum"):
                pass

    def _reading_connection(self) -> apsw.Connection:
        if self._reader is None:
            db = connection.open_reader(self.path)
            with connection.translated(self.path):
                is_older = migrate.schema_version(db, self.path) < migrate.SCHEMA_VERSION
            if is_older:
                db.close()
                self._bring_forward()
                db = connection.open_reader(self.path)
            self._reader = db
        return self._reader

    def _bring_forward(self) -> None:
        """Migrate an older store before it is read: what reads it knows today's tables only."""
        if self.refuses_writes or self.is_elsewhere:
            raise errors.StoreOutdated(self.path)
        self._writing_connection()

    def _writing_connection(self) -> apsw.Connection:
        if self.refuses_writes:
            raise errors.NotTrusted(self.path)
        if self._writer is None:
            db = connection.open_writer(self.path)
            try:
                with connection.translated(self.path):
                    if self.is_elsewhere:
                        self._disarm(db)
                    self._make_ready(db)
            except BaseException:
                db.close()
                raise
            self._writer = db
        return self._writer

    def disarm(self) -> list[str]:
        """Take out the triggers that are not ours before anything is written; gives their names.

        Raises NotAStore for a store in which not all is what it says.
        """
        with connection.translated(self.path), _believed(self.path), closing(connection.open_writer(self.path)) as db:
            return self._disarm(db)

    def _disarm(self, db: apsw.Connection) -> list[str]:
        foreign.check_tables(db, self.path)
        foreign.check_uids(db, self.path)
        with connection.writing(db, self.path):
            dropped = foreign.take_out_triggers(db, self.path)
            # What a migration changes must not act meanwhile either, so ours come back with today's tables.
            migrate.upgrade(db, self.path)
            foreign.put_back_triggers(db)
        return dropped

    def _make_ready(self, db: apsw.Connection) -> None:
        self._make_tables(db)
        if self._shared:
            connection.share(db)
        if db.execute("select count(*) from search_index_config where k = 'automerge' and v = 0").get:
            # A bulk load was killed before it could give the index its settings back.
            with connection.writing(db, self.path):
                _reset_index(db)
        if _has_too_many_segments(db):
            _merge_whole(db, self.path)

    def _make_tables(self, db: apsw.Connection) -> None:
        empty = db.pragma("page_count") == 0 or not db.execute("select count(*) from sqlite_schema").get
        ready = not empty and migrate.is_current(db, self.path)
        if not ready:
            with connection.writing(db, self.path, first=empty):
                # Another process may have been faster between the look and the lock.
                if not db.execute("select count(*) from sqlite_schema").get:
                    migrate.begin(db, self._id_to_take or self._new_uid())
                migrate.upgrade(db, self.path)


def cleanup_orphans(store: Store, running: Container[str] = ()) -> list[Orphan]:
    """The same as ``store.cleanup_orphans``."""
    return store.cleanup_orphans(running)


def _id(session: Session | int) -> int:
    if isinstance(session, Session):
        return session.id
    if isinstance(session, int):
        return session
    raise errors.NotASession(session)


class _Undone(Exception):
    """Raised to take a change back."""


class _checked:  # noqa: N801 - used as a statement
    """Bytes that fail their checksum are damage of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, refused: BaseException | None, _trace: object) -> None:
        from backstory.store.codec import CodecError

        if isinstance(refused, CodecError | msgspec.DecodeError):
            raise errors.StoreDamaged(self._path, str(refused)) from refused


def _absolute(folder: str | os.PathLike[str]) -> str:
    """A folder by a name that means the same from everywhere; an empty name stays one."""
    named = os.fspath(folder)
    return os.path.normpath(Path(named).absolute()) if named else ""


@contextmanager
def _believed(path: Path) -> Iterator[None]:
    """Rows that make no sense are damage of the file, where it was not ours that wrote them."""
    import apsw

    try:
        yield
    except (
        apsw.SQLError, apsw.CorruptError, apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError, ValueError,
        TypeError, OverflowError,
    ) as refused:  # fmt: skip
        raise errors.StoreDamaged(path, f"it is not as ours are made: {refused}") from refused


def _set_index(db: apsw.Connection, **settings: int) -> None:
    for name, value in settings.items():
        db.execute("insert into search_index(search_index, rank) values (?, ?)", (name, value))


def _merge_index(db: apsw.Connection, *, is_first: bool) -> bool:
    """One step of merging; whether there is more to do. A negative number of pages begins anew with all segments."""
    before = db.total_changes()
    _set_index(db, merge=-MERGE_PAGES if is_first else MERGE_PAGES)
    return db.total_changes() - before > 1


def _merge_whole(db: apsw.Connection, path: Path) -> None:
    """Merge the index into one segment, in short transactions."""
    for step in range(MERGE_STEPS_MAX):
        with connection.writing(db, path):
            is_more = _merge_index(db, is_first=step == 0)
        if not is_more:
            break


def _has_too_many_segments(db: apsw.Connection) -> bool:
    # The numbers of segments are given anew from the lowest, so that a low one answers without counting.
    if (db.execute("select max(segid) from search_index_idx").get or 0) <= SEGMENTS_MAX:
        return False
    return bool(db.execute("select count(distinct segid) > ? from search_index_idx", (SEGMENTS_MAX,)).get)


def _reset_index(db: apsw.Connection) -> None:
    _set_index(db, automerge=4, crisismerge=16, hashsize=1024 * 1024)
