"""Lines and commits that the real clients made in a repository, with a model that answers as it is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.real_clients import AGENTS, shell

if TYPE_CHECKING:
    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow

FILES = 3
USAGE = {"input": 120, "output": 17}
IDENTITY = "git config user.name Ann && git config user.email ann@example.org"


def editing(agent: str, machine: Machine, number: int) -> list[dict[str, Any]]:
    """A model that has a file written and changed, and both committed, by the agent's own means."""
    path = str(machine.work / f"{agent}{number}.py")
    lines = [f"heron_{number} = count(reeds)", f"otter_{number} = count(banks)", f"beaver_{number} = count(dams)"]
    changed = f"badger_{number} = count(setts)"
    calls = [
        {"name": "Write", "input": {"file_path": path, "content": "\n".join(lines) + "\n"}},
        {"name": "Edit", "input": {"file_path": path, "old_string": f"otter_{number} = count(banks)",
                                   "new_string": changed}},
    ]  # fmt: skip
    if agent == "codex":
        added = "\n".join(f"+{line}" for line in lines)
        patches = (
            f"*** Add File: {path}\n{added}",
            f"*** Update File: {path}\n@@\n {lines[0]}\n-{lines[1]}\n+{changed}\n {lines[2]}",
        )
        calls = [shell(agent, f"apply_patch <<'E'\n*** Begin Patch\n{each}\n*** End Patch\nE\n") for each in patches]
    calls.append(shell(agent, f"git add -A . && git commit -m 'Count {number}'"))
    steps = [{"text": f"Step {n}.", "tools": [call], "usage": USAGE} for n, call in enumerate(calls)]
    return [*steps, {"text": "Counted.", "usage": USAGE}]


def blame(machine: Machine, target: str) -> Any:
    return json.loads(machine.ask(f"chronicle blame --json {target}"))


@pytest.mark.parametrize("agent", AGENTS)
def test_what_a_real_client_edits_and_commits_in_a_run_is_its_turns(machine: Machine, agent: str) -> None:
    machine.do(IDENTITY)
    machine.run(agent, "Count the birds", *editing(agent, machine, 1))
    machine.ask("ingest")
    (session,) = machine.store.sessions()
    report = blame(machine, f"{agent}1.py")
    (run,) = report["files"][0]["runs"]
    assert (run["first"], run["last"], run["strength"], run["uid"]) == (1, 3, "wrote it", session.uid)
    assert "Count the birds" in machine.ask(run["show"].removeprefix("backstory "))
    found = blame(machine, "HEAD")
    assert [(each["path"], each["wrote"], each["without_session"]) for each in found["files"]] == [
        (f"{agent}1.py", 3, 0)
    ]
    assert [(each["uid"], each["is_maker"]) for each in found["sessions"]] == [(session.uid, True)]
    machine.check()


@pytest.mark.parametrize("agent", AGENTS)
def test_files_and_commits_of_clients_that_ran_on_their_own(machine: Machine, agent: str) -> None:
    machine.do(IDENTITY)
    command = {"claude": "claude -p --dangerously-skip-permissions", "codex": "codex exec --skip-git-repo-check -"}
    for number in range(FILES):
        machine.do(f"echo 'Count the birds {number}' | {command[agent]} >/dev/null", *editing(agent, machine, number))
        by_hand = machine.work / f"{agent}{number}.py"
        by_hand.write_text(by_hand.read_text() + f"by_hand_{number} = count(people)\n")
    machine.do("git commit -qam 'By hand'")
    machine.ask("ingest")
    told, commits = [], []
    for number in range(FILES):
        (file,) = blame(machine, f"{agent}{number}.py")["files"]
        told.append([(run["first"], run["last"], run["strength"], run["title"]) for run in file["runs"]])
        found = blame(machine, f"HEAD~{FILES - number}")
        makers = [each["title"] for each in found["sessions"] if each["is_maker"]]
        here = next(each for each in found["files"] if each["path"] == f"{agent}{number}.py")
        commits.append((makers, here["wrote"], here["without_session"]))
    assert [each[0] for each in told] == [(1, 3, "wrote it", f"Count the birds {number}") for number in range(FILES)]
    # A person's line was typed after the agent's commit.
    assert {each[1][2] for each in told} == {"no session"}
    assert commits == [([f"Count the birds {number}"], 3, 0) for number in range(FILES)]
