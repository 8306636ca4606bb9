"""The pages by their addresses. Each request has a workspace of its own, so a store that moved is met anew."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from importlib.resources import files
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from backstory.errors import BackstoryError, RecordNotFound, SessionAmbiguous, SessionNotFound
from backstory.web import behind, comparing, finding, listing, reading, reporting
from backstory.web.drawing import PageLinks, environment
from backstory.web.kept import KeptAnswers
from backstory.web.markup import plain
from backstory.workspace.history.blocks import content_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

    from starlette.requests import Request

    from backstory.web.reporting import ReportPage
    from backstory.workspace.history.blocks import Content
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.workspace import Workspace

CONTENTS_KEPT = 4
"""The number of sessions whose outlines are kept for the blocks of a page that is read."""
TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
GZIP_BYTES_LEAST = 1_000
TOTALS_KEPT, REPORTS_KEPT, REPORT_KEPT_MS = 64, 16, 60_000
"""The most numbers of lists that are kept, and reports, these for a minute at most: their time goes up to now."""


class Site:
    """Answers requests. ``open_workspace`` opens the stores for one; ``user_home``: for paths that are typed."""

    def __init__(self, open_workspace: Callable[[], Workspace], user_home: Path) -> None:
        self._open_workspace, self._user_home = open_workspace, user_home
        self._templates = environment(PageLinks())
        self._contents: OrderedDict[tuple[Hashable, ...], Content] = OrderedDict()
        self._lock = Lock()
        self._totals: KeptAnswers[int] = KeptAnswers(TOTALS_KEPT)
        self._reports: KeptAnswers[ReportPage | None] = KeptAnswers(REPORTS_KEPT)

    def app(self) -> Starlette:
        """The application."""
        routes = [
            Route("/", lambda _: RedirectResponse("/sessions")),
            Route("/sessions", self._guarded(self.sessions)),
            Route("/search", self._guarded(self.search)),
            Route("/compare", self._guarded(self.compare)),
            Route("/reports", lambda _: RedirectResponse("/reports/standup")),
            Route("/reports/behind", self._guarded(self.behind)),
            Route("/reports/{name}", self._guarded(self.report)),
            Route("/s/{uid}", self._guarded(self.session)),
            Route("/s/{uid}/{place}", self._guarded(self.session)),
            Route("/s/{uid}/{place}/block", self._guarded(self.block)),
            Route("/s/{uid}/{place}/whole", self._guarded(self.whole)),
            Route("/static/{name}", static),
        ]
        return Starlette(routes=routes, middleware=[Middleware(GZipMiddleware, minimum_size=GZIP_BYTES_LEAST)])

    # pages ----------------------------------------------------------------------------------------------------------

    def sessions(self, workspace: Workspace, request: Request) -> Response:
        """The list, or only its next rows."""
        typed = dict(request.query_params)
        page = listing.listed(
            workspace.reader, typed, self._user_home, workspace.now(), today(workspace),
            lambda wanted: self._totals.get(wanted, stores_of(workspace), lambda: workspace.reader.count(wanted)),
        )  # fmt: skip
        if "part" in typed:
            return self._page("_rows.html", page=page)
        return self._page(
            "sessions.html", page=page, form=listing.form(typed), chips=listing.chips(typed, "/sessions"),
            state=listing.state_of(workspace.home_store),
        )  # fmt: skip

    def search(self, workspace: Workspace, request: Request) -> Response:
        """The field for a search with its hits, or only these."""
        typed = dict(request.query_params)
        found = finding.found(workspace.reader, typed, self._user_home, workspace.now(), today(workspace))
        if "part" in typed:
            return self._page("_hits.html", found=found)
        return self._page(
            "search.html", found=found, words=plain(typed.get(finding.WORDS, "")),
            form=listing.form(typed, of_events=True), chips=listing.chips(typed, "/search"),
        )  # fmt: skip

    def report(self, workspace: Workspace, request: Request) -> Response:
        """A report by its name."""
        name = request.path_params["name"]
        typed, home = dict(request.query_params), self._user_home
        now = workspace.now()
        page = self._reports.get(
            (name, tuple(typed.items()), now // REPORT_KEPT_MS), stores_of(workspace),
            lambda: reporting.read(workspace.reader, now, name, typed, home, today(workspace)),
        )  # fmt: skip
        if page is None:
            return self._refused(f"There is no report {name!r:.80}.", 404)
        return self._page("report.html", page=page)

    def behind(self, workspace: Workspace, request: Request) -> Response:
        """The sessions behind a number of a report, and its queries."""
        page = behind.read(workspace.reader, dict(request.query_params), self._user_home, today(workspace))
        return self._page("behind.html", page=page)

    def compare(self, workspace: Workspace, request: Request) -> Response:
        """Two branches or sessions side by side; of one, what it may be compared with."""
        left, right = comparing.asked(dict(request.query_params), request.query_params.getlist("s"))
        if left is None or right is None:
            return self._page("compare.html", page=None, choice=comparing.choices(workspace, left))
        page = comparing.compared(workspace, left, right, workspace.now())
        return self._page("compare.html", page=page, choice=None)

    def session(self, workspace: Workspace, request: Request) -> Response:
        """A session, open at its end or at an entry."""
        located = workspace.resolve(request.path_params["uid"])
        place = request.path_params.get("place")
        key = None if place is None else _place(place)
        content = self._content(workspace, located)
        blocks = content.blocks
        at = content.block_of(key) if key is not None else None
        chosen = (len(blocks) - 1 if key is None else 0) if at is None else at
        near = {n for n in (chosen - 1, chosen, chosen + 1) if 0 <= n < len(blocks)}
        now = workspace.now()
        shown = [
            ShownBlock(
                place=reading.place_of(content.order.key(block.first)),
                last=content.order.seqs[block.end - 1],
                lines=reading.likely_lines(block),
                items=[*reading.items_of(workspace.reader, content, n, now)] if n in near else None,
            )
            for n, block in enumerate(blocks)
        ]
        listed = content.transcript.session
        return self._page(
            "session.html", row=listing.row(listed, now), session=listed, folder=plain(listed.said_folder),
            blocks=shown, outline=reading.outline(content), place=place or "", uid=listed.uid,
            children=[(each.uid, plain(each.shown_title or each.uid)) for each in content.transcript.children],
        )  # fmt: skip

    def block(self, workspace: Workspace, request: Request) -> Response:
        """The entries of a block, which begins at an entry."""
        located = workspace.resolve(request.path_params["uid"])
        content = self._content(workspace, located)
        key = _place(request.path_params["place"])
        number = content.block_of(key)
        if number is None or content.order.key(content.blocks[number].first) != key:
            return PlainTextResponse("The session has changed. Load the page again.", 409)
        items = [*reading.items_of(workspace.reader, content, number, workspace.now())]
        return self._page("_items.html", items=items, uid=located.session.uid)

    def whole(self, workspace: Workspace, request: Request) -> Response:
        """An entry with all that its record says."""
        located = workspace.resolve(request.path_params["uid"])
        key = _place(request.path_params["place"])
        for each in workspace.reader.record(located, key[0]):
            if each.outline.part == key[1]:
                return self._page("_whole.html", item=reading.whole(each.event, key))
        raise RecordNotFound(key[0])

    # what pages need ------------------------------------------------------------------------------------------------

    def _content(self, workspace: Workspace, located: LocatedSession) -> Content:
        """The outline of a session as it is now; of one that did not change since, as it was read then."""
        key = (located.session.uid, workspace.reader.change_token())
        with self._lock:
            content = self._contents.get(key)
        if content is None:
            content = content_of(workspace.reader, located)
            with self._lock:
                self._contents[key] = content
                while len(self._contents) > CONTENTS_KEPT:
                    self._contents.popitem(last=False)
        # The stores of the request that read it are closed.
        return replace(content, located=located)

    def _page(self, name: str, **values: Any) -> HTMLResponse:
        return HTMLResponse(self._templates.get_template(name).render(**values))

    def _refused(self, why: str, status: int) -> HTMLResponse:
        return HTMLResponse(self._templates.get_template("refused.html").render(why=plain(why)), status)

    def _guarded(self, answer: Callable[[Workspace, Request], Response]) -> Callable[[Request], Response]:
        """Answer with the workspace of this request; an error that says what to do becomes a page."""

        def answered(request: Request) -> Response:
            try:
                with self._open_workspace() as workspace:
                    return answer(workspace, request)
            except BackstoryError as refused:
                missing = isinstance(refused, SessionNotFound | SessionAmbiguous | RecordNotFound)
                return self._refused(str(refused), 404 if missing else 400)

        return answered


class ShownBlock:
    """A block of a session on its page. ``items``: None until it comes into view."""

    def __init__(self, place: str, last: int, lines: int, items: list[reading.PageEntry] | None) -> None:
        self.place, self.last, self.lines, self.items = place, last, lines, items


def _place(text: str) -> tuple[int, int]:
    key = reading.read_place(text)
    if key is None:
        raise RecordNotFound(0)
    return key


def stores_of(workspace: Workspace) -> list[Path]:
    """The files that a list and a report of every project are read from."""
    return [workspace.home_store.path, workspace.project_store.path]


def today(workspace: Workspace) -> datetime:
    """The time now, in the system's zone, by the workspace's clock."""
    return datetime.fromtimestamp(workspace.now() / 1000, UTC).astimezone().replace(tzinfo=None)


def static(request: Request) -> Response:
    """A file of the package, by its name alone."""
    name = request.path_params["name"]
    kind = TYPES.get(name.rpartition(".")[2])
    found = next((each for each in files("backstory.web").joinpath("static").iterdir() if each.name == name), None)
    if kind is None or found is None:
        return PlainTextResponse("There is no such file.", 404)
    return Response(found.read_bytes(), media_type=kind)
