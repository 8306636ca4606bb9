"""The pages for tests: served on a port of this machine, and a visitor that asks for them as a browser does."""

from __future__ import annotations

import http.client
import threading
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from backstory.cli.app import App
from backstory.cli.commands.web_command import acting_of
from backstory.web.serving import listening, server_of
from tests.support.going import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class Answer(Struct, frozen=True):
    """An answer: its status, its headers in small letters, its text and its bytes, and each cookie that it gives."""

    status: int
    headers: dict[str, str]
    text: str
    body: bytes = b""
    cookies: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What a person reads of it, words apart by one space."""
        found = Elements()
        found.feed(self.text)
        return " ".join(" ".join(found.texts).split())


class Elements(HTMLParser):
    """Every element of a page with its attributes, and every text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def updatepos(self, i: int, j: int) -> int:
        """Count no lines, for which nobody asks."""
        return j

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


class Visitor:
    """Asks for pages. ``address``: the printed one; ``cookie``: what it was given, once it was there."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.address, self.host, self.opening = address, parts.netloc, f"{parts.path}?{parts.query}"
        self.cookie = ""

    def enter(self) -> Answer:
        """Open the printed address, and keep the cookie."""
        answer = self.get(self.opening)
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def post(self, path: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Answer:
        """Send a form, as a browser does that shows one of our pages."""
        own = {"Origin": f"http://{self.host}", "Content-Type": "application/x-www-form-urlencoded"}
        return self.get(path, method="POST", headers=own | dict(headers or {}), body=urlencode(fields).encode())

    def fields(self, path: str) -> dict[str, str]:
        """The fields of the form for a prompt on a page, as a browser would send them untouched."""
        found, kept = Elements(), dict[str, str]()
        found.feed(self.get(path).text.partition('id="prompt"')[2].partition("</form>")[0])
        select = ""
        for tag, each in found.found:
            select = each["name"] or "" if tag == "select" else select
            if tag == "input" and (each.get("type") != "radio" or "checked" in each):
                kept[each["name"] or ""] = each.get("value") or ""
            elif tag == "option" and ("selected" in each or select not in kept):
                kept[select] = each.get("value") or ""
        return kept

    def get(
        self, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """Ask for a path."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        own = {"Cookie": self.cookie} if self.cookie else {}
        try:
            connection.request(method, path, body, own | dict(headers or {}))
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            body = answer.read()
            cookies = tuple(answer.headers.get_all("set-cookie") or ())
            return Answer(answer.status, names, body.decode(errors="replace"), body, cookies)
        finally:
            connection.close()


@contextmanager
def served(environ: Mapping[str, str], cwd: Path, *, acts: bool = True) -> Iterator[Visitor]:
    """Serve the pages of a home folder; the visitor was not there yet."""
    with served_by(App(environ, cwd), acts=acts) as visitor:
        yield visitor


@contextmanager
def served_by(app: App, *, acts: bool = False) -> Iterator[Visitor]:
    """Serve the pages of what a command would open."""
    with listening(0, 1) as sock:
        address, server = server_of(app.new_workspace, app.user_home, sock, acting_of(app) if acts else None)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            until(lambda: server.started)
            yield Visitor(address)
        finally:
            server.should_exit = True
            thread.join()
