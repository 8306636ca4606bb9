"""Where it is said that a session was pruned in part, and that what went is elsewhere still."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.machines import claude_line, claude_log
from tests.support.pruned import LATER, NEW, put
from tests.support.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
WORDS = "pruned in part: all but prompts"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    home = tmp_path_factory.mktemp("said")
    shell = Shell(home)
    here = home / "here"
    here.mkdir()
    put(shell, "old", here, LATER, seed=1)
    put(shell, "whole", here, NEW, seed=2)
    put(shell, "fork", here, LATER, seed=1)
    path = home / claude_log("fork")
    told = {"sessionId": "fork", "timestamp": NEW, "cwd": str(here), "version": "2.0.0"}
    copied = (home / claude_log("old")).read_bytes().replace(b'"sessionId":"old"', b'"sessionId":"fork"')
    path.write_bytes(copied + claude_line("user", "fork-5", "and on", **told) + b"\n")
    assert shell("ingest").code == 0
    return shell


@pytest.fixture
def desk(made: Shell, tmp_path: Path) -> Shell:
    """A machine with a session, a younger fork of it, and one that has nothing to do with them."""
    home = tmp_path / "home"
    shutil.copytree(made.home, home)
    return Shell(home)


@pytest.mark.parametrize("words", [[], ["--keep", "prompts"]], ids=["whole", "in part"])
def test_who_holds_copies_of_what_went_is_counted(desk: Shell, words: list[str]) -> None:
    prune = ("prune", "--older", "2026-06-01", *words, "--yes")
    done = desk(*prune, "--json").json()
    assert (len(done["uids"]), done["copy_count"]) == (1, 1)


def test_a_fork_that_was_pruned_as_well_holds_no_copies(desk: Shell) -> None:
    done = desk("prune", "--agent", "claude", "--keep", "prompts", "--yes", "--json").json()
    assert (len(done["uids"]), done["copy_count"]) == (3, 0)
