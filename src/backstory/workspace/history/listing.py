"""Sessions of several stores as one list, in pages.

The home store has a copy of every session. A store that has more of one wins: the project's own, and where every
project's sessions are asked for each store that changed since the home store took what it holds. No other is read.
"""

from __future__ import annotations

import math
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from zlib import crc32

from msgspec.structs import replace

from backstory.derive import pricing
from backstory.errors import BackstoryError, StoreNotFound
from backstory.lazy import lazy_module
from backstory.store.tables import session_filter, turns
from backstory.store.tables import sessions as stored_sessions
from backstory.store.tables.sessions import Part, Position
from backstory.workspace.history.sessions import (
    END,
    UID_SHOWN,
    LastTurn,
    ListedSession,
    Page,
    PageCursor,
    SessionFilter,
    SessionPage,
    listed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from backstory.ask import cost_bounds, scoped
    from backstory.ask import costs as stored_costs
    from backstory.runs import spool as spools
    from backstory.runs.spool import Run
    from backstory.store import Session, Store
    from backstory.store.tables.session_filter import ListFilter, Selection
    from backstory.store.tables.sessions import SessionPlace, Sort
    from backstory.workspace.place import Place
    from backstory.workspace.runs import running as run_turns

    _Place = tuple[Store, Session]
else:
    # A search takes no more than labels from here.
    cost_bounds = lazy_module("backstory.ask.cost_bounds")
    run_turns = lazy_module("backstory.workspace.runs.running")
    scoped = lazy_module("backstory.ask.scoped")
    spools = lazy_module("backstory.runs.spool")
    stored_costs = lazy_module("backstory.ask.costs")

F = TypeVar("F", bound="Selection")
S = TypeVar("S", "Session", "SessionPlace")
"""A session, or no more than its place."""


class _Found(NamedTuple, Generic[S]):
    """A session of a list, its position, and the store that it is shown from, with that one's number."""

    at: Position
    number: int
    store: Store
    session: S


TIME_MAX = (1 << 63) - 1
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
        return self._page(stores, [self.filter_of(store, wanted) for store in stores], wanted, page)

    def _page(self, stores: list[Store], asked: list[ListFilter], wanted: SessionFilter, page: Page) -> SessionPage:
        """A page of what these stores have. ``asked``: the filter for each, which may take a look at all sessions."""
        most, backwards = page.most, page.before is not None
        # A cost is computed when it is asked for, so no store can sort by it.
        ways = self._by_cost if page.sort == "cost" else self._merged
        found = list(islice(ways(stores, asked, page, most), most))
        goes_on = most is not None and len(found) == most
        shown = found[:-1] if goes_on else found
        if backwards:
            shown.reverse()
        is_whole = not goes_on and page.after is None and page.before in (None, END)
        places = [(each.store, each.session) for each in shown]
        return SessionPage(
            sessions=self.values(stores, places, *self._runs(), everywhere=wanted.everywhere),
            total=len(shown) if is_whole or not page.counts else self._total(stores, asked),
            has_more=page.before != END if backwards else goes_on,
            has_earlier=goes_on if backwards else page.after is not None,
            start=_cursor(shown[0], page.sort) if shown else None,
            end=_cursor(shown[-1], page.sort) if shown else None,
        )

    def pages(self, wanted: SessionFilter, first: int) -> Iterator[SessionPage]:
        """The whole list, read as it is asked for: a page of ``first`` sessions, then larger and larger ones."""
        stores, limit = self.stores(everywhere=wanted.everywhere), first
        asked = [self.filter_of(store, wanted) for store in stores]
        page = self._page(stores, asked, wanted, Page(limit=first))
        yield page
        while page.has_more:
            limit = min(limit * 4, LARGE_PAGE)
            page = self._page(stores, asked, wanted, Page(limit=limit, after=page.end))
            yield page

    def count(self, wanted: SessionFilter | None = None) -> int:
        """Return the number of sessions in the whole list."""
        wanted = wanted or SessionFilter()
        stores = self.stores(everywhere=wanted.everywhere)
        return self._total(stores, [self.filter_of(store, wanted) for store in stores])

    def session(self, store: Store, session: Session) -> ListedSession:
        """One session that was found in a store, as it is listed."""
        return self.values([store], [(store, session)], *self._runs(), everywhere=False)[0]

    def placed(self, wanted: SessionFilter) -> list[tuple[Store, Session, ListedSession]]:
        """All sessions of the list, in its order, each as its store has it and as it is listed."""
        stores = self.stores(everywhere=wanted.everywhere)
        places = self.places(stores, wanted)
        values = self.values(stores, places, {}, {}, everywhere=wanted.everywhere)
        return [(store, session, value) for (store, session), value in zip(places, values, strict=True)]

    def places(self, stores: list[Store], wanted: SessionFilter) -> list[_Place]:
        """All sessions of the list, in its order, each as its store has it."""
        asked = [self.filter_of(store, wanted) for store in stores]
        return [(each.store, each.session) for each in self._merged(stores, asked, Page(), None)]

    def each_place(self, stores: list[Store], wanted: SessionFilter) -> Iterator[tuple[Store, SessionPlace]]:
        """No more than the places of the same, read in parts as they are asked for."""
        lists = [
            self._listed(stores, n, self.filter_of(store, wanted), Page(), LARGE_PAGE, _places)
            for n, store in enumerate(stores)
        ]
        return ((each.store, each.session) for each in _in_order(lists, Page()))

    def sessions_of(self, uids: Sequence[str]) -> tuple[ListedSession, ...]:
        """These sessions, each from the store that wins, in this order; without those that no store has."""
        stores = self.stores(everywhere=True)
        holders = ((next((store for store in stores if store.has(uid)), None), uid) for uid in uids)
        found = [(store, store.session(uid)) for store, uid in holders if store is not None]
        return self.values(stores, found, *self._runs(), everywhere=True)

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
        wanted = resolved(self._place, store, wanted)
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

    def _by_cost(
        self, stores: list[Store], asked: list[ListFilter], page: Page, most: int | None
    ) -> Iterator[_Found[Session]]:
        """The sessions of a page by what they cost; of those before a place every cost is computed."""
        is_whole = most is None or page.before is not None
        bounded = self._merged(stores, asked, Page(sort="cost"), None if is_whole else COSTS_AT_ONCE)
        ordered = _dearest(stores, bounded)
        if page.before is not None:
            ordered = reversed(list(ordered))
        if (cursor := page.cursor) is not None:
            place = _place(cursor.at, _number_of(cursor, stores))
            is_wanted = place.__lt__ if page.before is not None else place.__gt__
            ordered = (each for each in ordered if is_wanted(_place(each.at, each.number)))
        return ordered

    def _merged(
        self, stores: list[Store], asked: list[ListFilter], page: Page, most: int | None
    ) -> Iterator[_Found[Session]]:
        lists = [self._listed(stores, n, each, page, most, _sessions) for n, each in enumerate(asked)]
        return _in_order(lists, page)

    def _listed(
        self, stores: list[Store], number: int, asked: ListFilter, page: Page, most: int | None,
        read: Callable[[Store, ListFilter, Part], list[tuple[Position, S]]],
    ) -> Iterator[tuple[_Found[S], bool]]:  # fmt: skip
        """The sessions of the store of this number, read as they are asked for, and whether a better one has each.

        Those are passed on, too: how far this list is shows that no more of it need be read.
        """
        store, better = stores[number], stores[:number]
        limit = -1 if most is None else most
        by_cost = page.sort == "cost"
        bounds = store.ask(cost_bounds.beside_keys, stored_costs.price_table(store.prices_file)) if by_cost else None
        at, backwards = _at_in(number, stores, page.cursor), page.before is not None
        while True:
            part = Part(sort=page.sort, bounds=bounds, at=at, backwards=backwards, limit=limit)
            found = read(store, asked, part)
            taken = self._taken([each.uid for _, each in found], better)
            # What is sorted by has equals, of which those of a better store come first.
            rank = number if page.sort else 0
            yield from ((_Found(at, rank, store, each), each.uid in taken) for at, each in found)
            if len(found) != limit:
                return
            at = found[-1][0]
            # To sort by cost all keys are looked at each time.
            limit *= 4 if by_cost else 1

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

    def _total(self, stores: list[Store], asked: list[ListFilter]) -> int:
        """Count all sessions of owners that have a store here; no uid needs to be compared for it."""
        counts = [_counts(store, each) for store, each in zip(stores, asked, strict=True)]
        owners = {owner for each in counts for owner in each}
        in_conflict = len(self._place.conflicts) if any(store.is_elsewhere for store in stores) else 0
        return sum(max(each.get(owner, 0) for each in counts) for owner in owners) + in_conflict

    def run_stamps(self) -> Iterator[tuple[Hashable, ...]]:
        """Yield, of every run that is not stored yet, what differs after it changed."""
        for spool in spools.list_spools(self._place.home / spools.SPOOLS):
            sizes = (spools.file_size(each) for each in (spool.stdout, spool.stderr, spool.messages))
            yield spool.folder.name, spool.is_alive, *sizes

    def _runs(self) -> tuple[dict[str, list[Run]], dict[str, list[Run]]]:
        """The runs at work by their sessions, and likewise all whose output is not taken over yet, also ended ones."""
        running: dict[str, list[Run]] = {}
        pending: dict[str, list[Run]] = {}
        for spool in spools.list_spools(self._place.home / spools.SPOOLS):
            if (run := spool.run) is not None:
                pending.setdefault(run.session_uid, []).append(run)
                if spool.is_alive:
                    running.setdefault(run.session_uid, []).append(run)
        return running, pending

    def values(
        self,
        stores: list[Store],
        found: Sequence[_Place],
        running: Mapping[str, Sequence[Run]],
        pending: Mapping[str, Sequence[Run]],
        *,
        everywhere: bool,
        is_priced: bool = True,
    ) -> tuple[ListedSession, ...]:
        """Sessions that were found in these stores, as they are listed.

        ``running``: the runs of sessions that run; ``pending``: those that count as turns, unless they are stored.
        ``is_priced``: with their costs and what their last turns took; else nothing of that is known.
        """
        by_store = {
            id(store): [session for where, session in found if where is store]
            for store in (stores if is_priced else ())
        }
        priced = [store for store in stores if id(store) in by_store]
        costs = {
            id(store): store.ask_once(
                stored_costs.by_session,
                stored_costs.price_table(store.prices_file),
                tuple(session.id for session in by_store[id(store)]),
            )
            for store in priced
        }
        lasts = {id(store): _last_turns(store, by_store[id(store)]) for store in priced}
        by_uid = [session.uid for store, session in found if not self._is_numbered(store, session, everywhere)]
        labels = _labels(stores, by_uid)
        return tuple(
            listed(
                run_turns.with_runs(session, _unstored(store, session, pending)),
                costs[id(store)][session.id] if is_priced else pricing.UNKNOWN,
                lasts[id(store)].get(session.id) if is_priced else None,
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


def _unstored(store: Store, session: Session, pending: Mapping[str, Sequence[Run]]) -> list[Run]:
    """The runs of a session that a store does not have yet."""
    runs = pending.get(session.uid)
    stored = store.ask(turns.outcomes, session.id) if runs else ()
    return [run for run in runs or () if run.turn_uid not in stored]


def resolved(place: Place, store: Store, wanted: F, *, is_of_events: bool = False) -> F:
    """Return the filter with its project, what is running, and unless it is of events its tool as sessions of a store.

    Raises UnknownTool where nobody called a tool of this name.
    """
    tool = None if is_of_events else wanted.tool
    if not (wanted.in_project or wanted.status or tool):
        return wanted
    running = {run.session_uid for _, run in spools.running_runs(place.home)} if wanted.status else set()
    is_running = wanted.status == spools.RUNNING
    chosen = [] if wanted.uids is None else [{*wanted.uids}]
    if is_running:
        chosen.append(running)
    if wanted.in_project:
        names = place.project_names()
        chosen.append({*store.ask_or([], scoped.of_project, wanted.in_project, names, store.moves)})
    if tool:
        chosen.append({*store.ask_or([], scoped.of_tool, tool)})
        if not chosen[-1]:
            from backstory.workspace.history.unknown_values import check_tool

            check_tool(place.stores, tool)
    return replace(
        wanted,
        in_project=None,
        tool=wanted.tool if is_of_events else None,
        status=None if is_running else wanted.status,
        but_uids=wanted.but_uids if is_running else tuple(sorted({*wanted.but_uids, *running})),
        uids=tuple(sorted(set.intersection(*chosen))) if chosen else None,
    )


def _known(value: float | None) -> float:
    return -math.inf if value is None else value


def _place(at: Position, number: int) -> tuple[float, int, float, str]:
    """Return the place of a position in the store of this number among those of all stores, the greatest first."""
    return _known(at.value), -number, _known(at.last_active), at.uid


def _cursor(found: _Found[Session], sort: Sort | None) -> str:
    return str(PageCursor(sort, _hash(found.store) if sort else 0, *found.at))


def _hash(store: Store) -> int:
    return crc32(str(store.path).encode())


def _number_of(cursor: PageCursor, stores: Sequence[Store]) -> int:
    """Return the number of a cursor's store; that of the home store, which is the last, where it is not read now."""
    return next((n for n, store in enumerate(stores) if _hash(store) == cursor.store), len(stores) - 1)


def _at_in(number: int, stores: Sequence[Store], cursor: PageCursor | None) -> Position | None:
    """Return the position that a cursor is in the store of this number: its own, or before or behind all equals."""
    if cursor is None or cursor.sort is None or number == (of := _number_of(cursor, stores)):
        return None if cursor is None else cursor.at
    return Position(cursor.value, *((TIME_MAX, stored_sessions.BEHIND_EVERY_UID) if number > of else (None, "")))


def _dearest(stores: Sequence[Store], bounded: Iterator[_Found[Session]]) -> Iterator[_Found[Session]]:
    """Sessions by what they cost, given by what each costs at most; no more costs are computed than are needed."""
    known: list[_Found[Session]] = []
    count = COSTS_AT_ONCE
    while read := list(islice(bounded, count)):
        known = sorted([*known, *_with_costs(stores, read)], key=_place_of, reverse=True)
        # What follows costs no more than the last of these may.
        least = _place_of(read[-1])
        is_next = sum(_place_of(each) >= least for each in known)
        yield from known[:is_next]
        known, count = known[is_next:], min(count * 4, LARGE_PAGE)
    yield from known


def _with_costs(stores: Sequence[Store], found: Sequence[_Found[Session]]) -> list[_Found[Session]]:
    """These sessions, each with the least that it costs as its value; None if nothing is known."""
    asked: dict[int, list[int]] = {}
    for each in found:
        if each.at.value is not None:
            asked.setdefault(each.number, []).append(each.session.id)
    costs = {
        n: stores[n].ask(stored_costs.by_session, stored_costs.price_table(stores[n].prices_file), ids)
        for n, ids in asked.items()
    }
    return [
        each
        if each.at.value is None
        else each._replace(at=each.at._replace(value=costs[each.number][each.session.id].low_usd))
        for each in found
    ]


def _place_of(found: _Found[Session]) -> tuple[float, int, float, str]:
    return _place(found.at, found.number)


def project_id(place: Place) -> str | None:
    """The id of this project's store, if it is ours: its sessions are this project's, wherever they were begun."""
    store = place.project_store
    if place.home_store is not place.machine_store or store.is_elsewhere or not store.exists:
        return None
    try:
        return store.id
    except BackstoryError:
        return None


def _counts(store: Store, wanted: ListFilter) -> dict[str | None, int]:
    """Count the sessions of each owner; none where there is no store yet."""
    try:
        if wanted.title is not None and not wanted.subagents:
            # Where letters of a title are typed, the rest of the filter is the same for all of them.
            among = store.ask_once(stored_sessions.placed, replace(wanted, title=None))
            if among is not None:
                return store.ask_once(stored_sessions.titled_counts, wanted.title, among)
        return store.ask_once(stored_sessions.counts, wanted)
    except StoreNotFound:
        return {}


def _last_turns(store: Store, found: list[Session]) -> dict[int, LastTurn]:
    table = stored_costs.price_table(store.prices_file)
    return {
        each: LastTurn(turn.duration_ms, stored_costs.of_turn(turn, table))
        for each, turn in store.ask(turns.newest_of, [each.id for each in found]).items()
    }


def _labels(stores: list[Store], uids: Sequence[str]) -> dict[str, str]:
    taken = (
        {uid for store in stores for uid in store.ask_or(set(), stored_sessions.not_alone, uids, UID_SHOWN)}
        if uids
        else set()
    )
    return {uid: uid if uid in taken else uid[:UID_SHOWN] for uid in uids}


def _sessions(store: Store, asked: ListFilter, part: Part) -> list[tuple[Position, Session]]:
    return [(at, store.as_shown(each)) for at, each in store.ask(stored_sessions.listed, asked, part)]


def _places(store: Store, asked: ListFilter, part: Part) -> list[tuple[Position, SessionPlace]]:
    return store.ask(stored_sessions.listed_places, asked, part)


def _in_order(lists: list[Iterator[tuple[_Found[S], bool]]], page: Page) -> Iterator[_Found[S]]:
    """Yield the sessions of several lists as one, without those that a better store has."""
    for found, is_taken in merge(*lists, key=_order, reverse=page.before is None):
        if not is_taken:
            yield found


def _order(listed: tuple[_Found[S], bool]) -> tuple[float, int, float, str, bool]:
    found: _Found[S] = listed[0]
    # One in conflict stands behind the one that it says it is.
    return *_place(found.at, found.number), not found.store.is_elsewhere
