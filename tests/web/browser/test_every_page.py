"""Every page in a browser: nothing is wrong with it, nobody else is asked, and everybody can read and work it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from backstory.chronicle.tabs import ON_PAGES
from backstory.web.reporting import slug
from tests.support.browsing import HEIGHT, WIDTHS, axe_script, hindering, need_a_browser, tab
from tests.support.counts import IS_LONG

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.support.browsing import Tab
    from tests.support.pages import Visitor
    from tests.support.shell import Shell

REPORTS = [f"/reports/{slug(each.name)}?period=3" for each in ON_PAGES]
PATHS = ["/sessions", "/sessions?agent=claude&grep=a", "/search", "/search?q=test", "/search?q=quetzalcoatlus",
         *REPORTS, "/reports/behind?by=agent&value=claude",
         "/compare?a={uid}", "/compare?a={uid}&b={uid}@{seq}", "/s/{uid}", "/s/{uid}/{seq}",
         "/s/{uid}/tree", "/new"]  # fmt: skip
"""Every kind of page. ``uid`` and ``seq``: of a hit for "test"."""


SEEN_AS: list[tuple[int, Literal["light", "dark"], tuple[str, ...]]] = [
    (WIDTHS[1], "light", ()),
    # Of a page in the dark only the colours are others.
    (WIDTHS[1], "dark", ("color-contrast",)),
    # One that is narrow has its elements in another order.
    (WIDTHS[0], "dark", ()),
]
"""How axe looks at a page, with which rules if not with all; the last one in the long form."""


@pytest.fixture(scope="module")
def axe() -> str:
    return axe_script()


def where(month: Shell, path: str) -> str:
    """The address of a page on that machine."""
    (hit,) = month("search", "--all", "--json", "--limit", "1", "test").json()["hits"]
    return path.format(uid=hit["uid"], seq=hit["seq"])


@pytest.mark.parametrize("path", PATHS)
def test_a_page_has_nothing_to_complain_of_and_is_as_wide_as_the_window(
    browser: Browser, pages: Visitor, month: Shell, path: str
) -> None:
    address = where(month, path)
    with tab(browser, pages) as seen:
        for width in WIDTHS:
            seen.page.set_viewport_size({"width": width, "height": HEIGHT})
            seen.go(address)
            assert (seen.complaints, seen.elsewhere, seen.is_too_wide()) == ([], [], False), width


@pytest.mark.parametrize("path", PATHS)
def test_nothing_on_a_page_hinders_anybody(browser: Browser, pages: Visitor, month: Shell, axe: str, path: str) -> None:
    address = where(month, path)
    with tab(browser, pages) as seen:
        seen.go(address)
        for width, scheme, rules in SEEN_AS if IS_LONG else SEEN_AS[:2]:
            seen.page.set_viewport_size({"width": width, "height": HEIGHT})
            seen.page.emulate_media(color_scheme=scheme)
            assert hindering(seen, axe, *rules) == [], (width, scheme)


def test_a_test_notices_what_hinders(tab: Tab, axe: str) -> None:
    tab.go("/sessions")
    tab.js(
        "document.querySelector('main').insertAdjacentHTML('beforeend', '<p class=faint>faint</p><button></button>')"
    )
    tab.js("document.querySelector('.faint').style.color = '#dddddd'")
    assert {each.partition(":")[0] for each in hindering(tab, axe)} == {"button-name", "color-contrast"}


@pytest.mark.parametrize("path", ["/sessions?status=asleep", "/s/nothing", "/reports/none"])
def test_a_refusal_is_a_page_that_leads_on(tab: Tab, path: str) -> None:
    tab.go(path)
    # The browser itself says the status of an answer that is no page.
    assert [each for each in tab.complaints if "Failed to load resource" not in each] == []
    tab.complaints.clear()
    tab.page.get_by_role("link", name="All sessions").click()
    assert tab.path == "/sessions"


def test_the_printed_address_opens_in_a_browser_and_the_token_leaves_it(browser: Browser, pages: Visitor) -> None:
    with tab(browser, pages) as seen:
        seen.page.context.clear_cookies()
        seen.go(pages.opening)
        assert seen.path == "/sessions"
        (cookie,) = seen.page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert seen.js("document.cookie") == ""


def test_a_test_notices_a_script_that_the_policy_forbids(browser: Browser, pages: Visitor) -> None:
    with tab(browser, pages) as seen:
        seen.go("/sessions")
        seen.js("document.body.append(Object.assign(document.createElement('script'), { textContent: 'alert(1)' }))")
        seen.until(lambda: seen.complaints)
        assert "Content Security Policy" in seen.complaints[0]


def test_a_test_notices_a_request_to_elsewhere(browser: Browser, pages: Visitor) -> None:
    with tab(browser, pages) as seen:
        seen.go("/sessions")
        seen.js("fetch('http://evil.example/x').catch(() => 0)")
        seen.until(lambda: seen.complaints)
        assert "evil.example" in str(seen.complaints + seen.elsewhere)


@pytest.mark.parametrize(("ci", "ends"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_without_a_browser_it_is_said_what_to_install_and_ci_fails(
    monkeypatch: pytest.MonkeyPatch, ci: str, ends: type[BaseException]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CI", ci)
    with pytest.raises(ends, match=r"NOT TESTED .*apt-get install chromium"):
        need_a_browser()
