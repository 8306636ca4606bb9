"""Which session and which record a person means, decided without a terminal."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from backstory.config import Config
from backstory.errors import (
    BranchNotFound,
    NoBranches,
    NoSessionHere,
    RecordNotFound,
    SessionNotFound,
    SeveralRunHere,
)  # fmt: skip
from backstory.model import AssistantText, UserMessage
from backstory.runs.spool import SPOOLS, Run, Spool
from backstory.workspace.runs.writable import ensure_writable_session, is_own, prepare_store
from backstory.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.store import Session
    from tests.support.clock import Clock


class Here:
    """A project's folder with sessions, and runs of them."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self.root, self.home, self._clock = root, root / "home", clock
        self.folder = root / "project"
        self.folder.mkdir()
        self.home.mkdir()
        git("init", "-q", cwd=self.folder)
        self.workspace = self.at(self.folder)
        self._held: list[int] = []

    def at(self, folder: Path) -> Workspace:
        return Workspace(lambda: Config(self.home / "config.toml"), self.home, folder, now=self._clock)

    def session(self, name: str, *prompts: str, folder: Path | None = None) -> Session:
        """A session of this project, begun in a worktree, with a turn for each prompt."""
        workspace = self.at(folder or self.folder)
        self._clock.ms += 1
        prepare_store(workspace)
        session = workspace.project_store.create_session(name, worktree=workspace.worktree)
        for prompt in prompts:
            workspace.project_store.append_events(session, [UserMessage(content=prompt), AssistantText(text="yes")])
        return workspace.project_store.session(session.id)

    def runs(self, session: Session, *, cwd: Path | None = None, store: Path | None = None) -> None:
        """Have an agent hold the output of a run of a session, as it does while it lives."""
        turn = f"01JXYZ0000000000000000000{len(self._held)}"
        run = Run(
            turn_uid=turn, session_uid=session.uid, store=str(store or self.workspace.project_store.path),
            agent="claude", prompt="go", cwd=str(cwd or self.folder), started=0,
        )  # fmt: skip
        (self.home / SPOOLS).mkdir(exist_ok=True)
        self._held += Spool.begin(self.home / SPOOLS, run, "go").open_output()

    def end_runs(self) -> None:
        for file in self._held:
            os.close(file)
        self._held.clear()


def git(*words: str, cwd: Path) -> None:
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=cwd, check=True)


@pytest.fixture
def here(tmp_path: Path, clock: Clock) -> Iterator[Here]:
    made = Here(tmp_path, clock)
    yield made
    made.end_runs()


def linked(here: Here) -> Path:
    """Another worktree of the project."""
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=here.folder)
    folder = here.root / "linked"
    git("worktree", "add", "-q", str(folder), cwd=here.folder)
    return folder


# the default session --------------------------------------------------------------------------------------------------


def test_the_default_session_is_the_one_last_active_here(here: Here) -> None:
    here.session("first")
    here.session("second")
    assert here.workspace.default().session.name == "second"


def test_one_that_was_chosen_here_is_the_default(here: Here) -> None:
    first = here.session("first")
    here.session("second")
    here.workspace.project_store.choose_session(first, here.workspace.worktree)
    assert here.workspace.default().session.name == "first"


def test_the_one_last_active_in_this_worktree_comes_before_one_of_another(here: Here) -> None:
    there = linked(here)
    here.session("here")
    here.session("there", folder=there)
    assert here.workspace.default().session.name == "here"
    assert here.at(there).default().session.name == "there"


def test_a_session_that_only_a_log_holds_is_the_default_where_the_project_has_none(here: Here) -> None:
    machine = here.workspace.machine_store
    machine.create_session("elsewhere", worktree=here.root / "another")
    machine.create_session("read", worktree=here.folder)
    assert here.workspace.default().session.name == "read"
    assert here.workspace.last_active() is None


def test_where_no_session_is_the_error_names_a_command_and_no_session(here: Here) -> None:
    for running_first in (False, True):
        with pytest.raises(NoSessionHere, match=r'backstory run -n "…"') as refused:
            here.workspace.default(running_first=running_first)
        assert "called" not in str(refused.value)


def test_the_one_that_runs_here_is_meant_where_a_run_is(here: Here) -> None:
    here.runs(here.session("first"))
    here.session("second")
    assert here.workspace.default(running_first=True).session.name == "first"
    assert here.workspace.default().session.name == "second"


def test_a_run_that_is_over_is_not_the_one_that_runs(here: Here) -> None:
    here.runs(here.session("first"))
    here.session("second")
    here.end_runs()
    assert here.workspace.default(running_first=True).session.name == "second"


def test_a_run_of_another_project_does_not_run_here(here: Here) -> None:
    here.runs(here.session("first"), store=here.root / "other.bks")
    here.session("second")
    assert here.workspace.running_here() == []


def test_several_that_run_here_are_listed_and_none_is_meant(here: Here) -> None:
    here.runs(here.session("first"))
    here.runs(here.session("second"))
    here.session("third")
    with pytest.raises(SeveralRunHere, match=r"S1 \(first\), S2 \(second\)") as refused:
        here.workspace.default(running_first=True)
    assert refused.value.candidates == ["S1", "S2"]
    assert here.workspace.default().session.name == "third"


def test_two_runs_of_one_session_are_one_session(here: Here) -> None:
    session = here.session("first")
    here.runs(session)
    here.runs(session)
    assert here.workspace.default(running_first=True).session.name == "first"


def test_one_that_runs_in_this_worktree_comes_before_one_of_another(here: Here) -> None:
    there = linked(here)
    here.runs(here.session("here"), cwd=here.folder)
    here.runs(here.session("there", folder=there), cwd=there)
    assert here.workspace.default(running_first=True).session.name == "here"
    assert here.at(there).default(running_first=True).session.name == "there"


def test_one_that_runs_in_another_worktree_is_meant_where_none_runs_in_this_one(here: Here) -> None:
    there = linked(here)
    here.session("here")
    here.runs(here.session("there", folder=there), cwd=there)
    assert here.workspace.default(running_first=True).session.name == "there"


# records --------------------------------------------------------------------------------------------------------------


def test_a_record_is_one_of_the_default_session(here: Here) -> None:
    here.session("first", "one")
    here.session("second", "two")
    target = here.workspace.target("@1")
    assert (target.located.label, target.point.seq, target.is_default) == ("S2", 1, True)


def test_a_record_of_a_session_that_is_named_is_not_one_of_the_default_session(here: Here) -> None:
    here.session("first", "one")
    here.session("second", "two")
    target = here.workspace.target("S1@1")
    assert (target.located.label, target.point.seq, target.is_default) == ("S1", 1, False)
    assert here.workspace.target("@1", here.workspace.resolve("S1")).located.label == "S1"


@pytest.mark.parametrize("words", ["S1", "first"])
def test_a_session_means_the_record_that_it_stands_at(here: Here, words: str) -> None:
    session = here.session("first", "one", "two")
    here.session("second", "three")
    target = here.workspace.target(words)
    leaf = here.workspace.project_store.leaf(session)
    assert (target.located.label, target.point, target.is_session) == ("S1", leaf, True)
    assert target.tip == here.workspace.project_store.turns(session)[-1].uid


def test_a_session_that_stands_inside_a_branch_means_no_tip(here: Here) -> None:
    session = here.session("first", "one", "two")
    here.workspace.project_store.checkout(session, here.workspace.target("@2").point)
    target = here.workspace.target("S1")
    assert (target.point.seq, target.tip) == (2, None)


def test_a_branch_comes_before_a_session_of_its_name(here: Here) -> None:
    here.session("other", "zero")
    session = here.session("first", "one", "two")
    here.workspace.project_store.name_branch(session, "other", here.workspace.target("@4").point)
    target = here.workspace.target("other")
    assert (target.located.label, target.is_session) == ("S2", False)


def test_a_number_is_never_a_session(here: Here) -> None:
    here.session("7", "one")
    here.session("first", "two")
    with pytest.raises(BranchNotFound):
        here.workspace.target("7")


def test_a_record_that_is_not_there_is_not_looked_for_in_other_sessions(here: Here) -> None:
    here.session("first", "one", "two")
    here.session("second", "three")
    with pytest.raises(RecordNotFound):
        here.workspace.target("@3")


def test_what_names_nothing_is_refused_as_what_it_looks_like(here: Here) -> None:
    here.session("first", "one")
    with pytest.raises(BranchNotFound):
        here.workspace.target("nothing")
    with pytest.raises(SessionNotFound):
        here.workspace.target("S9")
    with pytest.raises(SessionNotFound):
        here.workspace.target("S9@1")


def test_a_session_without_turns_has_no_record_to_stand_at(here: Here) -> None:
    here.session("empty")
    with pytest.raises(NoBranches):
        here.workspace.target("S1")


# a session that may be written ----------------------------------------------------------------------------------------


def test_the_projects_own_session_is_written_itself(here: Here) -> None:
    session = here.session("first", "one")
    writable = ensure_writable_session(here.workspace, here.workspace.resolve("S1"))
    assert (writable.session.uid, writable.continues, writable.lacking) == (session.uid, None, None)


def test_a_session_of_another_store_is_continued_and_says_what_it_lacks(here: Here) -> None:
    machine = here.workspace.machine_store
    theirs = machine.create_session("theirs", worktree=here.root / "another")
    machine.append_events(theirs, [UserMessage(content="one"), AssistantText(text="yes")])
    first = ensure_writable_session(here.workspace, here.workspace.resolve("theirs"))
    assert (first.continues, first.lacking) == (theirs.uid, None)
    assert is_own(here.workspace.project_store, first.session.uid)
    assert not is_own(here.workspace.project_store, theirs.uid)
    machine.append_events(theirs, [UserMessage(content="two"), AssistantText(text="yes")])
    again = ensure_writable_session(here.workspace, here.workspace.resolve(theirs.uid))
    assert again.session.uid == first.session.uid
    assert again.lacking is not None
    assert again.lacking.turns == 1


def test_settings_are_read_when_they_are_asked_for_and_once(tmp_path: Path, clock: Clock) -> None:
    read = []

    def config() -> Config:
        read.append(1)
        return Config(tmp_path / "config.toml")

    workspace = Workspace(config, tmp_path, tmp_path, now=clock)
    assert workspace.project_folder == tmp_path
    assert read == []
    assert workspace.config is workspace.config
    assert read == [1]
