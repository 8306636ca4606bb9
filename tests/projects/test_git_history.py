"""What git says is read as it is; a repository that names programs has none of them run, and nothing is written."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from backstory.derive.git_values import UNCOMMITTED
from backstory.derive.projects import Repository
from backstory.errors import FileIsBinary, FileNotHere, GitFailed, NoGit
from backstory.projects.git_history import GitHistory
from backstory.workspace.stores.importing import repositories_at

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

ENVIRON = {"PATH": os.environ["PATH"]}


def git(folder: Path, *words: str) -> str:
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "Ann"), ("EMAIL", "ann@a.org"), ("DATE", "1777888800 +0000"))}  # fmt: skip
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        env={**ENVIRON, "HOME": str(folder), **who},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "Begin\n\nWith a body: of words")
    return tmp_path


def history(folder: Path) -> GitHistory:
    return GitHistory(folder, {**ENVIRON, "HOME": str(folder)})


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(each): (each.stat().st_mtime_ns, each.stat().st_size) for each in folder.rglob("*") if each.is_file()}


def test_lines_have_their_commits_and_what_is_not_committed_has_none(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    (repository / "a.txt").write_text("one\nTWO\nthree\n")
    lines = history(repository).lines("a.txt", moved=True)
    assert [(each.number, each.text, each.commit) for each in lines] == [
        (1, "one", first), (2, "TWO", UNCOMMITTED), (3, "three", first),
    ]  # fmt: skip
    now, begin = history(repository).history("a.txt")
    assert (now.commit, [*now.added()], [*now.removed()]) == (UNCOMMITTED, [(2, "TWO")], ["two"])
    assert (begin.commit, [text for _, text in begin.added()]) == (first, ["one", "two", "three"])


def test_a_commit_has_its_times_its_message_and_its_files(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    found = history(repository).commits([first, first])[first]
    assert (found.authored, found.author, found.subject) == (1_777_888_800_000, "Ann", "Begin")
    assert "With a body: of words" in found.message
    git(repository, "mv", "a.txt", "b c.txt")
    (repository / "new\tname.bin").write_bytes(b"\0\1")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "Rename")
    changes = {each.path: each for each in history(repository).changes_of("HEAD")}
    assert changes["b c.txt"].old_path == "a.txt"
    assert changes["new\tname.bin"].is_binary


@pytest.mark.parametrize("name", ["core.fsmonitor", "core.pager", "pager.log", "pager.blame", "diff.external",
                                  "core.sshCommand", "gpg.program", "core.editor"])  # fmt: skip
def test_no_program_of_the_configuration_is_run(repository: Path, name: str) -> None:
    program = hostile(repository)
    git(repository, "config", name, str(program))
    git(repository, "config", "log.showSignature", "true")
    ask_everything(repository)
    assert not (repository / "ran").exists()


@pytest.mark.parametrize("attribute", ["filter=evil", "diff=evil", "diff=evil filter=evil"])
def test_no_program_of_the_attributes_is_run(repository: Path, attribute: str) -> None:
    program = hostile(repository)
    for key in ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv",
                "diff.evil.command"):  # fmt: skip
        git(repository, "config", key, str(program))
    (repository / ".git" / "info" / "attributes").write_text(f"* {attribute}\n")
    (repository / "a.txt").write_text("one\nTWO\nthree\n")
    ask_everything(repository)
    assert not (repository / "ran").exists()


def test_no_hook_is_run_and_nothing_is_written(repository: Path) -> None:
    program = hostile(repository)
    for name in ("post-checkout", "post-index-change", "pre-commit", "reference-transaction"):
        (repository / ".git" / "hooks" / name).write_bytes(program.read_bytes())
        (repository / ".git" / "hooks" / name).chmod(0o755)
    # The index knows another time of the file: git would write it anew.
    os.utime(repository / "a.txt", (1, 1))
    before = contents(repository)
    ask_everything(repository)
    assert contents(repository) == before
    assert not (repository / "ran").exists()


def test_settings_that_change_what_is_printed_change_nothing(repository: Path) -> None:
    before = ask_everything(repository)
    for name, value in (("diff.noprefix", "true"), ("diff.mnemonicPrefix", "true"), ("color.ui", "always"),
                        ("diff.interHunkContext", "9"), ("log.showRoot", "false"),
                        ("blame.coloring", "repeatedLines"), ("diff.renames", "false"), ("log.date", "relative"),
                        ("diff.orderFile", "a.txt"), ("format.pretty", "oneline"), ("log.follow", "true"),
                        ("diff.algorithm", "patience"), ("blame.showEmail", "true")):  # fmt: skip
        git(repository, "config", name, value)
    assert ask_everything(repository) == before


def test_the_environment_of_another_repository_is_not_taken_over(repository: Path) -> None:
    other = repository / "other"
    other.mkdir()
    environ = {"HOME": str(other), "GIT_DIR": str(other), "GIT_EXTERNAL_DIFF": "false"}
    asked = GitHistory(repository, ENVIRON | environ)
    assert len(asked.lines("a.txt", moved=True)) == 3


def test_words_that_look_like_options_name_nothing(repository: Path) -> None:
    asked = history(repository)
    for word in ("--help", "-n1", "--output=ran", "HEAD^{tree}", "", "\0"):
        assert asked.resolve(word) is None, word
    assert asked.resolve("HEAD") == git(repository, "rev-parse", "HEAD")
    assert not (repository / "ran").exists()


def test_what_is_no_text_or_not_there_is_an_error(repository: Path) -> None:
    (repository / "b.bin").write_bytes(b"\0" * 9)
    with pytest.raises(FileIsBinary):
        history(repository).lines("b.bin", moved=False)
    with pytest.raises(FileNotHere):
        history(repository).lines("nothing.txt", moved=False)
    with pytest.raises(NoGit):
        GitHistory(repository, {"PATH": str(repository)}).lines("a.txt", moved=False)
    (repository / ".git" / "HEAD").write_text("nonsense\n")
    with pytest.raises(GitFailed):
        history(repository).lines("a.txt", moved=False)


def test_a_path_is_below_the_root_or_none(repository: Path) -> None:
    (repository / "sub").mkdir()
    asked = GitHistory(repository / "sub", ENVIRON)
    assert (asked.path_of("../a.txt"), asked.path_of("b.txt")) == ("a.txt", "sub/b.txt")
    assert asked.path_of("../../outside") is None
    assert asked.path_of("/etc/passwd") is None
    (repository / "sub" / "out").symlink_to("/etc")
    assert asked.path_of("out/passwd") is None


def hostile(repository: Path) -> Path:
    program = repository.parent / f"{repository.name}-program"
    program.write_text(f"#!/bin/sh\ntouch {repository}/ran\ncat\n")
    program.chmod(0o755)
    return program


def ask_everything(repository: Path) -> object:
    asked = history(repository)
    head = asked.resolve("HEAD")
    assert head is not None
    return (
        asked.lines("a.txt", moved=True), asked.lines("a.txt", moved=False), asked.history("a.txt"),
        asked.history_before(head, ["a.txt"]), asked.commits([head]), asked.changes_of(head),
        asked.generated(["a.txt"]),
    )  # fmt: skip


# the commits that a history begins with -------------------------------------------------------------------------------


def test_a_history_begins_with_all_commits_without_a_parent_the_oldest_first(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    assert history(repository).first_commits() == (first,)
    git(repository, "checkout", "-q", "--orphan", "other")
    git(repository, "commit", "-qm", "Begin again")
    other = git(repository, "rev-parse", "HEAD")
    git(repository, "merge", "-q", "--allow-unrelated-histories", "-m", "Join", "main")
    assert {*history(repository).first_commits()} == {first, other}


def test_a_repository_without_commits_and_a_shallow_clone_begin_with_nothing_known(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (repository / "a.txt").write_text("more")
    git(repository, "commit", "-qam", "More")
    (shallow := tmp_path_factory.mktemp("shallow")).rmdir()
    git(repository, "clone", "-q", "--depth=1", f"file://{repository}", str(shallow))
    assert history(shallow).first_commits() == ()
    git(empty := tmp_path_factory.mktemp("empty"), "init", "-q")
    assert history(empty).first_commits() == ()


def test_git_is_asked_once_for_all_worktrees_and_again_where_another_repository_is(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    first_commits = GitHistory.first_commits

    def noting(of: GitHistory) -> tuple[str, ...]:
        asked.append(of.root or of._folder)
        return first_commits(of)

    monkeypatch.setattr(GitHistory, "first_commits", noting)
    (linked := tmp_path_factory.mktemp("linked")).rmdir()
    git(repository, "worktree", "add", "-q", str(linked))
    roots = [str(repository), str(linked), str(repository / "gone")]
    found = repositories_at(roots, {}, ENVIRON)
    assert {root: each.commits for root, each in found.items()} == dict.fromkeys(
        roots[:2], history(repository).first_commits()
    )
    assert repositories_at(roots, found, ENVIRON) == {}
    assert len(asked) == 2
    other = {roots[0]: Repository(("1" * 40,), found[roots[0]].inode + 1)}
    assert repositories_at(roots[:1], other, ENVIRON) == {roots[0]: found[roots[0]]}


def test_without_git_nothing_is_noted_and_what_git_refuses_is_noted_as_unknown(repository: Path) -> None:
    assert repositories_at([str(repository)], {}, {"PATH": "/nonexistent"}) == {}
    (repository / ".git" / "HEAD").write_text("nonsense")
    (found,) = repositories_at([str(repository)], {}, ENVIRON).values()
    assert found.commits == ()
