"""A reader of what a team's server knows, with what this machine has beside it: each session once, each turn once.

A session that is here and there is read here, if this machine has all turns that the server has of it; if not, what is
here of it is one more of its parts.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from backstory.ask import session_rows
from backstory.derive.naming import ProjectNames
from backstory.ids import session_identity
from backstory.store.tables import sessions
from backstory.workspace.history.work import HandCommits
from backstory.workspace.located import LocatedSession
from backstory.workspace.place import PRICES, Place
from backstory.workspace.reader import Reader
from backstory.workspace.stores.report_store import ReportStore, SessionPart, figures_of, turns_in, work_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from backstory.ask.work import DoneDeed
    from backstory.store import Store
    from backstory.workspace.history.sessions import SessionFilter
    from backstory.workspace.history.work import SessionWork


class Whose(NamedTuple):
    """The person whose session it is, and the id of the machine that sent it, '' where none did."""

    person: str
    machine: str


class SessionSources(NamedTuple):
    """The number of sessions that the server has, of these people, that only this machine has, and that wait.

    ``waiting``: the server has yet to derive them.
    """

    there: int
    people: tuple[str, ...]
    here: int
    waiting: int


class TeamReader(Reader):
    """Answers of sums over turns, of lists and of work."""

    def __init__(self, place: ReportPlace, parts: Sequence[SessionPart], own_name: str, waiting: int) -> None:
        super().__init__(place)
        self._team, self._own_name = place.team, own_name
        self._parts = {session_identity(each.uid): each for each in sorted(parts, key=lambda each: each.events)}
        self._waiting = waiting

    def whose(self, uid: str) -> Whose:
        """The person and the machine of a session."""
        part = self._parts.get(session_identity(uid))
        return Whose(self._own_name, "") if part is None else Whose(part.person, part.machine)

    def located(self, uid: str) -> LocatedSession:
        """A session that the server has. Raises SessionNotFound."""
        return LocatedSession(self._team, self._team.session(uid))

    def sources(self, wanted: SessionFilter) -> SessionSources:
        """Return where the sessions of a list are from."""
        stores, there, here = self._listing.stores(everywhere=wanted.everywhere), Counter[str](), 0
        for _, place in self._listing.each_place(stores, wanted):
            part = self._parts.get(session_identity(place.uid))
            there.update(() if part is None else (part.person,))
            here += part is None
        return SessionSources(there.total(), tuple(sorted(there)), here, self._waiting)

    def commits_by_hand(self, until: int | None = None) -> HandCommits:
        """The commits of what sessions of this machine edited; nobody here was in the folders of others."""
        found = super().commits_by_hand(until)
        return _CommitsHere(found, self._team)


class ReportPlace(Place):
    """A place with a store of what the server knows. ``is_alone``: nothing else is read."""

    def __init__(self, place: Place, team: ReportStore, *, is_alone: bool) -> None:
        super().__init__(
            lambda: place.config, place.home, place.folder, store=place.named, now=place.now, environ=place.environ,
            report=place.report,
        )  # fmt: skip
        self.team, self._is_alone = team, is_alone
        team.prices_file, team.project_names = place.home / PRICES, self.project_names

    @cached_property
    def home_store(self) -> Store:
        return self.team if self._is_alone else super().home_store

    @cached_property
    def stores(self) -> list[Store]:
        """The stores of the place, behind that of the server: what it has of a session is all of it."""
        return [self.team, *(() if self._is_alone else (each for each in super().stores if each.exists))]

    def project_names(self) -> ProjectNames:
        """As a place has them, with those that only the server has."""
        if self._project_names is None:
            known, here = self.team.ask(sessions.project_names).known, super().project_names()
            self._project_names = ProjectNames(known=known | here.known, upto=here.upto)
        return self._project_names

    @cached_property
    def conflicts(self) -> set[str]:
        """As a place has them; the server's sessions are in none."""
        return set() if self._is_alone else super().conflicts


class _CommitsHere(HandCommits):
    """Commits of what sessions of this machine edited."""

    def __init__(self, found: HandCommits, team: ReportStore) -> None:
        self._found, self._team = found, team

    def of(self, work: SessionWork, edits: Sequence[DoneDeed]) -> tuple[str, str | None] | None:
        """As ``HandCommits`` has it; None for a session that only the server has."""
        return None if self._team.has(work.session.uid) else self._found.of(work, edits)


@contextmanager
def made_of(
    parts: Sequence[SessionPart], place: Place, path: Path, *, is_alone: bool = False, own_name: str = ""
) -> Iterator[TeamReader]:
    """Give a reader of these parts and of a place. Raises StoreDamaged.

    ``path``: for a file that may go afterwards. ``is_alone``: of the parts alone. ``own_name``: of the person here.
    """
    with ReportStore(path) as team:
        here = {} if is_alone else _sessions_here(place, parts)
        team.begin()
        elsewhere = {identity for each in parts if not _is_here(each, here, identity := session_identity(each.uid))}
        apart = [each for each in parts if session_identity(each.uid) in elsewhere]
        waiting = {each.uid for each in apart} - {each.uid for each in apart if each.figures is not None}
        has_work = any(each.work is not None for each in apart)
        team.add(
            [*apart, *_own_parts(place, (here[each] for each in sorted(elsewhere & here.keys())), own_name, has_work)]
        )
        with ReportPlace(place, team, is_alone=is_alone) as both:
            yield TeamReader(both, parts, own_name, len(waiting))


class _Here(NamedTuple):
    """A session that this machine has: its turns, and where it is."""

    turns: set[str]
    places: dict[tuple[Store, int], None]


def _sessions_here(place: Place, parts: Sequence[SessionPart]) -> dict[str, _Here]:
    """Those of these sessions that this machine has, by their identity."""
    identities, found = sorted({session_identity(each.uid) for each in parts}), dict[str, _Here]()
    for store in place.stores:
        for identity, session_id, uid in store.ask_or([], session_rows.turns_by_identity, identities):
            here = found.setdefault(identity, _Here(set(), {}))
            here.places[store, session_id] = None
            here.turns.update(() if uid is None else (uid,))
    return found


def _is_here(part: SessionPart, here: Mapping[str, _Here], identity: str) -> bool:
    return identity in here and turns_in(part) <= here[identity].turns


def _own_parts(place: Place, here: Iterable[_Here], own_name: str, has_work: bool) -> Iterator[SessionPart]:
    """Yield the parts that this machine has of sessions of which other machines have more."""
    reader = Reader(place)
    for store, session_id in (where for each in here for where in each.places):
        session = store.session(session_id)
        heading = reader.session(store, session).heading
        work = work_of(store, session) if has_work else None
        yield SessionPart(session.uid, own_name, "", session.events, figures_of(store, session, heading), work)
