"""``run --name``: the session of that name, found or begun, whoever else asks for it at the same moment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from backstory.store import open_store
from tests.support.machines import case, place
from tests.support.shell import Shell

if TYPE_CHECKING:
    from tests.support.bench import Bench

pytestmark = pytest.mark.slow

GOOD: dict[str, Any] = {"result": True}
AT_ONCE = 8
BUSY = 75
DEADLINE_S = 120


def test_processes_that_begin_one_name_at_once_make_one_session(bench: Bench) -> None:
    go = bench.root / "go"
    script: list[dict[str, Any]] = [{"say": "at work"}, {"wait_for": str(go)}, GOOD]
    processes = [
        bench.start("run", "-a", "claude", "--fail", "--name", "oauth", f"prompt {n}", script=script)
        for n in range(AT_ONCE)
    ]
    # The one that runs goes on until all others have been refused.
    end = time.monotonic() + DEADLINE_S
    while sum(process.poll() is not None for process in processes) < AT_ONCE - 1:
        assert time.monotonic() < end, "the others were not refused"
        time.sleep(0.01)
    go.touch()
    ended = [(process.communicate(timeout=DEADLINE_S)[1], process.returncode) for process in processes]
    assert sorted(code for _, code in ended) == [0] + [BUSY] * (AT_ONCE - 1), ended
    (session,) = bench.store.sessions()
    assert (session.shown_number, session.name, session.turns) == ("S1", "oauth", 1)
    assert bench.store.verify().problems == []


def test_a_name_is_found_again_and_keeps_where_it_began(bench: Bench) -> None:
    bench.run("one", GOOD, options=("--name", "oauth"))
    deeper = bench.project / "deeper"
    deeper.mkdir()
    bench.run("two", GOOD, options=("--name", "oauth"), cwd=deeper)
    (session,) = bench.store.sessions()
    assert (session.turns, session.cwd, session.worktree) == (2, str(bench.project), str(bench.project))


def test_a_session_without_a_name_is_called_by_its_number(bench: Bench) -> None:
    bench.run("one", GOOD)
    bench.run("two", GOOD, options=("-n",))
    bench.run("three", GOOD, options=("--name", "S1"))
    assert [(session.shown_number, session.turns) for session in bench.store.sessions()] == [("S1", 2), ("S2", 1)]


def test_an_empty_name_is_no_name(bench: Bench) -> None:
    bench.run("one", GOOD)
    bench.run("two", GOOD, options=("--name", ""))
    (session,) = bench.store.sessions()
    assert (session.name, session.turns) == ("", 2)


def test_a_name_of_a_session_that_a_log_owns_is_carried_on(bench: Bench) -> None:
    shell = Shell(bench.root)
    shell.environ["BACKSTORY_HOME"] = str(bench.home)
    log = bench.root / place("claude/tools")
    log.parent.mkdir(parents=True)
    log.write_bytes(case("claude/tools"))
    shell("ingest")
    path = str(bench.home / "store.db")
    (uid,) = [each["uid"] for each in shell("list", "--all", "--json").json()["sessions"]]
    shell("rename", uid, "theirs")
    done = bench.run("Go on", GOOD, options=("--name", "theirs", "--store", path))
    assert done.returncode == 0, done.stderr
    with open_store(path, shared=True) as home:
        assert {(each.number, each.relation, each.turns) for each in home.sessions()} == {
            (None, None, 1), (1, "continuation", 2),
        }  # fmt: skip
