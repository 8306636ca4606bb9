"""The queue of a store: prompts and messages for its sessions, and who runs which session.

``<store>.queue.db`` beside the store. It is made when something is first queued, and removed when it is empty and
nobody runs. A text is given the uid of the turn it will become, so whether it was taken up can be asked of the store:
its row is deleted only afterwards. The rows of owners are for people and for other hosts; the right to write a
session is a lock of the operating system.

Reading takes no lock, unless somebody writes just then. Who cannot have the lock lets go of all he has and tries again.
"""

from __future__ import annotations

import errno
import os
from contextlib import closing, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import apsw
import msgspec
from msgspec import Struct, field

from backstory import errors
from backstory.store.file import connection, waiting
from backstory.store.file.connection import is_uid
from backstory.store.file.waiting import BRIEF_MS, Patience, unstopped
from backstory.store.schema import fetch, fetch_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

T = TypeVar("T")

APPLICATION_ID = 0x626B7371  # "bksq"
VERSION = 1
TIDY_S = 3.0
"""The longest wait for the file where only order is at stake: an empty file and an old row do no harm."""
COPIES_MAX = 3
MOVED_RETRIES_MAX = 20
"""The most attempts at a file that was removed while it was being opened."""
HEARTBEAT_S = 5.0
SHORT_ID_CHARS = 8
STALE_MS = 30_000
"""An owner that has not been heard of for longer is gone."""

_TABLES = f"""
create table texts(
  position    integer primary key autoincrement,  -- texts are taken in this order
  uid         text not null unique,               -- of the turn that it becomes
  session_uid text not null,
  kind        text not null,                      -- steer | followup | held
  content     text not null,                      -- as typed
  options     text not null,                      -- JSON: what the run is asked for beside its prompt
  queued      integer not null                    -- ms since 1970
);
create index idx_texts_session on texts(session_uid);
create table owners(
  session_uid text primary key,
  pid         integer not null,
  host        text not null,
  started     integer not null,                   -- ms since 1970, as is:
  heartbeat   integer not null
) without rowid;
pragma application_id = {APPLICATION_ID};
pragma user_version = {VERSION};
"""
_ACTING = (
    "select name from pragma_table_list where schema = 'main' and type <> 'table' union all "
    "select name from sqlite_schema where type not in ('table', 'index') or sql like 'create%trigger%'"
)
"""Views and triggers: a queue of ours has none, and reading or writing one would do what they say."""
_OWNER_COLUMNS = "session_uid, pid, host, started, heartbeat"
_COLUMNS = "uid, session_uid, kind, content, options, queued"


class QueuedKind(StrEnum):
    """The kind of a queued text: a message for a running agent, or the prompt of the next run."""

    STEER = "steer"
    FOLLOWUP = "followup"
    HELD = "held"
    """It came with a store from elsewhere, and is the prompt of a run only when a person releases it."""


class Options(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Options of a queued run; None where the session's last run decides."""

    agent: str | None = None
    model: str | None = None
    permissions: str | None = None
    cwd: str | None = None
    after: tuple[str, int] | None = None
    """The turn and the record in it that the prompt is to follow."""
    no_board: bool = False
    """True if the run is offered no notes of the board."""


class QueuedPrompt(Struct, frozen=True, kw_only=True):
    """A prompt or a message in the queue. ``queued``: since when, in ms since 1970."""

    uid: str
    session_uid: str
    kind: QueuedKind
    content: str
    options: Options = field(default_factory=Options)
    queued: int = 0

    @property
    def short_id(self) -> str:
        """The short id that people use: the end of its uid, which is random; the beginning is the time."""
        return self.uid[-SHORT_ID_CHARS:]


class QueueOwner(Struct, frozen=True, kw_only=True):
    """The process that runs a session, as it last said; times in ms since 1970."""

    session_uid: str
    pid: int
    host: str
    started: int
    heartbeat: int

    def is_fresh(self, now: int) -> bool:
        """Return True if it was heard of lately. A heartbeat far in the future comes from a clock that was wrong."""
        return abs(now - self.heartbeat) < STALE_MS


def path_beside(store: Path) -> Path:
    """Return the path of a store's queue."""
    return store.with_name(store.name + ".queue.db")


def stamp(store: Path) -> tuple[int, ...]:
    """Return what differs after the queue beside a store changed; an owner's heartbeat is a change, too."""
    try:
        status = path_beside(store).stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


class Queue:
    """The queue beside one store; each method is one transaction.

    Reading makes nothing. A file that another process has locked is waited for; ``report`` is called with its holder
    where that takes long. Errors: QueueUnusable for a file that is something else or damaged, QueueReadOnly, QueueBusy,
    DiskFull.
    """

    def __init__(
        self, store: Path, report: Callable[[str], None] = lambda _: None, *, patience_s: float | None = None
    ) -> None:
        self.store, self.path = store, path_beside(store)
        self._report, self._patience_s = report, patience_s
        self._db: apsw.Connection | None = None
        self._inode = 0
        self._is_lasting: bool | None = None
        """True if what is committed is on the disk at once; None for a connection that was not set yet."""
        self._seen: object = None

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._db is not None:
            self._db.close()
        self._db = None

    # texts ----------------------------------------------------------------------------------------------------

    def add(self, texts: Sequence[QueuedPrompt]) -> int:
        """Queue texts in this order, on the disk when this returns; returns how many of the session are before them."""

        def insert(db: apsw.Connection) -> int:
            # Counted in the same transaction: the place that a person is told is the one that the text has.
            before = int(db.execute("select count(*) from texts where session_uid = ?", (texts[0].session_uid,)).get)
            db.executemany(
                f"insert into texts({_COLUMNS}) values (?, ?, ?, ?, ?, ?)",
                [
                    (
                        each.uid, each.session_uid, each.kind.value, each.content,
                        msgspec.json.encode(each.options).decode(), each.queued,
                    )
                    for each in texts
                ],
            )  # fmt: skip
            return before

        return self._write(insert)

    def prompts(self, session_uid: str | None = None, kind: QueuedKind | None = None) -> list[QueuedPrompt]:
        """Return the queued prompts, in order; held ones only when asked for that kind."""

        def select(db: apsw.Connection) -> list[QueuedPrompt]:
            rows: list[Any] = db.execute(
                f"select {_COLUMNS} from texts where (?1 is null or session_uid = ?1) "
                "and iif(?2 is null, kind <> ?3, kind = ?2) order by position",
                (session_uid, kind.value if kind else None, QueuedKind.HELD.value),
            ).fetchall()
            return [_text(row) for row in rows]

        return self._read(select, list[QueuedPrompt]())

    def has(self, uid: str) -> bool:
        """Return True if a text is still queued."""
        return self._read(lambda db: bool(db.execute("select count(*) from texts where uid = ?", (uid,)).get), False)

    def remove(self, uids: Sequence[str]) -> int:
        """Remove texts; returns how many there were. The file goes with the last one, unless a session runs."""
        if not uids:
            return 0

        def delete(db: apsw.Connection) -> int:
            before = db.total_changes()
            db.executemany("delete from texts where uid = ?", [(uid,) for uid in uids])
            return db.total_changes() - before

        removed = self._write_if_there(delete, 0)
        self.tidy()
        return removed

    def edit(self, uid: str, content: str) -> bool:
        """Change the text of a prompt; returns whether it was still queued."""

        def update(db: apsw.Connection) -> bool:
            before = db.total_changes()
            db.execute("update texts set content = ? where uid = ?", (content, uid))
            return db.total_changes() > before

        return self._write_if_there(update, False)

    def erase(self) -> None:
        """Leave nothing in the file of what was ever taken out of it."""
        with self._opened(begin=False) as db:
            if db is not None:
                # What is deleted is overwritten, but not the copies that SQLite left when it put pages in order.
                db.execute("vacuum")

    def drop(self, session_uids: Sequence[str]) -> list[QueuedPrompt]:
        """Remove and erase what is queued or held for sessions that are gone; returns it."""
        texts = [text for uid in session_uids for text in (*self.prompts(uid), *self.prompts(uid, QueuedKind.HELD))]
        self.remove([text.uid for text in texts])
        self.erase()
        return texts

    def make_followups(self, uids: Sequence[str]) -> int:
        """Turn messages that no run received into follow-ups, in their place in the queue; returns how many."""

        def change(db: apsw.Connection) -> int:
            before = db.total_changes()
            db.executemany(
                "update texts set kind = 'followup' where uid = ? and kind = 'steer'", [(uid,) for uid in uids]
            )
            return db.total_changes() - before

        return self._write_if_there(change, 0) if uids else 0

    def hold_all(self) -> int:
        """Hold all that is queued until a person releases it; returns how much there is.

        Of what a run was asked for, what may be done without asking and the folder are left to who releases it.
        """

        def hold(db: apsw.Connection) -> int:
            rows = fetch(db, tuple[int, str, str], "select position, uid, options from texts")
            if not all(is_uid(uid) for _, uid, _ in rows):
                # The folder of its run is named after it.
                raise errors.QueueUnusable(self.path, "a text in it has no uid")
            db.executemany(
                "update texts set kind = ?, options = ? where position = ?",
                [(QueuedKind.HELD.value, _harmless(options), position) for position, _, options in rows],
            )
            # Who ran a session where it comes from does not run it here.
            db.execute("delete from owners")
            return len(rows)

        return self._write_if_there(hold, 0)

    def release(self, uid: str) -> None:
        """Release a held prompt, which is then like any other."""
        self._write_if_there(
            lambda db: db.execute("update texts set kind = ? where uid = ?", (QueuedKind.FOLLOWUP.value, uid)), None
        )

    def has_changed(self) -> bool:
        """Return True if it may hold something else than when this was last asked; takes no lock, and is cheap."""
        try:
            with self._opened(begin=False) as db:
                now = None if db is None else waiting.stamp(db, self.path)
                if db is not None and now is None:
                    return True
        except (errors.BackstoryError, OSError):
            # What is wrong with it is said by who reads it.
            now = None
        before, self._seen = self._seen, now
        return now != before

    # owners ---------------------------------------------------------------------------------------------------

    def own(self, owner: QueueOwner) -> QueueOwner | None:
        """Note who runs a session; returns the owner that is in the way: one of another host, heard of lately."""

        def take(db: apsw.Connection) -> QueueOwner | None:
            known = _owner(db, owner.session_uid)
            # On this host the system's lock decided already, and a row of it is left by a process that was killed.
            if known is not None and known.host != owner.host and known.is_fresh(owner.heartbeat):
                return known
            db.execute(
                "insert into owners(session_uid, pid, host, started, heartbeat) values (?1, ?2, ?3, ?4, ?5) "
                "on conflict(session_uid) do update set pid = ?2, host = ?3, started = ?4, heartbeat = ?5",
                (owner.session_uid, owner.pid, owner.host, owner.started, owner.heartbeat),
            )
            return None

        return self._write(take, lasting=False)

    def disown(self, owner: QueueOwner) -> None:
        """Say that it runs the session no more; a row that is somebody else's by now stays."""
        if self.path.exists():
            self._write(
                lambda db: db.execute(
                    "delete from owners where session_uid = ? and pid = ? and host = ?",
                    (owner.session_uid, owner.pid, owner.host),
                ),
                lasting=False,
                patience_s=TIDY_S,
            )
        self.tidy()

    def owner(self, session_uid: str) -> QueueOwner | None:
        """Return the last process that claimed to run a session."""
        return self._read(lambda db: _owner(db, session_uid), None)

    def owners(self) -> list[QueueOwner]:
        """All who last said to run a session."""

        def select(db: apsw.Connection) -> list[QueueOwner]:
            rows = fetch(db, tuple[Any, Any, Any, Any, Any], f"select {_OWNER_COLUMNS} from owners order by started")
            return [_as_owner(row) for row in rows]

        return self._read(select, list[QueueOwner]())

    def tidy(self) -> None:
        """Remove the file if there is nothing in it. Whoever waits for it finds that it is gone, and begins another."""
        try:
            # Looked at without a lock first: in a queue that is used nobody waits for this.
            is_empty = self._read(_is_empty, False)
            if is_empty and self._waited(self._remove_if_empty, Patience(self.path, lambda _: None, TIDY_S)):
                self.close()
        except (errors.BackstoryError, OSError):
            # An empty file does no harm; the next one to leave the queue removes it.
            return

    # how ------------------------------------------------------------------------------------------------------

    def _read(self, question: Callable[[apsw.Connection], T], otherwise: T) -> T:
        def attempt() -> T:
            with self._opened(begin=False) as db:
                if db is None:
                    return otherwise
                # One that changed while it was copied is copied again: who reads with a lock may be stopped there.
                copies = (waiting.copy_of(db, self.path) for _ in range(COPIES_MAX))
                if (copy := next(filter(None, copies), None)) is not None:
                    with closing(copy):
                        return question(copy) if self._is_ready(copy) else otherwise
                with unstopped():
                    return question(db) if self._is_ready(db) else otherwise

        return self._waited(attempt, self._patience())

    def _write_if_there(self, change: Callable[[apsw.Connection], T], otherwise: T) -> T:
        return self._write(change) if self.path.exists() else otherwise

    def _write(
        self, change: Callable[[apsw.Connection], T], *, lasting: bool = True, patience_s: float | None = None
    ) -> T:
        def change_when_ready(db: apsw.Connection) -> T:
            # Two processes may both have made the file; the first one with the lock makes its tables.
            if not self._is_ready(db):
                db.execute(_TABLES)
            return change(db)

        def attempt() -> T:
            with self._opened(begin=True) as db, unstopped():
                assert db is not None
                self._be_durable(db, lasting=lasting)
                return _in_transaction(db, change_when_ready)

        patience = self._patience(patience_s)
        for _ in range(MOVED_RETRIES_MAX):
            try:
                return self._waited(attempt, patience)
            except _Moved:
                # Somebody removed it, empty, before we had the lock.
                self.close()
        raise errors.StoreBusy(self.path)

    def _remove_if_empty(self) -> bool:
        with self._opened(begin=False) as db, unstopped():
            if db is None:
                return False
            # Looked at again with the lock: whoever began to write before us has queued something.
            db.execute("begin exclusive")
            try:
                if is_empty := _is_empty(db):
                    # While the lock is held, so that whoever waits for it finds another file under the name, or none.
                    self.path.unlink(missing_ok=True)
            finally:
                db.execute("rollback")
        return is_empty

    def _patience(self, seconds: float | None = None) -> Patience:
        return Patience(self.path, self._report, self._patience_s if seconds is None else seconds)

    def _waited(self, attempt: Callable[[], T], patience: Patience) -> T:
        """Repeat an attempt until it finds the file free; holds nothing in between. Raises QueueBusy."""
        while True:
            try:
                return attempt()
            except errors.StoreBusy:
                patience.wait()

    @contextmanager
    def _opened(self, *, begin: bool) -> Iterator[apsw.Connection | None]:
        """The open file; with ``begin`` it is made if it is not there, else None."""
        with _translated(self.path):
            # A write to a file that was removed would be acknowledged and lost.
            if self._db is not None and not self._is_same():
                self.close()
            if self._db is None:
                self._db = self._open(begin=begin)
            yield self._db

    def _is_same(self) -> bool:
        return self._is_at(self._inode)

    def _is_at(self, inode: int | None) -> bool:
        """Return True if the file of our name is the one with this inode."""
        try:
            return self.path.stat().st_ino == inode
        except OSError:
            return False

    def _open(self, *, begin: bool) -> apsw.Connection | None:
        """A connection that has not looked at the file yet: that takes a lock."""
        if any(each.is_symlink() for each in (self.path, *connection.side_files(self.path))):
            raise errors.QueueUnusable(self.path, "it, or a file beside it, is a link")
        connection.check_path(self.path)
        if begin:
            _make_file(self.path)
        try:
            status = self.path.stat()
        except OSError as refused:
            if begin:
                raise _Moved from refused
            return None
        if not begin and status.st_size == 0:
            return None
        how = apsw.SQLITE_OPEN_READWRITE if os.access(self.path, os.W_OK) else apsw.SQLITE_OPEN_READONLY
        try:
            db = apsw.Connection(str(self.path), flags=how)
        except apsw.CantOpenError:
            if self._is_at(status.st_ino):
                raise
            db = None
        is_another = os.access(self.path, os.W_OK) or not self._is_at(status.st_ino)
        if db is None or (how == apsw.SQLITE_OPEN_READONLY and is_another):
            # Removed, empty, since we looked: that it could not be opened, or be written, says nothing of it.
            if db is not None:
                db.close()
            if begin:
                raise _Moved
            return None
        db.set_busy_timeout(BRIEF_MS)
        # What was taken out of the queue must not stay in its file, and what another made of it must not act.
        db.execute("pragma secure_delete = 1; pragma trusted_schema = 0")
        self._inode, self._is_lasting = status.st_ino, None
        return db

    def _be_durable(self, db: apsw.Connection, *, lasting: bool) -> None:
        # Who runs need not survive a power cut, and is one row in one page; what people said must, and syncing that
        # syncs all of the file.
        if self._is_lasting != lasting:
            db.execute(f"pragma synchronous = {'extra' if lasting else 'off'}")
            self._is_lasting = lasting

    def _is_ready(self, db: apsw.Connection) -> bool:
        version = int(db.pragma("user_version"))
        if version > VERSION:
            raise errors.StoreTooNew(self.path, version, VERSION)
        # A file that was made and not filled has version 0, as any other program's has.
        if version == 0 and db.execute("select count(*) from sqlite_schema").get:
            raise errors.QueueUnusable(self.path, "another program's database")
        if version and db.pragma("application_id") != APPLICATION_ID:
            raise errors.QueueUnusable(self.path, "another program's database")
        if acting := db.execute(_ACTING).get:
            raise errors.QueueUnusable(self.path, f"its {acting!r} acts by itself, which nothing in a queue does")
        return version == VERSION


class _Moved(Exception):
    """The file that was opened is no longer the one of this name."""


def _in_transaction(db: apsw.Connection, change: Callable[[apsw.Connection], T]) -> T:
    try:
        try:
            # Inside, because an interrupt may come as soon as it has begun.
            db.execute("begin immediate")
            changed = change(db)
            db.execute("commit")
        except BaseException:
            if db.in_transaction:
                db.execute("rollback")
            raise
    except apsw.ReadOnlyError as refused:
        # SQLite itself looks, before it writes, whether the file is still the one of its name.
        if getattr(refused, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED:
            raise _Moved from refused
        raise
    return changed


def _is_empty(db: apsw.Connection) -> bool:
    return not db.execute("select exists (select 1 from texts) or exists (select 1 from owners)").get


def _owner(db: apsw.Connection, session_uid: str) -> QueueOwner | None:
    asked = f"select {_OWNER_COLUMNS} from owners where session_uid = ?"
    found = fetch_one(db, tuple[Any, Any, Any, Any, Any], asked, (session_uid,))
    return None if found is None else _as_owner(found)


def _as_owner(row: tuple[Any, ...]) -> QueueOwner:
    """An owner; raises msgspec.ValidationError where a clone's file holds other values than ours."""
    return msgspec.convert(dict(zip(QueueOwner.__struct_fields__, row, strict=True)), QueueOwner)


def _text(row: tuple[Any, ...]) -> QueuedPrompt:
    """A text; raises msgspec.ValidationError, as above."""
    known = dict(zip(QueuedPrompt.__struct_fields__, row, strict=True))
    known["options"] = msgspec.json.decode(known["options"], type=Options)
    return msgspec.convert(known, QueuedPrompt)


def _harmless(options: object) -> str:
    """Return a run's options without permissions and folders, and without what cannot be read."""
    try:
        known = msgspec.json.decode(str(options), type=Options)
    # A clone's file may hold anything here; the prompt is worth keeping without it.
    except msgspec.DecodeError:
        known = Options()
    return msgspec.json.encode(msgspec.structs.replace(known, permissions=None, cwd=None)).decode()


def _make_file(path: Path) -> None:
    # Its folder is the store's: where that is gone, so is what it could wait for. One that is there is not opened: to
    # close it would take the locks away that this process has on it.
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except PermissionError as refused:
        raise errors.QueueReadOnly(path) from refused
    except OSError as refused:
        if refused.errno == errno.EROFS:
            raise errors.QueueReadOnly(path) from refused
        if refused.errno == errno.ENOSPC:
            raise errors.DiskFull(path) from refused
        raise errors.CannotWrite(path, refused.strerror or str(refused)) from refused


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as refused:
        raise errors.StoreBusy(path) from refused
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as refused:
        raise errors.QueueReadOnly(path) from refused
    except apsw.FullError as refused:
        raise errors.DiskFull(path) from refused
    except (apsw.Error, msgspec.DecodeError, ValueError) as refused:
        raise errors.QueueUnusable(path, str(refused)) from refused
