"""A session as a file, opened from the disk under every attack: nothing fires or is asked for, sealed or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.attacks import ATTACKS, CANARY, MARK, TOUCHED, put
from tests.support.browsing import opened_file, unlock
from tests.support.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

PASSWORD = "four words nobody guesses"
HOW = {"clear": (), "sealed": ("--password",)}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A session with every attack, as files by how they were made."""
    root = tmp_path_factory.mktemp("attacked")
    (root / "home").mkdir()
    shell = Shell(root / "home")
    put(shell, [ATTACKS])
    for name, options in HOW.items():
        asked = ("--all", "--format", "html", "--no-redact", *options)
        done = shell("export", *asked, "-o", root / name, typed=f"{PASSWORD}\n")
        assert done.code == 0, done.err
    return {name: next((root / name).iterdir()) for name in HOW}


@pytest.mark.parametrize("is_bare", [False, True], ids=["policy", "no policy"])
@pytest.mark.parametrize("how", HOW)
def test_nothing_fires_in_a_file_which_still_folds_and_is_searched(
    browser: Browser, files: dict[str, Path], how: str, is_bare: bool
) -> None:
    with opened_file(browser, files[how], script=CANARY, bypass_csp=is_bare) as page:
        if how == "sealed":
            unlock(page, PASSWORD)
        page.get_by_role("button", name="Open all").click()
        assert page.locator("article.prompt").count() == len(ATTACKS)
        assert page.locator(".entries details:not(.whole):not([open])").count() == 0
        page.evaluate(TOUCHED)
        page.get_by_role("button", name="Fold all").click()
        assert page.locator(".entries details:not(.whole)[open]").count() == 0
        page.keyboard.press("/")
        page.keyboard.type(f"{MARK}(")
        page.locator(".seek output", has_text="1 of ").wait_for()
        assert page.evaluate("location.hash") == ""


def test_a_test_notices_what_fires_in_a_file(browser: Browser, files: dict[str, Path]) -> None:
    with (
        pytest.raises(AssertionError, match=MARK),
        opened_file(browser, files["clear"], script=CANARY, bypass_csp=True) as page,
    ):
        page.evaluate("document.querySelector('main').innerHTML = '<img src=data:, onerror=fired()>'")
        page.wait_for_event("console")
