"""Pictures of the pages for docs/: ``python -m tests.support.page_pictures`` makes them, in a browser.

Those of a team's server are of what Kim sent, as a colleague sees it.

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

from backstory.server.database import make_own
from tests.support import browsing, rewound
from tests.support.clock import Clock
from tests.support.pages import served_by
from tests.support.piloted import AtNow
from tests.support.screens import ROOT
from tests.support.senders import DESK, Sender, cut
from tests.support.session_screens import SessionMachine
from tests.support.team import shared_postgres, team_of
from tests.support.team_pages import TeamVisitor, send_all

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
    "new": "/new",
    "tree": "/s/{tree}/tree",
    "behind": "/reports/behind?by=agent&value=claude",
    "search": "/search?q=rate+limit",
    "session": "/s/{uid}/10",
    "compare": "/compare?a={uid}&b={other}",
    "standup": "/reports/standup?period=1",
    "costs": "/reports/costs?period=2",
    "activity": "/reports/activity?period=2",
    "tools": "/reports/tools?period=2",
    "tips": "/reports/tips?period=3",
}
LOGIN = "team-login"
TEAM_PAGES = {"team-sessions": "/sessions", "team-session": "/s/{uid}/10", LOGIN: "/login"}
"""The pages of a server; that of the login for who is not in."""
DARK = ("sessions", "session", "costs")
"""Those that are also shown narrow and dark."""
SHOP = "/work/acme/shop"
WAYS = {
    1: "Which library sends our mail?",
    2: "Have a mail that fails be sent again",
    3: "Send it again at once, three times",
    4: "Wait longer before each time",
    5: "And say in the log how often",
}
"""The prompts of a session with two branches, which part after the second."""


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
    log = made.home / rewound.LOG
    log.parent.mkdir(parents=True)
    for numbers in ((1, 2, 3), (1, 2, 4, 5)):
        log.write_bytes(_with_words(rewound.log(*numbers)))
        made.shown("ingest")
    app = AtNow(made.environ, made.project)
    with utc(), served_by(app, acts=True) as visitor:
        visitor.enter()
        # The session with the most to see, one of the same project, and one with branches.
        uid, other, tree = _uid(visitor, "two_people"), _uid(visitor, "login"), _uid(visitor, "library")
        yield visitor, {name: path.format(uid=uid, other=other, tree=tree) for name, path in PAGES.items()}


@contextmanager
def team(root: Path) -> Iterator[tuple[TeamVisitor, dict[str, str]]]:
    """The pages of a server to which that machine sent all, and the path of each page."""
    made = SessionMachine(root)
    with utc(), shared_postgres(root) as address, team_of(make_own(address), Clock()) as server:
        anna = server.founded("anna")
        kim = Sender(server, server.joined(anna, "kim"))
        send_all(kim, made.home / "backstory" / "store.db")
        own = Sender(server, anna, DESK)
        own.send(
            *cut([["The limit is per person now; the gateway keeps its own."]], title="Which limit is the old one?")
        )
        server.derive(anna)
        with server.served() as where:
            visitor = TeamVisitor(server, where)
            visitor.come_in(anna)
            uid = visitor.get("/sessions?grep=requests").text.partition('href="/s/')[2][:26]
            yield visitor, {name: path.format(uid=uid) for name, path in TEAM_PAGES.items()}


def _with_words(log: bytes) -> bytes:
    """A log of that day, with words that somebody would say."""
    log = log.replace(b"2026-11-21T21", b"2001-05-04T08").replace(b'"/w"', f'"{SHOP}"'.encode())
    for number, words in WAYS.items():
        log = log.replace(f'"prompt {number}"'.encode(), f'"{words}"'.encode())
        log = log.replace(f'"answer {number}"'.encode(), b'"Done."')
    return log


def _uid(visitor: Visitor, word: str) -> str:
    """The session in which a word is found first."""
    return visitor.get(f"/search?part=1&q={word}").text.partition('href="/s/')[2][:26]


def words(visitor: Visitor, paths: Mapping[str, str], root: Path) -> dict[str, str]:
    """The hash of the words of each page, without the place of the machine."""
    found = {name: visitor.get(path).words.replace(str(root), "") for name, path in paths.items()}
    return {name: sha256(text.encode()).hexdigest()[:16] for name, text in found.items()}


def taken(tab: Tab) -> bytes:
    """A picture of what is in the window."""
    asked: dict[str, Any] = {"format": "webp", "quality": QUALITY}
    return base64.b64decode(tab.page.context.new_cdp_session(tab.page).send("Page.captureScreenshot", asked)["data"])


def shown(tab: Tab, path: str, root: str) -> None:
    """Open a page as it is pictured: what is folded on a short one open, and without the place of the machine."""
    tab.go(path).page.wait_for_load_state("networkidle")
    tab.js("for (const each of document.querySelectorAll('.sums ~ .sql, h1 + .prompt-field details')) each.open = true")
    tab.js(
        "([from, to]) => { for (const each of document.querySelectorAll('option'))"
        " each.textContent = each.textContent.replace(from, to) }",
        [f"{root}/home", "/home/kim"],
    )


def main() -> None:
    """Write the pictures, and the hashes of their words."""
    PICTURES.mkdir(exist_ok=True)
    looks = [(name, name, WIDE, "light") for name in PAGES] + [(f"{name}-dark", name, NARROW, "dark") for name in DARK]
    with tempfile.TemporaryDirectory() as root, machine(Path(root)) as (visitor, paths), browsing.started() as browser:
        for file, name, width, scheme in looks:
            how: dict[str, Any] = {"color_scheme": scheme, "timezone_id": "UTC", "locale": "en-GB"}
            with browsing.tab(browser, visitor, width, **how) as tab:
                shown(tab, paths[name], root)
                (PICTURES / f"{file}.webp").write_bytes(taken(tab))
        WORDS.write_text(json.dumps(words(visitor, paths, Path(root)), indent=2) + "\n", "utf-8")
    with tempfile.TemporaryDirectory() as root, team(Path(root)) as (visitor, paths), browsing.started() as browser:
        for name, path in paths.items():
            with browsing.tab(browser, visitor, WIDE, timezone_id="UTC", locale="en-GB", color_scheme="light") as tab:
                if name == LOGIN:
                    tab.page.context.clear_cookies()
                shown(tab, path, root)
                (PICTURES / f"{name}.webp").write_bytes(taken(tab))


if __name__ == "__main__":
    main()
