"""Which project a folder belongs to, from .git alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from backstory.derive.naming import normalised
from backstory.projects.git import keep_out_of_git, project_key, remote_url, repository_root, shared_root, store_path
from tests.support.every import every


@every(
    ("url", "key"),
    [
        ("git@github.com:me/tool.git", "github.com/me/tool"),
        ("git@GitHub.com:Me/Tool", "github.com/Me/Tool"),
        ("https://github.com/me/tool", "github.com/me/tool"),
        ("https://github.com/me/tool/", "github.com/me/tool"),
        ("https://user:secret@github.com/me/tool.git", "github.com/me/tool"),
        ("ssh://git@host.example:2222/deep/er/tool.git", "host.example/deep/er/tool"),
        ("git://host/tool.git", "host/tool"),
        ("host:tool", "host/tool"),
        ("/srv/git/tool.git", "/srv/git/tool"),
        ("../tool", "../tool"),
        ("file:///srv/git/tool.git", "file:///srv/git/tool"),
    ],
)
def test_ways_to_write_a_remote(url: str, key: str) -> None:
    assert normalised(url) == key


def repository(folder: Path, config: str) -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(config)
    return folder


def remote(url: str, name: str = "origin") -> str:
    return f'[core]\n\tbare = false\n[remote "{name}"]\n\turl = {url}\n\tfetch = +refs/heads/*\n'


def test_clones_of_one_remote_are_one_project(tmp_path: Path) -> None:
    one = repository(tmp_path / "one", remote("git@github.com:me/tool.git"))
    two = repository(tmp_path / "two", remote("https://github.com/me/tool"))
    assert project_key(str(one)) == project_key(str(two)) == "github.com/me/tool"


def test_a_folder_inside_a_repository_belongs_to_it(tmp_path: Path) -> None:
    root = repository(tmp_path / "one", remote("git@github.com:me/tool.git"))
    (root / "src" / "deep").mkdir(parents=True)
    assert project_key(str(root / "src" / "deep")) == "github.com/me/tool"
    assert repository_root(root / "src" / "deep") == root


def test_a_folder_of_a_repository_that_is_gone_belongs_to_it(tmp_path: Path) -> None:
    root = repository(tmp_path / "one", remote("git@github.com:me/tool.git"))
    assert project_key(str(root / "gone" / "for" / "good")) == "github.com/me/tool"


def test_origin_wins_over_other_remotes(tmp_path: Path) -> None:
    root = repository(tmp_path, remote("https://a.example/fork", "mine") + remote("https://a.example/tool"))
    assert remote_url(root) == "https://a.example/tool"


def test_without_origin_the_first_remote_is_taken(tmp_path: Path) -> None:
    root = repository(tmp_path, remote("https://a.example/one", "one") + remote("https://a.example/two", "two"))
    assert project_key(str(root)) == "a.example/one"


def test_a_url_of_another_section_is_no_remote(tmp_path: Path) -> None:
    root = repository(tmp_path, '[submodule "x"]\n\turl = https://a.example/x\n')
    assert project_key(str(root)) == str(root)


def test_a_repository_without_a_remote_is_known_by_its_root(tmp_path: Path) -> None:
    root = repository(tmp_path / "one", "[core]\n")
    (root / "src").mkdir()
    assert project_key(str(root / "src")) == str(root)


def test_a_folder_outside_git_is_its_own_project(tmp_path: Path) -> None:
    assert project_key(str(tmp_path)) == str(tmp_path)


def test_no_folder_is_no_project() -> None:
    assert project_key(None) is None
    assert project_key("") is None


def test_a_linked_worktree_belongs_to_its_repository(tmp_path: Path) -> None:
    main = repository(tmp_path / "main", remote("git@github.com:me/tool.git"))
    own = main / ".git" / "worktrees" / "side"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    side = tmp_path / "side"
    side.mkdir()
    (side / ".git").write_text(f"gitdir: {own}\n")
    assert project_key(str(side)) == "github.com/me/tool"


def test_a_git_file_that_points_nowhere_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all\n")
    assert project_key(str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b'[remote "origin"\nurl', b"[remote]\nurl = x\n", b"\0" * 100])
def test_a_broken_config_is_no_trouble(tmp_path: Path, data: bytes) -> None:
    root = repository(tmp_path / "r", "")
    (root / ".git" / "config").write_bytes(data)
    assert project_key(str(root)) == str(root)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"", b"gitdir:", b"gitdir: bad\0path"])
def test_a_broken_git_file_is_no_trouble(tmp_path: Path, data: bytes) -> None:
    (tmp_path / ".git").write_bytes(data)
    assert project_key(str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize("folder", ["/bad\0path", "relative/path", "C:\\Users\\me", "/" + "x" * 5000, "~"])
def test_what_a_log_calls_a_folder_need_not_be_one(folder: str) -> None:
    assert project_key(folder) is not None


def git(*words: str | Path, cwd: Path) -> str:
    """Run git, away from whatever this machine's own settings are."""
    environ = {
        "PATH": os.environ["PATH"], "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
    }  # fmt: skip
    return subprocess.run(["git", *words], cwd=cwd, env=environ, check=True, capture_output=True, text=True).stdout


def with_a_commit(folder: Path) -> Path:
    folder.mkdir()
    git("init", "-q", "-b", "main", cwd=folder)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=folder)
    return folder


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return with_a_commit(tmp_path / "plain")


@pytest.fixture
def bare(tmp_path: Path, plain: Path) -> Path:
    """A bare repository without a remote, with two worktrees beside it."""
    folder = tmp_path / "bare.git"
    git("clone", "-q", "--bare", plain, folder, cwd=tmp_path)
    git("remote", "remove", "origin", cwd=folder)
    for name in ("one", "two"):
        git("worktree", "add", "-q", "-b", name, tmp_path / name, cwd=folder)
    return folder


def test_the_worktrees_of_a_bare_repository_share_a_store_in_it(tmp_path: Path, bare: Path) -> None:
    (tmp_path / "one" / "src").mkdir()
    folders = (bare, bare / "refs", tmp_path / "one" / "src", tmp_path / "two")
    roots = {shared_root(folder) for folder in folders}
    assert roots == {bare}
    assert store_path(bare) == bare / "backstory" / "sessions.bks"
    assert {project_key(str(folder)) for folder in folders} == {str(bare)}


def test_a_bare_repository_is_known_by_its_remote(tmp_path: Path, bare: Path) -> None:
    git("remote", "add", "origin", "git@github.com:me/tool.git", cwd=bare)
    assert {project_key(str(folder)) for folder in (bare, tmp_path / "one")} == {"github.com/me/tool"}


def test_a_bare_repository_hidden_beside_its_worktrees_is_their_root(tmp_path: Path, plain: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    git("clone", "-q", "--bare", plain, project / ".bare", cwd=tmp_path)
    (project / ".git").write_text("gitdir: ./.bare\n")
    git("worktree", "add", "-q", "-b", "one", project / "one", cwd=project)
    assert {shared_root(project), shared_root(project / "one")} == {project / ".bare"}


def test_a_bare_repository_with_settings_per_worktree_is_bare(tmp_path: Path, bare: Path) -> None:
    git("config", "extensions.worktreeConfig", "true", cwd=bare)
    git("config", "--unset", "core.bare", cwd=bare)
    git("config", "--worktree", "core.bare", "true", cwd=bare)
    assert "bare" not in (bare / "config").read_text()
    assert store_path(shared_root(tmp_path / "one") or tmp_path) == bare / "backstory" / "sessions.bks"


def test_nothing_in_the_worktrees_of_a_bare_repository_is_hidden_from_git(tmp_path: Path, bare: Path) -> None:
    keep_out_of_git(bare, "backstory")
    (tmp_path / "one" / "backstory").mkdir()
    (tmp_path / "one" / "backstory" / "code.py").touch()
    assert git("status", "--porcelain", cwd=tmp_path / "one") == "?? backstory/\n"


def test_a_repository_with_files_keeps_its_store_at_its_root(tmp_path: Path, plain: Path) -> None:
    git("worktree", "add", "-q", "-b", "side", tmp_path / "side", cwd=plain)
    assert {shared_root(plain), shared_root(tmp_path / "side")} == {plain}
    assert store_path(plain) == plain / ".backstory" / "sessions.bks"


@pytest.mark.parametrize("config", ["", "[core]\n\tbare = false\n", "[other]\n\tbare = true\n", "[core]\n# bare\n"])
def test_what_does_not_say_that_it_is_bare_is_not(tmp_path: Path, bare: Path, config: str) -> None:
    (bare / "config").write_text(config)
    assert store_path(bare) == bare / ".backstory" / "sessions.bks"
