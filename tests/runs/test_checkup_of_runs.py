"""``doctor`` beside runs: prompts that wait, runs that were killed, project stores that went, came or were copied."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from backstory.runs.spool import SPOOLS
from backstory.store.tables.queue import Queue
from tests.support.forked import COMMAND
from tests.support.going import GOOD, Going, states, until
from tests.support.shell import words_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.bench import Bench


@pytest.fixture(autouse=True)
def closed(bench: Bench) -> None:
    bench.home.chmod(0o700)


def found(bench: Bench, cwd: Path | None = None) -> dict[str, dict[str, Any]]:
    done = bench.backstory("doctor", "--json", cwd=cwd)
    return {each["finding"]: each for each in json.loads(done.stdout)["findings"]}


def typed(bench: Bench, line: str) -> None:
    """A command that was printed, typed as it is; the scripted agent then says that it is done."""
    own = bench.bin / "backstory"
    own.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    own.chmod(0o755)
    words = words_of(line)
    done = bench.backstory(*words, script=[GOOD], cwd=bench.root) if words is not None else subprocess.run(
        ["sh", "-c", line], cwd=bench.root, env=bench.environ([GOOD]), capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def mend(bench: Bench, name: str) -> None:
    typed(bench, found(bench)[name]["as_typed"])
    assert name not in found(bench)


def test_a_project_with_a_run_is_healthy(bench: Bench) -> None:
    assert bench.backstory("run", "-a", "claude", "go", script=[GOOD]).returncode == 0
    assert found(bench) == {}


def test_a_run_that_goes_on_is_no_finding(bench: Bench) -> None:
    with Going(bench):
        assert bench.backstory("queue", "add", "then this").returncode == 0
        assert found(bench) == {}


def test_a_killed_run_is_stored(bench: Bench) -> None:
    with Going(bench) as going:
        going.kill_backstory()
        # Its agent works on.
        assert "run-not-stored" not in found(bench)
        going.go.touch()
        until(lambda: "run-not-stored" in found(bench))
        assert {"owner-dead"} <= set(found(bench))
        mend(bench, "run-not-stored")
        assert states(bench) == []
        assert [turn.prompt for turn in bench.store.turns(1)] == ["Where now?"]


def test_a_run_that_nobody_can_read_has_no_command(bench: Bench) -> None:
    with Going(bench) as going:
        going.kill_backstory()
        going.end_agent()
    (spool,) = (bench.home / SPOOLS).iterdir()
    (spool / "run.json").write_text("{")
    unreadable = found(bench)["run-unreadable"]
    assert (unreadable["about"], unreadable["as_typed"]) == (str(spool), None)


def test_prompts_that_wait_are_run(bench: Bench) -> None:
    assert bench.backstory("run", "-a", "claude", "go", script=[GOOD]).returncode == 0
    assert bench.backstory("queue", "add", "--no-run", "more").returncode == 0
    waiting = found(bench)["prompts-waiting"]
    assert (waiting["detail"], waiting["safe"], waiting["folder"]) == ("1 prompt", False, str(bench.project))
    mend(bench, "prompts-waiting")
    assert [turn.prompt for turn in bench.store.turns(1)] == ["go", "more"]


def test_prompts_that_wait_beside_a_store_that_was_named_are_run_there(bench: Bench) -> None:
    assert bench.backstory("run", "-a", "claude", "go", script=[GOOD]).returncode == 0
    named = bench.root / "apart" / "a b.db"
    named.parent.mkdir(mode=0o700)
    shutil.copy(bench.store.path, named)
    shutil.rmtree(bench.store.path.parent)
    assert bench.backstory("queue", "add", "--no-run", "--trust", "--store", str(named), "more").returncode == 0
    done = bench.backstory("doctor", "--store", str(named), "--json")
    (waiting,) = (each for each in json.loads(done.stdout)["findings"] if each["finding"] == "prompts-waiting")
    typed(bench, waiting["as_typed"])
    assert "prompts-waiting" not in bench.backstory("doctor", "--store", str(named), "--json").stdout


def test_a_prompt_that_is_held_is_a_note(bench: Bench) -> None:
    assert bench.backstory("run", "-a", "claude", "go", script=[GOOD]).returncode == 0
    assert bench.backstory("queue", "add", "--no-run", "more").returncode == 0
    with Queue(bench.store.path) as queue:
        queue.hold_all()
    assert set(found(bench)) == {"prompts-held"}
    mend(bench, "prompts-held")


def test_a_project_store_that_vanished_is_a_note(bench: Bench) -> None:
    assert bench.backstory("run", "-a", "claude", "go", script=[GOOD]).returncode == 0
    shutil.rmtree(bench.project / ".backstory")
    assert set(found(bench)) == {"store-gone"}


def test_a_store_from_elsewhere_is_a_note_until_it_is_trusted(bench: Bench) -> None:
    assert bench.backstory("run", "-a", "claude", "go", script=[GOOD]).returncode == 0
    shutil.rmtree(bench.home / "projects")
    assert set(found(bench)) == {"store-elsewhere"}
    assert bench.backstory("run", "--trust", "-a", "claude", "on", script=[GOOD]).returncode == 0
    assert found(bench) == {}


def test_a_copied_project_store_is_merged(bench: Bench) -> None:
    assert bench.backstory("run", "-a", "claude", "go", script=[GOOD]).returncode == 0
    copy = bench.root / f"copy-{uuid.uuid4().hex[:4]}"
    shutil.copytree(bench.project, copy)
    assert bench.backstory("run", "--trust", "-a", "claude", "on", script=[GOOD], cwd=copy).returncode == 0
    mend(bench, "store-copied")
