"""A session goes on in another real client: what that adds is one turn more, and all before it counts once."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.real_clients import AGENTS, ANSWER, NATIVE, RESUMED

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow

OTHER = {"claude": "codex", "codex": "claude"}
NEXT, LAST = "And the otter?", "And the fox?"
ADDED = ("turn_count", "session_count")


def sums(machine: Machine) -> dict[str, Any]:
    """What ``stats`` counts of everything."""
    machine.ask("ingest")
    found: dict[str, Any] = json.loads(machine.ask("stats --all --json"))["sums"]
    return found


def written(machine: Machine, uid: str, agent: str) -> str:
    """The id of a log that is written of a session for an agent."""
    return str(json.loads(machine.ask(f"export -S {uid} --format {agent} --write --json"))["native_id"])


def gone_on(machine: Machine, agent: str, native_id: str, prompt: str) -> None:
    machine.do(NATIVE[agent].format(prompt, RESUMED[agent].format(native_id)), ANSWER)


def newest(machine: Machine) -> dict[str, Any]:
    """The session that was last active."""
    found: list[dict[str, Any]] = json.loads(machine.ask("list --all --json"))["sessions"]
    return max(found, key=lambda each: str(each["last_active"]))


def difference(before: dict[str, Any], after: dict[str, Any]) -> list[int]:
    tokens = after["tokens"]["output"] - before["tokens"]["output"]
    return [*(after[name] - before[name] for name in ADDED), tokens]


@pytest.mark.parametrize("agent", AGENTS)
def test_one_more_prompt_in_the_other_client_is_one_turn_more(native: Callable[[str], Machine], agent: str) -> None:
    machine = native(agent)
    alone = sums(machine)
    uid = newest(machine)["uid"]
    there = written(machine, uid, OTHER[agent])
    assert sums(machine) == alone
    gone_on(machine, OTHER[agent], there, NEXT)
    twice = sums(machine)
    continued = newest(machine)
    assert difference(alone, twice) == [1, 1, 17]
    assert (continued["relation"], continued["parent_uid"], continued["turn_count"]) == ("continuation", uid, 1)

    back = written(machine, continued["uid"], agent)
    assert sums(machine) == twice
    gone_on(machine, agent, back, LAST)
    thrice = sums(machine)
    assert difference(twice, thrice) == [1, 1, 17]
    assert newest(machine)["parent_uid"] == continued["uid"]
    assert len(json.loads(machine.ask("search heron --all-hits --json"))["hits"]) == 1

    # A store that is made anew reads the logs in another order.
    shutil.rmtree(machine.root / "bh")
    assert sums(machine) == thrice


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_of_our_own_runs_goes_on_in_a_client_and_counts_once(
    ran: Callable[[str], Machine], agent: str
) -> None:
    machine = ran(agent)
    alone = sums(machine)
    native_id = written(machine, "S1", OTHER[agent])
    assert sums(machine) == alone
    gone_on(machine, OTHER[agent], native_id, NEXT)
    assert difference(alone, sums(machine)) == [1, 1, 17]
    assert "continuation" in machine.ask("show S1")
