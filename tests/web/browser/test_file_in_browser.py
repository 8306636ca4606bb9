"""A session in a file, opened from the disk: it reads, folds and searches, and asks for nothing."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

import pytest

from tests.support.browsing import WIDTHS, opened_file, unlock
from tests.support.session_files import EVENTS, LINES, SEALED, machine_with
from tests.support.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("file"), 20)


def exported(root: Path, times: int, *options: str, typed: str = "") -> Path:
    """The file of a session in which the same was said so many times."""
    (root / "home").mkdir()
    shell = machine_with(Shell(root / "home"), EVENTS * times)
    done = shell("export", "--all", "--format", "html", "-o", root / "out", *options, typed=typed)
    assert done.code == 0, done.err
    (file,) = (root / "out").iterdir()
    return file


@pytest.mark.parametrize("width", WIDTHS)
def test_a_file_opens_at_every_width_and_asks_nobody(browser: Browser, file: Path, width: int) -> None:
    with opened_file(browser, file, width=width) as page:
        assert page.locator("article.prompt").count() == 40
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_search_in_a_file_counts_steps_and_opens_what_it_finds(browser: Browser, file: Path) -> None:
    with opened_file(browser, file) as page:
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
    with opened_file(browser, file, "#r111") as page:
        place = page.locator("#r111")
        assert place.evaluate("each => each.querySelector('details').open")
        top = place.evaluate("each => each.getBoundingClientRect().top")
        assert 0 <= top < 900


def test_everything_opens_and_folds(browser: Browser, file: Path) -> None:
    with opened_file(browser, file) as page:
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


PASSWORD = "péché et mère"
"""With letters that can be composed in two ways."""


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("locked"), 300, "--password", typed=f"{PASSWORD}\n")


def test_a_locked_file_opens_with_its_password_however_it_is_typed(browser: Browser, locked: Path) -> None:
    with opened_file(browser, locked, "#r111") as page:
        assert page.get_by_role("button", name="Open all").is_hidden()
        unlock(page, unicodedata.normalize("NFD", PASSWORD))
        page.get_by_role("button", name="Open all").wait_for()
        assert page.locator("article.prompt").count() == 600
        assert "The price" in page.title()
        assert page.locator("#r111 details").first.get_attribute("open") is not None
        page.keyboard.press("/")
        page.keyboard.type(LINES[20])
        page.get_by_text("1 of 300").wait_for()


def test_another_password_opens_nothing_and_the_right_one_still_does(browser: Browser, locked: Path) -> None:
    with opened_file(browser, locked) as page:
        unlock(page, "another one")
        page.get_by_text("The password is wrong").wait_for()
        assert page.locator("article").count() == 0
        unlock(page, PASSWORD)
        page.get_by_role("button", name="Open all").wait_for()


def changed(page: str, what: str) -> str:
    """A locked page in which sealed pieces are not as they were."""
    pieces = SEALED.findall(page)
    assert len(pieces) > 2
    match what:
        case "a letter":
            middle = len(pieces[1]) // 2
            letter = "A" if pieces[1][middle] != "A" else "B"
            return page.replace(pieces[1], f"{pieces[1][:middle]}{letter}{pieces[1][middle + 1 :]}")
        case "the order":
            return page.replace(pieces[1], "-").replace(pieces[2], pieces[1]).replace(">-<", f">{pieces[2]}<")
        case "the end":
            return re.sub(
                r'<script type="application/octet-stream" class="sealed">[^<]*</script>\n(?=<script type="t)', "", page
            )
    return page


@pytest.mark.parametrize("what", ["a letter", "the order", "the end"])
def test_a_locked_file_that_was_changed_shows_nothing(
    browser: Browser, locked: Path, tmp_path: Path, what: str
) -> None:
    other = tmp_path / "other.html"
    other.write_text(changed(locked.read_text(), what))
    assert other.read_text() != locked.read_text()
    with opened_file(browser, other) as page:
        unlock(page, PASSWORD)
        page.get_by_text("The file was changed or cut off").wait_for()
        assert page.locator("article").count() == 0


def test_a_browser_that_cannot_decrypt_says_so(browser: Browser, locked: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script("delete globalThis.DecompressionStream")
    page.goto(locked.as_uri())
    unlock(page, PASSWORD)
    page.get_by_text("This browser cannot decrypt").wait_for()
    context.close()
