"""Branches with real agents: each is sent its own history, and nothing of the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.real_clients import DoneOnce, Machine

pytestmark = pytest.mark.slow

HERON, OTTER, BADGER = "Where does the heron nest?", "Where does the otter sleep?", "Where does the badger dig?"
REEDS, RIVER, HILL = "In-the-reeds-1181.", "By-the-river-2292.", "On-the-hill-3303."


def answer(text: str) -> dict[str, Any]:
    return {"text": text, "usage": {"input": 1200, "output": 34}}


def ends(machine: Machine) -> dict[str, int]:
    """The last record of each turn, by its prompt."""
    (session,) = machine.store.sessions()
    return {turn.prompt: turn.last_seq for turn in machine.store.turns(session)}


def last_request(machine: Machine) -> str:
    return json.dumps(machine.asked()[-1], ensure_ascii=False)


def told(machine: Machine) -> set[str]:
    """Which of the words the model was sent last."""
    sent = last_request(machine)
    assert all(sent.count(word) <= 1 for word in (HERON, OTTER, BADGER, REEDS, RIVER, HILL))
    return {word for word in (HERON, OTTER, BADGER, REEDS, RIVER, HILL) if word in sent}


def forked(machine: Machine, agent: str) -> None:
    """Two turns in one agent, then another agent beside the second."""
    machine.do_ours(f"run -a {agent} --permissions all '{HERON}'", answer(REEDS))
    machine.do_ours(f"run -a {agent} --permissions all '{OTTER}'", answer(RIVER))
    machine.do_ours(f"run -a codex --permissions all @{ends(machine)[HERON]} '{BADGER}'", answer(HILL))


def test_a_fork_in_another_agent_is_sent_the_history_up_to_there_and_the_whole_tree_is_told(
    done_once: DoneOnce,
) -> None:
    machine = done_once(forked, "claude")
    assert told(machine) == {HERON, REEDS, BADGER}
    turns = {turn.prompt: turn for turn in machine.store.turns(machine.store.sessions()[0])}
    assert turns[BADGER].parent_uid == turns[OTTER].parent_uid == turns[HERON].uid
    branches = json.loads(machine.ask("branches --json"))["branches"]
    assert sorted((each["agent"], each["current"]) for each in branches) == [("claude", False), ("codex", True)]
    at = ends(machine)
    tree = machine.ask("tree")
    assert all(text in tree for text in (HERON, OTTER, BADGER))
    difference = machine.ask(f"diff @{at[OTTER]} @{at[BADGER]}")
    assert all(text in difference for text in (OTTER, RIVER, BADGER, HILL))
    assert difference.count(HERON) == 1 and REEDS not in difference
    machine.check()


def test_after_a_checkout_each_branch_goes_on_with_its_own_history(done_once: DoneOnce) -> None:
    machine = done_once(forked, "claude")
    machine.ask(f"checkout @{ends(machine)[OTTER]}")
    machine.ask("branch name 'the otter'")
    machine.do_ours("run -a codex --permissions all 'Sum up.'", answer("Summed-up-1."))
    assert told(machine) == {HERON, REEDS, OTTER, RIVER}
    machine.ask(f"checkout @{ends(machine)[BADGER]}")
    machine.do_ours("run -a claude --permissions all 'Sum up again.'", answer("Summed-up-2."))
    assert told(machine) == {HERON, REEDS, BADGER, HILL}
    machine.ask("checkout 'the otter'")
    machine.do_ours("run -a claude --permissions all 'And once more.'", answer("Summed-up-3."))
    assert told(machine) == {HERON, REEDS, OTTER, RIVER}
    assert "Summed-up-1." in last_request(machine)
    machine.check()
