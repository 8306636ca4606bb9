"""Whatever the umask: what we make is its owner's alone, files and all folders that lead to them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from backstory.store.private import make_folder
from tests.support.bench import Bench
from tests.support.running import GOOD
from tests.support.shell import INSIDE

pytestmark = pytest.mark.slow


def loose(root: Path) -> list[str]:
    """What others may enter or read below a folder."""
    found = [path for path in (root, *root.rglob("*")) if not path.is_symlink() and path.lstat().st_mode & 0o077]
    return [f"{path.relative_to(root.parent)} {stat.S_IMODE(path.lstat().st_mode):o}" for path in found]


@pytest.mark.parametrize("home", ["home", "not/there/yet"])
def test_with_no_umask_at_all_nobody_else_can_look_into_what_we_make(bench: Bench, home: str) -> None:
    environ: dict[str, str | None] = {"BACKSTORY_HOME": str(bench.root / home)}
    bench.home.chmod(0o700)
    before = os.umask(0)
    try:
        make_everything(bench, environ)
    finally:
        os.umask(before)
    made = [bench.root / home.partition("/")[0], *(bench.project / name for name in ("out", "ah", "copilot", "backup"))]
    assert [loose(each) for each in (*made, bench.project / ".backstory")] == [[]] * 6


def make_everything(bench: Bench, environ: dict[str, str | None]) -> None:
    for words in (
        ("run", "-a", "claude", "go"), ("followup", "--no-run", "-S", "S1", "later"),
        ("config", "set", "list.limit", "7"), ("restore", "--all", "--to", "out/of/here"),
        ("export", "S1", "--format", "ah", "-o", "ah/of/here"),
        ("export", "--all", "--format", "copilot", "-o", "copilot/of/here.db"), ("backup", "backup/of/here.db"),
    ):  # fmt: skip
        # A copy of a process would have the umask of that one.
        own: dict[str, Any] = {} if words[0] in INSIDE else {"limit": lambda: os.umask(0)}
        done = bench.backstory(*words, script=[GOOD], environ=environ, **own)
        assert done.returncode == 0, done.stderr


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs").chmod(0o755)
    make_folder(tmp_path / "theirs" / "ours" / "too")
    modes = [stat.S_IMODE((tmp_path / each).stat().st_mode) for each in ("theirs", "theirs/ours", "theirs/ours/too")]
    assert modes == [0o755, 0o700, 0o700]


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match="file"):
            make_folder(folder)
