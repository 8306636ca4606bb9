"""The connections that read a store: each thread that asks has one of its own, which goes with the thread or the store.

Beside a connection lie answers that hold until anybody commits to the store.
"""

from __future__ import annotations

import threading
from _weakrefset import WeakSet
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import apsw

from backstory import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

T = TypeVar("T")
ANSWERS_KEPT_MAX = 32
"""The most answers that a connection keeps: mostly one for each filter of a list."""
STEPS_BETWEEN_LOOKS = 5_000
"""The most steps of SQLite that a cancelled statement goes on, well below a millisecond."""


class _Answers(NamedTuple):
    """Answers of a connection while the store was at one version."""

    version: int
    known: dict[Hashable, object]


class _Mine(threading.local):
    """The connection of a thread: no other thread may use it meanwhile."""

    db: apsw.Connection | None = None
    answers: _Answers | None = None


class ReadingConnections:
    """The reading connections of one store."""

    def __init__(self) -> None:
        self._mine = _Mine()
        # Weak: a thread that ends lets go of its connection, which closes it.
        self._open = WeakSet[apsw.Connection]()

    @property
    def mine(self) -> apsw.Connection | None:
        """The connection of this thread, if it has one."""
        return self._mine.db

    def keep(self, db: apsw.Connection) -> apsw.Connection:
        """Make this the connection of this thread."""
        self._mine.db, self._mine.answers = db, None
        self._open.add(db)
        return db

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

    def close(self) -> None:
        """Close the connections of all threads; none may be asking."""
        for db in list(self._open):
            # One that a thread took with it while it ended is closed already.
            with suppress(apsw.ConnectionClosedError):
                db.close()
        self._mine, self._open = _Mine(), WeakSet[apsw.Connection]()


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
