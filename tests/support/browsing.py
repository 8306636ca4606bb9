"""The pages in a real browser: the Chromium of this machine, which reaches this machine alone."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from importlib.metadata import files
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.support.attacks import TOUCHED
from tests.support.going import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request

    from tests.support.pages import Visitor

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
"""The names under which systems have it."""
NOWHERE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
WIDTHS = (390, 1_280, 2_560)
HEIGHT = 900
WAIT_MS = 20_000
HINDERS = ("serious", "critical")


def why_not() -> str | None:
    """What keeps the pages from being tested in a browser here; None when nothing does."""
    if find_spec("playwright") is None:
        return "NOT TESTED in a browser: Playwright is not installed (`make install`)"
    if program() is None:
        names = ", ".join(PROGRAMS)
        return f"NOT TESTED in a browser: none of {names} is on the PATH (`apt-get install chromium`)"
    return None


def need_a_browser() -> None:
    """Skip where there is none; fail where that is demanded."""
    if why := why_not():
        if os.environ.get("CI") == "true":
            pytest.fail(why, pytrace=False)
        pytest.skip(why)


def program() -> str | None:
    """The path of the browser."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def started() -> Iterator[Browser]:
    """The browser, until this ends. Meanwhile nothing else of this thread may run an event loop."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=[NOWHERE])
        yield browser
        browser.close()


class Tab:
    """A tab that was let in to pages. ``complaints``: whatever it said that no page of ours may have it say.

    ``asked``: the paths that it asked for, in order. ``elsewhere``: every other address that anything asked for.
    """

    def __init__(self, page: Page, visitor: Visitor) -> None:
        self.page, self.host = page, visitor.host
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.elsewhere: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", self._opened)
        page.context.on("request", self._requested)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _opened(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _requested(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.netloc == self.host:
            self.asked.append(parts._replace(scheme="", netloc="", fragment="").geturl())
        elif parts.scheme != "data":
            self.elsewhere.append(request.url)

    def go(self, path: str) -> Tab:
        """Open a page, and wait until it is there."""
        self.page.goto(f"http://{self.host}{path}")
        return self

    @property
    def path(self) -> str:
        """Where it is."""
        return urlsplit(self.page.url)._replace(scheme="", netloc="").geturl()

    def js(self, expression: str, given: Any = None) -> Any:
        """The value of an expression on the page."""
        return self.page.evaluate(expression, given)

    def seen(self, words: str) -> None:
        """Wait until words can be read."""
        self.page.get_by_text(words).first.wait_for()

    def until(self, is_so: Callable[[], object]) -> None:
        """Wait until something is so, while the browser goes on."""

        def looked() -> bool:
            self.page.wait_for_timeout(10)
            return bool(is_so())

        until(looked)

    def press(self, *keys: str) -> None:
        """Press keys, as Playwright names them."""
        for key in keys:
            self.page.keyboard.press(key)

    def focused(self) -> str:
        """What has the focus, as an element with what tells it from others."""
        return str(
            self.js(
                "() => { const e = document.activeElement; return [e.tagName.toLowerCase(), e.name || e.className ||"
                " e.getAttribute('href') || ''].filter(Boolean).join(' ') }"
            )
        )

    def is_too_wide(self) -> bool:
        """True if the page scrolls to the side."""
        return bool(self.js("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


@contextmanager
def tab(browser: Browser, visitor: Visitor, width: int = WIDTHS[1], **how: Any) -> Iterator[Tab]:
    """A tab of a browser of its own. ``how``: what else a context of Playwright takes, such as ``color_scheme``."""
    how.setdefault("reduced_motion", "reduce")
    context = browser.new_context(viewport={"width": width, "height": HEIGHT}, **how)
    name, _, value = visitor.cookie.partition("=")
    context.add_cookies([{"name": name, "value": value, "domain": "127.0.0.1", "path": "/"}])
    try:
        yield Tab(context.new_page(), visitor)
    finally:
        context.close()


@contextmanager
def opened_file(browser: Browser, file: Path, place: str = "", width: int = WIDTHS[1], **how: Any) -> Iterator[Page]:
    """A file in a tab, which at its end must have asked for that file alone and complained of nothing.

    ``script``: runs in it first; ``how``: what else a context of Playwright takes.
    """
    script = how.pop("script", "")
    context = browser.new_context(viewport={"width": width, "height": HEIGHT}, reduced_motion="reduce", **how)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    asked, complaints = list[str](), list[str]()
    context.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.add_init_script(script)
    try:
        page.goto(f"{file.as_uri()}{place}")
        yield page
        assert {each for each in asked if not each.startswith("data:")} == {f"{file.as_uri()}{place}".partition("#")[0]}
        assert (complaints, len(context.pages)) == ([], 1)
    finally:
        context.close()


def unlock(page: Page, password: str) -> None:
    """Type the password of a file, once it takes one."""
    page.locator("input[type=password]:focus").fill(password)
    page.get_by_role("button", name="Open", exact=True).click()


def axe_script() -> str:
    """The script of axe, out of its package for Python."""
    (found,) = (each for each in files("axe-playwright-python") or () if each.name == "axe.min.js")
    return found.read_text("utf-8")


def hindering(seen: Tab, axe: str, *rules: str) -> list[str]:
    """What hinders somebody on a page, folds open, each with its place. ``rules``: if not all of them."""
    seen.js(axe)
    seen.js("() => { for (const each of document.querySelectorAll('details')) each.open = true }")
    asked = {"resultTypes": ["violations"]} | ({"runOnly": [*rules]} if rules else {})
    answer: dict[str, Any] = seen.js("asked => axe.run(document, asked)", asked)
    return [
        f"{each['id']}: {node['html']:.300}\n{node['failureSummary']}"
        for each in answer["violations"]
        if each["impact"] in HINDERS
        for node in each["nodes"]
    ]


def touch(tab: Tab) -> None:
    """Read and open all of a page."""
    unread = tab.page.locator("[data-block], [data-more]")

    def is_read() -> bool:
        if unread.count():
            tab.js("document.querySelector('[data-block], [data-more]')?.scrollIntoView()")
        return unread.count() == 0

    tab.until(is_read)
    tab.js(TOUCHED)
    tab.js("new Promise(done => setTimeout(done, 0))")
