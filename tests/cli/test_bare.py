"""Runs in the worktrees of a bare repository: one store for all, in the repository."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from backstory.store import open_store
from tests.support.bench import Bench

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

GOOD = {"result": True}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def git(*words: str | Path) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    return subprocess.run(["git", *who, *words], check=True, capture_output=True, text=True).stdout


def test_worktrees_of_a_bare_repository_go_on_with_each_others_sessions(bench: Bench) -> None:
    bare, one, two = bench.root / "bare.git", bench.root / "one", bench.root / "two"
    git("-C", bench.project, "commit", "-q", "--allow-empty", "-m", "first")
    git("clone", "-q", "--bare", bench.project, bare)
    git("-C", bare, "remote", "remove", "origin")
    for folder in (one, two):
        git("-C", bare, "worktree", "add", "-q", "-b", folder.name, folder)
    bench.run("first", GOOD, cwd=one)
    bench.run("second", GOOD, cwd=two)
    assert store_turns(bare) == ["first", "second"]
    for folder in (bare, one, two):
        listed = json.loads(bench.backstory("list", "--json", cwd=folder).stdout)["sessions"]
        assert [(each["number"], each["turn_count"]) for each in listed] == [("S1", 2)]
        assert not (folder / ".backstory").exists()
    assert git("-C", one, "status", "--porcelain") == ""
    git("-C", bare, "worktree", "remove", "--force", one)
    assert bench.run("third", GOOD, cwd=two).returncode == 0
    assert store_turns(bare) == ["first", "second", "third"]


def store_turns(bare: Path) -> list[str]:
    with open_store(bare / "backstory" / "sessions.bks") as store:
        return [turn.prompt for turn in store.turns(store.session("S1"))]


def test_settings_lie_beside_the_store_of_a_bare_repository(bench: Bench) -> None:
    bare = bench.root / "bare.git"
    git("init", "-q", "--bare", bare)
    (bare / "backstory").mkdir()
    (bare / "backstory" / "config.toml").write_text("[run]\nsilence_s = 3\n")
    assert bench.backstory("config", "get", "run.silence_s", cwd=bare).stdout == "3\n"


def test_a_store_of_a_bare_repository_that_is_lost_is_brought_back(bench: Bench) -> None:
    bare = bench.root / "bare.git"
    git("init", "-q", "--bare", bare)
    bench.run("first", GOOD, cwd=bare)
    shutil.rmtree(bare / "backstory")
    bench.run("second", GOOD, cwd=bare)
    assert store_turns(bare) == ["first", "second"]
