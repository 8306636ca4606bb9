"""A browser, started once for these tests; absent it is said, and with CI=true that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import browsing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.support.browsing import Tab
    from tests.support.pages import Visitor


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    browsing.need_a_browser()
    with browsing.started() as browser:
        yield browser


@pytest.fixture
def tab(browser: Browser, pages: Visitor) -> Iterator[Tab]:
    """A tab on the month of work, which at its end must have had nothing to complain of and asked nobody else."""
    with browsing.tab(browser, pages) as tab:
        yield tab
        assert (tab.complaints, tab.elsewhere) == ([], [])
