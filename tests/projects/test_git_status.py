"""Whether git could bring a file back, asked of a real git."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from backstory.projects.git_status import uncommitted

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a committed file."""
    git(tmp_path, "init", "-q")
    (tmp_path / "CLAUDE.md").write_text("a\n")
    git(tmp_path, "add", "CLAUDE.md")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "Begin")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, env=os.environ | {"HOME": str(folder)})


def asked(root: Path, name: str = "CLAUDE.md", **environ: str) -> str | None:
    return uncommitted(root, root / name, os.environ | {"HOME": str(root)} | environ)


def test_a_committed_file_and_one_that_is_not_there_can_be_brought_back(root: Path) -> None:
    (root / "other").write_text("changed elsewhere")
    assert (asked(root), asked(root, "AGENTS.md")) == (None, None)


def test_a_changed_file_cannot(root: Path) -> None:
    (root / "CLAUDE.md").write_text("b\n")
    assert asked(root) == "it has uncommitted changes"
    git(root, "add", "CLAUDE.md")
    assert asked(root) == "it has uncommitted changes"


def test_one_that_git_does_not_know_cannot(root: Path) -> None:
    (root / "AGENTS.md").write_text("a\n")
    assert asked(root, "AGENTS.md") == "it is not committed at all"
    (root / ".gitignore").write_text("AGENTS.md\n")
    assert asked(root, "AGENTS.md") == "it is not committed at all"
    git(root, "add", "-f", "AGENTS.md")
    assert asked(root, "AGENTS.md") == "it is not committed at all"


def test_another_repository_in_the_environment_is_not_asked(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    git(other, "init", "-q")
    (root / "CLAUDE.md").write_text("b\n")
    assert asked(root, GIT_DIR=str(other / ".git"), GIT_WORK_TREE=str(other)) == "it has uncommitted changes"


def test_without_git_nobody_knows(root: Path) -> None:
    assert asked(root, PATH="/nowhere") == "git cannot be asked whether it has uncommitted changes"


def test_a_file_name_is_no_pattern(root: Path) -> None:
    (root / "CLAUDE.m?").write_text("x\n")
    assert asked(root) is None
    assert asked(root, "CLAUDE.m?") == "it is not committed at all"


def test_a_repository_that_git_refuses_is_not_known(root: Path) -> None:
    (root / ".git" / "HEAD").unlink()
    said = asked(root)
    assert said is not None
    assert said.startswith("git does not say whether it has uncommitted changes: fatal: not a git repository")


@pytest.mark.parametrize("filtered", ["*.md filter=lfs", "[attr]big filter=lfs\nCLAUDE.md big"])
def test_a_file_with_a_filter_is_not_known_and_the_filter_is_named(root: Path, filtered: str) -> None:
    (root / ".gitattributes").write_text(f"{filtered}\n")
    said = asked(root)
    assert said is not None
    assert "the filter “lfs”" in said
    (root / ".gitattributes").write_text("*.md -filter\n")
    assert asked(root) is None


def test_line_ends_that_git_changes_are_no_change(root: Path) -> None:
    (root / ".gitattributes").write_text("*.md text eol=crlf\n")
    (root / "CLAUDE.md").unlink()
    git(root, "checkout", "CLAUDE.md")
    os.utime(root / "CLAUDE.md", (1, 1))
    assert (root / "CLAUDE.md").read_bytes() == b"a\r\n"
    assert asked(root) is None
