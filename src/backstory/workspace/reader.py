"""The reading interface of every face: sessions of several stores as one list, in pages. It prints nothing.

The home store has a copy of every session. A store that has more of one wins: the project's own, and where every
project's sessions are asked for each store that changed since the home store took what it holds. No other is read.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from backstory.derive.pricing import UNKNOWN
from backstory.errors import RecordNotFound
from backstory.runs.spool import SPOOLS
from backstory.workspace.entries import Entry, Form, OutlineEntry, outlined
from backstory.workspace.located import LocatedSession
from backstory.workspace.running import pending_runs, running_runs, with_runs
from backstory.workspace.sessions import UID_SHOWN, ListedSession, Page, SessionFilter, SessionPage, listed

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence

    from backstory.model import Event
    from backstory.projects.registry import KnownProjects
    from backstory.runs.live import LiveRun
    from backstory.runs.spool import Run
    from backstory.store import Session, Store, StoredEvent
    from backstory.workspace.contexts import SessionContext
    from backstory.workspace.records import Path
    from backstory.workspace.running import PendingRun
    from backstory.workspace.searching import Cancellation, SearchQuery, SearchResult
    from backstory.workspace.targets import Branch, Target
    from backstory.workspace.transcript import ListedTurn, Transcript
    from backstory.workspace.trees import Comparison, SessionTree

    _Place = tuple[Store, Session]


WINDOW = 500
"""So many events are read at once; nothing of the store is held while they are shown."""


def _ignore(_remark: str) -> None:
    """For who wants no remarks."""


class Sources(Protocol):
    """Where a person stands: the stores to read from there, and the project."""

    @property
    def home(self) -> pathlib.Path: ...
    @property
    def stores(self) -> list[Store]: ...
    @property
    def project_store(self) -> Store: ...
    @property
    def home_store(self) -> Store: ...
    @property
    def machine_store(self) -> Store: ...
    @property
    def project_key(self) -> str | None: ...
    @property
    def project_folder(self) -> pathlib.Path: ...
    @property
    def conflicts(self) -> set[str]: ...
    @property
    def known_projects(self) -> KnownProjects: ...
    def now(self) -> int: ...


class Located(Protocol):
    """A session and the store it was found in."""

    @property
    def store(self) -> Store: ...
    @property
    def session(self) -> Session: ...


class Reader:
    """What the stores of a place say."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def sessions(self, wanted: SessionFilter | None = None, page: Page | None = None) -> SessionPage:
        """A page of the sessions that are listed here, each once, the last active first."""
        wanted, page = wanted or SessionFilter(), page or Page()
        stores = self._stores(everywhere=wanted.everywhere)
        most = page.limit + 1 if page.limit else None
        found = list(islice(self._merged(stores, wanted, page, most), most))
        has_more = most is not None and len(found) == most
        shown = found[:-1] if has_more else found
        is_whole = not has_more and page.after is None
        running = self._running()
        return SessionPage(
            sessions=self._values(stores, shown, running, running, everywhere=wanted.everywhere),
            total=len(shown) if is_whole else self._total(stores, wanted),
            has_more=has_more,
        )

    def count(self, wanted: SessionFilter | None = None) -> int:
        """How many sessions the whole list has."""
        wanted = wanted or SessionFilter()
        return self._total(self._stores(everywhere=wanted.everywhere), wanted)

    def session(self, store: Store, session: Session) -> ListedSession:
        """One session that was found in a store, as it is listed."""
        running = self._running()
        return self._values([store], [(store, session)], running, running, everywhere=False)[0]

    def change_token(self) -> tuple[Hashable, ...]:
        """A value that differs from an earlier one if any of the stores changed since; asking for it costs nothing."""
        return tuple((str(store.path), *store.change_token()) for store in self._stores(everywhere=False))

    def outline(self, located: Located) -> tuple[OutlineEntry, ...]:
        """Every entry of a session, in order, by what is known without unpacking it."""
        turns = located.store.turn_numbers(located.session)
        return tuple(outlined(each, turns) for each in located.store.outline(located.session))

    def entries(self, located: Located, seqs: Sequence[int]) -> tuple[Entry, ...]:
        """The entries of these records of a session, in order, each with its event in compact form."""
        turns = located.store.turn_numbers(located.session)
        return tuple(
            Entry(outline=outlined(each, turns), event=each.event)
            for each in located.store.events_of(located.session, seqs)
        )

    @contextmanager
    def snapshot(self, *, everywhere: bool = False) -> Iterator[None]:
        """Everything that is asked while this lasts is of one moment of each store; keep it short.

        Who writes a project's store meanwhile waits. ``everywhere``: also the stores that only such a list asks.
        """
        with ExitStack() as held:
            for store in self._stores(everywhere=everywhere):
                held.enter_context(store.snapshot())
            yield

    def transcript(self, located: LocatedSession, report: Callable[[str], None] = _ignore) -> Transcript:
        """The turns of a session with those of its live runs; ``report`` receives why a run is not shown."""
        from backstory.runs.live import live_runs
        from backstory.store.costs import of_turn, price_table
        from backstory.workspace.transcript import ListedTurn, Transcript, live_turn

        store, session = located.store, located.session
        runs = live_runs(self._sources.home / SPOOLS, session.uid, self._sources.now(), report)
        stored = store.turns(session)
        over = {each.uid for each in stored if each.outcome is not None}
        # A turn of a live run that is here already is being stored at this moment; it is shown from its spool.
        live = {run.turn.uid: run for run in runs if run.turn.uid not in over}
        new = [run.run for uid, run in live.items() if uid not in {each.uid for each in stored}]
        removed = {turn.uid: turn.removed for turn in store.tree(session, removed=True)}
        rewound, runs_in, costs = store.rewound(session), store.runs_in(session), store.turn_costs(session)
        turns = [
            ListedTurn(
                number=number,
                turn=turn,
                cost=costs.get(turn.uid, UNKNOWN),
                is_rewound=turn.uid in rewound,
                removed=removed.get(turn.uid),
                shown_in=runs_in.get(turn.uid),
            )
            for number, turn in enumerate((each for each in stored if each.uid not in live), 1)
        ]
        numbered = dict(enumerate(live.values(), len(turns) + 1))
        turns += [
            live_turn(number, run, of_turn(run.turn, price_table(store.prices_file)))
            for number, run in numbered.items()
        ]
        running = {session.uid: [run.run for run in live.values() if run.is_running]}
        listed = self._values(
            [store],
            [(store, session)],
            {uid: each for uid, each in running.items() if each},
            {session.uid: new},
            everywhere=False,
        )
        return Transcript(located=located, session=listed[0], turns=tuple(turns), live=numbered)

    def turns(self, located: LocatedSession) -> tuple[ListedTurn, ...]:
        """The turns of a session, in order, those of its live runs last."""
        return self.transcript(located).turns

    def live(self, located: LocatedSession) -> tuple[LiveRun, ...]:
        """The runs of a session that are not stored yet, each as far as it has come, the oldest first."""
        return tuple(self.transcript(located).live.values())

    def events(
        self,
        located: Located,
        after: tuple[int, int] = (0, -1),
        *,
        form: Form = Form.COMPACT,
        turns: Container[int | None] | None = None,
        limit: int | None = None,
    ) -> Iterator[Entry]:
        """The stored events of a session behind ``after`` (seq, part), in order; read in pages as they are asked for.

        ``turns``: only those of turns with these numbers (None: before the first). What belongs to a turn that was
        stored after this was called is left for the next call.
        """
        numbers = located.store.turn_numbers(located.session)
        found = self._events(located, after, numbers, form, turns)
        return found if limit is None else islice(found, limit)

    def _events(
        self, located: Located, after: tuple[int, int], numbers: dict[int, int], form: Form,
        turns: Container[int | None] | None,
    ) -> Iterator[Entry]:  # fmt: skip
        store, read = located.store, _reading_as(located.store, form)
        while window := store.events(located.session, after=after, limit=WINDOW):
            for stored in window:
                number = numbers.get(stored.turn_id) if stored.turn_id is not None else None
                is_known = number is not None or stored.turn_id is None
                if is_known and (turns is None or number in turns):
                    yield Entry(outline=outlined(stored, numbers), event=read(stored))
            after = (window[-1].seq, window[-1].part)

    def record(self, located: Located, seq: int, form: Form = Form.FULL) -> tuple[Entry, ...]:
        """The events of one record. Raises RecordNotFound."""
        numbers, read = located.store.turn_numbers(located.session), _reading_as(located.store, form)
        stored = located.store.events_of(located.session, [seq])
        if not stored:
            raise RecordNotFound(seq)
        return tuple(Entry(outline=outlined(each, numbers), event=read(each)) for each in stored)

    def full(self, located: Located, entry: Entry | OutlineEntry) -> Event:
        """The event of an entry with all that its record says. Raises RecordNotFound."""
        wanted = entry.outline if isinstance(entry, Entry) else entry
        for each in self.record(located, wanted.seq):
            if each.outline.part == wanted.part:
                return each.event
        raise RecordNotFound(wanted.seq)

    def tree(self, located: LocatedSession, *, removed: bool = False, costs: bool = True) -> SessionTree:
        """The turns of a session by who follows whom; ``removed``: also those of branches that were removed."""
        from backstory.workspace.trees import session_tree

        return session_tree(located, removed=removed, costs=costs)

    def branches(self, located: LocatedSession) -> list[Branch]:
        """The branches of a session, the one that last grew first."""
        from backstory.workspace.targets import branches

        return branches(located)

    def path(self, located: LocatedSession) -> Path:
        """The records of the branch that the next prompt continues."""
        from backstory.conversation.tree import Tree
        from backstory.workspace.records import Path, path_records

        point, tree = located.store.leaf(located.session), Tree(located.store.tree(located.session))
        records = iter(()) if point is None else path_records(located, tree.path(point), tree)
        return Path(point=point, records=records)

    def diff(self, left: Target, right: Target) -> Comparison:
        """Two branches, of one session or of two: where they part, and what came of each."""
        from backstory.workspace.trees import compared

        return compared(left, right)

    def context(self, located: LocatedSession, budget: int, *, explain: bool = False) -> SessionContext:
        """What the next run of a session receives of it, in at most ``budget`` characters."""
        from backstory.workspace.contexts import session_context

        return session_context(located, budget, explain=explain)

    def search(self, query: SearchQuery, cancellation: Cancellation | None = None) -> SearchResult:
        """What the home store has of it. Raises Cancelled where ``cancellation`` was asked for by another thread.

        A reader is used by one thread at a time; only a cancellation may come from another one.
        """
        from backstory.workspace.searching import SearchResult, search

        findings = search(self._sources, query, cancellation)
        # Their numbers would mean other sessions in another project.
        uids = {session.uid for each in findings.excerpts for session in (each.session, each.shown)}
        home = self._sources.home_store
        return SearchResult(
            query=query,
            findings=findings,
            labels=self.labels(sorted(uids)),
            missing_store=None if home.exists else home.path,
        )

    def runs(self) -> tuple[PendingRun, ...]:
        """The runs of the machine that are not stored yet, the oldest first."""
        return pending_runs(self._sources.home)

    def labels(self, uids: Sequence[str]) -> dict[str, str]:
        """What commands take for each of these sessions in any folder: so much of its uid as is its own."""
        return _labels(self._stores(everywhere=True), uids)

    def _stores(self, *, everywhere: bool) -> list[Store]:
        """The stores to read, those that win first."""
        near = [store for store in self._sources.stores if store.exists]
        # What the home store took from a store from elsewhere is as old as that.
        near.sort(key=lambda store: not store.is_elsewhere)
        home = self._sources.home_store
        if not everywhere or home is not self._sources.machine_store:
            return near
        better = [store for store in near if store is not home]
        paths = {store.path for store in better}
        better += [store for store in self._sources.known_projects.ahead() if store.path not in paths]
        return [*better, *(store for store in near if store is home)]

    def _conditions(self, store: Store, wanted: SessionFilter) -> dict[str, Any]:
        # All that the project's own store holds is the project's, in whichever of its worktrees it was begun.
        is_all = wanted.everywhere or store.path == self._sources.project_store.path
        place = {} if is_all else {"project": self._sources.project_key, "folder": str(self._sources.project_folder)}
        return {"agent": wanted.agent, "helpers": wanted.subagents, "unread": wanted.unread, **place}

    def _merged(self, stores: list[Store], wanted: SessionFilter, page: Page, most: int | None) -> Iterator[_Place]:
        lists = [self._listed(stores[: n + 1], wanted, page, most) for n in range(len(stores))]
        return (place for place, is_taken in merge(*lists, key=_order, reverse=True) if not is_taken)

    def _listed(
        self, stores: list[Store], wanted: SessionFilter, page: Page, most: int | None
    ) -> Iterator[tuple[_Place, bool]]:
        """The sessions of the last of these stores, read as they are asked for, and whether a better one has each.

        Those are passed on, too: how far this list is tells that no more of it need be read.
        """
        *better, store = stores
        conditions, limit = self._conditions(store, wanted), -1 if most is None else most
        after = None if page.after is None else (page.after.last_active, page.after.uid)
        while True:
            found = store.sessions(**conditions, after=after, limit=limit)
            taken = self._taken([each.uid for each in found], better)
            yield from (((store, each), each.uid in taken) for each in found)
            if len(found) != limit:
                return
            after = found[-1].last_active, found[-1].uid

    def _taken(self, uids: list[str], better: list[Store]) -> set[str]:
        """Those of these sessions that a better store has. One in conflict stands beside the one that it says it is."""
        found = set[str]()
        for store in better:
            found |= store.present(uids) - (self._sources.conflicts if store.is_elsewhere else set())
        return found

    def _total(self, stores: list[Store], wanted: SessionFilter) -> int:
        """Of each owner's sessions one store has all; counting them there needs no uid to be compared."""
        counts = [store.session_counts(**self._conditions(store, wanted)) for store in stores]
        owners = {owner for each in counts for owner in each}
        in_conflict = len(self._sources.conflicts) if any(store.is_elsewhere for store in stores) else 0
        return sum(max(each.get(owner, 0) for each in counts) for owner in owners) + in_conflict

    def _running(self) -> dict[str, list[Run]]:
        running: dict[str, list[Run]] = {}
        for _, run in running_runs(self._sources.home):
            running.setdefault(run.session_uid, []).append(run)
        return running

    def _values(
        self,
        stores: list[Store],
        found: Sequence[_Place],
        running: Mapping[str, Sequence[Run]],
        unstored: Mapping[str, Sequence[Run]],
        *,
        everywhere: bool,
    ) -> tuple[ListedSession, ...]:
        """``running``: the runs of sessions that run; ``unstored``: those that count as turns beside the stored."""
        costs = {
            id(store): store.session_costs([session for where, session in found if where is store]) for store in stores
        }
        by_uid = [session.uid for store, session in found if not self._is_numbered(store, session, everywhere)]
        labels = _labels(stores, by_uid)
        return tuple(
            listed(
                with_runs(session, unstored.get(session.uid, ())),
                costs[id(store)][session.id],
                label=labels.get(session.uid) or session.shown_number or session.uid,
                is_conflict=store.is_elsewhere and session.uid in self._sources.conflicts,
                is_running=session.uid in running,
            )
            for store, session in found
        )

    def _is_numbered(self, store: Store, session: Session, everywhere: bool) -> bool:
        """Whether its number means this session to commands here: another project's may have the same."""
        is_here = store.path == self._sources.project_store.path and session.is_own
        return is_here and session.number is not None and not everywhere


def _reading_as(store: Store, form: Form) -> Callable[[StoredEvent], Event]:
    if form is Form.COMPACT:
        return lambda stored: stored.event
    from backstory.export.full_form import FullForms

    forms = FullForms(store)
    return forms.of if form is Form.FULL else forms.with_words


def _labels(stores: list[Store], uids: Sequence[str]) -> dict[str, str]:
    taken = {uid for store in stores for uid in store.not_alone(uids, UID_SHOWN)} if uids else set()
    return {uid: uid if uid in taken else uid[:UID_SHOWN] for uid in uids}


def _order(listed: tuple[_Place, bool]) -> tuple[int, str, bool]:
    (store, session), _ = listed
    # One in conflict stands behind the one that it says it is.
    return (-1 if session.last_active is None else session.last_active, session.uid, not store.is_elsewhere)
