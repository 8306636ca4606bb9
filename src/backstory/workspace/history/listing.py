"""Sessions of several stores as one list, in pages.

The home store has a copy of every session. A store that has more of one wins: the project's own, and where every
project's sessions are asked for each store that changed since the home store took what it holds. No other is read.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush, merge
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backstory.ask import costs as stored_costs
from backstory.ask.costs import of_turn, price_table
from backstory.errors import BackstoryError, StoreNotFound
from backstory.runs.spool import running_runs
from backstory.store.tables import session_filter, turns
from backstory.store.tables import sessions as stored_sessions
from backstory.workspace.history.sessions import (
    UID_SHOWN,
    LastTurn,
    ListedSession,
    Page,
    SessionFilter,
    SessionPage,
    listed,
)
from backstory.workspace.runs.running import with_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backstory.runs.spool import Run
    from backstory.store import Session, Store
    from backstory.store.tables.session_filter import ListFilter
    from backstory.store.tables.sessions import Sort, SortKey
    from backstory.workspace.place import Place

    _Place = tuple[Store, Session]
    _Keyed = tuple[Store, SortKey]


LARGE_PAGE = 2_000
"""At most so many sessions are read at once; a page costs more the farther behind it is."""
COSTS_AT_ONCE = 100
"""The most costs that are computed first, where sessions are sorted by what they cost."""


class Listing:
    """The sessions of a place."""

    def __init__(self, place: Place) -> None:
        self._place, self.project_names = place, place.project_names

    def sessions(self, wanted: SessionFilter | None = None, page: Page | None = None) -> SessionPage:
        """A page of the sessions that are listed here, each once, in the order that is asked for."""
        wanted, page = wanted or SessionFilter(), page or Page()
        stores = self.stores(everywhere=wanted.everywhere)
        most = page.limit + 1 if page.limit else None
        keyed = None if page.sort is None else self._keyed(stores, wanted, page.sort)
        merged = self._merged(stores, wanted, page, most) if keyed is None else self._sorted(keyed, page)
        found = list(islice(merged, most))
        has_more = most is not None and len(found) == most
        shown = found[:-1] if has_more else found
        is_whole = not has_more and page.after is None
        running = self._running()
        return SessionPage(
            sessions=self.values(stores, shown, running, running, everywhere=wanted.everywhere),
            total=len(shown) if is_whole else self._total(stores, wanted) if keyed is None else len(keyed),
            has_more=has_more,
        )

    def pages(self, wanted: SessionFilter, first: int) -> Iterator[SessionPage]:
        """The whole list, read as it is asked for: a page of ``first`` sessions, then larger and larger ones."""
        page, limit = self.sessions(wanted, Page(limit=first)), first
        yield page
        while page.has_more:
            limit = min(limit * 4, LARGE_PAGE)
            page = self.sessions(wanted, Page(limit=limit, after=page.sessions[-1]))
            yield page

    def count(self, wanted: SessionFilter | None = None) -> int:
        """Return the number of sessions in the whole list."""
        wanted = wanted or SessionFilter()
        return self._total(self.stores(everywhere=wanted.everywhere), wanted)

    def session(self, store: Store, session: Session) -> ListedSession:
        """One session that was found in a store, as it is listed."""
        running = self._running()
        return self.values([store], [(store, session)], running, running, everywhere=False)[0]

    def placed(self, wanted: SessionFilter) -> list[tuple[Store, Session, ListedSession]]:
        """All sessions of the list, in its order, each as its store has it and as it is listed."""
        stores = self.stores(everywhere=wanted.everywhere)
        places = list(self._merged(stores, wanted, Page(limit=0), None))
        values = self.values(stores, places, {}, {}, everywhere=wanted.everywhere)
        return [(store, session, value) for (store, session), value in zip(places, values, strict=True)]

    def sessions_of(self, uids: Sequence[str]) -> tuple[ListedSession, ...]:
        """These sessions, each from the store that wins, in this order; without those that no store has."""
        stores, running = self.stores(everywhere=True), self._running()
        holders = ((next((store for store in stores if store.has(uid)), None), uid) for uid in uids)
        found = [(store, store.session(uid)) for store, uid in holders if store is not None]
        return self.values(stores, found, running, running, everywhere=True)

    def labels(self, uids: Sequence[str]) -> dict[str, str]:
        """Return each session's label that commands take in any folder: the shortest part of its uid of its own."""
        return _labels(self.stores(everywhere=True), uids)

    def stores(self, *, everywhere: bool) -> list[Store]:
        """The stores to read, those that win first."""
        near = [store for store in self._place.stores if store.exists]
        # What the home store took from a store from elsewhere is as old as that.
        near.sort(key=lambda store: not store.is_elsewhere)
        home = self._place.home_store
        if not everywhere or home is not self._place.machine_store:
            return near
        better = [store for store in near if store is not home]
        paths = {store.path for store in better}
        ahead = [store for store in self._place.known_projects.ahead() if store.path not in paths]
        for store in ahead:
            store.project_names = self._place.project_names
        better += ahead
        return [*better, *(store for store in near if store is home)]

    def filter_of(self, store: Store, wanted: SessionFilter) -> ListFilter:
        """Return the filter for one of these stores. Raises UnknownAgent."""
        if wanted.agent is not None:
            from backstory.workspace.history.unknown_values import check_agent  # few lists ask for one

            check_agent(self.stores(everywhere=True), wanted.agent)
        # All that the project's own store holds is the project's, in whichever of its worktrees it was begun.
        if wanted.everywhere or store.path == self._place.project_store.path:
            return store.as_recorded(wanted)
        place = self._place
        return store.as_recorded(
            replace(wanted, project=place.project_key, folder=str(place.project_folder), owner=project_id(place))
        )

    def condition_of(self, wanted: SessionFilter) -> str:
        """Return a filter's condition on a session of the home store besides its time, in SQL; '' for none."""
        home = self._place.home_store
        return session_filter.condition_of(self.filter_of(home, wanted))

    def _keyed(self, stores: list[Store], wanted: SessionFilter, sort: Sort) -> list[_Keyed]:
        """All sessions of the list in the order of what they are sorted by; a cost is what one costs at most."""
        found: list[_Keyed] = []
        for number, store in enumerate(stores):
            keys = _sort_keys(store, self.filter_of(store, wanted), sort)
            taken = self._taken([each.uid for each in keys], stores[:number]) if number else set[str]()
            found += ((store, each) for each in keys if each.uid not in taken)
        # Among equals the order of the keys stays: the last active first. What is not known comes last.
        found.sort(key=_value, reverse=True)
        return found

    def _sorted(self, found: list[_Keyed], page: Page) -> Iterator[_Place]:
        """The sessions of a page, in the order of what they are sorted by."""
        ordered = _dearest(found) if page.sort == "cost" else iter(found)
        if page.after is not None:
            after = page.after.uid
            next(uid for uid in (key.uid for _, key in ordered) if uid == after)
        yield from self._places(list(islice(ordered, page.limit + 1 if page.limit else None)))

    def _places(self, found: Sequence[_Keyed]) -> Iterator[_Place]:
        """These sessions whole, in the same order."""
        whole = {
            (id(store), session.id): session
            for store in {id(store): store for store, _ in found}.values()
            for session in store.several_sessions([key.id for where, key in found if where is store])
        }
        return ((store, whole[id(store), key.id]) for store, key in found if (id(store), key.id) in whole)

    def _merged(self, stores: list[Store], wanted: SessionFilter, page: Page, most: int | None) -> Iterator[_Place]:
        lists = [self._listed(stores[: n + 1], wanted, page, most) for n in range(len(stores))]
        return (place for place, is_taken in merge(*lists, key=_order, reverse=True) if not is_taken)

    def _listed(
        self, stores: list[Store], wanted: SessionFilter, page: Page, most: int | None
    ) -> Iterator[tuple[_Place, bool]]:
        """The sessions of the last of these stores, read as they are asked for, and whether a better one has each.

        Those are passed on, too: how far this list is shows that no more of it need be read.
        """
        *better, store = stores
        asked, limit = self.filter_of(store, wanted), -1 if most is None else most
        after = None if page.after is None else (page.after.last_active, page.after.uid)
        while True:
            found = store.list_sessions(asked, after=after, limit=limit)
            taken = self._taken([each.uid for each in found], better)
            yield from (((store, each), each.uid in taken) for each in found)
            if len(found) != limit:
                return
            after = found[-1].last_active, found[-1].uid

    def _taken(self, uids: list[str], better: list[Store]) -> set[str]:
        """Those of these sessions that a better store has. One in conflict stands beside the one that it says it is."""
        found = set[str]()
        for store in better:
            found |= store.ask_or(set(), stored_sessions.present, uids) - (
                self._place.conflicts if store.is_elsewhere else set()
            )
        return found

    def taken_by(self, store: Store) -> set[str]:
        """The sessions of a store that stand for those of stores behind it; as in ``_taken``."""
        return set(store.uids()) - (self._place.conflicts if store.is_elsewhere else set())

    def _total(self, stores: list[Store], wanted: SessionFilter) -> int:
        """Count all sessions of owners that have a store here; no uid needs to be compared for it."""
        counts = [_counts(store, self.filter_of(store, wanted)) for store in stores]
        owners = {owner for each in counts for owner in each}
        in_conflict = len(self._place.conflicts) if any(store.is_elsewhere for store in stores) else 0
        return sum(max(each.get(owner, 0) for each in counts) for owner in owners) + in_conflict

    def _running(self) -> dict[str, list[Run]]:
        running: dict[str, list[Run]] = {}
        for _, run in running_runs(self._place.home):
            running.setdefault(run.session_uid, []).append(run)
        return running

    def values(
        self,
        stores: list[Store],
        found: Sequence[_Place],
        running: Mapping[str, Sequence[Run]],
        unstored: Mapping[str, Sequence[Run]],
        *,
        everywhere: bool,
    ) -> tuple[ListedSession, ...]:
        """Sessions that were found in these stores, as they are listed.

        ``running``: the runs of sessions that run; ``unstored``: those that count as turns beside the stored.
        """
        costs = {
            id(store): store.ask(
                stored_costs.by_session,
                stored_costs.price_table(store.prices_file),
                [session.id for where, session in found if where is store],
            )
            for store in stores
        }
        lasts = {
            id(store): _last_turns(store, [session for where, session in found if where is store]) for store in stores
        }
        by_uid = [session.uid for store, session in found if not self._is_numbered(store, session, everywhere)]
        labels = _labels(stores, by_uid)
        return tuple(
            listed(
                with_runs(session, unstored.get(session.uid, ())),
                costs[id(store)][session.id],
                lasts[id(store)].get(session.id),
                label=labels.get(session.uid) or session.shown_number or session.uid,
                is_conflict=store.is_elsewhere and session.uid in self._place.conflicts,
                is_running=session.uid in running,
            )
            for store, session in found
        )

    def _is_numbered(self, store: Store, session: Session, everywhere: bool) -> bool:
        """Return True if its number means this session to commands here: another project's may have the same."""
        is_here = store.path == self._place.project_store.path and session.is_own
        return is_here and session.number is not None and not everywhere


def _value(each: _Keyed) -> float:
    return -math.inf if each[1].value is None else each[1].value


def _dearest(found: Sequence[_Keyed]) -> Iterator[_Keyed]:
    """Sessions by what they cost, given by what each costs at most; no more costs are computed than are needed."""
    known: list[tuple[float, int]] = []
    start, count = 0, COSTS_AT_ONCE
    while start < len(found) or known:
        stop = min(start + count, len(found))
        for place, usd in zip(range(start, stop), _costs(found[start:stop]), strict=True):
            heappush(known, (-usd, place))
        start, count = stop, min(count * 4, LARGE_PAGE)
        # What follows costs no more than the first of it may.
        following = (-_value(found[start]), start) if start < len(found) else (math.inf, start + 1)
        while known and known[0] < following:
            yield found[heappop(known)[1]]


def _costs(found: Sequence[_Keyed]) -> list[float]:
    """Return the least cost of each session; below zero if nothing is known."""
    by_store: dict[int, tuple[Store, list[int]]] = {}
    for store, key in found:
        if key.value is not None:
            by_store.setdefault(id(store), (store, []))[1].append(key.id)
    costs = {
        at: store.ask(stored_costs.by_session, stored_costs.price_table(store.prices_file), ids)
        for at, (store, ids) in by_store.items()
    }
    lows = [costs[id(store)][key.id].low_usd if key.value is not None else None for store, key in found]
    return [-math.inf if low is None else low for low in lows]


def project_id(place: Place) -> str | None:
    """The id of this project's store, if it is ours: its sessions are this project's, wherever they were begun."""
    store = place.project_store
    if place.home_store is not place.machine_store or store.is_elsewhere or not store.exists:
        return None
    try:
        return store.id
    except BackstoryError:
        return None


def _sort_keys(store: Store, wanted: ListFilter, sort: Sort) -> list[SortKey]:
    """All sessions that fit, the last active first, with what they are sorted by; a cost is an upper bound."""
    if sort != "cost":
        return store.ask(stored_sessions.sort_keys, wanted, sort)
    from backstory.ask import cost_bounds

    return store.ask(cost_bounds.sort_keys, wanted, price_table(store.prices_file))


def _counts(store: Store, wanted: ListFilter) -> dict[str | None, int]:
    """Count the sessions of each owner; none where there is no store yet."""
    try:
        return store.ask_once(stored_sessions.counts, wanted)
    except StoreNotFound:
        return {}


def _last_turns(store: Store, found: list[Session]) -> dict[int, LastTurn]:
    table = price_table(store.prices_file)
    return {
        each: LastTurn(turn.duration_ms, of_turn(turn, table))
        for each, turn in store.ask(turns.newest_of, [each.id for each in found]).items()
    }


def _labels(stores: list[Store], uids: Sequence[str]) -> dict[str, str]:
    taken = (
        {uid for store in stores for uid in store.ask_or(set(), stored_sessions.not_alone, uids, UID_SHOWN)}
        if uids
        else set()
    )
    return {uid: uid if uid in taken else uid[:UID_SHOWN] for uid in uids}


def _order(listed: tuple[_Place, bool]) -> tuple[int, str, bool]:
    (store, session), _ = listed
    # One in conflict stands behind the one that it says it is.
    return (-1 if session.last_active is None else session.last_active, session.uid, not store.is_elsewhere)
