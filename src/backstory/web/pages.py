"""The pages by their addresses, drawn from whatever source a request has."""

from __future__ import annotations

from asyncio import Semaphore
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from backstory.errors import BackstoryError, RecordNotFound, SessionAmbiguous, SessionNotFound
from backstory.web import branching, finding, listing, reading, sharing
from backstory.web.drawing import environment
from backstory.web.kept import KeptAnswers
from backstory.web.live import stored_place
from backstory.web.markup import plain
from backstory.web.minimap import map_of
from backstory.web.source import PageRefused, related
from backstory.workspace.history.blocks import content_of
from backstory.workspace.history.images import image_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractContextManager

    from starlette.requests import Request

    from backstory.web.drawing import PageLinks
    from backstory.web.source import OpenSession, PageSource
    from backstory.workspace.history.blocks import Content

CONTENTS_KEPT = 4
"""The number of sessions whose outlines are kept for the blocks of a page that is read."""
ANSWERED_AT_ONCE = 8
"""More requests wait: each thread reads on connections of its own, and one of them computes at a time in any case."""
TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
GZIP_BYTES_LEAST, GZIP_LEVEL = 1_000, 6
ZIPPING = Middleware(GZipMiddleware, minimum_size=GZIP_BYTES_LEAST, compresslevel=GZIP_LEVEL)


class Pages:
    """Answers requests. ``source``: gives that of a request, while it is answered."""

    def __init__(self, source: Callable[[Request], AbstractContextManager[PageSource]], links: PageLinks) -> None:
        self._source, self._few = source, Semaphore(ANSWERED_AT_ONCE)
        self.templates = environment(links)
        self._contents: KeptAnswers[Content] = KeptAnswers(CONTENTS_KEPT)

    def routes(self) -> list[Route]:
        """The routes of what every source has."""
        return [
            Route("/", lambda _: RedirectResponse("/sessions")),
            Route("/sessions", self.guarded(self.sessions)),
            Route("/changes", self.guarded(lambda source, _: PlainTextResponse(source.stamp()))),
            Route("/s/{uid}", self.guarded(self.session)),
            Route("/s/{uid}/inside", self.guarded(self.inside)),
            Route("/s/{uid}/tree", self.guarded(self.tree)),
            Route("/s/{uid}/print", self.guarded(self.printed)),
            Route("/s/{uid}/markdown", self.guarded(self.markdown)),
            Route("/s/{uid}/{place}", self.guarded(self.session)),
            Route("/s/{uid}/{place}/markdown", self.guarded(self.markdown)),
            Route("/s/{uid}/{place}/block", self.guarded(self.block)),
            Route("/s/{uid}/{place}/whole", self.guarded(self.whole)),
            Route("/s/{uid}/{place}/image/{number:int}", self.guarded(self.image)),
            Route("/static/{name}", static),
        ]

    # pages ----------------------------------------------------------------------------------------------------------

    def sessions(self, source: PageSource, request: Request) -> Response:
        """The list, or only its next rows."""
        typed = dict(request.query_params)
        page = source.sessions(typed)
        if "part" in typed:
            return self.page("_rows.html", page=page)
        form = source.form(typed)
        return self.page(
            "sessions.html", page=page, form=form, chips=listing.chips(typed, "/sessions", form),
            changes=source.stamp(), state=source.state(),
        )  # fmt: skip

    def search(self, source: PageSource, request: Request) -> Response:
        """The field for a search with its hits, or only these."""
        typed = dict(request.query_params)
        found = source.search(typed)
        if "part" in typed:
            return self.page("_hits.html", found=found)
        form = source.form(typed, of_events=True)
        return self.page(
            "search.html", found=found, words=plain(typed.get(finding.WORDS, "")), form=form,
            chips=listing.chips(typed, "/search", form),
        )  # fmt: skip

    def report(self, source: PageSource, request: Request) -> Response:
        """A report by its name."""
        name = request.path_params["name"]
        page = source.report(name, dict(request.query_params))
        if page is None:
            return self.refused(f"There is no report {name!r:.80}.", 404)
        return self.page("report.html", page=page)

    def session(self, source: PageSource, request: Request) -> Response:
        """A session, open at its end or at an entry."""
        place, typed = request.path_params.get("place"), dict(request.query_params)
        key = None if place is None else _place(place)

        def shown(opened: OpenSession) -> Response:
            content = self._content(opened)
            blocks = content.blocks
            at = content.block_of(key) if key is not None else None
            chosen = (len(blocks) - 1 if key is None else 0) if at is None else at
            listed = content.transcript.session
            parent, children = related(content, opened.coming)
            return self.page(
                "session.html", row=listing.row(listed, source.now), folder=plain(listed.said_folder),
                stored=stored_place(content), prompt=source.prompt(listed, typed),
                blocks=self._blocks(opened, content, {chosen - 1, chosen, chosen + 1}),
                outline=reading.outline(content), prompts_left_out=reading.prompts_left_out(content),
                drawn=map_of(content), place=place or "", uid=opened.name, session_uid=listed.uid,
                parent=opened.parent or parent, children=children,
                has_branches=any(each.is_rewound for each in content.transcript.turns), copies=opened.copies,
                is_whole=opened.is_whole, is_live=opened.is_live, steering=source.steering(opened),
            )  # fmt: skip

        return source.read(request, shown, last=None if place is not None or "whole" in typed else 0)

    def inside(self, source: PageSource, request: Request) -> Response:
        """The entries of a session that is opened inside another, from its beginning."""

        def shown(opened: OpenSession) -> Response:
            return self.page("_blocks.html", blocks=self._blocks(opened, self._content(opened), {0}), uid=opened.name)

        return source.read(request, shown)

    def tree(self, source: PageSource, request: Request) -> Response:
        """The turns of a session, and where its branches part."""

        def shown(opened: OpenSession) -> Response:
            rows, has_more = branching.rows_of(opened.workspace.reader.tree(opened.located, costs=False))
            session = opened.located.session
            title = plain(session.shown_title or session.uid)
            return self.page("tree.html", rows=rows, has_more=has_more, uid=opened.name, title=title)

        return source.read(request, shown)

    def markdown(self, source: PageSource, request: Request) -> Response:
        """A session, a turn or a record as Markdown, masked; its heading ``Masked`` says how much."""
        place, home = request.path_params.get("place"), source.user_home
        key = None if place is None else _place(place)

        def written(opened: OpenSession) -> Response:
            if key is None:
                found = sharing.session_markdown(opened.workspace, opened.located, home)
            else:
                of_turn = request.query_params.get("of") == "turn"
                found = sharing.part_markdown(opened.workspace, opened.located, home, key[0], of_turn=of_turn)
            headers = {"Masked": found.masked}
            if "download" in request.query_params:
                headers["Content-Disposition"] = f'attachment; filename="{opened.located.session.uid}.md"'
            return Response(
                found.text.encode("utf-8", "replace"), media_type="text/markdown; charset=utf-8", headers=headers
            )

        return source.read(request, written)

    def printed(self, source: PageSource, request: Request) -> Response:
        """A session to be printed: all of its entries, masked."""

        def drawn(opened: OpenSession) -> Response:
            content, blocks, masked = sharing.printed(opened.workspace, opened.located, source.user_home)
            row = listing.row(content.transcript.session, source.now)
            return self.page("print.html", row=row, blocks=blocks, masked=masked, uid=opened.name)

        return source.read(request, drawn)

    def image(self, source: PageSource, request: Request) -> Response:
        """An image of an event, if its bytes are those of one."""
        key, number = _place(request.path_params["place"]), request.path_params["number"]

        def found(opened: OpenSession) -> Response:
            image = image_of(opened.located, *key, number)
            return Response(image.data, media_type=image.media_type)

        return source.read(request, found)

    def block(self, source: PageSource, request: Request) -> Response:
        """The entries of a block, which begins at an entry."""
        key = _place(request.path_params["place"])

        def drawn(opened: OpenSession) -> Response:
            content = self._content(opened)
            number = content.block_of(key)
            if number is None or content.order.key(content.blocks[number].first) != key:
                return PlainTextResponse("The session has changed. Load the page again.", 409)
            items = [*reading.items_of(opened.workspace.reader, content, number, source.now, opened.coming)]
            return self.page("_items.html", items=items, uid=opened.name)

        return source.read(request, drawn)

    def whole(self, source: PageSource, request: Request) -> Response:
        """An entry with all that its record says: for a page that has it, or as one."""
        template = "_whole.html" if "part" in request.query_params else "record.html"
        key = _place(request.path_params["place"])

        def drawn(opened: OpenSession) -> Response:
            for each in opened.workspace.reader.record(opened.located, key[0]):
                if each.outline.part == key[1]:
                    return self.page(template, item=reading.whole(each.event, key), uid=opened.name)
            raise RecordNotFound(key[0])

        return source.read(request, drawn)

    # what pages need ------------------------------------------------------------------------------------------------

    def _content(self, opened: OpenSession) -> Content:
        """The outline of a session as it is now; of one that did not change since, as it was read then."""
        key = (opened.located.session.uid, opened.state)
        content = self._contents.get(key, (), lambda: content_of(opened.workspace.reader, opened.located))
        # The stores of the request that read it are closed.
        return replace(content, located=opened.located)

    def _blocks(self, opened: OpenSession, content: Content, near: set[int]) -> list[ShownBlock]:
        """The blocks of a session, those that are near with their entries."""
        reader, now = opened.workspace.reader, opened.workspace.now()
        return [
            ShownBlock(
                place=reading.place_of(content.order.key(block.first)),
                last=content.order.seqs[block.end - 1],
                lines=reading.likely_lines(block),
                items=[*reading.items_of(reader, content, n, now, opened.coming)] if n in near else None,
            )
            for n, block in enumerate(content.blocks)
        ]

    def page(self, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        """A template, filled, as an answer."""
        return HTMLResponse(self.templates.get_template(name).render(**values), status)

    def refused(self, why: str, status: int) -> HTMLResponse:
        """The page for what is not given."""
        return self.page("refused.html", status, why=plain(why))

    def guarded(
        self, answer: Callable[[Any, Request], Response]
    ) -> Callable[[Request], Coroutine[None, None, Response]]:
        """Answer in a thread; an error that says what to do becomes a page."""

        def answered(request: Request) -> Response:
            try:
                with self._source(request) as source:
                    return answer(source, request)
            except PageRefused as refused:
                return self.refused(str(refused), refused.status)
            except BackstoryError as refused:
                missing = isinstance(refused, SessionNotFound | SessionAmbiguous | RecordNotFound)
                return self.refused(str(refused), 404 if missing else 400)

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


def static(request: Request) -> Response:
    """A file of the package, by its name alone."""
    name = request.path_params["name"]
    kind = TYPES.get(name.rpartition(".")[2])
    found = next((each for each in files("backstory.web").joinpath("static").iterdir() if each.name == name), None)
    if kind is None or found is None:
        return PlainTextResponse("There is no such file.", 404)
    return Response(found.read_bytes(), media_type=kind)
