"""The pages of a server in a browser: nothing is wrong with them, no text of others acts, a login goes by itself."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from tests.support import browsing
from tests.support.attacks import ATTACKS, CANARY, MARK, put
from tests.support.browsing import HEIGHT, WIDTHS, axe_script, hindering, touch
from tests.support.counts import IS_LONG
from tests.support.harmless_pages import wrong
from tests.support.machines import SMALL, Machine
from tests.support.senders import DESK, OTHER, UID, Sender, cut
from tests.support.shell import Shell
from tests.support.team_pages import CODE, TeamVisitor, send_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.support.browsing import Tab
    from tests.support.team import Team

GROUPS = [ATTACKS[n : n + 50] for n in range(0, len(ATTACKS), 50)]
"""The attacks of each session."""


@pytest.fixture(scope="module")
def axe() -> str:
    return axe_script()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    browsing.need_a_browser()
    with browsing.started() as browser:
        yield browser


@pytest.fixture(scope="module")
def address(made_team: Team) -> Iterator[str]:
    with made_team.served() as address:
        yield address


@pytest.fixture(scope="module")
def visitor(made_team: Team, address: str, tmp_path_factory: pytest.TempPathFactory) -> TeamVisitor:
    """Anna's browser. Ben sent recorded logs, and a session that Anna has, too."""
    machine = Machine(tmp_path_factory.mktemp("small"))
    for each in SMALL:
        machine.put(each)
    machine.read()
    machine.close()
    anna = Sender(made_team, made_team.founded())
    ben = Sender(made_team, made_team.joined(anna.who, "ben"), DESK)
    send_all(ben, machine.store_path)
    anna.send(*cut([["of anna"]]))
    ben.send(*cut([["of ben"]]), *cut([[f"entry {number}." for number in range(1, 2_200)]], uid=OTHER))
    made_team.derive(anna.who)
    visitor = TeamVisitor(made_team, address)
    visitor.come_in(anna.who)
    return visitor


@pytest.fixture
def tab(browser: Browser, visitor: TeamVisitor) -> Iterator[Tab]:
    with browsing.tab(browser, visitor) as tab:
        yield tab
        assert (tab.complaints, tab.elsewhere) == ([], [])


PAGES = ["/sessions?person=ben", "/search?q=entry", f"/s/{UID}", f"/s/{OTHER}/2", "/account", "/login"]


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_wrong_with_a_page_and_nothing_hinders_anybody(
    browser: Browser, visitor: TeamVisitor, axe: str, path: str
) -> None:
    with browsing.tab(browser, visitor) as tab:
        if path == "/login":
            tab.page.context.clear_cookies()
        for width in WIDTHS:
            tab.page.set_viewport_size({"width": width, "height": HEIGHT})
            tab.go(path)
            assert (tab.complaints, tab.elsewhere, tab.is_too_wide()) == ([], [], False), width
        assert hindering(tab, axe) == []
        tab.page.emulate_media(color_scheme="dark")
        assert hindering(tab, axe, "color-contrast") == []


def test_a_browser_that_waits_goes_on_by_itself_where_it_wanted_to(
    browser: Browser, visitor: TeamVisitor, made_team: Team
) -> None:
    token = visitor.cookie.rpartition("=")[2]
    with browsing.tab(browser, visitor) as tab:
        tab.page.context.clear_cookies()
        tab.go(f"/s/{UID}/1")
        code = CODE.search(tab.page.inner_text("main"))
        assert code is not None
        # A browser lets nobody in; a machine does.
        assert made_team.ask("POST", "/v1/login/approve", token, {"code": code[1]})[0] == 403
        anna = made_team.people.caller(token)
        made_team.people.approve(anna, code[1])
        tab.seen("of anna")
        assert (tab.path, tab.js("document.cookie"), tab.complaints) == (f"/s/{UID}/1", "", [])
        tab.go("/account").page.get_by_role("button", name="Log out").click()
        tab.seen("Type this on a machine")
        tab.go("/sessions")
        assert tab.path.startswith("/login")


def test_a_link_from_another_site_opens_the_page(tab: Tab) -> None:
    """Our pages are at 127.0.0.1; to the browser, localhost is another site."""
    tab.page.route("http://elsewhere.test/", lambda route: route.fulfill(
        content_type="text/html", body=f'<a href="http://{tab.host}/s/{UID}">a link</a>'))  # fmt: skip
    tab.page.goto("http://elsewhere.test/")
    tab.page.get_by_role("link", name="a link").click()
    tab.seen("of anna")
    tab.elsewhere.clear()


def test_the_list_leads_to_a_session_of_a_colleague_and_to_its_subagent(tab: Tab) -> None:
    tab.go("/sessions?person=ben")
    where = tab.js(
        "[...document.querySelectorAll('.heading a')].map((each) => [each.textContent, each.getAttribute('href')])"
    )
    assert where
    assert all("person=ben" in href for _, href in where)
    for _, href in where:
        tab.go(href)
        tab.seen("ben")
        if tab.page.locator("details.subagent").count():
            tab.js("document.querySelectorAll('details').forEach((each) => { each.open = true })")
            tab.page.locator("details.subagent .inside .block").first.wait_for()
            return
    pytest.fail("no session shows its subagent at the call")


def test_the_beginning_of_a_long_session_comes_behind_its_end(tab: Tab, visitor: TeamVisitor) -> None:
    tab.go(f"/s/{OTHER}")
    tab.seen("entry 2199.")
    tab.until(lambda: tab.page.locator("[data-earlier]").count() == 0)
    assert tab.page.get_by_text("entry 2199.").is_visible()
    tab.js("scrollTo(0, 0)")
    tab.seen("entry 1.")


def test_another_copy_is_one_click_away(tab: Tab) -> None:
    tab.go(f"/s/{UID}").seen("of anna")
    tab.page.locator("aside").get_by_role("link", name="ben").click()
    tab.seen("of ben")
    tab.page.get_by_role("link", name="anna").click()
    tab.seen("of anna")


def test_the_pages_are_worked_with_the_keyboard_alone(tab: Tab) -> None:
    tab.go("/sessions")
    tab.press("Tab", "Enter")
    tab.until(lambda: tab.path.endswith("#main"))
    while "person=" not in tab.focused():
        tab.press("Tab")
    tab.press("Enter")
    tab.until(lambda: tab.path.startswith("/s/"))


# texts of others ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def attacked(made_team: Team, address: str, tmp_path_factory: pytest.TempPathFactory) -> TeamVisitor:
    """A browser of an organisation in which every text attacks, also the names of people."""
    home = tmp_path_factory.mktemp("attacked") / "home"
    home.mkdir()
    shell = Shell(home)
    put(shell, GROUPS)
    admin = made_team.founded()
    name = f"<img src=x onerror={MARK}()>"
    eve = Sender(made_team, made_team.joined(admin, name))
    send_all(eve, Path(shell.store))
    visitor = TeamVisitor(made_team, address)
    visitor.come_in(eve.who)
    return visitor


def test_no_text_of_others_runs_anything_or_has_it_load_anything(browser: Browser, attacked: TeamVisitor) -> None:
    with browsing.tab(browser, attacked, bypass_csp=True) as tab:
        tab.page.add_init_script(CANARY)
        paths = [html.unescape(each) for each in re.findall(r'href="(/s/[^"]+)"', attacked.get("/sessions").text)]
        assert len(paths) == len(GROUPS)
        in_browser = {"/sessions", "/account", *(paths if IS_LONG else paths[:1])}
        for path in ("/sessions", "/account", *paths):
            if path in in_browser:
                tab.go(path)
                touch(tab)
            assert wrong(attacked.get(path).text) == [], path
            uid = path.removeprefix("/s/").partition("?")[0]
            for each in ("tree", "print") if uid != path else ():
                assert wrong(attacked.get(f"/s/{uid}/{each}").text) == []
        assert (tab.complaints, tab.elsewhere, len(tab.page.context.pages)) == ([], [], 1)


def test_no_attack_that_is_typed_acts(attacked: TeamVisitor) -> None:
    stranger = TeamVisitor(attacked.team, attacked.address.rstrip("/"))
    stranger.code()
    login = stranger.get("/login").text
    for attack in ATTACKS[::10]:
        for name in ("person", "grep", "branch"):
            assert wrong(attacked.get(f"/sessions?{urlencode({name: attack})}").text) == []
        assert stranger.get(f"/login?{urlencode({'next': attack})}").text == login
