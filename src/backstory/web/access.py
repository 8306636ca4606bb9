"""Access to the pages: for the browser that opened the printed address. Everything else is refused before it is read.

The address holds a token. The first answer puts another secret into a cookie and leads to the address without the
token. Both end with the process. A page of another site can neither read an answer nor make the browser send the
cookie: the host, the origin and the cookie's SameSite are checked, and nothing is loaded from elsewhere.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN = "token"
READS, ACTS = frozenset({"GET", "HEAD"}), "POST"
ACTING = "/act/"
"""The beginning of the addresses that change something."""
POLICY = "; ".join(
    [
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'",
        "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
    ]
)  # fmt: skip
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Told to name no address at all, a browser names no origin of a form either, and that is refused.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The rules for the browser in every answer, also in a refusal."""
CLOSED = "This page opens by the address that `backstory web` printed. Run it again to see that."
OTHER_HOST = "These pages are at 127.0.0.1 alone."
OTHER_SITE = "Another site asked for this page."
ONLY_READS = "Nothing can be changed here."


class Access:
    """Lets a request through to the pages, or refuses it. ``port``: where they are; ``acts``: they change things."""

    def __init__(self, pages: ASGIApp, port: int, *, acts: bool) -> None:
        self._pages, self._acts = pages, acts
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._origins = {f"http://{each}" for each in self._hosts}
        # Cookies know no ports: another server on this machine must not overwrite ours.
        self._cookie = f"backstory-{port}"
        self._secret = secrets.token_urlsafe(32)
        self.token = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with the headers that every answer has."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if scope["type"] != "http":
            return
        answer = self._refusal(scope) or self._pages
        await answer(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer instead of a page; None for a request that may see it."""
        headers = Headers(scope=scope)
        if headers.get("host") not in self._hosts:
            return PlainTextResponse(OTHER_HOST, 421)
        if headers.get("origin", next(iter(self._origins))) not in self._origins:
            return PlainTextResponse(OTHER_SITE, 403)
        if scope["method"] == ACTS and self._acts and scope["path"].startswith(ACTING):
            # A browser names the origin of every form: none is no form of a page.
            is_ours = headers.get("origin") in self._origins
            return None if is_ours and self._is_known(headers) else PlainTextResponse(CLOSED, 403)
        if scope["method"] not in READS:
            return PlainTextResponse(ONLY_READS, 405, {"Allow": ", ".join(sorted(READS))})
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if any(name == TOKEN and secrets.compare_digest(value.encode(), self.token.encode()) for name, value in asked):
            return self._let_in(scope["path"], [each for each in asked if each[0] != TOKEN])
        if not self._is_known(headers):
            return PlainTextResponse(CLOSED, 403)
        return None

    def _let_in(self, path: str, asked: list[tuple[str, str]]) -> Response:
        # A path that begins with two slashes would lead to another host.
        where = "/" + path.lstrip("/\\") + (f"?{urlencode(asked)}" if asked else "")
        answer = RedirectResponse(where, 303)
        answer.set_cookie(self._cookie, self._secret, httponly=True, samesite="strict", path="/")
        return answer

    def _is_known(self, headers: Headers) -> bool:
        """True if the cookie is ours."""
        for each in headers.get("cookie", "").split(";"):
            name, _, value = each.strip().partition("=")
            if name == self._cookie and secrets.compare_digest(value.encode(), self._secret.encode()):
                return True
        return False
