"""Pages of sessions as HTML, as a server would answer: a path with its query in, a status and a page out."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from backstory.errors import BackstoryError
from backstory.workspace import questions
from backstory.workspace.history.searching import SearchQuery
from backstory.workspace.history.sessions import END, Page, SessionFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.workspace import Workspace

ROWS = 3


def respond(workspace: Workspace, target: str) -> tuple[int, str]:
    """Answer a request, in whichever thread. What is refused is a page, too."""
    asked = urlsplit(target)
    given = dict(parse_qsl(asked.query))
    try:
        if asked.path == "/":
            return 200, "\n".join(_list(workspace, given))
        if asked.path == "/search":
            return 200, "\n".join(_hits(workspace, given.get("q", "")))
        return 200, "\n".join(_session(workspace, asked.path[1:]))
    except BackstoryError as refused:
        return 404, f"<p>{escape(str(refused))}</p>"


def _list(workspace: Workspace, given: dict[str, str]) -> Iterator[str]:
    asked = Page(limit=ROWS, after=given.pop("after", None), before=given.pop("before", None))
    page = workspace.reader.sessions(SessionFilter(everywhere=True, **questions.read(given)), asked)
    yield f"<h1>{page.total:,} sessions</h1>"
    yield from (f"<p>{_link(each)} {each.cost.shown}</p>" for each in page.sessions)
    ways = (("before", page.has_earlier and page.start), ("after", page.has_more and page.end), ("before", END))
    yield from (f'<a href="/?{urlencode({**given, way: at})}">{way}</a>' for way, at in ways if at)


def _hits(workspace: Workspace, words: str) -> Iterator[str]:
    found = workspace.reader.search(SearchQuery(text=words)).findings
    yield f"<h1>{found.total:,} found</h1>"
    hits = workspace.reader.sessions_of([each.session.uid for each in found.excerpts])
    yield from (f"<p>{_link(each)}</p>" for each in hits)


def _session(workspace: Workspace, uid: str) -> Iterator[str]:
    found = workspace.reader.transcript(workspace.resolve(uid))
    yield f"<h1>{escape(found.session.heading)}</h1>"
    yield from (f"<h2>{escape(each.turn.prompt)}</h2><p>{each.cost.shown}</p>" for each in found.turns)


def _link(each: ListedSession) -> str:
    return f'<a href="/{quote(each.uid)}">{escape(each.heading)}</a>'
