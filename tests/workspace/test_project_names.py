"""A project is a repository wherever it is shown, and nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory.chronicle.standup import standup
from backstory.cli.app import App
from backstory.cli.commands.list_command import command as list_command
from backstory.config import Config
from backstory.projects.git_program import GitProgram
from backstory.store.intake import coverage
from backstory.store.tables.repositories import known
from backstory.store.tables.session_filter import ListFilter
from backstory.store.tables.sessions import are_projects_noted
from backstory.workspace.board import key_of
from backstory.workspace.history.agent_history import scope_of
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.history.stats import StatsQuery
from backstory.workspace.stores import importing, moving
from backstory.workspace.stores.importing import Machine
from backstory.workspace.workspace import Workspace

if TYPE_CHECKING:
    from tests.support.clock import Clock

EVERYWHERE = SessionFilter(everywhere=True)


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@a.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


class Desk:
    """A person's repositories, and the logs of an agent in them."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self.root, self.clock, self.home = root, clock, root / "home"
        self.count = 0
        self.home.mkdir()

    def repository(self, name: str, *, remote: str | None = None, of: str | None = None) -> Path:
        """A repository with a commit; ``of``: a copy of another one."""
        folder = self.root / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        if of is None:
            folder.mkdir()
            git(folder, "init", "-q", "-b", "main")
            git(folder, "commit", "-q", "--allow-empty", "-m", f"Begin {name}")
        else:
            subprocess.run(["cp", "-r", str(self.root / of), str(folder)], check=True)
        if remote is not None:
            git(folder, "remote", "add", "origin", remote)
        return folder

    def session(self, folder: Path) -> str:
        self.count += 1
        logs = self.root / "user" / ".claude" / "projects" / "p"
        logs.mkdir(parents=True, exist_ok=True)
        name = f"{self.count:08x}-0000-4000-8000-000000000000"
        record = {
            "type": "user", "uuid": f"{name}-1", "sessionId": name, "cwd": str(folder),
            "timestamp": f"2025-11-21T10:00:{self.count:02}.000Z",
            "message": {"role": "user", "content": f"the heron {name}"},
        }  # fmt: skip
        (logs / f"{name}.jsonl").write_text(json.dumps(record) + "\n")
        return name

    def at(self, folder: Path) -> Workspace:
        settings = self.home / "config.toml"
        return Workspace(
            lambda: Config(settings, None, is_installed=lambda *_: True, agents=list, make_folder=Path.mkdir),
            self.home, folder, now=self.clock, environ={"PATH": os.environ["PATH"], "HOME": str(self.root)},
        )  # fmt: skip

    def ingest(self) -> None:
        with_all = self.at(self.root)
        with_all.ingest(Machine(user_home=self.root / "user"), pytest.fail)
        with_all.close()

    def names(self) -> list[str]:
        """The names in `list --all`, without doubles."""
        page = self.at(self.root).reader.sessions(EVERYWHERE)
        return sorted({each.project_name for each in page.sessions})

    def rows(self) -> list[tuple[str | None, int]]:
        found = self.at(self.root).reader.stats(StatsQuery(wanted=EVERYWHERE, by="project")).groups
        return sorted((each.key.project_name, each.figures.sessions) for each in found)


@pytest.fixture
def desk(tmp_path: Path, clock: Clock) -> Desk:
    return Desk(tmp_path, clock)


def test_copies_of_a_repository_and_spellings_of_its_remote_are_one_row_and_one_name(desk: Desk) -> None:
    for folder in (
        desk.repository("a/tool", remote="git@github.com:Ann/Tool.git"),
        desk.repository("b/tool", remote="https://GitHub.com/Ann/Tool"),
        desk.repository("c/cli"), desk.repository("d/copy", of="c/cli"), desk.repository("e/cli"),
    ):  # fmt: skip
        desk.session(folder)
    desk.ingest()
    expected = {"Ann/Tool": 2, "copy": 2, "cli": 1}
    assert desk.rows() == sorted(expected.items())
    assert desk.names() == sorted(expected)
    places = standup(desk.at(desk.root).reader, EVERYWHERE, lambda done, total: None).places
    assert sorted(each.name for each in places) == sorted(expected)


def test_two_repositories_of_one_folder_name_stay_two_rows_with_two_names(desk: Desk) -> None:
    for name in ("ann/cli", "bob/cli"):
        desk.session(desk.repository(name))
    desk.ingest()
    assert desk.rows() == [("ann/cli", 1), ("bob/cli", 1)]
    assert desk.names() == ["ann/cli", "bob/cli"]


def test_a_store_of_an_earlier_version_has_its_names_after_the_next_ingest(desk: Desk) -> None:
    for name in ("ann/cli", "bob/cli"):
        desk.session(desk.repository(name))
    desk.ingest()
    with desk.at(desk.root).home_store as store:
        store.change(lambda db: db.execute("delete from meta where key in ('project_names', 'repositories')"))
    assert desk.names() == ["cli"]
    desk.ingest()
    assert desk.names() == ["ann/cli", "bob/cli"]


def test_git_is_started_by_an_ingest_with_new_sessions_and_by_nothing_that_shows(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, ...]] = []
    begin = GitProgram._call

    def noting(self: GitProgram, words: list[str], *rest: object) -> object:
        started.append(tuple(words))
        return begin(self, words, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(GitProgram, "_call", noting)
    desk.session(desk.repository("tool"))
    desk.ingest()
    assert started
    started.clear()
    desk.ingest()
    desk.names()
    desk.rows()
    assert started == []


def test_what_was_moved_by_a_person_is_one_project_with_what_follows_there(desk: Desk) -> None:
    desk.session(desk.root / "w" / "notes")
    desk.session(desk.root / "w" / "other")
    desk.ingest()
    (new := desk.root / "v" / "notes").mkdir(parents=True)
    moving.move(workspace := desk.at(new), desk.root / "w" / "notes", new)
    workspace.close()
    assert desk.names() == ["v/notes", "w/other"]
    desk.session(new)
    desk.ingest()
    assert desk.rows() == [("v/notes", 2), ("w/other", 1)]


@pytest.fixture
def copied(desk: Desk) -> tuple[Desk, Path, Path]:
    """A repository of ours with a remote, and a clone from a stranger that begins with the same commit."""
    ours = desk.repository("tool")
    theirs = desk.repository("clone", of="tool")
    git(ours, "remote", "add", "origin", "git@github.com:ann/tool.git")
    desk.session(ours)
    desk.session(theirs)
    return desk, ours, theirs


def test_a_clone_with_our_first_commit_is_shown_with_ours_and_sees_nothing_of_it(
    copied: tuple[Desk, Path, Path],
) -> None:
    desk, ours, theirs = copied
    desk.ingest()
    assert desk.rows() == [("ann/tool", 2)]
    for here, other in ((ours, theirs), (theirs, ours)):
        workspace = desk.at(here)
        assert [each.cwd for each in workspace.reader.sessions().sessions] == [str(here)]
        scope = scope_of(workspace)
        assert scope.wanted.project != scope_of(desk.at(other)).wanted.project
        visible = workspace.home_store.list_sessions(ListFilter(**scope.wanted.shared))
        assert [each.cwd for each in visible] == [str(here)]
        assert key_of(here) != key_of(other)
        assert workspace.project_key != desk.at(other).project_key


def test_the_rule_of_the_index_covers_no_session_more_by_it(copied: tuple[Desk, Path, Path]) -> None:
    desk, ours, _ = copied
    (desk.home / "config.toml").write_text('[index]\nrepositories = ["ann/tool"]\n')
    desk.ingest()
    store = desk.at(desk.root).home_store
    covered = [each.cwd for each in store.list_sessions(ListFilter()) if store.ask(coverage.is_covered, each.id)]
    assert covered == [str(ours)]


def test_a_session_from_elsewhere_has_git_started_in_no_folder(desk: Desk) -> None:
    folder = desk.repository("tool")
    desk.session(folder)
    desk.ingest()
    with desk.at(desk.root).home_store as store:
        store.change(lambda db: db.execute("update sessions set elsewhere = '/x'"))
        store.change(lambda db: db.execute("delete from meta where key in ('project_names', 'repositories')"))
    desk.ingest()
    assert desk.at(desk.root).home_store.ask(known) == {}


@pytest.mark.parametrize("value", ['{"x":' + "[" * 5000, "no JSON", "7"])
def test_notes_that_nobody_can_read_are_as_none(desk: Desk, value: str) -> None:
    folder = desk.repository("tool")
    desk.session(folder)
    desk.ingest()
    with desk.at(desk.root).home_store as store:
        store.change(lambda db: db.execute("update meta set value = ? where key like 'project_names'", (value,)))
    assert desk.names() == ["tool"]
    desk.session(folder)
    desk.ingest()
    assert desk.rows() == [("tool", 2)]


def test_a_named_store_from_elsewhere_has_git_started_in_no_folder(desk: Desk) -> None:
    folder = desk.repository("tool")
    desk.session(folder)
    desk.ingest()
    with desk.at(desk.root).home_store as store:
        store.change(lambda db: db.execute("delete from meta where key in ('project_names', 'repositories')"))
        store.is_elsewhere = True
        importing.note_projects(desk.at(desk.root), store)
        assert store.ask(known) == {}


def test_what_was_removed_is_named_nowhere_any_more(desk: Desk) -> None:
    for name in ("ann/cli", "bob/cli"):
        desk.session(desk.repository(name))
    desk.ingest()
    with desk.at(desk.root).home_store as store:
        store.remove(*(each for each in store.list_sessions(ListFilter()) if "bob" in str(each.cwd)))
        rows = store.ask(lambda db: db.execute("select value from meta").fetchall())
        assert store.ask(are_projects_noted)
    assert not [value for (value,) in rows if "bob" in str(value)]
    assert desk.names() == ["cli"]
    assert desk.at(desk.root).home_store.ask(known).keys() == {str(desk.root / "ann" / "cli")}


# a repository whose folder was moved -----------------------------------------------------------------------------


def left(desk: Desk, folder: Path) -> list[tuple[str, int]]:
    return [(Path(each.folder).name, each.sessions) for each in desk.at(folder).reader.left_behind()]


@pytest.fixture
def renamed(desk: Desk) -> Path:
    """A repository with two sessions that was moved since."""
    old = desk.repository("proj")
    for _ in range(2):
        desk.session(old)
    desk.ingest()
    return old.rename(desk.root / "moved")


def test_a_folder_that_is_gone_and_whose_repository_is_here_is_named(desk: Desk, renamed: Path) -> None:
    (found,) = desk.at(renamed).reader.left_behind()
    first = subprocess.run(["git", "rev-parse", "HEAD"], cwd=renamed, capture_output=True, text=True, check=True)
    assert (found.folder, found.sessions) == (str(desk.root / "proj"), 2)
    assert found.commit == first.stdout.strip()


def test_it_is_said_with_the_command_that_lists_its_sessions_here(
    desk: Desk, renamed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (commit,) = [each.commit for each in desk.at(renamed).reader.left_behind()]
    app = App({"HOME": str(desk.root), "BACKSTORY_HOME": str(desk.home), "PATH": os.environ["PATH"]}, renamed)
    for argument in ([], ["--all"]):
        list_command.main(argument, obj=app, standalone_mode=False)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == (
        f"2 sessions of ~/proj, which is gone: the same git repository (first commit {commit[:7]}). "
        "Show them here: backstory project move ~/proj ."
    )
    assert len([line for line in said if "which is gone" in line]) == 1


def test_it_is_named_below_the_root_too_and_no_more_when_a_person_said_where_it_is(desk: Desk, renamed: Path) -> None:
    (below := renamed / "src").mkdir()
    assert left(desk, below) == [("proj", 2)]
    moving.move(workspace := desk.at(renamed), desk.root / "proj", renamed)
    workspace.close()
    assert left(desk, renamed) == []
    assert len(desk.at(renamed).reader.sessions().sessions) == 2


def test_it_is_named_without_git_when_there_are_sessions_in_the_new_folder(
    desk: Desk, renamed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.session(renamed)
    desk.ingest()
    monkeypatch.setattr(GitProgram, "__init__", lambda *_, **__: pytest.fail("git was started"))
    assert left(desk, renamed) == [("proj", 2)]


def test_another_repository_and_a_shallow_clone_are_not_said_to_be_it(desk: Desk, renamed: Path) -> None:
    git(renamed, "commit", "-q", "--allow-empty", "-m", "More")
    git(desk.root, "clone", "-q", "--depth=1", f"file://{renamed}", "shallow")
    assert left(desk, desk.repository("other")) == []
    assert left(desk, desk.root / "shallow") == []
    (desk.root / "plain").mkdir()
    assert left(desk, desk.root / "plain") == []


def test_a_repository_that_took_another_one_in_is_not_it(desk: Desk, renamed: Path) -> None:
    other = desk.repository("other")
    git(other, "fetch", "-q", str(renamed))
    git(other, "merge", "-q", "--allow-unrelated-histories", "-m", "Join", "FETCH_HEAD")
    assert left(desk, other) == []


def test_a_folder_that_is_there_or_whose_sessions_are_listed_anyway_is_not_named(desk: Desk) -> None:
    old = desk.repository("proj", remote="git@github.com:ann/proj.git")
    desk.session(old)
    there = desk.repository("there")
    desk.session(there)
    desk.ingest()
    assert left(desk, desk.repository("copy", of="there")) == []
    assert left(desk, old.rename(desk.root / "moved")) == []


def test_a_worktree_that_an_agent_made_and_removed_is_not_said_to_have_moved(desk: Desk) -> None:
    main = desk.repository("proj")
    git(main, "worktree", "add", "-q", str(worktree := desk.root / ".agent" / "worktrees" / "fix"))
    desk.session(worktree)
    desk.ingest()
    git(main, "worktree", "remove", str(worktree))
    assert left(desk, main) == []


def test_no_git_is_started_where_the_repository_is_known_or_no_other_is_gone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.session(known_one := desk.repository("one"))
    desk.session(desk.repository("two"))
    desk.ingest()
    unknown = desk.repository("three")
    monkeypatch.setattr(GitProgram, "__init__", lambda *_, **__: pytest.fail("git was started"))
    assert left(desk, unknown) == left(desk, desk.root) == []
    (desk.root / "two").rename(desk.root / "four")
    assert left(desk, known_one) == []


def test_a_repository_that_had_no_commit_yet_is_known_once_it_has(desk: Desk) -> None:
    (folder := desk.root / "new").mkdir()
    git(folder, "init", "-q")
    desk.session(folder)
    desk.ingest()
    assert desk.at(desk.root).home_store.ask(known) == {}
    git(folder, "commit", "-q", "--allow-empty", "-m", "Begin")
    desk.session(folder)
    desk.ingest()
    assert desk.at(desk.root).home_store.ask(known).keys() == {str(folder)}
