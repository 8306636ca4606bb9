"""A repository that was cloned with settings in it: nothing of them runs a program, allows anything, or hides a log."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.support.machines import SMALL, case, place

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.bench import Bench

GOOD = {"result": True}
COMMANDS = (
    ("list",), ("list", "--json"), ("show", "S1"), ("show", "S1", "--json"), ("search", "go"),
    ("search", "go", "--json"), ("ingest",), ("ingest", "--json"), ("config", "list"), ("config", "list", "--json"),
    ("config", "get", "run.agent"), ("context", "S1"), ("tree", "S1"), ("ps",), ("verify",),
)  # fmt: skip


@pytest.fixture
def clone(bench: Bench) -> Path:
    """The project's file of settings, which a clone brought."""
    file = bench.project / ".backstory" / "config.toml"
    file.parent.mkdir()
    return file


@pytest.mark.parametrize("is_whole_path", [True, False])
def test_a_program_of_the_clone_is_not_run(bench: Bench, clone: Path, is_whole_path: bool) -> None:
    program = bench.project / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {bench.root}/RAN\n")
    program.chmod(0o755)
    clone.write_text(f'[agents]\nclaude = "{program if is_whole_path else "./evil.sh"}"\n')
    done = bench.run("go", {"say": "done"}, GOOD)
    assert done.returncode == 0
    assert not (bench.root / "RAN").exists()
    assert done.stderr.count(f"agents.claude in {clone} is ignored: only your own config may set it.") == 1


def test_permissions_of_the_clone_are_not_given(bench: Bench, clone: Path) -> None:
    bench.run("go", GOOD)
    before = [word for word in bench.argv() if not word.count("-") > 3]
    clone.write_text('[run]\npermissions = "all"\n')
    done = bench.run("again", GOOD)
    assert [word for word in bench.argv() if not word.count("-") > 3] == before
    assert "run.permissions" in done.stderr


def test_an_agent_of_the_clone_that_is_not_installed_is_not_taken(bench: Bench, clone: Path) -> None:
    clone.write_text('[run]\nagent = "copilot"\n')
    done = bench.backstory("run", "go", script=[GOOD])
    assert (done.returncode, "no agent of this name is installed" in done.stderr) == (0, True)


def test_an_agent_of_the_clone_that_is_installed_is_taken(bench: Bench, clone: Path) -> None:
    clone.write_text('[run]\nagent = "claude"\n')
    done = bench.backstory("run", "go", script=[GOOD])
    assert (done.returncode, "ignored" in done.stderr) == (0, False)
    assert bench.store.turns(1)[0].agent == "claude"


def test_the_clone_hides_no_logs(bench: Bench, clone: Path) -> None:
    for name in SMALL:
        path = bench.root / place(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(case(name))
    clone.write_text('[ingest]\nexclude = ["*"]\nagents = ["ah"]\n')
    done = bench.backstory("ingest", "--json")
    assert json.loads(done.stdout)["logs_seen"] == len(SMALL)
    assert done.stderr.count("is ignored: only your own config may set it.") == 2


UNUSABLE = ('[nonsense]\nx = 1\n[agents]\nclaude = "./evil.sh"\n', "[list\n", "x = " + "[" * 9_000, "\0")


def test_no_command_is_stopped_by_the_clones_file(bench: Bench, clone: Path) -> None:
    bench.run("go", GOOD)
    quiet = [bench.backstory(*words) for words in COMMANDS]
    for text in UNUSABLE:
        clone.write_text(text)
        for words, before in zip(COMMANDS, quiet, strict=True):
            done, what = bench.backstory(*words), (text[:30], words)
            assert (what, done.returncode) == (what, before.returncode)
            assert "Traceback" not in done.stderr, what
            if "--json" in words:
                assert type(json.loads(done.stdout)) is type(json.loads(before.stdout)), what


def test_a_pipe_in_the_place_of_the_clones_file_is_not_waited_for(bench: Bench, clone: Path) -> None:
    os.mkfifo(clone)
    done = bench.backstory("list")
    assert (done.returncode, f"{clone} is ignored: it is no regular file." in done.stderr) == (0, True)
