"""The connections that read a store: each thread that asks has one of its own, which goes with the thread or the store.

Beside a connection lie answers that hold until anybody commits to the store.
"""

from __future__ import annotations

import threading
from _weakrefset import WeakSet
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import apsw

from backstory import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from pathlib import Path

T = TypeVar("T")
Token: TypeAlias = "tuple[int, ...]"
ANSWERS_KEPT_MAX = 32
"""The most answers that a connection keeps: mostly one for each filter of a list."""
STEPS_BETWEEN_LOOKS = 5_000
"""The most steps of SQLite that a cancelled statement goes on, well below a millisecond."""


_numbers = count()
"""Numbers of connections, none of which begins to count where another one stopped."""


class _Answers(NamedTuple):
    """Answers of a connection while the store was at one version."""

    version: int
    known: dict[Hashable, object]


class _Mine(threading.local):
    """The connection of a thread: no other thread may use it meanwhile."""

    db: apsw.Connection | None = None
    answers: _Answers | None = None
    token: tuple[int, ...] | None = None
    """The token of the moment that its snapshot is of, while that lasts."""


class ReadingConnections:
    """The reading connections of one store."""

    def __init__(self, path: Path) -> None:
        self._path, self._mine = path, _Mine()
        self._file: tuple[int, int] | None = None
        """The file that the connections have open; None without one."""
        # SQLite counts commits for each connection, so one is asked for all threads, by one thread at a time.
        self._watching: tuple[int, apsw.Connection] | None = None
        self._version: int | None = None
        self._lock = threading.Lock()
        # Weak: a thread that ends lets go of its connection, which closes it.
        self._open = WeakSet[apsw.Connection]()

    @property
    def mine(self) -> apsw.Connection | None:
        """The connection of this thread, if it has one."""
        return self._mine.db

    def keep(self, db: apsw.Connection) -> apsw.Connection:
        """Make this the connection of this thread."""
        self._mine.db, self._mine.answers = db, None
        self._file = self._file or _file_at(self._path)
        return self.also_close(db)

    def once(self, key: Hashable, ask: Callable[[], T]) -> T:
        """Return what this was answered on this thread's connection since anybody last committed, else ask."""
        if self._mine.db is None:
            return ask()
        # Every commit of another connection raises it, also those of this process; this one writes nothing.
        version = int(self._mine.db.pragma("data_version"))
        if self._mine.answers is None or self._mine.answers.version != version:
            self._mine.answers = _Answers(version, {})
        known = self._mine.answers.known
        if key not in known:
            answer = ask()
            if len(known) >= ANSWERS_KEPT_MAX:
                known.clear()
            known[key] = answer
        return known[key]  # type: ignore[return-value]

    def token(
        self, connect: Callable[[Path], apsw.Connection], check: Callable[[apsw.Connection, Path], object]
    ) -> Token:
        """Another value after each commit by anybody, the same in all threads; in a snapshot that of its moment.

        Each thread connects anew when another file lies at the path, and when a commit made one that ``check`` refuses.
        """
        if self._mine.token is not None:
            return self._mine.token
        with self._lock:
            if (file := _file_at(self._path)) != self._file:
                self._forget()
                self._file = file
            if self._watching is None:
                self._watching, self._version = (next(_numbers), self.also_close(connect(self._path))), None
            number, db = self._watching
            version = int(db.pragma("data_version"))
            if self._version not in (None, version):
                try:
                    check(db, self._path)
                except errors.BackstoryError:
                    self._forget()
            self._version = version
            return number, version

    def _forget(self) -> None:
        """Let go of every connection; who is asking on one does so to the end."""
        self._mine, self._watching = _Mine(), None

    @contextmanager
    def of_moment(self, token: tuple[int, ...]) -> Iterator[None]:
        """Let this thread's token be this one while a snapshot lasts: it was asked for before that began."""
        self._mine.token = token
        try:
            yield
        finally:
            self._mine.token = None

    def also_close(self, db: apsw.Connection) -> apsw.Connection:
        """Close this connection, too, when the others are."""
        self._open.add(db)
        return db

    def close(self) -> None:
        """Close the connections of all threads; none may be asking."""
        for db in list(self._open):
            # One that a thread took with it while it ended is closed already.
            with suppress(apsw.ConnectionClosedError):
                db.close()
        self._forget()
        self._open, self._file = WeakSet[apsw.Connection](), None


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def cancellable(db: apsw.Connection, is_cancelled: Callable[[], bool]) -> Iterator[Callable[[], None]]:
    """While this lasts, a connection raises Cancelled as soon as ``is_cancelled``: between statements and inside one.

    What it gives ends also what looks at nothing for long; it may be called from any thread.
    """
    traced = db.exec_trace

    def may_begin(cursor: apsw.Cursor, statement: str, values: apsw.Bindings | None) -> bool:
        return not is_cancelled() and (traced is None or traced(cursor, statement, values))

    db.exec_trace = may_begin
    # The trace sees a statement only as it begins; one that sorts a million rows is ended by the handler.
    db.set_progress_handler(is_cancelled, STEPS_BETWEEN_LOOKS)
    try:
        yield db.interrupt
    except (apsw.InterruptError, apsw.ExecTraceAbort, apsw.AbortError) as ended:
        raise errors.Cancelled from ended
    finally:
        db.set_progress_handler(None)
        db.exec_trace = traced
