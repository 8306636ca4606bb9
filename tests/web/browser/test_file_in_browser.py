"""A session in a file, opened from the disk: it reads, folds and searches, and asks for nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.browsing import WIDTHS
from tests.support.session_files import EVENTS, LINES, machine_with

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.support.shell import Shell


@contextmanager
def opened(browser: Browser, file: Path, place: str = "", width: int = WIDTHS[1]) -> Iterator[Page]:
    """A file in a tab, which at its end must have asked for that file alone and complained of nothing."""
    context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    asked, complaints = list[str](), list[str]()
    context.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        page.goto(f"{file.as_uri()}{place}")
        yield page
        assert {each for each in asked if not each.startswith("data:")} == {f"{file.as_uri()}{place}".partition("#")[0]}
        assert complaints == []
    finally:
        context.close()


@pytest.fixture
def file(empty: Shell, tmp_path: Path) -> Path:
    shell = machine_with(empty, EVENTS * 20)
    assert shell("export", "--all", "--format", "html", "-o", tmp_path / "out").code == 0
    (file,) = (tmp_path / "out").iterdir()
    return file


@pytest.mark.parametrize("width", WIDTHS)
def test_a_file_opens_at_every_width_and_asks_nobody(browser: Browser, file: Path, width: int) -> None:
    with opened(browser, file, width=width) as page:
        assert page.locator("article.prompt").count() == 40
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_search_in_a_file_counts_steps_and_opens_what_it_finds(browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        found = page.get_by_text(LINES[20]).first
        assert not found.is_visible()
        page.keyboard.press("/")
        page.keyboard.type(LINES[20])
        page.get_by_text("1 of 20").wait_for()
        assert found.is_visible()
        page.keyboard.press("Enter")
        page.get_by_text("2 of 20").wait_for()
        page.keyboard.press("Shift+Enter")
        page.keyboard.press("Shift+Enter")
        page.get_by_text("20 of 20").wait_for()
        page.get_by_role("searchbox").fill("nobody said this")
        page.get_by_text("no hit").wait_for()


def test_the_address_of_a_record_leads_to_it_and_opens_it(browser: Browser, file: Path) -> None:
    with opened(browser, file, "#r111") as page:
        place = page.locator("#r111")
        assert place.evaluate("each => each.querySelector('details').open")
        top = place.evaluate("each => each.getBoundingClientRect().top")
        assert 0 <= top < 900


def test_everything_opens_and_folds(browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        folds = page.locator(".entries details[open]:not(.whole)")
        page.get_by_role("button", name="Open all").click()
        assert folds.count() == page.locator(".entries details:not(.whole)").count() > 0
        page.get_by_role("button", name="Fold all").click()
        assert folds.count() == 0


def test_without_scripts_a_file_reads_and_folds(browser: Browser, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert not page.get_by_role("button", name="Open all").is_visible()
    call = page.locator("article.call").first
    assert not call.locator("pre").first.is_visible()
    call.locator("summary").first.click()
    assert call.locator("pre").first.is_visible()
    context.close()
