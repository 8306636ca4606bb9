"""A report that a real agent phrases: it is given the facts, and nothing else of the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.real_clients import AGENTS, said_to

if TYPE_CHECKING:
    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow

REPORT = "Today-the-heron-was-counted-7714."
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_phrases_a_stand_up_from_its_facts(machine: Machine, agent: str) -> None:
    machine.run(
        "claude", f"Count the herons with {SECRET}", {"text": "There are seven.", "usage": {"input": 9, "output": 9}}
    )
    printed = machine.do_ours(f"chronicle standup herons --write {agent}", {"text": REPORT})
    assert REPORT in printed
    (facts,) = [text for text in said_to(machine.asked()[-1]) if "<facts " in text]
    assert "Count the herons" in facts
    assert SECRET not in facts
    (first, second) = machine.store.sessions()
    assert sorted(len(machine.store.turns(each)) for each in (first, second)) == [1, 1]
    machine.check()
