"""The search over any page, with keys alone; and a list of very many sessions, of which the page holds few."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory import UserMessage, open_store
from tests.support.browsing import tab as opened_tab
from tests.support.pages import served
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.support.browsing import Tab
    from tests.support.pages import Visitor

MANY = 900
HELD = 400
"""The most of these sessions that the page holds rows of."""
HITS = "dialog .hits a"
CHOSEN = "dialog a.chosen"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    home = tmp_path_factory.mktemp("many") / "home"
    home.mkdir()
    shell = Shell(home)
    shell.store.parent.mkdir(parents=True)
    with open_store(shell.store) as store:
        for n in range(MANY):
            store.append_events(store.create_session(f"session {n}"), [UserMessage(content=f"session {n}")])
    with served(shell.environ, shell.cwd) as visitor:
        visitor.enter()
        yield visitor


def asked(tab: Tab, words: str) -> None:
    """Open the search over a page and type."""
    tab.go("/reports/costs?period=3")
    tab.press("Control+k")
    tab.page.keyboard.type(words)
    tab.page.locator(f"{HITS} mark").first.wait_for()


def test_a_hit_is_chosen_with_arrows_and_opened_with_enter(tab: Tab) -> None:
    asked(tab, "lint")
    tab.press("ArrowDown", "ArrowDown", "ArrowUp", "ArrowDown")
    assert tab.page.locator(CHOSEN).count() == 1
    where = tab.js("document.querySelector('dialog a.chosen').pathname")
    assert where == tab.js("document.querySelectorAll('dialog .hits a')[1].pathname")
    tab.press("Enter")
    tab.page.wait_for_url(f"**{where}")


def test_above_the_first_hit_enter_shows_all_hits(tab: Tab) -> None:
    asked(tab, "lint")
    tab.press("ArrowDown", "ArrowUp")
    assert tab.page.locator(CHOSEN).count() == 0
    tab.press("Enter")
    tab.page.wait_for_url("**/search?q=lint")


def test_escape_closes_the_search_and_the_page_is_as_it_was(tab: Tab) -> None:
    asked(tab, "lint")
    tab.press("Escape")
    assert tab.page.locator("dialog[open]").count() == 0
    assert tab.path == "/reports/costs?period=3"
    tab.press("Control+k")
    assert tab.js("document.querySelector('dialog').open")


def test_the_chosen_hit_is_said_to_who_does_not_see_it(tab: Tab) -> None:
    asked(tab, "lint")
    tab.press("ArrowDown")
    told = tab.page.locator("dialog [aria-live]").text_content() or ""
    assert told.startswith("1 of ")


def test_a_page_of_very_many_sessions_holds_few_and_has_each_where_it_is_scrolled_to(
    browser: Browser, many: Visitor
) -> None:
    with opened_tab(browser, many) as tab:
        tab.go("/sessions")
        rows = tab.page.locator(".sessions td.heading a")

        def is_at_end() -> bool:
            tab.js("scrollTo(0, document.body.scrollHeight)")
            return tab.page.get_by_text("session 0", exact=True).count() > 0

        tab.until(is_at_end)
        tab.until(lambda: rows.count() <= HELD)
        height = tab.js("document.body.scrollHeight")
        for part in (0.5, 0.25, 0.75):
            tab.js("part => scrollTo(0, part * document.body.scrollHeight)", part)
            middle = "document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest('tr')?.innerText ?? ''"
            tab.until(lambda: "session" in tab.js(middle))  # noqa: B023
            tab.until(lambda: rows.count() <= HELD)
        assert abs(tab.js("document.body.scrollHeight") - height) < height / 100
        assert (tab.complaints, tab.elsewhere) == ([], [])
