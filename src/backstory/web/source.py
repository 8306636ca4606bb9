"""The place that pages have their data from: the stores of this machine, or a team's server for the one who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from backstory.web.markup import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from pathlib import Path

    from starlette.requests import Request

    from backstory.web.acting import PromptForm
    from backstory.web.finding import FoundPage
    from backstory.web.listing import FormField, List
    from backstory.web.reporting import ReportPage
    from backstory.workspace.history.blocks import Content
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.history.subagents import ComingSession
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.workspace import Workspace

A = TypeVar("A")


class SessionCopy(NamedTuple):
    """A copy of a session: whose it is, from which machine, its address; ``is_here``: it is the one on the page."""

    person: str
    machine: str
    events: int
    where: str
    is_here: bool


class RelatedSession(NamedTuple):
    """A session that another comes from, or that comes from it: its address, its words, and what it is to the other."""

    uid: str
    title: str
    relation: str = ""


def related(
    content: Content, coming: Sequence[ComingSession] | None = None
) -> tuple[RelatedSession | None, tuple[RelatedSession, ...]]:
    """The session that another comes from, and those that come from it: as its store says, or ``coming``."""
    session = content.transcript.session
    parent = RelatedSession(session.parent_uid, "", session.relation or "") if session.parent_uid else None
    known: Sequence[ComingSession] = content.transcript.children if coming is None else coming
    return parent, tuple(RelatedSession(each.uid, plain(each.shown_title or each.uid)) for each in known)


class SteeringForm(NamedTuple):
    """A form for a message to a run on another machine: its address, what makes it ours and sent once, and the run.

    ``why_not``: the sentence for a run that takes none; ``states``: how far those before are, by their ids.
    """

    where: str
    csrf: str
    id: str
    machine: str
    run: str
    why_not: str
    states: tuple[tuple[str, str], ...]


class OpenSession(NamedTuple):
    """A session that can be read. ``state``: another value once it has changed; ``name``: its name in addresses.

    ``parent`` and ``coming``: the sessions that it comes from, and that come from it; None where its own store says
    them. ``is_whole``: its earlier events are there, too; ``is_live``: it may grow while it is read.
    """

    workspace: Workspace
    located: LocatedSession
    state: Hashable
    name: str
    copies: tuple[SessionCopy, ...] = ()
    parent: RelatedSession | None = None
    coming: tuple[ComingSession, ...] | None = None
    is_whole: bool = True
    is_live: bool = True


class PageSource(Protocol):
    """The data of the pages that one request asks for. ``now``: its time, in ms since 1970.

    ``user_home``: for paths that are typed.
    """

    now: int
    user_home: Path

    def form(self, typed: Mapping[str, str], *, of_events: bool = False) -> list[FormField]:
        """The fields of the filter with what was typed."""

    def sessions(self, typed: Mapping[str, str]) -> List:
        """A part of the list."""

    def stamp(self) -> str:
        """A word that is another one after a session changed."""

    def state(self) -> tuple[str, str]:
        """The state of the history in words, and the command that helps; '' and '' where nothing is to be said."""

    def search(self, typed: Mapping[str, str]) -> FoundPage:
        """Hits."""

    def report(self, name: str, typed: Mapping[str, str]) -> ReportPage | None:
        """A report; None where there is none of this name."""

    def read(self, request: Request, question: Callable[[OpenSession], A], *, last: int | None = None) -> A:
        """Ask about the session that an address names. ``last``: so many of the last events are enough."""

    def prompt(self, session: ListedSession, typed: Mapping[str, str]) -> PromptForm | None:
        """The form for what may be said to a session; None where nothing may."""

    def steering(self, opened: OpenSession) -> SteeringForm | None:
        """The form for a message to a run elsewhere; None where there is none."""


class PageRefused(Exception):
    """A page that is not given, with the status and the sentence of its answer."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
