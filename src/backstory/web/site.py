"""The pages by their addresses. Requests share a workspace, which is opened anew where something is another."""

from __future__ import annotations

from asyncio import Semaphore
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from zlib import crc32

from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from backstory.errors import BackstoryError, RecordNotFound, SessionAmbiguous, SessionNotFound
from backstory.web import behind, branching, comparing, finding, listing, reading, reporting, sharing
from backstory.web.acting import Order
from backstory.web.drawing import PageLinks, environment
from backstory.web.keeping import SharedWorkspace
from backstory.web.kept import KeptAnswers
from backstory.web.live import Channel, Hub, stored_place
from backstory.web.local_source import LocalSource
from backstory.web.markup import plain
from backstory.web.minimap import map_of
from backstory.web.orders import Orders
from backstory.web.streaming import Stream
from backstory.workspace.history.blocks import content_of
from backstory.workspace.history.images import image_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from starlette.requests import Request

    from backstory.web.acting import Acting, PromptForm
    from backstory.web.reporting import ReportPage
    from backstory.workspace.history.blocks import Content
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.workspace import Workspace

CONTENTS_KEPT = 4
"""The number of sessions whose outlines are kept for the blocks of a page that is read."""
ANSWERED_AT_ONCE = 8
"""More requests wait: each thread reads on connections of its own, and one of them computes at a time in any case."""
TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
GZIP_BYTES_LEAST, GZIP_LEVEL = 1_000, 6
TOTALS_KEPT, REPORTS_KEPT, REPORT_KEPT_MS = 64, 16, 60_000
"""The most numbers of lists that are kept, and reports, these for a minute at most: their time goes up to now."""


class Site:
    """Answers requests. ``open_workspace`` opens the stores for one; ``user_home``: for paths that are typed.

    ``acting``: None for pages that only read.
    """

    def __init__(self, open_workspace: Callable[[], Workspace], user_home: Path, acting: Acting | None = None) -> None:
        self._open_workspace, self._user_home, self._acting = open_workspace, user_home, acting
        self.kept, self._few = SharedWorkspace(open_workspace), Semaphore(ANSWERED_AT_ONCE)
        self._templates = environment(PageLinks(acts=acting is not None))
        follow = LocalSource(open_workspace, user_home).follow
        self.hub = Hub(lambda uid: Channel(uid, follow, self._drawn))
        self._contents: KeptAnswers[Content] = KeptAnswers(CONTENTS_KEPT)
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
            Route("/changes", self._guarded(lambda workspace, _: PlainTextResponse(_stamp(workspace)))),
            Route("/s/{uid}", self._guarded(self.session)),
            Route("/s/{uid}/inside", self._guarded(self.inside)),
            Route("/s/{uid}/tree", self._guarded(self.tree)),
            Route("/s/{uid}/print", self._guarded(self.printed)),
            Route("/s/{uid}/markdown", self._guarded(self.markdown)),
            Route("/s/{uid}/live", Stream(self.hub, self._open_workspace)),
            Route("/s/{uid}/{place}", self._guarded(self.session)),
            Route("/s/{uid}/{place}/markdown", self._guarded(self.markdown)),
            Route("/s/{uid}/{place}/block", self._guarded(self.block)),
            Route("/s/{uid}/{place}/whole", self._guarded(self.whole)),
            Route("/s/{uid}/{place}/image/{number:int}", self._guarded(self.image)),
            Route("/static/{name}", static),
        ]
        if self._acting is not None:
            routes.append(Route("/new", self._guarded(self.new)))
            routes += Orders(self._acting, self._open_workspace, self._shown).routes()
        zipping = Middleware(GZipMiddleware, minimum_size=GZIP_BYTES_LEAST, compresslevel=GZIP_LEVEL)
        return Starlette(routes=routes, middleware=[zipping])

    def end(self) -> None:
        """Tell who looks that the pages end, and wait for nothing any more."""
        self.hub.end()
        if self._acting is not None:
            self._acting.end()

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
            changes=_stamp(workspace), state=listing.state_of(workspace.home_store),
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
        now = workspace.now()
        shown = self._blocks(workspace, content, {chosen - 1, chosen, chosen + 1})
        listed = content.transcript.session
        return self._page(
            "session.html", row=listing.row(listed, now), session=listed, folder=plain(listed.said_folder),
            stored=stored_place(content),
            prompt=self._acting and self._acting.form(workspace, listed, Order.read(dict(request.query_params))),
            blocks=shown, outline=reading.outline(content), prompts_left_out=reading.prompts_left_out(content),
            drawn=map_of(content), place=place or "", uid=listed.uid,
            children=[(each.uid, plain(each.shown_title or each.uid)) for each in content.transcript.children],
            has_branches=any(each.is_rewound for each in content.transcript.turns),
        )  # fmt: skip

    def inside(self, workspace: Workspace, request: Request) -> Response:
        """The entries of a session that is opened inside another, from its beginning."""
        located = workspace.resolve(request.path_params["uid"])
        shown = self._blocks(workspace, self._content(workspace, located), {0})
        return self._page("_blocks.html", blocks=shown, uid=located.session.uid)

    def tree(self, workspace: Workspace, request: Request) -> Response:
        """The turns of a session, and where its branches part."""
        located = workspace.resolve(request.path_params["uid"])
        rows, has_more = branching.rows_of(workspace.reader.tree(located, costs=False))
        title = plain(located.session.shown_title or located.session.uid)
        return self._page("tree.html", rows=rows, has_more=has_more, uid=located.session.uid, title=title)

    def markdown(self, workspace: Workspace, request: Request) -> Response:
        """A session, a turn or a record as Markdown, masked; its heading ``Masked`` says how much."""
        located, place = workspace.resolve(request.path_params["uid"]), request.path_params.get("place")
        if place is None:
            found = sharing.session_markdown(workspace, located, self._user_home)
        else:
            of_turn = request.query_params.get("of") == "turn"
            found = sharing.part_markdown(workspace, located, self._user_home, _place(place)[0], of_turn=of_turn)
        headers = {"Masked": found.masked}
        if "download" in request.query_params:
            headers["Content-Disposition"] = f'attachment; filename="{located.session.uid}.md"'
        return Response(
            found.text.encode("utf-8", "replace"), media_type="text/markdown; charset=utf-8", headers=headers
        )

    def printed(self, workspace: Workspace, request: Request) -> Response:
        """A session to be printed: all of its entries, masked."""
        located = workspace.resolve(request.path_params["uid"])
        content, blocks, masked = sharing.printed(workspace, located, self._user_home)
        row = listing.row(content.transcript.session, workspace.now())
        return self._page("print.html", row=row, blocks=blocks, masked=masked, uid=located.session.uid)

    def image(self, workspace: Workspace, request: Request) -> Response:
        """An image of an event, if its bytes are those of one."""
        key = _place(request.path_params["place"])
        found = image_of(workspace.resolve(request.path_params["uid"]), *key, request.path_params["number"])
        return Response(found.data, media_type=found.media_type)

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
        """An entry with all that its record says: for a page that has it, or as one."""
        template = "_whole.html" if "part" in request.query_params else "record.html"
        located = workspace.resolve(request.path_params["uid"])
        key = _place(request.path_params["place"])
        for each in workspace.reader.record(located, key[0]):
            if each.outline.part == key[1]:
                return self._page(template, item=reading.whole(each.event, key), uid=located.session.uid)
        raise RecordNotFound(key[0])

    def new(self, workspace: Workspace, request: Request) -> Response:
        """The field for a prompt that begins a session."""
        assert self._acting is not None
        return self._shown(self._acting.form(workspace, None), False, 200)

    # what pages need ------------------------------------------------------------------------------------------------

    def _content(self, workspace: Workspace, located: LocatedSession) -> Content:
        """The outline of a session as it is now; of one that did not change since, as it was read then."""
        # The key says what it was read of: runs count as well as stores.
        key = (located.session.uid, workspace.reader.change_token())
        content = self._contents.get(key, (), lambda: content_of(workspace.reader, located))
        # The stores of the request that read it are closed.
        return replace(content, located=located)

    def _blocks(self, workspace: Workspace, content: Content, near: set[int]) -> list[ShownBlock]:
        """The blocks of a session, those that are near with their entries."""
        now = workspace.now()
        return [
            ShownBlock(
                place=reading.place_of(content.order.key(block.first)),
                last=content.order.seqs[block.end - 1],
                lines=reading.likely_lines(block),
                items=[*reading.items_of(workspace.reader, content, n, now)] if n in near else None,
            )
            for n, block in enumerate(content.blocks)
        ]

    def _shown(self, prompt: PromptForm, is_part: bool, status: int) -> Response:
        answer = self._page("_prompt.html" if is_part else "prompt.html", prompt=prompt)
        answer.status_code = status
        return answer

    def _drawn(self, items: list[reading.PageEntry], uid: str) -> str:
        return self._templates.get_template("_items.html").render(items=items, uid=uid)

    def _page(self, name: str, **values: Any) -> HTMLResponse:
        return HTMLResponse(self._templates.get_template(name).render(**values))

    def _refused(self, why: str, status: int) -> HTMLResponse:
        return HTMLResponse(self._templates.get_template("refused.html").render(why=plain(why)), status)

    def _guarded(
        self, answer: Callable[[Workspace, Request], Response]
    ) -> Callable[[Request], Coroutine[None, None, Response]]:
        """Answer in a thread; an error that says what to do becomes a page."""

        def answered(request: Request) -> Response:
            try:
                with self.kept.use() as workspace:
                    return answer(workspace, request)
            except BackstoryError as refused:
                missing = isinstance(refused, SessionNotFound | SessionAmbiguous | RecordNotFound)
                return self._refused(str(refused), 404 if missing else 400)

        async def awaited(request: Request) -> Response:
            async with self._few:
                return await run_in_threadpool(answered, request)

        return awaited


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


def _stamp(workspace: Workspace) -> str:
    """A word that is another one after a session changed."""
    return f"{crc32(repr(workspace.reader.change_stamp()).encode()):08x}"


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
