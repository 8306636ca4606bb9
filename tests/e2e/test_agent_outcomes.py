"""How runs of the real agents end: tools, tools that fail, a model that refuses, breaks off, or recovers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.real_clients import AGENTS, HELLO, said_to, shell

if TYPE_CHECKING:
    from tests.support.real_clients import Machine, Ran

pytestmark = pytest.mark.slow

PROMPT = "  Where does the \"heron\" nest? $HOME `ls` 'x' \\n 漢字 🪶\r\n\tAnd the <otter>?\r\n \n"
"""Everything that a shell, a terminal or an end of line could change."""
REFUSALS: dict[str, dict[str, Any]] = {
    "bad request": {"status": 400, "error": "invalid_request_error", "message": "no such thing"},
    "no key": {"status": 401, "error": "authentication_error", "message": "bad key"},
    "limit": {"status": 429, "error": "rate_limit_error", "message": "slow down"},
    "server": {"status": 500, "error": "api_error", "message": "it broke"},
}
"""One that is no use to send again, one that asks for a key, one of a quota, and a fault of the service."""
BROKEN_OFF_BY = "bad request"
"""Which of them comes when something was done already."""
PASSING: dict[str, dict[str, Any]] = {
    "server": REFUSALS["server"],
    "cut": {"cut": True, "text": "Half an ans"},
}


def is_whole(ran: Ran, outcome: str, *, prompt: str = PROMPT) -> None:
    """What holds of every run: the turn is there once, as typed, with an end, and nothing is hurt or left over."""
    assert ran.turn.outcome == outcome
    assert ran.code == (0 if outcome == "completed" else 1)
    assert ran.turn.prompt == prompt
    assert [event.content for event in ran.of("UserMessage")] == [prompt]
    assert len(ran.of("Complete")) == 1
    assert ran.of("Complete")[0].success == (outcome == "completed")
    assert "Unknown" not in ran.kinds
    assert ran.printed[-1]["outcome"] == outcome
    assert bool(ran.printed[-1]["error"]) == (outcome != "completed")
    assert (ran.session.completed == 1) == (outcome == "completed")
    ran.machine.check()


@pytest.mark.parametrize("agent", AGENTS)
def test_a_run_with_tools_is_recorded_with_calls_results_and_answer_and_a_tool_that_fails_is_no_error_of_the_run(
    machine: Machine, agent: str
) -> None:
    first = {"text": "Looking.", "tools": [shell(agent, "echo alpha > notes.txt; cat notes.txt")]}
    failing = {"tools": [shell(agent, "echo gone >&2; exit 3")]}
    ran = machine.run(agent, PROMPT, first, failing, {"tools": [shell(agent, "echo beta")]}, {"text": "Done."})
    is_whole(ran, "completed")
    shown = [kind for kind in ran.kinds if kind not in ("Init", "Thinking", "Hook")]
    assert shown == [
        "UserMessage", "AssistantText", *["ToolCall", "ToolResult"] * 3, "AssistantText", "Complete",
    ]  # fmt: skip
    assert [event.text for event in ran.of("AssistantText")] == ["Looking.", "Done."]
    for result, word in zip(ran.of("ToolResult"), ("alpha", "gone", "beta"), strict=True):
        assert word in result.content
    assert [event.tool for event in ran.of("ToolCall")] == ["SHELL"] * 3
    assert [bool(event.is_error) for event in ran.of("ToolResult")] == [False, True, False]
    assert ran.of("Error") == []
    assert (machine.work / "notes.txt").read_text() == "alpha\n"
    # The prompt reaches the model as typed, but for what stands around the words, which an agent may trim.
    assert any(text.strip() == PROMPT.strip() for text in said_to(machine.asked()[0]))


@pytest.mark.parametrize("refusal", [name for name in REFUSALS if name != BROKEN_OFF_BY])
@pytest.mark.parametrize("agent", AGENTS)
def test_a_model_that_refuses_makes_a_failed_turn_that_says_why(machine: Machine, agent: str, refusal: str) -> None:
    ran = machine.run(agent, PROMPT, REFUSALS[refusal])
    is_whole(ran, "failed")
    says_why(ran)
    assert ran.of("AssistantText") == []


def says_why(ran: Ran) -> None:
    (error,) = ran.of("Error")
    assert error.message
    assert ran.printed[-1]["error"] == error.message


@pytest.mark.parametrize("agent", AGENTS)
def test_troubles_that_pass_make_a_completed_turn(machine: Machine, agent: str) -> None:
    working = {"text": "Looking.", "tools": [shell(agent, "echo alpha")]}
    ran = machine.run(agent, PROMPT, PASSING["server"], working, PASSING["cut"], HELLO)
    is_whole(ran, "completed")
    assert ran.of("Error") == []
    assert ran.of("AssistantText")[-1].text == "Hello from the stub."
    assert len(machine.asked()) == 4
    retries = [(retry.attempt, retry.attempts_max, retry.message) for retry in ran.of("Retry")]
    assert retries == [(1, 1, message) for message in RETRIES[agent]]


RETRIES = {
    "claude": ["server error (500)", "no answer"],
    "codex": ["no answer (the answer broke off, error decoding response body)"],
}
"""Of a refusal, and of an answer that broke off behind a call: not each agent tells of both."""


@pytest.mark.parametrize(("agent", "how"), [("claude", "stream_error"), ("codex", "cut")])
def test_an_answer_that_always_breaks_off_makes_a_failed_turn(machine: Machine, agent: str, how: str) -> None:
    broken: dict[str, Any] = {"cut": True} if how == "cut" else {"stream_error": "overloaded_error", "message": "busy"}
    ran = machine.run(agent, PROMPT, {"text": "Half an ans", **broken})
    is_whole(ran, "failed")
    assert len(ran.of("Error")) == 1


@pytest.mark.parametrize("agent", AGENTS)
def test_what_was_done_before_the_model_broke_off_is_kept_and_told_to_the_next(machine: Machine, agent: str) -> None:
    done = {"text": "Looking.", "tools": [shell(agent, "echo alpha-7781")]}
    ran = machine.run(agent, "Do the work.", done, REFUSALS[BROKEN_OFF_BY])
    is_whole(ran, "failed", prompt="Do the work.")
    says_why(ran)
    assert [event.text for event in ran.of("AssistantText")] == ["Looking."]
    assert "alpha-7781" in ran.of("ToolResult")[0].content
    second = machine.run(agent, "Go on.")
    assert second.turn.outcome == "completed"
    context = "\n".join(said_to(machine.asked()[-1]))
    assert "Looking." in context
    assert "[Error]" in context


PATCH = "*** Begin Patch\n*** Add File: notes.txt\n+alpha\n*** End Patch\n"


@pytest.mark.parametrize("agent", AGENTS)
def test_what_permissions_refuse_is_listed_at_the_end_of_the_run(machine: Machine, agent: str) -> None:
    given = {"file_path": str(machine.work / "notes.txt"), "content": "alpha"}
    edit = {"name": "Write", "input": given} if agent == "claude" else {"name": "apply_patch", "input": PATCH}
    line = f"run -a {agent} --permissions ask --json Write"
    out = machine.do_ours(line, {"tools": [edit]}, {"text": "I could not."})
    refused = json.loads(out.splitlines()[-1])["refused"]
    assert refused == [{"tool_name": edit["name"], "input": given if agent == "claude" else {}}]
    assert not (machine.work / "notes.txt").exists()
    machine.check()
