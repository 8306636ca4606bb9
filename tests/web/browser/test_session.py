"""A session in a browser: keys from prompt to prompt, edits side by side, Markdown in the clipboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.browsing import tab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.support.browsing import Tab
    from tests.support.pages import Visitor
    from tests.support.shell import Shell

CURRENT = "document.querySelector('.outline [aria-current]')?.dataset.seq"


COPIED = "document.querySelector('.said').textContent"


@pytest.fixture
def uid(month: Shell) -> str:
    listed = month("list", "--all", "--json").json()["sessions"]
    return str(max(listed, key=lambda each: each["turn_count"])["uid"])


@pytest.fixture
def open_tab(browser: Browser, pages: Visitor) -> Iterator[Tab]:
    with tab(browser, pages, permissions=["clipboard-read", "clipboard-write"]) as seen:
        yield seen
        assert (seen.complaints, seen.elsewhere) == ([], [])


def test_keys_go_from_prompt_to_prompt_and_the_outline_follows(open_tab: Tab, uid: str) -> None:
    open_tab.go(f"/s/{uid}/1")
    prompts = open_tab.js("[...document.querySelectorAll('.outline [data-seq]')].map((each) => each.dataset.seq)")
    assert len(prompts) > 1
    first = open_tab.js(CURRENT)
    open_tab.press("j")
    open_tab.until(lambda: open_tab.js(CURRENT) not in (None, first))
    open_tab.press("k")
    open_tab.until(lambda: open_tab.js(CURRENT) == first)


def test_the_keys_are_told_by_a_question_mark(open_tab: Tab, uid: str) -> None:
    open_tab.go(f"/s/{uid}")
    open_tab.press("?")
    open_tab.seen("the next prompt, the one before")
    open_tab.press("Escape")
    open_tab.until(lambda: not open_tab.js("document.querySelector('dialog.keys').open"))


def test_edits_stay_side_by_side_on_the_next_page(open_tab: Tab, uid: str) -> None:
    open_tab.go(f"/s/{uid}")
    open_tab.press("d")
    open_tab.go(f"/s/{uid}/1")
    assert open_tab.js("document.documentElement.classList.contains('beside')")
    assert open_tab.js("document.querySelector('[data-diffs]').getAttribute('aria-pressed')") == "true"


def test_a_session_is_in_the_clipboard_as_markdown_and_it_is_said_how_much_was_masked(
    open_tab: Tab, uid: str, pages: Visitor
) -> None:
    open_tab.go(f"/s/{uid}")
    open_tab.page.get_by_role("button", name="Copy as Markdown").click()
    open_tab.until(lambda: "Copied" in open_tab.js(COPIED))
    answer = pages.get(f"/s/{uid}/markdown")
    assert open_tab.js("navigator.clipboard.readText()") == answer.text
    open_tab.seen(answer.headers["masked"])


def test_the_entry_in_view_is_copied_by_a_key(open_tab: Tab, uid: str) -> None:
    open_tab.go(f"/s/{uid}/1")
    open_tab.press("y")
    open_tab.until(lambda: "Copied" in open_tab.js(COPIED))
    assert "# " not in open_tab.js("navigator.clipboard.readText()")[:2]


def test_an_entry_has_a_button_that_copies_it_masked_and_says_how_much(open_tab: Tab, uid: str, pages: Visitor) -> None:
    open_tab.go(f"/s/{uid}/1")
    entry = open_tab.page.locator("article#r1")
    entry.hover()
    entry.get_by_role("link", name="Copy").click()
    answer = pages.get(f"/s/{uid}/1/markdown")
    open_tab.until(lambda: open_tab.js(COPIED) == f"Copied. {answer.headers['masked']}")
    assert open_tab.js("navigator.clipboard.readText()") == answer.text


def test_a_key_begins_a_prompt_that_follows_the_entry_in_view(open_tab: Tab, uid: str) -> None:
    open_tab.go(f"/s/{uid}/1")
    open_tab.press("f")
    assert open_tab.focused() == "textarea prompt"
    assert open_tab.page.get_by_label("Follows record").input_value() == "1"
