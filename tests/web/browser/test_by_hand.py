"""What a person does on the pages with keys, and by scrolling and going back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from backstory import AssistantText, ToolCall, ToolResult, UserMessage, open_store
from tests.support.browsing import tab as opened_tab
from tests.support.pages import served
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Route

    from tests.support.browsing import Tab
    from tests.support.pages import Visitor

TURNS = 150
"""The turns of the long session, and the sessions beside it."""
LISTED = "td.heading a"
IN_SEARCH = "document.activeElement.matches('input[name=q]')"


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """The pages of a machine with a long session, called "long", and many short ones."""
    home = tmp_path_factory.mktemp("long") / "home"
    home.mkdir()
    shell = Shell(home)
    shell.store.parent.mkdir(parents=True)
    with open_store(shell.store) as store:
        for n in range(TURNS):
            store.append_events(store.create_session(f"short {n}"), [UserMessage(content=f"short {n}")])
        session = store.create_session("long")
        for n in range(TURNS):
            call = ToolCall(tool_use_id=f"t{n}", tool_name="Bash", input={"command": f"make part-{n}"})
            result = ToolResult(tool_use_id=f"t{n}", tool_name="Bash", content=f"part {n} is made\n" * 4)
            said = [UserMessage(content=f"Make part {n}"), call, result, AssistantText(text=f"Part {n} is there.")]
            store.append_events(session, said)
    with served(shell.environ, shell.cwd) as visitor:
        visitor.enter()
        yield visitor


@pytest.fixture
def scrolled(browser: Browser, long: Visitor) -> Iterator[Tab]:
    with opened_tab(browser, long) as tab:
        yield tab
        assert (tab.complaints, tab.elsewhere) == ([], [])


def long_session(tab: Tab) -> str:
    """The address of the long session."""
    tab.go("/sessions?grep=long")
    return tab.page.locator(LISTED).get_attribute("href") or ""


def blocks_asked(tab: Tab) -> list[str]:
    return [each for each in tab.asked if each.endswith("/block")]


# keys ---------------------------------------------------------------------------------------------------------------


def test_the_first_tab_leads_over_the_head_to_the_content(tab: Tab) -> None:
    tab.go("/sessions")
    tab.press("Tab")
    assert tab.focused() == "a skip"
    assert tab.js("document.activeElement.getBoundingClientRect().left >= 0")
    tab.press("Enter", "Tab")
    assert tab.js("document.querySelector('main').contains(document.activeElement)")


@pytest.mark.parametrize("path", ["/sessions", "/search?q=test", "/reports/costs?period=3"])
def test_tab_comes_to_everything_that_acts_in_the_order_of_the_page_and_shows_where_it_is(tab: Tab, path: str) -> None:
    tab.go(path)
    # A number of a row leads where the name of the row does: one of them is enough for keys.
    acts = "a[href]:not([tabindex='-1']), button, input:not([type=hidden]), select, summary, [tabindex='0']"
    tab.js(
        "acts => { window.order = [...document.querySelectorAll(acts)]"
        ".filter(e => e.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true })).slice(0, 60) }",
        acts,
    )
    # A field of the page may have the focus at once, and there the order does not begin.
    tab.js("order[0].focus()")
    for n in range(1, tab.js("order.length")):
        tab.press("Tab")
        assert tab.js("n => order[n] === document.activeElement", n), tab.focused()
        assert tab.js("getComputedStyle(document.activeElement).outlineStyle") != "none", tab.focused()


@pytest.mark.parametrize("path", ["/sessions", "/reports/costs", "/s/{uid}"])
@pytest.mark.parametrize("key", ["Control+k", "/"])
def test_a_key_leads_to_the_search_from_anywhere(tab: Tab, month: Shell, path: str, key: str) -> None:
    (session,) = month("list", "--all", "--json", "--limit", "1").json()["sessions"]
    tab.go(path.format(uid=session["uid"]))
    tab.press(key)
    assert tab.js(IN_SEARCH)
    tab.page.keyboard.type("lint")
    tab.press("Enter")
    tab.page.wait_for_url("**/search?**q=lint*")
    tab.page.locator(".hits mark").first.wait_for()


def test_a_slash_in_a_field_is_a_letter(tab: Tab) -> None:
    tab.go("/search")
    tab.until(lambda: tab.js(IN_SEARCH))
    tab.page.keyboard.type("src/main")
    assert tab.page.locator(".query input[name=q]").input_value() == "src/main"


def test_a_hit_is_opened_and_its_call_unfolded_with_keys_alone(tab: Tab) -> None:
    tab.go("/search?q=lint&tool=Bash")
    tab.page.locator(".hits a").first.focus()
    tab.press("Enter")
    tab.page.wait_for_url("**/s/**")
    folds = tab.page.locator("article.call details > summary")
    folds.first.focus()
    was_open = tab.js("document.activeElement.parentElement.open")
    tab.press("Enter")
    assert tab.js("document.activeElement.parentElement.open") is not was_open
    tab.press("Space")
    assert tab.js("document.activeElement.parentElement.open") is was_open


# search as it is typed ----------------------------------------------------------------------------------------------


def test_hits_appear_while_a_person_types_and_the_address_follows(tab: Tab) -> None:
    tab.go("/search")
    tab.until(lambda: tab.js(IN_SEARCH))
    tab.page.keyboard.type("lint")
    tab.page.locator(".hits mark").first.wait_for()
    tab.until(lambda: "q=lint" in tab.path)
    tab.page.reload()
    assert tab.page.locator(".hits mark").count() > 0
    assert tab.page.locator(".query input[name=q]").input_value() == "lint"


@pytest.mark.parametrize(("path", "keys", "within"), [("/search", (), "main"), ("/sessions", ("Control+k",), "dialog")])
def test_an_older_answer_never_replaces_a_newer(tab: Tab, path: str, keys: tuple[str, ...], within: str) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        if "q=lint" in route.request.url:
            held.append(route)
        else:
            route.continue_()

    tab.page.route("**/search?*part=1*", hold)
    tab.go(path)
    tab.press(*keys)
    tab.until(lambda: tab.js(IN_SEARCH))
    tab.page.keyboard.type("lint")
    tab.until(lambda: held)
    tab.page.locator(f"{within} .query input[name=q]").fill("quetzalcoatlus")
    tab.seen("Nothing found for 'quetzalcoatlus'")
    for route in held:
        route.continue_()
    tab.page.wait_for_load_state("networkidle")
    hits = tab.page.locator(f"{within} .hits")
    assert hits.locator("mark").count() == 0
    assert "Nothing found for 'quetzalcoatlus'" in hits.inner_text()


# what comes into view -----------------------------------------------------------------------------------------------


def test_the_list_goes_on_as_it_is_scrolled_to_its_end_and_has_each_session_once(scrolled: Tab) -> None:
    scrolled.go("/sessions")
    rows = scrolled.page.locator(".sessions td.heading a")
    first = rows.count()
    assert first < TURNS

    def is_whole() -> bool:
        scrolled.js("scrollTo(0, document.body.scrollHeight)")
        return rows.count() > TURNS

    scrolled.until(is_whole)
    assert scrolled.js("new Set([...document.querySelectorAll('td.heading a')].map(e => e.href)).size") == rows.count()


def test_a_long_session_opens_at_its_end_and_reads_only_what_comes_into_view(scrolled: Tab) -> None:
    scrolled.go(long_session(scrolled))
    scrolled.seen(f"Part {TURNS - 1} is there.")
    unread = scrolled.page.locator("[data-block]")
    assert unread.count() > 3
    asked = len(blocks_asked(scrolled))
    unread.first.scroll_into_view_if_needed()
    scrolled.until(lambda: len(blocks_asked(scrolled)) > asked)
    scrolled.seen("Part 1 is there.")
    assert unread.count() > 0


def test_the_outline_and_the_map_say_where_one_reads_also_between_two_entries(scrolled: Tab) -> None:
    scrolled.go(f"{long_session(scrolled)}/{4 * 100 + 1}")
    current = scrolled.page.locator(".outline [aria-current]")
    scrolled.until(lambda: current.count() and current.inner_text().endswith("Make part 100"))
    # The heading of the next turn is where one reads now.
    scrolled.js(f"scrollBy(0, document.querySelector('#r{4 * 101 + 1}').getBoundingClientRect().top - 110)")
    scrolled.until(lambda: current.inner_text().endswith("Make part 101"))
    here = scrolled.page.locator(".map .at")
    assert int(here.get_attribute("data-seq") or 0) in range(4 * 95, 4 * 101 + 2)
    here.click()
    scrolled.until(lambda: current.inner_text()[:-2].endswith(("Make part 1", "Make part 9")))


def test_all_of_a_long_session_comes_while_it_is_scrolled(scrolled: Tab) -> None:
    scrolled.go(long_session(scrolled))
    unread = scrolled.page.locator("[data-block]")

    def is_read() -> bool:
        if unread.count():
            scrolled.js("document.querySelector('[data-block]')?.scrollIntoView()")
        return unread.count() == 0

    scrolled.until(is_read)
    assert len(set(blocks_asked(scrolled))) == len(blocks_asked(scrolled))
    words = scrolled.page.locator(".entries").text_content() or ""
    assert [n for n in range(TURNS) if f"Part {n} is there." not in words] == []


@pytest.mark.parametrize("n", [0, TURNS // 2, TURNS - 1])
def test_the_address_of_a_record_leads_to_its_place(scrolled: Tab, n: int) -> None:
    path = long_session(scrolled)
    seq = 4 * n + 1
    scrolled.go(f"{path}/{seq}")
    entry = scrolled.page.locator(f"#r{seq}")
    assert f"@{seq}Make part {n}\n" in (entry.text_content() or "")
    scrolled.until(lambda: scrolled.js("seq => { const r = document.getElementById(`r${seq}`).getBoundingClientRect();"
                                       " return r.top >= 0 && r.bottom <= innerHeight }", seq))  # fmt: skip
    assert "here" in (entry.get_attribute("class") or "")


def test_a_result_that_is_folded_is_open_where_its_address_leads(scrolled: Tab) -> None:
    path = long_session(scrolled)
    scrolled.go(f"{path}/{4 * 20 + 3}")
    scrolled.page.get_by_text("part 20 is made").first.wait_for(state="visible")


def test_back_leads_to_the_list_as_it_was_filtered_and_forward_to_the_session(scrolled: Tab) -> None:
    path = long_session(scrolled)
    scrolled.page.locator(LISTED).click()
    scrolled.page.wait_for_url(f"**{path}")
    scrolled.page.go_back()
    assert scrolled.path == "/sessions?grep=long"
    assert scrolled.page.locator("input[name=grep]").input_value() == "long"
    scrolled.page.go_forward()
    scrolled.seen(f"Part {TURNS - 1} is there.")


def test_a_prompt_of_the_outline_leads_to_its_turn(scrolled: Tab) -> None:
    scrolled.go(long_session(scrolled))
    scrolled.page.locator(".outline a").nth(3).click()
    scrolled.page.wait_for_url(re.compile(r"/s/\w+/13(#.*)?$"))
    scrolled.page.get_by_text("Make part 3", exact=True).last.wait_for()


def test_all_of_a_record_comes_in_its_place(scrolled: Tab) -> None:
    path = long_session(scrolled)
    scrolled.go(f"{path}/{4 * 20 + 2}")
    entry = scrolled.page.locator(f"#r{4 * 20 + 2}")
    entry.locator("a[data-whole]").click()
    scrolled.page.get_by_text('"command": "make part-20"').wait_for()
    assert scrolled.path == f"{path}/{4 * 20 + 2}"


def test_pages_read_without_a_script(browser: Browser, long: Visitor) -> None:
    with opened_tab(browser, long, java_script_enabled=False) as tab:
        tab.go("/sessions")
        tab.page.get_by_role("link", name="More sessions").click()
        tab.page.wait_for_url("**after=**")
        tab.go("/sessions?grep=long")
        tab.page.locator(LISTED).click()
        tab.page.get_by_role("link", name=re.compile("^Records ")).first.click()
        tab.page.get_by_text("Part 1 is there.").wait_for()
        tab.go("/search?q=part")
        assert tab.page.locator(".hits mark").count() > 0
        assert (tab.complaints, tab.elsewhere) == ([], [])
