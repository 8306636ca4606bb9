"""What is shown beside the entries: what an agent has to do, its questions, costs, and commands that are typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backstory.cli.app import App
from backstory.cli.tui import slash
from backstory.cli.tui.bars import TASKS_SHOWN, task_lines
from backstory.derive.given import AskedQuestion, Task, questions_of, tasks_of
from backstory.model import ToolCall
from backstory.sync.account import Account, keep
from tests.support.piloted import piloted, screen
from tests.support.running import GOOD

if TYPE_CHECKING:
    from tests.support.bench import Bench


def call(**given: object) -> ToolCall:
    return ToolCall(tool_name="any", input=given)


TODOS = [
    {"content": "read the code", "status": "completed"},
    {"content": "write a test", "status": "in_progress"},
    {"content": "mend it", "status": "pending"},
]


def test_a_call_sets_a_list_of_what_there_is_to_do() -> None:
    claude = tasks_of(call(todos=TODOS))
    codex = tasks_of(call(plan=[{"step": each["content"], "status": each["status"]} for each in TODOS]))
    assert claude == codex == (
        Task("read the code", is_done=True, is_at_hand=False),
        Task("write a test", is_done=False, is_at_hand=True),
        Task("mend it", is_done=False, is_at_hand=False),
    )  # fmt: skip


@pytest.mark.parametrize("given", [{"todos": "no list"}, {"todos": [3, None]}, {}, {"questions": {"question": "x"}}])
def test_what_is_no_list_sets_and_asks_nothing(given: dict[str, object]) -> None:
    assert (tasks_of(call(**given)), questions_of(call(**given))) == ((), ())
    assert tasks_of(ToolCall(tool_name="any", input=["todos"])) == ()


def test_a_call_asks_questions() -> None:
    asked = {"question": "Which way?", "options": [{"label": "left", "description": "longer"}, {"label": "right"}, 3]}
    found = questions_of(call(questions=[asked, {"question": ["no", 3]}, "x"]))
    assert found == (AskedQuestion("Which way?", (("left", "longer"), ("right", ""))),)


def test_a_long_list_shows_the_task_at_hand_and_how_many_are_done() -> None:
    tasks = [Task(f"task {n}", is_done=n < 7, is_at_hand=n == 7) for n in range(20)]
    head, *lines = task_lines(tasks)
    assert "7 of 20 done" in head
    assert len(lines) == TASKS_SHOWN
    assert "task 7" in lines[1]
    assert task_lines([]) == []
    assert "task 6" in task_lines(tasks[:7])[-1]


def test_only_our_own_commands_are_commands() -> None:
    assert slash.words_of("/chronicle rm all", "0abc") is None
    assert slash.words_of("/chronicle", "0abc") is None
    assert slash.words_of("/compact --now", "0abc") == ["compact", "-S", "0abc", "--now"]
    assert slash.words_of('/search "open quote', "0abc") == ["search", '"open', "quote"]
    assert slash.words_of(" ", "0abc") is None


@pytest.mark.slow
def test_what_an_agent_has_to_do_is_in_sight_while_it_runs(bench: Bench) -> None:
    assert bench.run("the first prompt", {"say": "the first answer"}, GOOD).returncode == 0
    gate = bench.root / "gate"
    asked = {"questions": [{"question": "Which way?", "options": [{"label": "left", "description": "longer"}]}]}
    script: list[dict[str, Any]] = [
        {"tool": "", "named": "TodoWrite", "input": {"todos": TODOS}},
        {"tool": "", "named": "AskUserQuestion", "input": asked},
        {"wait_for": str(gate)}, {"say": "at last"}, GOOD,
    ]  # fmt: skip

    async def test() -> None:
        async with screen(bench.project, bench.environ(script), everywhere=False, size=(90, 40)) as seen:
            await seen.until_seen("the first prompt")
            await seen.press("enter")
            await seen.opened("the first answer")
            await seen.press("p")
            await seen.type("work")
            await seen.press("enter")
            await seen.until_seen("to do · 1 of 3 done", "✓ read the code", "▶ write a test", "○ mend it")
            await seen.until_seen("╭─ Question ", "│ Which way?", "left – longer")
            gate.touch()
            await seen.until_seen("at last", "2 turns")
            await seen.until_gone("to do · 1 of 3 done")
            await seen.until_seen("╭─ Question ", "$0.04 of $0.08 · today $0.08")

    piloted(test)


@pytest.mark.slow
def test_a_command_that_is_typed_shows_its_lines_where_it_was_typed(bench: Bench) -> None:
    assert bench.run("the first prompt", {"say": "the first answer"}, GOOD).returncode == 0

    async def test() -> None:
        script = [{"say": "the second answer"}, GOOD]
        async with screen(bench.project, bench.environ(script), everywhere=False, size=(90, 40)) as seen:
            await seen.until_seen("the first prompt")
            await seen.press("enter")
            await seen.opened("the first answer")
            for typed in ("/tree", "go on"):
                await seen.press("p")
                await seen.type(typed)
                await seen.press("enter")
                await seen.until_seen("$ backstory tree ", "s sessions")
            await seen.until_seen("the second answer", "2 turns")
            shown = seen.shown()
            places = [shown.index(each) for each in ("the first answer", "✓ 1.2 s", "$ backstory tree ", "── turn 2")]
            assert places == sorted(places)

    piloted(test)


def logged_in(bench: Bench) -> None:
    """Put a login at a server into the home, and let a repository leave."""
    login = Account(address="https://team.example", token="t", organisation="The team", name="anna", role="member")
    keep(bench.home, login)
    for key, value in (("sync.repositories", "me/tool"), ("sync.enabled", "true")):
        assert bench.backstory("config", "set", key, value).returncode == 0


@pytest.mark.slow
def test_a_reindex_offers_once_to_send_too(bench: Bench) -> None:
    assert bench.run("the first prompt", {"say": "the first answer"}, GOOD).returncode == 0
    logged_in(bench)

    async def test() -> None:
        async with screen(bench.project, bench.environ([GOOD]), everywhere=False, size=(90, 30)) as seen:
            await seen.until_seen("the first prompt")
            await seen.press("enter")
            await seen.opened("the first answer")
            await seen.press("p")
            await seen.type("/reindex")
            await seen.press("enter")
            await seen.until_seen(
                "Also send the history of me/tool to https://team.example?", "y Continue", "> n Cancel"
            )
            await seen.press("escape")
            await seen.until_seen("$ backstory reindex", "✓ Reindex complete: 1 session")
            await seen.press("p")
            await seen.type("/chronicle reindex --derived")
            await seen.press("enter")
            await seen.until_seen("$ backstory chronicle reindex --derived")

    piloted(test)


def test_who_continues_has_confirmed_the_command(bench: Bench) -> None:
    logged_in(bench)
    app = App(bench.environ([]), bench.project)
    words = ["reindex", "--derived"]
    assert slash.offer(app, words) is not None
    assert slash.answered(app, words, goes_on=True) == [*words, "--confirmed"]
    assert [slash.offer(app, each) for each in (["reindex", "--sync"], ["search", "x"], [*words, "--confirmed"])] == [
        None, None, None,
    ]  # fmt: skip
    assert slash.answered(app, words, goes_on=False) == words
    assert slash.offer(app, words) is None


@pytest.mark.slow
def test_a_command_for_no_session_stays_in_its_field(bench: Bench) -> None:
    assert bench.run("the first prompt", {"say": "the first answer"}, GOOD).returncode == 0

    async def test() -> None:
        async with screen(bench.project, bench.environ([GOOD]), everywhere=False, size=(90, 30)) as seen:
            await seen.until_seen("the first prompt")
            await seen.press("n")
            await seen.until_seen("A new session")
            await seen.type("/search first")
            await seen.press("enter")
            await seen.until_seen("Type it in a session that is open, or run: backstory search first", "/search first")

    piloted(test)
