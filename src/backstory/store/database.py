"""A store's file: its connections, its transactions, its tables as today's, the segments of its search index."""

from __future__ import annotations

import os
import time
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import msgspec

from backstory import errors, ids
from backstory.lazy import lazy_module
from backstory.store import moves
from backstory.store.file import connection, migrate
from backstory.store.file.readers import ReadingConnections
from backstory.store.intake import coverage
from backstory.store.tables import sessions
from backstory.store.tables.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    import apsw

    from backstory.derive.naming import ProjectNames
    from backstory.store.intake import append
    from backstory.store.intake.append import Written
    from backstory.store.intake.batches import RecordBatch
    from backstory.store.intake.coverage import IndexRule
    from backstory.store.moves import Move, Moves
    from backstory.store.tables import repositories
    from backstory.store.tables.session_filter import Selection
else:
    append = lazy_module("backstory.store.intake.append")
    repositories = lazy_module("backstory.store.tables.repositories")
    import apsw


F = TypeVar("F", bound="Selection")
P = ParamSpec("P")
T = TypeVar("T")
Asking: TypeAlias = "Callable[..., Any]"
"""Calls a function of a connection with the arguments that follow it, as ``Database.ask`` does."""


def id_of(session: Session | int) -> int:
    """The id of a session, given as itself or by its id; raises NotASession."""
    if isinstance(session, Session):
        return session.id
    if isinstance(session, int):
        return session
    raise errors.NotASession(session)


class Undone(Exception):
    """Raised to take a change back."""


class checked:  # noqa: N801 - used as a statement
    """Bytes that fail their checksum are damage of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, refused: BaseException | None, _trace: object) -> None:
        if refused is None:
            return
        from backstory.store.codec import CodecError

        if isinstance(refused, CodecError | msgspec.DecodeError):
            raise errors.StoreDamaged(self._path, str(refused)) from refused


@contextmanager
def believed(path: Path) -> Iterator[None]:
    """Rows that make no sense are damage of the file, where it was not ours that wrote them."""
    import apsw

    try:
        yield
    except (
        apsw.SQLError, apsw.CorruptError, apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError, ValueError,
        TypeError, OverflowError,
    ) as refused:  # fmt: skip
        raise errors.StoreDamaged(path, f"it is not as ours are made: {refused}") from refused


class Database:
    """One store file. Reading never changes it; each change is one transaction."""

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
        self.now = now or (lambda: time.time_ns() // 1_000_000)
        self._randomness = randomness
        self._readers = ReadingConnections(self.path)
        self._writer: apsw.Connection | None = None
        self._moves: Moves | None = None
        self._copied: tuple[int, ...] | None = None
        # Known before the file is there: the home notes a new store first, so that a kill in between leaves none that
        # nobody trusts; and one that is restored from the home store is the store it was.
        self._id_to_take: str | None = None
        self.whole = connection.Wholeness()
        self.is_elsewhere = False
        """Nobody has trusted it: its sessions are marked as from elsewhere, their names count for nothing, and none
        of its triggers acts."""
        self.refuses_writes = False
        """Writing raises NotTrusted."""
        self.is_patient = True
        """True if a writer waits for another one; if not, writing raises StoreBusy at once."""
        self.index_rule: Callable[[], IndexRule] | None = None
        """The rule of a person for derived tables; None: the store's own."""
        self.project_names: Callable[[], ProjectNames] | None = None
        """The names of all projects on screens; None: each session says its own."""
        self.prices_file: Path | None = None
        """A person's own prices, which stand in for those that come with the program."""

    @property
    def moves(self) -> Moves:
        """The folders that were moved since their paths were recorded here; read once while the store is open."""
        if self._moves is None:
            self._moves = self.ask_or(moves.Moves(), moves.load, self.path)
        return self._moves

    def change_moves(self, change: Callable[[list[Move]], list[Move]]) -> None:
        """Change which folders the store knows to be moved."""
        self.decide(moves.changed, change)
        self._moves = None
        self.change(repositories.note_names, self.moves)

    def settle(self) -> None:
        """Note the root of the project where it lies now, if the store says another one or none.

        A store that is no project's has none.
        """
        root = moves.root_of(self.path)
        if root is not None and self.ask(moves.is_unsettled, root):
            self.decide(moves.settle, root, self.now())
            self._moves = None

    def as_shown(self, session: Session) -> Session:
        """A session as this store may show it: what people elsewhere called it counts for nothing."""
        if self.is_elsewhere:
            session = msgspec.structs.replace(session, name="", elsewhere=str(self.path))
        session = session.moved(self.moves)
        return session if self.project_names is None else session.named(self.project_names())

    def as_recorded(self, wanted: F) -> F:
        """A filter that knows how the paths here are to be read."""
        return msgspec.structs.replace(wanted, moves=self.moves) if self.moves else wanted

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def make_ready(self) -> None:
        """Bring a store of an earlier version to today's tables, if it is there; acting commands do so anyway."""
        if self.exists:
            self.writer()

    def close(self) -> None:
        """Let go of the file; with the last connection its side files go too."""
        self._readers.close()
        if self._writer is not None:
            self._writer.close()
        self._writer = self._moves = None

    @property
    def exists(self) -> bool:
        """True if the file is there, and was ever finished."""
        if not connection.exists(self.path):
            return False
        # With a connection of ours open the journal is our own transaction, and undoes nothing.
        if self._readers.mine is None and self._writer is None and connection.is_interrupted(self.path):
            # Opening it undoes what there is of a first transaction that was cut off.
            try:
                connection.open_reader(self.path).close()
            except errors.StoreNotFound:
                return False
            except errors.BackstoryError:
                return True
        return True

    @property
    def is_writable(self) -> bool:
        """True if the file, and what SQLite keeps beside it, may be written by this process."""
        return os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)

    def is_ready(self) -> bool:
        """Return True if today's version made its tables, what is derived and a healthy index: more can be written.

        Raises what reading raises, also StoreTooNew; unlike reading it brings no earlier store forward.
        """
        return self._is_so(
            lambda db: migrate.is_current(db, self.path) and migrate.is_derived(db) and not needs_care(db)
        )

    def is_of_today(self) -> bool:
        """Return True if no earlier version made its tables or derived what it holds. Raises as ``is_ready`` does."""
        return self._is_so(lambda db: migrate.is_current(db, self.path) and migrate.is_derived(db))

    def _is_so(self, look: Callable[[apsw.Connection], bool]) -> bool:
        """Ask a store that may be of an earlier version; a connection to one that is as it should be is kept."""
        mine = self._readers.mine
        db = mine or connection.open_reader(self.path)
        try:
            with connection.translated(self.path):
                is_so = look(db)
        except BaseException:
            if db is not mine:
                db.close()
            raise
        # The connection that is kept answers questions, and those know today's tables only.
        if db is not mine and is_so:
            self._readers.keep(db)
        elif db is not mine:
            db.close()
        return is_so

    @property
    def id(self) -> str:
        """The store's own id, kept in the file."""
        if self._readers.mine is not None:
            return self.ask(lambda db: migrate.id_of(db, self.path))
        # Whose a store is is asked before it may be brought forward.
        db = connection.open_reader(self.path)
        try:
            with connection.translated(self.path):
                is_older = migrate.schema_version(db, self.path) < migrate.SCHEMA_VERSION
                found = migrate.id_of(db, self.path)
        except BaseException:
            db.close()
            raise
        if is_older:
            db.close()
        else:
            self._readers.keep(db)
        return found

    def begin_as(self, store_id: str) -> None:
        """Give a store that is not there yet this id."""
        self._id_to_take = store_id

    def check_writable(self) -> None:
        """Raise now what writing would raise: StoreReadOnly, StoreBusy, DiskFull, …"""

        def try_it(db: apsw.Connection) -> None:
            # Changing a page begins the journal, which a folder may refuse.
            db.execute("insert into meta(key, value) values ('tried', '')")
            raise Undone

        if not self.exists:
            raise errors.StoreNotFound(self.path)
        with suppress(Undone), connection.undoing(self.writer(), self.path):
            self._write(try_it)

    def append(
        self, batches: Sequence[RecordBatch], *, is_copy: bool = False, at_end: Callable[[Asking], None] | None = None
    ) -> list[Written]:
        """Store batches of records in one transaction; each is taken, or refused on its own if the store moved on.

        ``is_copy``: the store that owns them has them on the disk, from which they can be copied again. ``at_end`` is
        called in the transaction if it stores the end of a run; what it asks may write, too.
        """
        # A spool goes once its run is stored, so the run's end is on the disk by then.
        ends = not is_copy and any(batch.run is not None and batch.run.is_last for batch in batches)

        def write(db: apsw.Connection) -> list[Written]:
            done = append.write_all(db, batches)
            if at_end is not None and ends and all(each.refused is None for each in done):
                at_end(lambda question, *args, **kwargs: question(db, *args, **kwargs))
            return done

        return self._write(write, decided=ends)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything that is read while this lasts is of one moment, whatever others write meanwhile.

        Keep it short: who writes a store with a rollback journal waits for its end. One inside another does nothing.
        """
        # What is committed until it begins is seen then, and once more: a token may be too old, never too new.
        token, db = self.change_token(), self.reader()
        if db.in_transaction:
            yield
            return
        with self._readers.of_moment(token), connection.reading(db, self.path):
            # Its moment is that of the first question.
            db.execute("select count(*) from sqlite_schema").get  # noqa: B018
            yield

    def change_token(self) -> tuple[int, ...]:
        """Another value after each change by anybody while the store is open, in any thread; () without a store."""
        try:
            with connection.translated(self.path):
                return self._readers.token(connection.open_reader, migrate.schema_version)
        except errors.StoreNotFound:
            return ()

    def new_uid(self) -> str:
        """Return an id that no store has."""
        return ids.new_uid(self.now(), self._randomness(10))

    def ask(self, question: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the answer of a function that reads a connection, given these arguments.

        Raises StoreNotFound, StoreDamaged, StoreBusy, …
        """
        with (
            believed(self.path) if self.is_elsewhere else nullcontext(),
            connection.translated(self.path),
            checked(self.path),
        ):
            return question(self.reader(), *args, **kwargs)

    def ask_or(
        self,
        otherwise: T,
        question: Callable[Concatenate[apsw.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the answer as ``ask`` does, and ``otherwise`` where there is no store yet."""
        try:
            return self.ask(question, *args, **kwargs)
        except errors.StoreNotFound:
            return otherwise

    def ask_once(self, question: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the answer as ``ask`` does, kept until anybody changes the store: for questions that read all of it.

        The arguments are hashable, and nobody changes what is answered.
        """
        key = (question, args, *kwargs.items())
        return self.ask(lambda db: self._readers.once(key, lambda: question(db, *args, **kwargs)))

    def write(self, change: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Write what a function does with a connection, in one transaction; a store that is not there begins so."""
        return self._write(lambda db: change(db, *args, **kwargs))

    def change(self, change: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Write to a store that is there, in one transaction; unlike ``write``. Raises StoreNotFound, NotTrusted, …"""
        return self._change(lambda db: change(db, *args, **kwargs))

    def decide(self, change: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Write as ``change`` does what a person decided: it is on the disk when this returns."""
        return self._change(lambda db: change(db, *args, **kwargs), decided=True)

    def change_from(
        self,
        source: Database,
        change: Callable[[apsw.Connection, str], T],
        *,
        decided: bool = False,
        look: Callable[[apsw.Connection], object] = sessions.count,
    ) -> T:
        """Write with another store beside; ``change`` receives the name to read it under.

        ``look`` reads that store first: what it raises is raised before anything is written.
        """
        # A file that is no store of ours is refused before it is attached.
        source.ask(look)
        if source.path == self.path:
            return self._write(lambda db: change(db, "main"), decided=decided)
        with connection.attached(self.writer(), self.path, source.path):
            return self._write(lambda db: change(db, "source"), decided=decided)

    def _change(self, change: Callable[[apsw.Connection], T], *, decided: bool = False) -> T:
        if not self.exists:
            raise errors.StoreNotFound(self.path)
        return self._write(change, decided=decided)

    def _write(self, change: Callable[[apsw.Connection], T], *, decided: bool = False) -> T:
        db = self.writer()
        # The sync is chosen before the transaction begins: SQLite refuses to change it inside one.
        with connection.lasting(db, self.path) if decided else nullcontext():  # noqa: SIM117
            with connection.writing(db, self.path), checked(self.path):
                return change(db)

    def begin(self) -> None:
        """Begin the store, if it is not there."""
        self.writer()

    @property
    def has_written(self) -> bool:
        """True if anything was written since the store was opened."""
        return self._writer is not None and bool(self._writer.total_changes())

    def _append(self, look: Callable[[apsw.Connection], Callable[[], list[RecordBatch]]]) -> list[RecordBatch]:
        """Store what is made of what the store says now; made again when another process was faster.

        ``look`` asks the store, and what it gives makes the batches.
        """
        if not self.exists:
            raise errors.StoreNotFound(self.path)
        db = self.writer()
        # What is slow, packing, happens outside the lock; only the last try holds it, so that a busy store cannot
        # starve us.
        for _ in range(append.APPEND_TRIES - 1):
            with connection.reading(db, self.path), checked(self.path):
                make = look(db)
            made = make()
            if not made or self.append(made)[0].refused is None:
                return made
        with connection.writing(db, self.path), checked(self.path):
            made = look(db)()
            append.write_all(db, made)
        return made

    def give_pages_back(self, most: int = 0) -> None:
        """Give the free pages of the file back to the disk; ``most``: so many at most, 0: all."""
        with connection.translated(self.path):
            # One page is given back per step, so the statement has to be stepped to its end.
            for _ in self.writer().execute(f"pragma incremental_vacuum({most})"):
                pass

    def reader(self) -> apsw.Connection:
        """The connection that reads, for what is longer than one question. Raises what ``ask`` raises."""
        mine = self._readers.mine
        if mine is not None and (self._copied is None or self._copied == self.change_token()):
            return mine
        self._copied, db = None, connection.open_reader(self.path)
        with connection.translated(self.path):
            if migrate.schema_version(db, self.path) < migrate.SCHEMA_VERSION:
                db.close()
                db = self._brought_forward()
        return self._readers.keep(db)

    def _brought_forward(self) -> apsw.Connection:
        """Migrate an older store before it is read, or a copy in memory where it may not be written."""
        with suppress(errors.StoreReadOnly, errors.NotTrusted):
            if not self.is_elsewhere:
                self.writer()
                return connection.open_reader(self.path)
        self._copied, db = self.change_token(), connection.copied_in_memory(self.path)
        with connection.translated(self.path):
            self._disarm(db)
        return db

    def writer(self) -> apsw.Connection:
        """The connection that writes; begins the store. Raises what ``write`` raises."""
        if self.refuses_writes:
            raise errors.NotTrusted(self.path)
        if self._writer is None:
            db = connection.open_writer(self.path)
            try:
                with connection.translated(self.path):
                    if not self.is_patient:
                        db.set_busy_timeout(0)
                    if self.is_elsewhere:
                        self._disarm(db)
                    self._make_ready(db)
                    self._follow_rule(db)
            except BaseException:
                db.close()
                raise
            self._writer = db
        return self._writer

    def _follow_rule(self, db: apsw.Connection) -> None:
        """Apply the rule for the index in the settings, if the store follows another one."""
        # A foreign store keeps the rule that it came with: a person's settings are about their own.
        if self.index_rule is None or self.is_elsewhere:
            return
        rule = self.index_rule()
        if coverage.rule_of(db) != rule:
            with connection.writing(db, self.path):
                coverage.follow(db, rule)

    def disarm(self) -> list[str]:
        """Take out the triggers that are not ours before anything is written; gives their names.

        Raises NotAStore for a store in which not all is what it says.
        """
        with connection.translated(self.path), believed(self.path), closing(connection.open_writer(self.path)) as db:
            return self._disarm(db)

    def _disarm(self, db: apsw.Connection) -> list[str]:
        connection.check_tables(db, self.path)
        # Before the first write: files and folders are named after uids, and a path in one would lead elsewhere.
        connection.check_uids(db, self.path)
        with connection.writing(db, self.path):
            dropped = connection.take_out_triggers(db, self.path)
            # What a migration changes must not act meanwhile either, so ours come back with today's tables.
            migrate.upgrade(db, self.path)
            connection.put_back_triggers(db)
        return dropped

    def _make_ready(self, db: apsw.Connection) -> None:
        self._make_tables(db)
        if self._shared:
            connection.share(db)
        if is_in_bulk(db):
            # A bulk load was killed before it could give the index its settings back.
            with connection.writing(db, self.path):
                reset_index(db)
        # Before the person's own write, which would fail in the middle with a full index.
        if has_too_many_segments(db):
            merge_whole(db, self.path)

    def _make_tables(self, db: apsw.Connection) -> None:
        empty = db.pragma("page_count") == 0 or not db.execute("select count(*) from sqlite_schema").get
        ready = not empty and migrate.is_current(db, self.path)
        if not ready:
            with connection.writing(db, self.path, first=empty):
                # Another process may have been faster between the look and the lock.
                if not db.execute("select count(*) from sqlite_schema").get:
                    migrate.begin(db, self._id_to_take or self.new_uid(), moves.root_of(self.path))
                migrate.upgrade(db, self.path)


# the segments of the search index -------------------------------------------------------------------------------------


BULK_CRISIS_MERGE = 500
"""The most segments of the index that are merged at once even while that is put off: FTS5 has room for 2,000 in all."""


SEGMENTS_MAX = 1_500
"""An index with more segments is merged before anything is written: merging takes room itself."""


SEARCHED_SEGMENTS = 32
"""An index in no more segments than these is searched well; later writers merge them as they go."""


MERGE_PAGES = 2_000
"""The index is merged in steps of so many pages, so that no other writer waits for long."""


MERGE_STEPS_MAX = 10_000


def set_index(db: apsw.Connection, **settings: int) -> None:
    for name, value in settings.items():
        db.execute("insert into search_index(search_index, rank) values (?, ?)", (name, value))


def merge_index(db: apsw.Connection, *, is_first: bool) -> bool:
    """One step of merging; whether there is more to do. A negative number of pages begins anew with all segments."""
    before = db.total_changes()
    set_index(db, merge=-MERGE_PAGES if is_first else MERGE_PAGES)
    return db.total_changes() - before > 1


def merge_whole(db: apsw.Connection, path: Path) -> None:
    """Merge the index into one segment, in short transactions."""
    for step in range(MERGE_STEPS_MAX):
        with connection.writing(db, path):
            is_more = merge_index(db, is_first=step == 0)
        if not is_more:
            break


def has_too_many_segments(db: apsw.Connection) -> bool:
    # The numbers of segments are given anew from the lowest, so that a low one answers without counting.
    if (db.execute("select max(segid) from search_index_idx").get or 0) <= SEGMENTS_MAX:
        return False
    return bool(db.execute("select count(distinct segid) > ? from search_index_idx", (SEGMENTS_MAX,)).get)


def is_in_bulk(db: apsw.Connection) -> bool:
    """Return True if the index has the settings of a bulk load: one goes on, or was killed."""
    return bool(db.execute("select count(*) from search_index_config where k = 'automerge' and v = 0").get)


def needs_care(db: apsw.Connection) -> bool:
    """Return True if who opens the store to write gives the index its settings back, or merges it, first."""
    return is_in_bulk(db) or has_too_many_segments(db)


def is_scattered(db: apsw.Connection) -> bool:
    """Return True if a search looks into so many segments that merging them is worth its time."""
    return bool(db.execute("select count(distinct segid) > ? from search_index_idx", (SEARCHED_SEGMENTS,)).get)


def reset_index(db: apsw.Connection) -> None:
    set_index(db, automerge=4, crisismerge=16, hashsize=1024 * 1024)
