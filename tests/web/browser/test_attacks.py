"""No text of the history runs anything in a real browser, or has it load anything: also without our policy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from backstory.chronicle.tabs import TABS
from backstory.web.reporting import slug
from tests.support.attacks import ATTACKS, CANARY, MARK, TOUCHED, put
from tests.support.browsing import tab as opened_tab
from tests.support.browsing import touch
from tests.support.counts import IS_LONG
from tests.support.pages import served
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.support.browsing import Tab
    from tests.support.pages import Visitor

TOGETHER = 1 if IS_LONG else 50
"""The attacks in a session."""
GROUPS = [ATTACKS[n : n + TOGETHER] for n in range(0, len(ATTACKS), TOGETHER)]
WHOLE = 1_000 if IS_LONG else 25
"""The most records of a session that are read whole."""
ALONE = 1 if IS_LONG else 5
"""The records of a session that are read as pages of their own."""
TYPED = ATTACKS if IS_LONG else ATTACKS[::20]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    home = tmp_path_factory.mktemp("attacked") / "home"
    home.mkdir()
    shell = Shell(home)
    put(shell, GROUPS)
    with served(shell.environ, shell.cwd) as visitor:
        visitor.enter()
        yield visitor


WALLS = {"policy": False, "no policy": True} if IS_LONG else {"no policy": True}
"""Our policy is the second wall: what fires behind it fires without it, too, so that is enough for each run."""


@pytest.fixture(params=[*WALLS.values()], ids=[*WALLS])
def attacked(request: pytest.FixtureRequest, browser: Browser, hostile: Visitor) -> Iterator[Tab]:
    """A tab that notices whatever fires or is loaded."""
    with opened_tab(browser, hostile, bypass_csp=request.param) as tab:
        tab.page.add_init_script(CANARY)
        yield tab
        assert (tab.complaints, tab.elsewhere, len(tab.page.context.pages)) == ([], [], 1)


def read_whole(tab: Tab) -> None:
    """Have records shown with all that they say."""
    links = tab.page.locator("a[data-whole]")
    left = max(links.count() - WHOLE, 0)
    tab.js("n => [...document.querySelectorAll('a[data-whole]')].slice(0, n).forEach(each => each.click())", WHOLE)
    tab.until(lambda: links.count() == left)


def test_nothing_fires_in_a_session(attacked: Tab) -> None:
    attacked.go("/sessions")
    touch(attacked)
    sessions = attacked.page.locator("td.heading a").evaluate_all("all => all.map(e => e.getAttribute('href'))")
    assert len(sessions) == len(GROUPS)
    for session in sessions:
        attacked.go(session)
        touch(attacked)
        read_whole(attacked)
        touch(attacked)
    assert attacked.js("location.pathname") == sessions[-1]


def test_nothing_fires_in_a_record_for_itself(attacked: Tab, hostile: Visitor) -> None:
    for session in dict.fromkeys(re.findall(r'href="(/s/\w+)"', hostile.get("/sessions").text)):
        places = re.findall(r'href="(/s/\w+/[\d.]+/whole)"', hostile.get(session).text)
        for place in places[:ALONE]:
            attacked.go(place)
            # It has no head of its own that would say that it has no picture.
            attacked.complaints[:] = [each for each in attacked.complaints if "404" not in each]
            attacked.js(TOUCHED)


@pytest.mark.parametrize("path", [f"/search?q={MARK}", *(f"/reports/{slug(each.name)}?period=3" for each in TABS)])
def test_nothing_fires_in_hits_and_reports(attacked: Tab, path: str) -> None:
    attacked.go(path)
    assert attacked.page.locator("h1").count() == 1
    assert MARK in attacked.page.locator("main").inner_text() or not re.search("search|costs", path)
    touch(attacked)


def test_nothing_fires_in_what_is_typed(attacked: Tab) -> None:
    attacked.go("/search")
    field = attacked.page.locator(".query input[name=q]")
    for attack in TYPED:
        field.fill(attack)
        with attacked.page.expect_response("**/search?*part=1*"):
            field.press("End")
            field.dispatch_event("input")
        touch(attacked)
        attacked.page.reload()
        touch(attacked)


def test_a_test_notices_what_fires_and_what_is_loaded(browser: Browser, hostile: Visitor) -> None:
    with opened_tab(browser, hostile, bypass_csp=True) as tab:
        tab.page.add_init_script(CANARY)
        tab.go("/search")
        tab.js("document.querySelector('main').innerHTML = '<img src=https://evil.example/x onerror=fired()>'")
        tab.until(lambda: f"error: {MARK}" in tab.complaints)
        assert tab.elsewhere == ["https://evil.example/x"]
