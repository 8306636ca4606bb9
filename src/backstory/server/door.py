"""Browsers that come in to the pages: each with a cookie of its own, which a person let in with a code.

A page of another site can neither read an answer nor send a form: the cookie is Strict, where a request comes from is
checked, and what acts needs a word that only our pages have. Nothing is loaded from elsewhere.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from backstory.errors import DatabaseUnusable
from backstory.lazy import lazy_regex
from backstory.server import codes
from backstory.server.people import BROWSER, BROWSER_DAYS
from backstory.server.refusals import Refused
from backstory.web.access import HEADERS, ONLY_READS, OTHER_SITE, READS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from backstory.server.limits import Limits
    from backstory.server.people import Caller, People

LOGIN, STATIC = "/login", "/static/"
NEXT = "next"
"""The parameter with the page that was asked for."""
FIRST = "/sessions"
INSIDE = lazy_regex(r"/(?:s|sessions|search|reports|account)(?:[/?][!-\[\]-~]*)?")
"""Pages to which a login may lead: no other site's, whatever was typed."""
WAITS = lazy_regex(r"([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{43})\.([A-Z]{4}-[A-Z]{4})")
BROWSERS = ("Firefox", "Edg", "Chrome", "Safari")
"""Names of browsers, each before those that others claim to be, too."""
AGAIN = '<!doctype html><html lang="en"><title>backstory</title><meta http-equiv="refresh" content="0"><p>One moment …'
"""A link on another site brings no cookie along; the same page asked for by ours does."""


class WaitingBrowser(Struct, frozen=True):
    """A browser that waits to be let in: what it asks again by, what its token is made of, and the code it shows."""

    login: str
    secret: str
    code: str

    def __str__(self) -> str:
        return f"{self.login}.{self.secret}.{self.code}"


class BrowserNames(Struct, frozen=True):
    """The names of our cookies. ``is_encrypted``: the pages are, so that no other host may set one of ours."""

    is_encrypted: bool

    def of(self, name: str, request: Request) -> str:
        """The name of a cookie."""
        # Cookies know no ports: another server on this machine must not overwrite ours.
        return f"__Host-{name}" if self.is_encrypted else f"{name}-{request.url.port or 80}"

    def put(self, answer: Response, name: str, value: str, seconds: int, request: Request) -> None:
        """Have a browser keep a cookie for some seconds; for none it forgets it."""
        rules: Any = {"path": "/", "secure": self.is_encrypted, "httponly": True, "samesite": "strict"}
        answer.set_cookie(self.of(name, request), value, max_age=seconds, **rules)


UNREACHED = "The server's database cannot be reached now."
SESSION, WAITING = "backstory", "backstory-login"


class Door:
    """Lets a request through to the pages, or refuses it, or leads to the login."""

    def __init__(self, pages: ASGIApp, people: People, limits: Limits, names: BrowserNames) -> None:
        self._pages, self._people, self._limits, self._names = pages, people, limits, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with the headers that every answer has."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        request = Request(scope, receive)
        refusal = _foreign(request) or await self._stranger(request)
        await (refusal or self._pages)(scope, receive, send_guarded)

    async def _stranger(self, request: Request) -> Response | None:
        """The answer for one who is not in; None for one who is, whom ``request.state`` then names."""
        path = request.url.path
        if path.startswith(STATIC):
            return None
        token = request.cookies.get(self._names.of(SESSION, request), "")
        try:
            caller = await run_in_threadpool(self._caller, request, token)
        except Refused as refused:
            return PlainTextResponse(str(refused), refused.status)
        except DatabaseUnusable:
            return PlainTextResponse(UNREACHED, 503)
        request.state.caller, request.state.csrf = caller, csrf_of(token)
        if caller is not None and "read" not in caller.scopes:
            return PlainTextResponse("This login may not read.", 403)
        if caller is not None or path == LOGIN:
            return None
        if request.headers.get("sec-fetch-mode", "navigate") != "navigate":
            return PlainTextResponse("You are not logged in any more. Load the page again.", 401)
        if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return HTMLResponse(AGAIN)
        wanted = path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"{LOGIN}?{urlencode({NEXT: wanted})}", 303)

    def _caller(self, request: Request, token: str) -> Caller | None:
        address = address_of(request)
        self._limits.count(address, 0)
        if not token:
            return None
        try:
            caller = self._people.caller(token)
        except Refused:
            # Only what fails counts here: a token is not to be guessed.
            self._limits.count(address)
            return None
        self._limits.count(caller.token)
        return caller


class Doorbell:
    """A login and its end: each a method that answers a request, in a thread."""

    def __init__(self, people: People, limits: Limits, names: BrowserNames) -> None:
        self._people, self._limits, self._names = people, limits, names

    def wait(self, request: Request) -> tuple[WaitingBrowser | None, Response | None]:
        """The code that a browser shows while it waits; once it is let in, the answer that leads on. Raises Refused."""
        self._limits.count(address_of(request))
        where = inside(request.query_params.get(NEXT, ""))
        if request.state.caller is not None:
            return None, RedirectResponse(where, 303)
        found = WAITS.fullmatch(request.cookies.get(self._names.of(WAITING, request), ""))
        if found is not None:
            waits = WaitingBrowser(*found.groups())
            try:
                let_in = self._people.come_in(waits.login, waits.secret)
            except Refused:
                # It waited too long, or was let in before: it begins anew.
                return self._begun(request), None
            if let_in is None:
                return waits, None
            answer = RedirectResponse(where, 303)
            self._names.put(answer, SESSION, let_in.token, BROWSER_DAYS * 86_400, request)
            self._names.put(answer, WAITING, "", 0, request)
            return None, answer
        return self._begun(request), None

    def leave(self, request: Request) -> Response:
        """End the login of a browser."""
        self._people.leave_machine(request.state.caller)
        answer = RedirectResponse(LOGIN, 303)
        self._names.put(answer, SESSION, "", 0, request)
        return answer

    def _begun(self, request: Request) -> WaitingBrowser:
        agent = request.headers.get("user-agent", "")
        name = next((each for each in BROWSERS if each in agent), "")
        found = self._people.wait(f"browser {name}".strip(), BROWSER)
        return WaitingBrowser(found.login, codes.new_secret(), found.code)


def inside(path: str) -> str:
    """The page that a login leads to: the one that was asked for, if it is ours."""
    return path if INSIDE.fullmatch(path) else FIRST


def csrf_of(token: str) -> str:
    """The word that what acts has to bring: of this login alone, and it tells nothing of it."""
    return codes.hashed(f"csrf {token}").hex()


def is_ours(request: Request, said: str) -> bool:
    """True for a form of a page that was given to this login."""
    return secrets.compare_digest(said.encode(), request.state.csrf.encode())


def address_of(request: Request) -> str:
    """The address that a request comes from."""
    return request.client.host if request.client is not None else ""


def _foreign(request: Request) -> Response | None:
    """The refusal of what another site has a browser do; a link there may be followed."""
    site, mode = request.headers.get("sec-fetch-site"), request.headers.get("sec-fetch-mode")
    is_foreign = site is not None and site not in ("same-origin", "none")
    if request.method in READS:
        return PlainTextResponse(OTHER_SITE, 403) if is_foreign and mode != "navigate" else None
    if request.method != "POST":
        return PlainTextResponse(ONLY_READS, 405, {"Allow": "GET, HEAD, POST"})
    # A browser that does not say from where a form comes says at least its origin.
    is_own = site == "same-origin" if site is not None else _is_own_origin(request.headers)
    return None if is_own else PlainTextResponse(OTHER_SITE, 403)


def _is_own_origin(headers: Headers) -> bool:
    origin = urlsplit(headers.get("origin", ""))
    return bool(origin.netloc) and origin.netloc == headers.get("host")
