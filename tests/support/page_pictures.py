"""Pictures of the pages for docs/: ``python -m tests.support.page_pictures`` makes them, in a browser.

A picture is of the words that its page had then, which ``words.json`` beside them notes by their hash: so a test says
without a browser which of them are old.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
import time
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import browsing
from tests.support.pages import served_by
from tests.support.piloted import AtNow
from tests.support.screens import ROOT
from tests.support.session_screens import SessionMachine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.browsing import Tab
    from tests.support.pages import Visitor

PICTURES = ROOT / "docs" / "web"
WORDS = PICTURES / "words.json"
WIDE, NARROW = 1_280, 390
QUALITY = 80


PAGES = {
    "sessions": "/sessions",
    "search": "/search?q=rate+limit",
    "session": "/s/{uid}/10",
    "compare": "/compare?a={uid}&b={other}",
    "standup": "/reports/standup?period=1",
    "costs": "/reports/costs?period=2",
    "activity": "/reports/activity?period=2",
    "tools": "/reports/tools?period=2",
    "tips": "/reports/tips?period=3",
}
DARK = ("sessions", "session", "costs")
"""Those that are also shown narrow and dark."""


@contextmanager
def utc() -> Iterator[None]:
    """Have times be those of UTC."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


@contextmanager
def machine(root: Path) -> Iterator[tuple[Visitor, dict[str, str]]]:
    """The pages of the machine of all pictures, and the path of each page."""
    made = SessionMachine(root)
    app = AtNow(made.environ, made.project)
    with utc(), served_by(app) as visitor:
        visitor.enter()
        # The session with the most to see, and one of the same project.
        uid, other = _uid(visitor, "two_people"), _uid(visitor, "login")
        yield visitor, {name: path.format(uid=uid, other=other) for name, path in PAGES.items()}


def _uid(visitor: Visitor, word: str) -> str:
    """The session in which a word is found first."""
    return visitor.get(f"/search?part=1&q={word}").text.partition('href="/s/')[2].partition("/")[0]


def words(visitor: Visitor, paths: Mapping[str, str]) -> dict[str, str]:
    """The hash of the words of each page."""
    return {name: sha256(visitor.get(path).words.encode()).hexdigest()[:16] for name, path in paths.items()}


def taken(tab: Tab) -> bytes:
    """A picture of what is in the window."""
    asked: dict[str, Any] = {"format": "webp", "quality": QUALITY}
    return base64.b64decode(tab.page.context.new_cdp_session(tab.page).send("Page.captureScreenshot", asked)["data"])


def main() -> None:
    """Write the pictures, and the hashes of their words."""
    PICTURES.mkdir(exist_ok=True)
    looks = [(name, name, WIDE, "light") for name in PAGES] + [(f"{name}-dark", name, NARROW, "dark") for name in DARK]
    with tempfile.TemporaryDirectory() as root, machine(Path(root)) as (visitor, paths), browsing.started() as browser:
        for file, name, width, scheme in looks:
            how: dict[str, Any] = {"color_scheme": scheme, "timezone_id": "UTC", "locale": "en-GB"}
            with browsing.tab(browser, visitor, width, **how) as tab:
                tab.go(paths[name]).page.wait_for_load_state("networkidle")
                (PICTURES / f"{file}.webp").write_bytes(taken(tab))
        WORDS.write_text(json.dumps(words(visitor, paths), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
