"""Files of instructions: never outside the repository, never half written, never over what somebody changed."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from backstory.errors import (
    CannotWrite,
    FileChanged,
    InstructionsNotText,
    InstructionsUnreadable,
    NotWritable,
    OutsideRepository,
)
from backstory.projects import instruction_file
from backstory.projects.instruction_file import BYTES_MAX, read, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a repository."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    return (tmp_path / "repo").resolve()


def test_a_file_is_written_whole_and_keeps_its_mode(root: Path) -> None:
    file = root / "CLAUDE.md"
    file.write_bytes(b"# A\n")
    file.chmod(0o640)
    write(read(root, file), b"# A\n\n- b\n")
    assert file.read_bytes() == b"# A\n\n- b\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(each.name for each in root.iterdir()) == [".git", "CLAUDE.md"]


def test_a_new_file_may_need_a_folder(root: Path) -> None:
    write(read(root, root / ".github" / "copilot-instructions.md"), b"- a\n")
    assert (root / ".github" / "copilot-instructions.md").read_bytes() == b"- a\n"


@pytest.mark.parametrize("name", ["../CLAUDE.md", "/etc/CLAUDE.md", ".", ".git/config", ".git/hooks/x.md", "a/../../b"])
def test_nothing_outside_the_repository_is_read_or_written(root: Path, name: str) -> None:
    with pytest.raises(OutsideRepository):
        read(root, root / name)


def test_a_link_inside_the_repository_is_followed_and_stays_a_link(root: Path) -> None:
    (root / "AGENTS.md").write_bytes(b"a\n")
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    file = read(root, root / "CLAUDE.md")
    write(file, b"b\n")
    assert (file.name, (root / "AGENTS.md").read_bytes()) == ("CLAUDE.md", b"b\n")
    assert (root / "CLAUDE.md").is_symlink()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_that_leaves_the_repository_is_refused(root: Path, is_there: bool) -> None:
    outside = root.parent / "outside.md"
    if is_there:
        outside.write_bytes(b"mine\n")
    (root / "CLAUDE.md").symlink_to(outside)
    with pytest.raises(OutsideRepository):
        read(root, root / "CLAUDE.md")


def test_a_folder_that_is_a_link_out_is_refused(root: Path) -> None:
    (root.parent / "elsewhere").mkdir()
    (root / ".github").symlink_to(root.parent / "elsewhere")
    with pytest.raises(OutsideRepository):
        read(root, root / ".github" / "copilot-instructions.md")
    assert list((root.parent / "elsewhere").iterdir()) == []


def test_a_link_to_itself_is_refused(root: Path) -> None:
    (root / "CLAUDE.md").symlink_to("CLAUDE.md")
    with pytest.raises((InstructionsUnreadable, OutsideRepository)):
        read(root, root / "CLAUDE.md")


def test_another_repository_inside_is_not_this_one(root: Path) -> None:
    (root / "sub" / ".git").mkdir(parents=True)
    with pytest.raises(OutsideRepository):
        read(root, root / "sub" / "CLAUDE.md")


def test_a_link_that_turns_outside_before_writing_is_refused(root: Path) -> None:
    (root / "CLAUDE.md").write_bytes(b"a\n")
    file = read(root, root / "CLAUDE.md")
    outside = root.parent / "outside.md"
    outside.write_bytes(b"a\n")
    (root / "CLAUDE.md").unlink()
    (root / "CLAUDE.md").symlink_to(outside)
    with pytest.raises(OutsideRepository):
        write(file, b"b\n")
    assert outside.read_bytes() == b"a\n"


@pytest.mark.parametrize("then", [b"a\nmine\n", None])
def test_what_somebody_changed_meanwhile_stays(root: Path, then: bytes | None) -> None:
    path = root / "CLAUDE.md"
    path.write_bytes(b"a\n")
    file = read(root, path)
    path.unlink() if then is None else path.write_bytes(then)
    with pytest.raises(FileChanged):
        write(file, b"a\nours\n")
    assert (path.read_bytes() if path.exists() else None) == then


def test_a_file_that_appeared_meanwhile_stays(root: Path) -> None:
    file = read(root, root / "CLAUDE.md")
    (root / "CLAUDE.md").write_bytes(b"mine\n")
    with pytest.raises(FileChanged):
        write(file, b"ours\n")
    assert (root / "CLAUDE.md").read_bytes() == b"mine\n"


def test_a_read_only_file_is_not_replaced(root: Path) -> None:
    path = root / "CLAUDE.md"
    path.write_bytes(b"a\n")
    path.chmod(0o444)
    with pytest.raises(NotWritable):
        write(read(root, path), b"b\n")
    assert path.read_bytes() == b"a\n"


def test_what_fails_leaves_the_file_and_nothing_beside_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / "CLAUDE.md"
    path.write_bytes(b"a\n")
    file = read(root, path)

    def full(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotWrite):
        write(file, b"b\n")
    assert path.read_bytes() == b"a\n"
    assert sorted(each.name for each in root.iterdir()) == [".git", "CLAUDE.md"]


def test_what_is_no_utf_8_is_no_text(root: Path) -> None:
    (root / "CLAUDE.md").write_bytes("Überschrift".encode("latin-1"))
    with pytest.raises(InstructionsNotText):
        read(root, root / "CLAUDE.md").text  # noqa: B018


def test_a_folder_a_pipe_and_a_huge_file_are_no_instructions(root: Path) -> None:
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    (root / "huge").write_bytes(b"x" * (BYTES_MAX + 1))
    for name in ("folder", "pipe", "huge"):
        with pytest.raises(InstructionsUnreadable):
            read(root, root / name)


def test_the_root_may_itself_be_reached_by_a_link(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    write(read(link, link / "CLAUDE.md"), b"a\n")
    assert (root / "CLAUDE.md").read_bytes() == b"a\n"
    assert instruction_file.read(link, link / "CLAUDE.md").name == "CLAUDE.md"
