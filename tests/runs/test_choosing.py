"""Which session a prompt is run in, of those that the stores in reach hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.agents import codex
from backstory.store import open_store
from tests.support.bench import Bench
from tests.support.machines import case, place

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

GOOD = {"result": True}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def read_log(bench: Bench, name: str) -> str:
    """Has a recorded log read; gives its session's uid."""
    log = bench.root / place(name)
    log.parent.mkdir(parents=True)
    log.write_bytes(case(name))
    assert bench.backstory("ingest").returncode == 0
    with open_store(bench.home / "store.db", shared=True) as home:
        (session,) = (each for each in home.sessions() if each.number is None)
    return session.uid


@pytest.mark.parametrize(
    "words", [("--new", "--name", "x"), ("--new", "-S", "S1"), ("--name", "x", "-S", "S1")], ids=" ".join
)
def test_two_ways_to_say_which_session_are_refused(bench: Bench, words: tuple[str, ...]) -> None:
    bench.run("one", GOOD)
    refused = bench.run("two", GOOD, options=words)
    assert refused.returncode == 2
    assert "cannot be used together" in refused.stderr
    assert [session.turns for session in bench.store.sessions()] == [1]


def test_an_empty_prompt_behind_a_record_runs_nothing(bench: Bench) -> None:
    bench.run("one", GOOD)
    refused = bench.backstory("run", "-a", "claude", "@1", "", script=[GOOD])
    assert refused.returncode == 64
    assert "There is no prompt" in refused.stderr
    assert [session.turns for session in bench.store.sessions()] == [1]


@pytest.mark.parametrize("words", [("-S", "S1"), ("--name", "theirs"), ("-S", "S1", "--at", "@1")], ids=" ".join)
def test_a_session_that_another_store_owns_is_carried_on_by_one_of_the_named_stores_own(
    bench: Bench, words: tuple[str, ...]
) -> None:
    bench.run("one", GOOD, options=("--name", "theirs"))
    home = bench.home / "store.db"
    done = bench.run("two", GOOD, options=("--store", str(home), *words))
    assert done.returncode == 0, done.stderr
    assert [session.turns for session in bench.store.sessions()] == [1]
    with open_store(home, shared=True) as opened:
        assert sorted((each.relation or "", each.turns) for each in opened.sessions() if each.number) == [
            ("", 1), ("continuation", 2),
        ]  # fmt: skip


def test_the_next_prompt_goes_on_with_what_was_just_continued(bench: Bench) -> None:
    bench.run("one", GOOD)
    uid = read_log(bench, "claude/tools")
    bench.run("two", GOOD, options=("-S", uid))
    bench.run("three", GOOD)
    assert [turn.prompt for turn in bench.store.turns(bench.store.session("S2"))][-2:] == ["two", "three"]


def test_a_session_read_from_a_log_goes_on_in_its_own_agent(bench: Bench) -> None:
    uid = read_log(bench, f"{codex.AGENT.name}/tools")
    refused = bench.backstory("run", "-S", uid, "go on", environ={"PATH": str(bench.bin)})
    assert refused.returncode == 69
    assert codex.AGENT.name in refused.stderr
