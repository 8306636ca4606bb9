"""The pages of this machine. Requests share a workspace, which is opened anew where something is another."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from starlette.applications import Starlette
from starlette.responses import RedirectResponse
from starlette.routing import Route

from backstory.web import behind, comparing, finding, listing, reporting
from backstory.web.acting import Order
from backstory.web.drawing import PageLinks
from backstory.web.keeping import SharedWorkspace
from backstory.web.kept import KeptAnswers
from backstory.web.live import Channel, Hub
from backstory.web.local_source import LocalSource
from backstory.web.orders import Orders
from backstory.web.pages import ZIPPING, Pages
from backstory.web.source import OpenSession, SteeringForm
from backstory.web.streaming import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response

    from backstory.web.acting import Acting, PromptForm
    from backstory.web.finding import FoundPage
    from backstory.web.listing import List
    from backstory.web.reading import PageEntry
    from backstory.web.reporting import ReportPage
    from backstory.web.source import A
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.workspace import Workspace

TOTALS_KEPT, REPORTS_KEPT, REPORT_KEPT_MS = 64, 16, 60_000
"""The most numbers of lists that are kept, and reports, these for a minute at most: their time goes up to now."""


class Site:
    """Answers requests. ``open_workspace`` opens the stores for one; ``user_home``: for paths that are typed.

    ``acting``: None for pages that only read.
    """

    def __init__(self, open_workspace: Callable[[], Workspace], user_home: Path, acting: Acting | None = None) -> None:
        self._open_workspace, self._acting = open_workspace, acting
        self.kept, answers = SharedWorkspace(open_workspace), _Answers()

        @contextmanager
        def source(_: Request) -> Iterator[StoreSource]:
            with self.kept.use() as workspace:
                yield StoreSource(workspace, user_home, answers, acting)

        self._pages = Pages(source, PageLinks(acts=acting is not None))
        follow = LocalSource(open_workspace, user_home).follow
        self.hub = Hub(lambda uid: Channel(uid, follow, self._drawn))

    def app(self) -> Starlette:
        """The application."""
        pages = self._pages
        routes = [
            Route("/search", pages.guarded(pages.search)),
            Route("/compare", pages.guarded(self.compare)),
            Route("/reports", lambda _: RedirectResponse("/reports/standup")),
            Route("/reports/behind", pages.guarded(self.behind)),
            Route("/reports/{name}", pages.guarded(pages.report)),
            Route("/s/{uid}/live", Stream(self.hub, self._open_workspace)),
            *pages.routes(),
        ]
        if self._acting is not None:
            routes.append(Route("/new", pages.guarded(self.new)))
            routes += Orders(self._acting, self._open_workspace, self._shown).routes()
        return Starlette(routes=routes, middleware=[ZIPPING])

    def end(self) -> None:
        """Tell who looks that the pages end, and wait for nothing any more."""
        self.hub.end()
        if self._acting is not None:
            self._acting.end()

    def behind(self, source: StoreSource, request: Request) -> Response:
        """The sessions behind a number of a report, and its queries."""
        typed = dict(request.query_params)
        page = behind.read(source.workspace.reader, typed, source.user_home, today(source.workspace))
        return self._pages.page("behind.html", page=page)

    def compare(self, source: StoreSource, request: Request) -> Response:
        """Two branches or sessions side by side; of one, what it may be compared with."""
        workspace = source.workspace
        left, right = comparing.asked(dict(request.query_params), request.query_params.getlist("s"))
        if left is None or right is None:
            return self._pages.page("compare.html", page=None, choice=comparing.choices(workspace, left))
        page = comparing.compared(workspace, left, right, workspace.now())
        return self._pages.page("compare.html", page=page, choice=None)

    def new(self, source: StoreSource, request: Request) -> Response:
        """The field for a prompt that begins a session."""
        assert self._acting is not None
        return self._shown(self._acting.form(source.workspace, None), False, 200)

    def _shown(self, prompt: PromptForm, is_part: bool, status: int) -> Response:
        return self._pages.page("_prompt.html" if is_part else "prompt.html", status, prompt=prompt)

    def _drawn(self, items: list[PageEntry], uid: str) -> str:
        return self._pages.templates.get_template("_items.html").render(items=items, uid=uid)


class _Answers:
    """Answers that were given before."""

    def __init__(self) -> None:
        self.totals: KeptAnswers[int] = KeptAnswers(TOTALS_KEPT)
        self.reports: KeptAnswers[ReportPage | None] = KeptAnswers(REPORTS_KEPT)


class StoreSource:
    """The stores of this machine, as the source of pages."""

    def __init__(self, workspace: Workspace, user_home: Path, answers: _Answers, acting: Acting | None) -> None:
        self.workspace, self.user_home, self.now = workspace, user_home, workspace.now()
        self.form, self.state = listing.form, partial(listing.state_of, workspace.home_store)
        self._answers, self._acting, self._reader = answers, acting, workspace.reader

    def sessions(self, typed: Mapping[str, str]) -> List:
        return listing.listed(
            self._reader, typed, self.user_home, self.now, today(self.workspace),
            lambda wanted: self._answers.totals.get(wanted, self._stores(), lambda: self._reader.count(wanted)),
        )  # fmt: skip

    def stamp(self) -> str:
        return f"{crc32(repr(self._reader.change_stamp()).encode()):08x}"

    def search(self, typed: Mapping[str, str]) -> FoundPage:
        return finding.found(self._reader, typed, self.user_home, self.now, today(self.workspace))

    def report(self, name: str, typed: Mapping[str, str]) -> ReportPage | None:
        now = self.now
        return self._answers.reports.get(
            (name, tuple(typed.items()), now // REPORT_KEPT_MS), self._stores(),
            lambda: reporting.read(self._reader, now, name, typed, self.user_home, today(self.workspace)),
        )  # fmt: skip

    def read(self, request: Request, question: Callable[[OpenSession], A], *, last: int | None = None) -> A:
        located = self.workspace.resolve(request.path_params["uid"])
        # The state says what it was read of: runs count as well as stores.
        return question(OpenSession(self.workspace, located, self._reader.change_token(), located.session.uid))

    def prompt(self, session: ListedSession, typed: Mapping[str, str]) -> PromptForm | None:
        return None if self._acting is None else self._acting.form(self.workspace, session, Order.read(typed))

    def steering(self, opened: OpenSession) -> SteeringForm | None:
        return None

    def _stores(self) -> list[Path]:
        """The files that a list and a report of every project are read from."""
        return [self.workspace.home_store.path, self.workspace.project_store.path]


def today(workspace: Workspace) -> datetime:
    """The time now, in the system's zone, by the workspace's clock."""
    return datetime.fromtimestamp(workspace.now() / 1000, UTC).astimezone().replace(tzinfo=None)
