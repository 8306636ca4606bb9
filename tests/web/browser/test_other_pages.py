"""Branches, two sides compared, and paper, in a real browser; and a day's way through all pages with keys alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from backstory import AssistantText, ToolCall, ToolResult, UserMessage, open_store
from tests.support import rewound
from tests.support.browsing import WIDTHS
from tests.support.browsing import tab as opened_tab
from tests.support.pages import served
from tests.support.session_files import LINES, TOKEN
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.support.browsing import Tab
    from tests.support.pages import Visitor

KEYS_MOST = 60
ENTRY = re.compile(r"/s/\w+/\d+$")
PRINTS = "window.print = () => { window.prints = (window.prints ?? 0) + 1 }"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """A session that was rewound, and one called "secret" with a token and an output that is folded."""
    home = tmp_path_factory.mktemp("others") / "home"
    home.mkdir()
    shell = rewound.put(Shell(home))
    with open_store(shell.store) as store:
        session = store.create_session("secret")
        call = ToolCall(tool_name="Bash", tool_use_id="1", tool="SHELL", input={"command": f"echo {TOKEN}"})
        result = ToolResult(tool_use_id="1", tool_name="Bash", tool="SHELL", content="\n".join(LINES))
        store.append_events(session, [UserMessage(content="Say it"), call, result, AssistantText(text="Said.")])
    with served(shell.environ, shell.cwd) as visitor:
        visitor.enter()
        yield visitor


@pytest.fixture
def tab(browser: Browser, machine: Visitor) -> Iterator[Tab]:
    with opened_tab(browser, machine) as seen:
        seen.page.add_init_script(PRINTS)
        yield seen
        assert (seen.complaints, seen.elsewhere) == ([], [])


def session(tab: Tab, name: str) -> str:
    """The address of a session, opened from the list."""
    tab.go("/sessions")
    tab.page.locator("td.heading a", has_text=name).click()
    tab.page.wait_for_url("**/s/*")
    return tab.path


def test_the_tree_shows_where_branches_part_and_leads_into_each(tab: Tab) -> None:
    path = session(tab, "prompt 1")
    tab.page.get_by_role("link", name="Branches", exact=True).click()
    tab.page.wait_for_url(f"**{path}/tree")
    rows = tab.page.locator(".tree li")
    said = rows.all_inner_texts()
    assert [sum(f"prompt {n}" in each for each in said) for n in range(1, 6)] == [1] * 5
    assert "prompt 5" in tab.page.locator(".tree [aria-current]").inner_text()
    assert "on-path" not in (rows.filter(has_text="prompt 3").get_attribute("class") or "")
    for width in WIDTHS:
        tab.page.set_viewport_size({"width": width, "height": 900})
        assert not tab.is_too_wide(), width
    rows.filter(has_text="prompt 3").get_by_role("link").click()
    tab.page.wait_for_url(f"**{path}/*")
    assert "prompt 3" in tab.page.locator("article.here").inner_text()


def test_two_that_are_chosen_in_the_list_are_compared_and_branches_of_one(tab: Tab) -> None:
    tab.go("/sessions")
    for each in tab.page.locator(".sessions input[type=checkbox]").all():
        each.check()
    tab.page.get_by_role("button", name="Compare two that are chosen").click()
    tab.page.wait_for_url("**/compare?**")
    assert tab.page.locator("section.side").count() == 2
    sides = "[...document.querySelectorAll('section.side')].map(each => each.querySelector('a').pathname)"
    left, right = tab.js(sides)
    tab.page.get_by_role("link", name="The other way round").click()
    tab.page.wait_for_url(re.compile(rf"a=[^&]*{right[3:]}"))
    assert tab.js(sides) == [right, left]
    session(tab, "prompt 1")
    tab.page.get_by_role("link", name="Compare it, or its branches").click()
    tab.page.wait_for_url("**/compare?a=*")
    tab.page.locator("main a[href^='/compare?a=']").first.click()
    tab.seen("They part after")
    for width in WIDTHS:
        tab.page.set_viewport_size({"width": width, "height": 900})
        assert not tab.is_too_wide(), width


def test_a_page_to_print_is_masked_says_how_much_and_has_all_of_it_open_on_paper(tab: Tab) -> None:
    path = session(tab, "secret")
    tab.page.get_by_role("link", name="Print").click()
    tab.page.wait_for_url(f"**{path}/print")
    tab.until(lambda: tab.js("window.prints") == 1)
    assert TOKEN not in tab.page.content()
    tab.page.emulate_media(media="print")
    tab.js("dispatchEvent(new Event('beforeprint'))")
    paper = tab.page.locator("body").inner_text()
    assert "[github-token-" in paper and "Masked: 1 github-token." in paper
    assert LINES[-1] in paper
    assert not any(tab.page.get_by_text(each, exact=True).first.is_visible() for each in ("Sessions", "Copy"))
    assert tab.page.pdf().startswith(b"%PDF")


def test_a_session_that_is_printed_from_the_screen_says_that_nothing_is_masked(tab: Tab) -> None:
    session(tab, "secret")
    said = tab.page.get_by_text("nothing is masked")
    assert said.is_hidden()
    tab.page.emulate_media(media="print")
    assert said.is_visible()
    for each in (".tools", ".prompt-field", ".acts", "aside"):
        assert tab.page.locator(each).first.is_hidden(), each


def tabbed_to(tab: Tab, name: str) -> None:
    """Press Tab until what has the focus is called so."""
    called = "(each => each.matches('body') ? '' : each.ariaLabel || each.innerText)(document.activeElement)"
    for _ in range(KEYS_MOST):
        tab.press("Tab")
        if name in tab.js(called):
            return
    raise AssertionError(f"Tab never came to {name!r}.")


def test_all_pages_are_gone_through_with_keys_alone(tab: Tab) -> None:
    tab.go("/sessions")
    for name in ("secret", "prompt 1"):
        tabbed_to(tab, f"Compare {name}")
        tab.press("Space")
    tabbed_to(tab, "Compare two that are chosen")
    tab.press("Enter")
    tab.page.wait_for_url("**/compare?**")
    tab.press("Control+k")
    tab.page.keyboard.type("prompt")
    tab.page.locator("dialog .hits a").first.wait_for()
    tab.press("ArrowDown", "Enter")
    tab.page.wait_for_url(ENTRY)
    tab.press("j", "k", "?")
    tab.until(lambda: tab.js("document.querySelector('dialog.keys').open"))
    tab.press("Escape")
    tabbed_to(tab, "Branches")
    tab.press("Enter")
    tab.page.wait_for_url("**/tree")
    tabbed_to(tab, "prompt 3")
    tab.press("Enter")
    tab.page.wait_for_url(ENTRY)
    tab.press("f")
    assert tab.focused() == "textarea prompt"
    tabbed_to(tab, "Agent, folder and more")
    tab.press("Enter")
    tabbed_to(tab, "Send")
    tab.go("/reports/standup")
    tabbed_to(tab, "Costs")
    tab.press("Enter")
    tab.page.wait_for_url("**/reports/costs*")
    tabbed_to(tab, "The same as a table")
    tab.press("Enter")
    assert tab.js("document.activeElement.parentElement.open")
