"""Decisions of people about a session: written in the store that owns it, then copied to the others that hold it.

A store that cannot be written now is named, and catches up at the next ``backstory ingest``. Where that is the owner
itself the machine's store is written in its place: a decision carries its time, and the later one wins.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from backstory.errors import (
    BackstoryError,
    DiskFull,
    StoreBusy,
    StoreFailed,
    StoreNotFound,
    StoreReadOnly,
    short_reason,
)
from backstory.exchange import replication
from backstory.store.tables import sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.projects.registry import KnownProjects
    from backstory.store import Session, Store

T = TypeVar("T")
NOT_NOW = (StoreBusy, StoreReadOnly, DiskFull, StoreFailed, StoreNotFound)
"""Errors that keep a store from being written now, but not for good."""


class Late(Struct, frozen=True):
    """A store that could not be written now."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return (
            f"the copy in {self.path} could not be written now ({self.reason}) and will catch up at the next "
            "`backstory ingest`"
        )


class Decided(Struct, Generic[T], frozen=True):
    """The result of a decision: the value that writing it returned, its store, and the stores that are late."""

    value: T
    store: Store
    late: list[Late]


class SessionOwner(Struct, frozen=True):
    """The store that owns a session. ``store`` is None where it cannot be opened now, ``id`` where a log owns it."""

    id: str | None
    store: Store | None
    late: list[Late]


class DecisionWriter:
    """Writes decisions about sessions. ``home``: the machine's store."""

    def __init__(self, home: Store, projects: KnownProjects) -> None:
        self.home, self.projects = home, projects

    def owner(self, found: Store, uid: str) -> SessionOwner:
        """The store that owns a session that was found in this one."""
        owner_id = found.ask_or(None, sessions.owner, uid)
        if owner_id is None:
            return SessionOwner(None, None, [])
        if owner_id == found.id:
            return SessionOwner(owner_id, found, [])
        late, other = list[Late](), None
        for path in self.projects.places_of(owner_id):
            try:
                store = self.projects.opened(owner_id, path)
                if store.has(uid):
                    # Of two copies of a store one may lack it.
                    return SessionOwner(owner_id, store, [])
                other = other or store
            except (BackstoryError, OSError) as refused:
                late.append(Late(path, short_reason(refused)))
        return SessionOwner(owner_id, other, [] if other is not None else late[:1])

    def decide(self, found: Store, uid: str, change: Callable[[Store, Session], T]) -> Decided[T]:
        """Write a decision where the session is owned, else in the machine's store, and copy it.

        Raises what ``change`` raises, and what keeps each of these stores from being written.
        """
        owner = self.owner(found, uid)
        late, refusals = list(owner.late), list[BackstoryError]()
        for store in self._writable(owner, found, uid):
            if owner.id is not None and store is not owner.store:
                self.projects.look_again(owner.id)
            try:
                # What was decided while the store could not be written comes first.
                if store is not self.home:
                    replication.adopt_decisions(store, self.home, uid)
                value = change(store, store.session(uid))
            except NOT_NOW as refused:
                refusals.append(refused)
                late.append(Late(store.path, short_reason(refused)))
            else:
                return Decided(value, store, late + self.copy(store, uid, late))
        raise refusals[0]

    def _writable(self, owner: SessionOwner, found: Store, uid: str) -> Iterator[Store]:
        """The stores that a decision may be written in: the owner, the machine's, the one it was found in."""
        tried = set[Path]()
        for store in (owner.store, self.home, found):
            if store is not None and store.path not in tried and store.has(uid):
                tried.add(store.path)
                yield store

    def copy(self, source: Store, uid: str, late: list[Late] | None = None) -> list[Late]:
        """Copy what was decided about a session to all stores that hold it; returns those that are late.

        ``late``: the stores that refused it already.
        """
        done = {source.path, *(each.path for each in late or ())}
        behind = list[Late]()
        for store in self.holding(source, uid):
            if store.path in done:
                continue
            done.add(store.path)
            try:
                if store is self.home and source.ask_or(None, sessions.owner, uid) == source.id:
                    replication.reconcile(store, source, uid)
                else:
                    replication.adopt_decisions(store, source, uid)
            except (BackstoryError, OSError) as refused:
                behind.append(Late(store.path, short_reason(refused)))
        return behind

    def holding(self, found: Store, uid: str) -> Iterator[Store]:
        """The stores that hold a session and can be read: where it was found, the machine's, then the projects'."""
        for store in (found, self.home, *self.projects.stores()):
            with suppress(BackstoryError, OSError):
                if store.has(uid):
                    yield store
