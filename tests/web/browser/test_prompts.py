"""Prompts from the pages in a real browser: begun, continued, queued, said to an agent, stopped, branched, refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from backstory import AssistantText, UserMessage
from tests.support.bench import Bench
from tests.support.browsing import tab as opened_tab
from tests.support.going import GOOD
from tests.support.pages import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator

    from backstory.model import Turn
    from tests.support.browsing import Tab
    from tests.support.pages import Visitor

SLOWLY, LISTENING, QUICKLY = "Take your time", "Listen to me", "Be quick"
"""Prompts by which the scripted agent knows what to do."""
RENEWED = """async () => {
  const text = await (await fetch(location)).text();
  const detail = new DOMParser().parseFromString(text, "text/html");
  document.dispatchEvent(new CustomEvent("renewed", { detail }));
}"""
"""What the page does when a run begins or something was stored."""
SENT_AND_TYPED = """(words) => {
  const field = document.querySelector(".prompt-field textarea");
  field.form.requestSubmit();
  field.value = words;
}"""
"""Typing before the answer can have come."""
SESSION = re.compile(r"/s/\w+(#.*)?$")


class Desk:
    """A project whose agent does as its prompts say, and a tab on its pages."""

    def __init__(self, bench: Bench, visitor: Visitor, tab: Tab) -> None:
        self.bench, self.visitor, self.tab = bench, visitor, tab
        self.gate = bench.root / "gate"
        self.gate.unlink(missing_ok=True)

    def session(self) -> str:
        """A session with one turn, and the page of it in the tab."""
        with self.bench.store as store:
            session = store.create_session()
            store.append_events(session, [UserMessage(content="The first"), AssistantText(text="An answer")])
        self.bench.note_store()
        self.tab.go(f"/s/{session.uid}")
        return session.uid

    @property
    def field(self) -> Locator:
        return self.tab.page.locator(".prompt-field textarea")

    def send(self, prompt: str) -> None:
        """Type a prompt and send it with keys alone."""
        self.field.fill(prompt)
        self.field.press("Control+Enter")

    def stop(self) -> Locator:
        """The button that stops a run, once there is one."""
        found = self.tab.page.get_by_role("button", name="Stop the run")
        found.wait_for()
        return found

    def turns(self, uid: str, prompts: int) -> list[Turn]:
        """The turns of a session, once it has so many and no run is left to be stored."""

        def stored() -> list[Turn]:
            with self.bench.store as store:
                return [turn for each in store.sessions() if each.uid == uid for turn in store.turns(each)]

        self.tab.until(lambda: len(stored()) == prompts and not self.bench.spools())
        return stored()


@pytest.fixture(scope="module")
def pages_of_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, Visitor]]:
    bench = Bench(tmp_path_factory.mktemp("desk"))
    gate: dict[str, Any] = {"wait_for": str(bench.root / "gate")}
    # The first whose words are in a prompt, of which what was said before is a part.
    script: dict[str, list[dict[str, Any]]] = {
        QUICKLY: [{"say": "the quick answer"}, GOOD],
        SLOWLY: [{"say": "so far"}, gate, {"say": "and the rest"}, GOOD],
        LISTENING: [{"listens": True}, {"say": "all ears"}, {"hear": 1}, GOOD],
    }
    (bench.home / "config.toml").write_text('[run]\nagent = "claude"\n')
    with served(bench.environ(script), bench.project) as visitor:
        visitor.enter()
        yield bench, visitor


@pytest.fixture
def desk(browser: Browser, pages_of_bench: tuple[Bench, Visitor]) -> Iterator[Desk]:
    bench, visitor = pages_of_bench
    with opened_tab(browser, visitor) as tab:
        yield Desk(bench, visitor, tab)
        assert (tab.complaints, tab.elsewhere) == ([], [])


def refused(tab: Tab) -> None:
    """Let the browser say the status of an answer, which it does of each that refuses."""
    tab.complaints[:] = [each for each in tab.complaints if "409" not in each]


def test_a_new_session_is_begun_and_its_answer_comes_on_its_page(desk: Desk) -> None:
    desk.tab.go("/new")
    desk.send(f"{SLOWLY}, somewhere new")
    desk.tab.page.wait_for_url(SESSION)
    uid = desk.tab.path.split("/")[2].partition("#")[0]
    desk.tab.seen("so far")
    desk.gate.touch()
    desk.tab.seen("and the rest")
    assert [(each.prompt, each.outcome) for each in desk.turns(uid, 1)] == [(f"{SLOWLY}, somewhere new", "completed")]


def test_a_prompt_continues_a_session_without_leaving_its_page(desk: Desk) -> None:
    uid = desk.session()
    desk.tab.js("window.same = true")
    desk.send(QUICKLY)
    desk.tab.seen("the quick answer")
    # The answer may come before the page hears that its prompt was taken.
    desk.tab.until(lambda: desk.field.input_value() == "")
    assert desk.tab.js("window.same")
    assert [each.prompt for each in desk.turns(uid, 2)] == ["The first", QUICKLY]


def test_a_prompt_waits_for_the_end_of_a_run_and_both_are_answered(desk: Desk) -> None:
    uid = desk.session()
    desk.send(SLOWLY)
    desk.stop()
    desk.send(f"{QUICKLY} then")
    desk.tab.seen(f"Waits for the end of the run: {QUICKLY} then")
    desk.gate.touch()
    desk.tab.seen("the quick answer")
    assert [each.prompt for each in desk.turns(uid, 3)][1:] == [SLOWLY, f"{QUICKLY} then"]


def test_an_agent_that_works_is_told_something(desk: Desk) -> None:
    uid = desk.session()
    desk.send(LISTENING)
    desk.tab.seen("all ears")
    desk.stop()
    desk.tab.page.get_by_label("to the agent, between its steps").check()
    desk.send("Look over there")
    assert [each.prompt for each in desk.turns(uid, 2)][1:] == [LISTENING]
    assert desk.bench.received.with_suffix(".heard").read_text() == '"Look over there"\n'


def test_a_run_is_stopped_and_what_was_typed_meanwhile_stays(desk: Desk) -> None:
    uid = desk.session()
    desk.send(SLOWLY)
    stop = desk.stop()
    desk.tab.seen("so far")
    desk.field.fill("half a thought")
    stop.click()
    desk.tab.until(lambda: stop.count() == 0)
    assert desk.field.input_value() == "half a thought"
    assert desk.turns(uid, 2)[1].outcome == "cancelled"


def test_a_way_that_was_chosen_stays_when_the_page_is_renewed(desk: Desk) -> None:
    uid = desk.session()
    desk.send(SLOWLY)
    desk.stop()
    chosen = desk.tab.page.get_by_label("to the agent, between its steps")
    chosen.check()
    desk.tab.js(RENEWED)
    assert chosen.is_checked()
    desk.gate.touch()
    desk.turns(uid, 2)


def test_what_is_typed_while_a_prompt_is_sent_stays(desk: Desk) -> None:
    uid = desk.session()
    desk.field.fill(QUICKLY)
    desk.tab.js(SENT_AND_TYPED, "the next thought")
    desk.tab.seen("the quick answer")
    desk.turns(uid, 2)
    desk.tab.until(lambda: desk.tab.page.get_by_text("sending …").count() == 0)
    assert desk.field.input_value() == "the next thought"


def test_a_prompt_begins_a_branch_at_an_entry(desk: Desk) -> None:
    uid = desk.session()
    entry = desk.tab.page.locator("article#r1")
    entry.hover()
    entry.get_by_role("link", name="Prompt from here").click()
    assert desk.tab.focused() == "textarea prompt"
    desk.send(QUICKLY)
    branch = desk.turns(uid, 2)[1]
    assert (branch.prompt, branch.parent_seq) == (QUICKLY, 1)


def test_what_the_pages_do_not_do_is_a_command_to_type_and_the_prompt_stays(desk: Desk) -> None:
    uid = desk.session()
    desk.tab.page.get_by_text("Agent, folder and more").click()
    desk.tab.page.get_by_label("May do unasked").select_option("all")
    desk.send("Do it all")
    typed = f"cd {desk.bench.project} && backstory run -S {uid} --permissions all -- 'Do it all'"
    desk.tab.page.get_by_text(typed).wait_for()
    assert desk.field.input_value() == "Do it all"
    assert len(desk.turns(uid, 1)) == 1
    refused(desk.tab)


def test_without_a_script_a_prompt_is_sent_and_a_branch_is_begun(
    browser: Browser, pages_of_bench: tuple[Bench, Visitor]
) -> None:
    bench, visitor = pages_of_bench
    with opened_tab(browser, visitor, java_script_enabled=False) as tab:
        desk = Desk(bench, visitor, tab)
        uid = desk.session()
        entry = tab.page.locator("article#r1")
        entry.hover()
        entry.get_by_role("link", name="Prompt from here").click()
        tab.page.wait_for_url(f"**/s/{uid}?after=1#prompt")
        desk.field.fill(QUICKLY)
        tab.page.get_by_role("button", name="Send").click()
        tab.page.wait_for_url(f"**/s/{uid}#prompt")
        assert [(each.prompt, each.parent_seq) for each in desk.turns(uid, 2)][1:] == [(QUICKLY, 1)]
        assert (tab.complaints, tab.elsewhere) == ([], [])
