"""Sessions removed wherever they are: stores, queues, spools. A store that cannot be written now catches up.

A removal leaves a tombstone where it is written. The next ``backstory ingest`` removes the session from the owner's
store and from the machine's, if one of them missed it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.errors import BackstoryError, NotErased, short_reason
from backstory.runs.lock import LOCKS, SessionLock
from backstory.runs.spool import SPOOLS, list_spools
from backstory.store.file import maintenance
from backstory.store.tables import copies
from backstory.store.tables.queue import Queue
from backstory.workspace.decisions import NOT_NOW, Late

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from backstory.store import Store
    from backstory.store.tables.copies import CopyHolder
    from backstory.workspace.decisions import DecisionWriter


class Removed(Struct, kw_only=True):
    """The result of a removal."""

    late: list[Late]
    problems: list[BackstoryError]
    prompts: list[str]
    """Prompts that were queued for the sessions, and are dropped."""
    running: list[Path]
    """The spools of runs that are not over."""


class Removal:
    """Sessions to remove, with all that goes with them. ``found``: each uid with the store it was found in.

    ``stores``: they are removed from these alone; None: from every one that may hold them.
    """

    def __init__(
        self, decisions: DecisionWriter, found: Sequence[tuple[Store, str]], project: Store | None, *,
        stores: Sequence[Store] | None = None,
    ) -> None:  # fmt: skip
        self._decisions, self._found = decisions, found
        self._owners = {uid: decisions.owner(store, uid) for store, uid in found}
        self.stores = self._ordered(project) if stores is None else list(stores)
        self.wanted = [uid for _, uid in found]
        self.uids = self._all_with(self.wanted)
        self.copies, self.sources = copies.split(self.uids, with_copies_of(self.stores, self.uids))

    def _ordered(self, project: Store | None) -> list[Store]:
        """Return the stores that may hold a session: its owner, the machine's, where it was found, the projects'."""
        owners = [owner.store for owner in self._owners.values() if owner.store is not None]
        everywhere = [*owners, self._decisions.home, *(store for store, _ in self._found)]
        everywhere += [*([project] if project is not None else []), *self._decisions.projects.stores()]
        return list({store.path: store for store in reversed(everywhere) if store.exists}.values())[::-1]

    def _all_with(self, wanted: Iterable[str]) -> dict[str, list[Path]]:
        """The uids of all that goes with these sessions, each with the agents' own logs of it."""
        found: dict[str, list[Path]] = {}
        for uid in wanted:
            for store in self.stores:
                for each, logs in (
                    store.ask(maintenance.doomed, store.session(uid).id).items() if store.has(uid) else ()
                ):
                    paths = [Path(log.path) for log in logs if log.kind == "file" and log.path]
                    found.setdefault(each, []).extend(paths)
        return found

    def include_copies(self) -> None:
        """Remove the sessions that hold copies of their turns, too."""
        for holder in self.copies:
            self._owners[holder.uid] = self._decisions.owner(self._holding(holder.uid), holder.uid)
        self.wanted += [each.uid for each in self.copies]
        self.uids |= self._all_with(self.wanted)
        self.copies = []

    def _holding(self, uid: str) -> Store:
        return next(store for store in self.stores if store.has(uid))

    @property
    def remaining(self) -> list[CopyHolder]:
        """The sessions that still hold the words when these are removed."""
        return [*self.copies, *self.sources]

    def perform(self, home: Path, report: Callable[[str], None], *, erases: bool = True) -> Removed:
        """Remove the sessions. Raises what keeps the first of them from being removed anywhere.

        ``erases``: also write the files anew, so that nothing is left in them; else that is to be done later.
        """
        refused = self._remove(erases)
        uids = list(self.uids)
        late = [each for uid in self.wanted for each in self._owners[uid].late]
        late += [Late(path, short_reason(each)) for path, each in refused.items() if self._will_catch_up(path, each)]
        return Removed(
            late=list(dict.fromkeys(late)),
            problems=[each for path, each in refused.items() if not self._will_catch_up(path, each)],
            prompts=[text for store in self.stores for text in _clear_queue(store.path, uids, report)],
            running=_drop_spools(home, set(uids)),
        )

    def _remove(self, erases: bool) -> dict[Path, BackstoryError]:
        """Remove the sessions from each store; returns what was in the way, by the store's path."""
        refused: dict[Path, BackstoryError] = {}
        removed = set[str]()
        for store in self.stores:
            here = [uid for uid in self.wanted if store.has(uid)]
            for uid in here:
                self._have_owner_looked_at(uid, store)
            try:
                if here:
                    maintenance.remove(store, [store.session(uid).id for uid in here], erases=erases)
                    removed.update(here)
            except BackstoryError as error:
                refused[store.path] = error
                if isinstance(error, NotErased):
                    removed.update(here)
                elif not removed and not self._will_catch_up(store.path, error):
                    raise
        if refused and not removed.issuperset(self.wanted):
            raise next(iter(refused.values()))
        return refused

    def _have_owner_looked_at(self, uid: str, store: Store) -> None:
        """Note that the next ingest reads the owner's store, if another one is written before it, or instead."""
        owner = self._owners[uid]
        if owner.id is not None and store is not owner.store:
            self._decisions.projects.look_again(owner.id)

    def _will_catch_up(self, path: Path, refused: BackstoryError) -> bool:
        """Return True if the next ingest removes the sessions from a store that refused: an owner's, or the home."""
        owners = {owner.store.path for owner in self._owners.values() if owner.store is not None}
        has_owners = all(owner.id is not None for owner in self._owners.values())
        return isinstance(refused, NOT_NOW) and has_owners and (path in owners or path == self._decisions.home.path)


def with_copies_of(stores: Sequence[Store], uids: Collection[str]) -> list[CopyHolder]:
    """The sessions that hold turns of these, themselves left in."""
    if not uids:
        return []
    turns = set[str]().union(*(store.ask_or(set(), copies.turn_uids_of, list(uids)) for store in stores))
    return list({each.uid: each for store in stores for each in store.ask_or([], copies.holders, turns)}.values())


def _clear_queue(store: Path, uids: list[str], report: Callable[[str], None]) -> list[str]:
    """Drop what was queued for sessions that are gone; returns it, so that it can be sent elsewhere."""
    try:
        with Queue(store, report) as queue:
            return [text.content for text in queue.drop(uids)]
    except BackstoryError as refused:
        report(f"The queue: {refused}")
        return []


def _drop_spools(home: Path, removed: set[str]) -> list[Path]:
    """Remove what runs that are over left of these sessions; returns the folders of those that are running."""
    running = []
    for spool in list_spools(home / SPOOLS):
        run = spool.run
        if run is None or run.session_uid not in removed:
            continue
        lock = SessionLock(home / LOCKS, run.session_uid)
        if spool.is_alive or not lock.take():
            running.append(spool.folder)
            continue
        spool.remove()
        lock.release()
    return running
