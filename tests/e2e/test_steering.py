"""Words for the real clients while they work: heard between two steps, told once, and one conversation afterwards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backstory.model import UserMessage
from tests.support.real_clients import OVER, shell

if TYPE_CHECKING:
    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow

PROMPT = "Where does the heron nest?"
STEER = "Look at the otter, too."
USAGE = {"input": 100, "output": 5}


def working(machine: Machine, agent: str = "claude", *, answers: int = 1) -> list[dict[str, Any]]:
    """A model whose agent runs a command until the file ``go`` is there, and then answers."""
    command = f"touch {machine.root}/busy; until [ -e {machine.root}/go ]; do sleep 0.02; done; echo reeds"
    first = {"text": "Looking.", "tools": [shell(agent, command)], "usage": USAGE}
    return [first, *({"text": f"Answer-{n + 1}.", "usage": USAGE} for n in range(answers))]


def asked_with(machine: Machine, words: str) -> list[int]:
    """Which of the model's requests contain words, counted from 0."""
    return [n for n, body in enumerate(machine.asked()) if words in json.dumps(body)]


HEARD = """until grep -qs '"state":"queued"' $BACKSTORY_HOME/spool/*/stdout; do sleep 0.02; done"""
STEERED = f"""
    $B run -a claude --permissions all "{PROMPT}" > $TMPDIR/out 2> $TMPDIR/err & run=$!
    until [ -e ../busy ]; do sleep 0.02; done
    $B steer "{STEER}"
    {HEARD}
    touch ../go; wait $run; code=$?; cat $TMPDIR/out; exit $code
"""
"""Told in the middle of a command; the command ends when the agent has read it."""


def test_a_running_agent_is_told_with_its_next_request_and_the_next_run_that_it_was(machine: Machine) -> None:
    out = machine.do(STEERED, *working(machine))
    assert asked_with(machine, STEER) == [1]
    assert f"❯ {STEER}" in out
    (turn,) = machine.store.turns(1)
    assert (turn.prompt, turn.outcome) == (PROMPT, "completed")
    kinds = [stored.kind for stored in machine.store.events(1)]
    assert kinds.count("UserMessage") == 2
    assert kinds.index("ToolResult") < len(kinds) - 1 - kinds[::-1].index("UserMessage") < kinds.index("Complete")
    is_no_second_turn_in_the_agents_log(machine)
    machine.run("codex", "What else?")
    last = json.dumps(machine.asked()[-1])
    assert (last.count(STEER), last.count(PROMPT)) == (1, 1)
    assert last.index("reeds") < last.index(STEER) < last.index("Answer-1.")
    machine.check()


def is_no_second_turn_in_the_agents_log(machine: Machine) -> None:
    report = json.loads(machine.ask("ingest --json"))
    assert (report["errors"], report["unknown_records"]) == ([], {})
    (listed,) = json.loads(machine.ask("list --all --json"))["sessions"]
    assert (listed["number"], listed["turn_count"]) == ("S1", 1)
    assert [each["turn_count"] for each in json.loads(machine.ask("list --all --json --helpers"))["sessions"]] == [1]
    machine.check()


def test_words_that_come_during_the_last_answer_are_answered_by_the_same_process(machine: Machine) -> None:
    slowly = {"text": "word " * 60, "chunk": 5, "chunk_delay": 0.03, "usage": USAGE}
    machine.do(
        f"""
        $B run -a claude "{PROMPT}" > /dev/null 2>&1 & run=$!
        until grep -qs text_delta $BACKSTORY_HOME/spool/*/stdout; do sleep 0.02; done
        $B steer "{STEER}"; wait $run
        """,
        slowly,
        {"text": "And the otter.", "usage": USAGE},
    )
    assert asked_with(machine, STEER) == [1]
    (turn,) = machine.store.turns(1)
    assert turn.outcome == "completed"
    said = [stored.event for stored in machine.store.events(1) if isinstance(stored.event, UserMessage)]
    assert [event.content for event in said] == [PROMPT, STEER]
    report = json.loads(machine.ask("ingest --json"))
    assert report["unknown_records"] == {}
    assert [each["turn_count"] for each in json.loads(machine.ask("list --all --json"))["sessions"]] == [1]
    machine.check()


@pytest.mark.parametrize("told", [False, True], ids=["untold", "told"])
def test_an_agent_whose_backstory_is_killed_answers_what_it_was_told_and_ends(machine: Machine, told: bool) -> None:
    steer = f'$B steer "{STEER}"; {HEARD}'
    process = machine.start(
        f"""
        $B run -a claude --permissions all "{PROMPT}" > /dev/null 2>&1 & run=$!
        until [ -e ../busy ]; do sleep 0.02; done
        {steer if told else ":"}
        kill -9 $run; touch ../go
        {OVER}
        while $B ps --json | grep -q '"running"'; do sleep 0.3; done
        $B run -a claude --permissions all "And then?"
        """,
        working(machine, answers=3),
    )
    out, err, code = machine.end(process)
    assert code == 0, err
    assert out.strip().endswith("Answer-2.")
    assert asked_with(machine, STEER) == ([1, 2] if told else [])
    assert [(turn.prompt, turn.outcome) for turn in machine.store.turns(1)] == [
        (PROMPT, "completed"), ("And then?", "completed"),
    ]  # fmt: skip
    machine.check()


def test_an_agent_that_takes_no_words_is_told_when_it_is_done(machine: Machine) -> None:
    machine.do(
        f"""
        $B run -a codex --permissions all "{PROMPT}" > /dev/null 2>&1 & run=$!
        until [ -e ../busy ]; do sleep 0.02; done
        $B steer "{STEER}"; touch ../go; wait $run
        """,
        *working(machine, "codex", answers=2),
    )
    assert [(turn.prompt, turn.agent, turn.outcome) for turn in machine.store.turns(1)] == [
        (PROMPT, "codex", "completed"), (STEER, "codex", "completed"),
    ]  # fmt: skip
    machine.check()


def test_a_second_run_is_queued_and_both_are_one_session(machine: Machine) -> None:
    out = machine.do(
        f"""
        $B run -a claude --permissions all "{PROMPT}" > $TMPDIR/out 2>/dev/null & run=$!
        until [ -e ../busy ]; do sleep 0.02; done
        $B run -a codex "And the otter?"; echo "queued $?"; touch ../go; wait $run; cat $TMPDIR/out
        """,
        *working(machine, answers=2),
    )
    assert "queued 0" in out
    assert "Answer-2." in out
    assert [(turn.prompt, turn.agent) for turn in machine.store.turns(1)] == [
        (PROMPT, "claude"), ("And the otter?", "codex"),
    ]  # fmt: skip
    machine.check()


def test_a_run_that_is_stopped_for_another_leaves_nothing_behind(machine: Machine) -> None:
    machine.do(
        f"""
        $B run -a claude --permissions all "{PROMPT}" > /dev/null 2>&1 & run=$!
        until [ -e ../busy ]; do sleep 0.02; done
        $B run -a claude --cancel-first "And the otter?"; wait $run; true
        """,
        *working(machine, answers=1),
    )
    assert [(turn.prompt, turn.outcome) for turn in machine.store.turns(1)] == [
        (PROMPT, "cancelled"), ("And the otter?", "completed"),
    ]  # fmt: skip
    machine.check()
