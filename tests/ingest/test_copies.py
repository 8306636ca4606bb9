"""Logs that hold the same turn, as resumed and forked ones do, cost as much to read as logs that do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.machines import claude_line, claude_log, lines

if TYPE_CHECKING:
    from tests.support.machines import Machine

ROOT = Path(__file__).parent.parent.parent
SHARED, OWN = "shared", "own"
LOGS = 300


def session_id(number: int) -> str:
    """Ids that differ at their beginning alone."""
    return f"{number:08}-0000-4000-8000-000000000000"


def steps(home: Path, kind: str, logs: int) -> int:
    """The steps of SQLite that an ingest of so many logs takes, all with one turn in common or each with its own."""
    for number in range(logs):
        path = home / claude_log(session_id(number))
        path.parent.mkdir(parents=True, exist_ok=True)
        uuid = "the-same" if kind == SHARED else f"u{number}"
        path.write_bytes(lines(claude_line("user", uuid, "hello", sessionId=session_id(number))))
    environ = {
        "HOME": str(home), "BACKSTORY_HOME": str(home / "backstory"), "LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT),
        "PATH": os.environ["PATH"],
    }  # fmt: skip
    out = home / "counts.json"
    subprocess.run(
        [sys.executable, "-m", "tests.support.counted", str(out), "ingest"], cwd=home, env=environ, check=True,
        capture_output=True, timeout=120,
    )  # fmt: skip
    return int(json.loads(out.read_text("utf-8"))["work"]["sqlite_steps"])


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], int]:
    asked = [(OWN, LOGS), (OWN, 2 * LOGS), (SHARED, LOGS), (SHARED, 2 * LOGS)]
    return {each: steps(tmp_path_factory.mktemp("home"), *each) for each in asked}


@pytest.mark.slow
def test_logs_that_share_a_turn_cost_no_more_than_half_as_much_again(counted: dict[tuple[str, int], int]) -> None:
    assert counted[SHARED, 2 * LOGS] <= 1.5 * counted[OWN, 2 * LOGS]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [OWN, SHARED])
def test_twice_as_many_logs_cost_twice_as_much(counted: dict[tuple[str, int], int], kind: str) -> None:
    assert counted[kind, 2 * LOGS] <= 2.3 * counted[kind, LOGS]


def test_each_log_is_a_fork_of_the_one_it_shares_most_with(machine: Machine) -> None:
    """Of three logs with one, two and three of the same turns, each comes from one before it that has as many."""
    for number, turns in enumerate((1, 3, 2), 1):
        said = [claude_line("user", f"u{n}", f"prompt {n}", sessionId=session_id(number)) for n in range(turns)]
        machine.write(claude_log(session_id(number)), lines(*said))
    machine.read("claude")
    by_uid = {each.uid: each for each in machine.store.sessions()}
    first, *others = (by_uid[uid] for uid in sorted(by_uid))
    assert (first.parent_uid, first.relation) == (None, None)
    for each in others:
        before = [by_uid[uid] for uid in by_uid if uid < each.uid]
        held = {turn.uid for turn in machine.store.turns(each)}
        common = {one.uid: len(held & {turn.uid for turn in machine.store.turns(one)}) for one in before}
        assert (each.parent_uid, each.relation) == (min(common, key=lambda uid: (-common[uid], uid)), "fork")
