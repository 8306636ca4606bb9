"""A session that runs, watched in a real browser: it grows, a tab that is closed leaves nothing, a store may go."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory import UserMessage, open_store
from backstory.web import live
from tests.support.bench import Bench
from tests.support.browsing import tab as opened_tab
from tests.support.going import GOOD, delta, until
from tests.support.pages import served

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.support.browsing import Tab
    from tests.support.pages import Visitor

LONG = "\n\n".join(f"Line {n} of a long answer." for n in range(60))
TO_END = "New entries below ↓"


class Run:
    """An agent at work on a session, which says the one part at once and the other when it may go on."""

    def __init__(self, bench: Bench, first: list[dict[str, Any]], then: list[dict[str, Any]]) -> None:
        self.bench, self._go = bench, bench.root / "go"
        self._go.unlink(missing_ok=True)
        with bench.store as store:
            session = store.create_session()
            store.append_events(session, [UserMessage(content="The prompt before")])
        bench.note_store()
        self.uid = session.uid
        script = [*first, {"wait_for": str(self._go)}, *then, GOOD]
        words = ("run", "-S", self.uid, "-a", "claude", "Where now?")
        self._process: subprocess.Popen[str] = bench.start(*words, script=script)

    def end(self) -> None:
        """Let it go on, and wait until it is stored."""
        self._go.touch()
        assert self._process.wait() == 0


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, Visitor]]:
    bench = Bench(tmp_path_factory.mktemp("watched"))
    with served(bench.environ([]), bench.project) as visitor:
        visitor.enter()
        yield bench, visitor


@pytest.fixture
def tab(browser: Browser, machine: tuple[Bench, Visitor]) -> Iterator[Tab]:
    with opened_tab(browser, machine[1]) as seen:
        yield seen
        assert (seen.complaints, seen.elsewhere) == ([], [])


def followed() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("follows ")]


def entries(tab: Tab, words: str) -> int:
    return tab.page.locator(".entries article").filter(has_text=words).count()


def test_a_run_grows_on_its_page_and_its_entries_get_their_addresses(tab: Tab, machine: tuple[Bench, Visitor]) -> None:
    run = Run(machine[0], [{"say": "first"}, delta("half an ans")], [delta("wer"), {"say": "half an answer"}])
    tab.go(f"/s/{run.uid}")
    tab.seen("first")
    tab.page.locator(".writing", has_text="half an ans").wait_for()
    assert tab.page.locator(".growing .seq").count() == 0
    run.end()
    tab.page.locator(".block article[id]", has_text="half an answer").wait_for()
    tab.until(lambda: tab.page.locator(".writing").is_hidden() and not tab.page.locator(".growing article").count())
    assert [entries(tab, words) for words in ("The prompt before", "first", "half an answer")] == [1, 1, 1]
    tab.until(lambda: tab.page.locator("aside dd.state").inner_text().endswith("completed"))


def test_the_outline_of_a_run_leads_to_the_prompt_that_came(tab: Tab, machine: tuple[Bench, Visitor]) -> None:
    run = Run(machine[0], [{"say": LONG}], [{"say": "and more"}])
    tab.go(f"/s/{run.uid}")
    run.end()
    tab.page.locator(".outline a", has_text="Where now?").wait_for()
    tab.js("scrollTo(0, 0)")
    tab.js("window.same = true")
    tab.press("j")
    tab.until(lambda: "Where now?" in tab.page.locator(".outline [aria-current]").inner_text())
    tab.page.locator(".outline a", has_text="The prompt before").click()
    tab.until(lambda: "The prompt before" in tab.page.locator(".outline [aria-current]").inner_text())
    assert tab.js("window.same")


def test_who_reads_the_end_goes_on_reading_it_and_who_reads_elsewhere_is_told(
    tab: Tab, machine: tuple[Bench, Visitor]
) -> None:
    run = Run(machine[0], [{"say": LONG}, {"say": "at the end"}], [{"say": "and more"}])
    tab.go(f"/s/{run.uid}")
    tab.seen("at the end")
    last = tab.page.get_by_text("at the end")
    tab.until(lambda: last.evaluate("each => each.getBoundingClientRect().bottom <= innerHeight"))
    tab.js("scrollTo(0, 0)")
    tab.until(lambda: tab.js("scrollY") == 0)
    run.end()
    tab.page.get_by_role("button", name=TO_END).wait_for()
    assert tab.js("scrollY") == 0
    tab.page.get_by_role("button", name=TO_END).click()
    tab.until(lambda: tab.js("innerHeight + scrollY >= document.documentElement.scrollHeight - 2"))
    assert tab.page.get_by_role("button", name=TO_END).is_hidden()


def test_a_browser_that_is_closed_in_mid_stream_leaves_nothing_and_the_run_goes_on(
    browser: Browser, machine: tuple[Bench, Visitor]
) -> None:
    run = Run(machine[0], [{"say": "first"}, delta("half")], [{"say": "the whole"}])
    with ExitStack() as opened:
        tabs = [opened.enter_context(opened_tab(browser, machine[1])) for _ in range(3)]
        for each in tabs:
            each.go(f"/s/{run.uid}").page.locator(".writing", has_text="half").wait_for()
        assert len(followed()) == 1
    until(lambda: followed() == [])
    run.end()
    with opened_tab(browser, machine[1]) as tab:
        tab.go(f"/s/{run.uid}").page.locator(".block article[id]", has_text="the whole").wait_for()
        assert entries(tab, "first") == 1


def test_a_store_that_is_locked_replaced_or_gone_during_a_stream_is_said_and_nothing_is_lost(
    tab: Tab, machine: tuple[Bench, Visitor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "RETRY_S", 0.05)
    bench, _ = machine
    run = Run(bench, [{"say": "first"}], [{"say": "second"}])
    tab.go(f"/s/{run.uid}")
    tab.seen("first")
    project, home = bench.project / ".backstory" / "sessions.bks", bench.home / "store.db"
    with closing(apsw.Connection(str(project))) as one, closing(apsw.Connection(str(home))) as other:
        for each in (one, other):
            each.set_busy_timeout(10_000)
            each.execute("begin immediate")
        # Who only reads waits for nobody.
        tab.page.reload()
        tab.seen("first")
        for each in (one, other):
            each.execute("rollback")
    run.end()
    tab.page.locator(".block article[id]", has_text="second").wait_for()
    trouble = tab.page.locator(".trouble")
    for is_replaced in (False, True):
        for folder in (project.parent, bench.home):
            folder.rename(folder.with_name(f"{folder.name}-away"))
        if is_replaced:
            bench.home.mkdir()
            with open_store(home, shared=True) as store:
                store.create_session("of another machine")
        trouble.wait_for()
        assert trouble.inner_text()
        if is_replaced:
            bench.home.rename(bench.root / "replaced")
        for folder in (project.parent, bench.home):
            folder.with_name(f"{folder.name}-away").rename(folder)
        trouble.wait_for(state="hidden")
    assert [entries(tab, words) for words in ("first", "second")] == [1, 1]
