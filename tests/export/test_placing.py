"""Files are put where an agent looks for them, all or none, over nothing, and can be taken away after any failure."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backstory.errors import BackstoryError, DiskFull, LogAppeared, NoteUnreadable, PutFileChanged
from backstory.export import placing
from backstory.export.placing import PlacingNotes, WantedFile, put, take_away
from backstory.store import private
from tests.support.homes import killed_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

UID = "01M815V0NF1G"
STEPS_MAX = 60
STEPS = (("fsync", os), ("link", os), ("write", PlacingNotes), ("_missing_folders", placing))
"""What every file, and every note, comes through."""


def wanted(folder: Path, *names: str) -> list[WantedFile]:
    def pieces(name: str) -> Callable[[], Iterable[bytes]]:
        return lambda: iter([name.encode(), b"\n"])

    return [WantedFile(folder, tuple(name.split("/")), pieces(name)) for name in names]


def everything(folder: Path) -> dict[str, bytes]:
    found = sorted(folder.rglob("*"))
    return {str(each.relative_to(folder)): each.read_bytes() if each.is_file() else b"/" for each in found}


@pytest.fixture
def notes(tmp_path: Path) -> PlacingNotes:
    return PlacingNotes(tmp_path / "home")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "agent"
    made.mkdir()
    (made / "mine").write_text("mine")
    return made


NAMES = ("a/log.jsonl", "a/b/c.txt", "d.txt")


def failing(monkeypatch: pytest.MonkeyPatch, where: object, name: str, step: int, fail: Callable[[], Any]) -> list[int]:
    """Make the n-th call of a function fail; the list counts the calls."""
    real, calls = getattr(where, name), list[int]()

    def counted(*args: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == step:
            fail()
        return real(*args, **more)

    monkeypatch.setattr(where, name, counted)
    return calls


def no_space() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(("name", "where"), STEPS, ids=[name for name, _ in STEPS])
def test_what_fails_at_any_step_leaves_nothing(
    notes: PlacingNotes, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, where: object
) -> None:
    before = everything(folder)
    for step in range(1, 9):
        with monkeypatch.context() as patched:
            calls = failing(patched, where, name, step, no_space)
            try:
                put(notes, UID, "x", wanted(folder, *NAMES))
            except (BackstoryError, OSError):
                # Where the file system refuses a hard link, the file gets its name in another way.
                assert everything(folder) == before
                continue
        note = notes.of(UID)
        assert note is not None
        assert set(NAMES) < everything(folder).keys()
        take_away(note)
        assert everything(folder) == before
        if len(calls) < step:
            return
    pytest.fail("it never came through")


@pytest.mark.parametrize(("name", "where"), STEPS, ids=[name for name, _ in STEPS])
def test_what_a_kill_leaves_can_be_taken_away(
    notes: PlacingNotes, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, where: object
) -> None:
    for step in range(1, 9):
        pid = os.fork()
        if pid == 0:
            failing(monkeypatch, where, name, step, lambda: os._exit(9))
            put(notes, UID, "x", wanted(folder, *NAMES))
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if (note := notes.of(UID)) is not None:
            take_away(note)
            notes.drop(UID)
        left = [each for each in folder.rglob("*") if each.is_file() and not each.name.startswith(".backstory-")]
        assert [each.name for each in left] == ["mine"]
        if code == 0:
            return
    pytest.fail("it never came through")


def test_a_file_that_appears_meanwhile_is_not_touched(notes: PlacingNotes, folder: Path) -> None:
    def pieces() -> Iterable[bytes]:
        (folder / "log.jsonl").write_text("theirs")
        yield b"ours"

    first = wanted(folder, "side.txt")
    with pytest.raises(LogAppeared):
        put(notes, UID, "x", [*first, WantedFile(folder, ("log.jsonl",), pieces)])
    assert everything(folder) == {"log.jsonl": b"theirs", "mine": b"mine"}
    assert notes.of(UID) is None


def unsupported(part: Path, target: Path) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.fixture(params=[True, False], ids=["renames if new", "plain"])
def no_links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without hard links, with or without a rename that replaces nothing."""
    monkeypatch.setattr(os, "link", unsupported)
    if not request.param:
        monkeypatch.setattr(private, "renamed", lambda one, other, way: False)


@pytest.mark.usefixtures("no_links")
def test_a_kill_at_any_step_leaves_a_log_whole_or_none_where_there_are_no_hard_links(
    notes: PlacingNotes, folder: Path
) -> None:
    log = folder / "log.jsonl"
    for step in range(1, STEPS_MAX):
        was_killed = killed_at(step, lambda: put(notes, UID, "x", wanted(folder, log.name)), one_disk=False)
        assert not log.exists() or log.read_bytes() == b"log.jsonl\n", step
        if not was_killed:
            assert log.exists()
            return
        if (note := notes.of(UID)) is not None:
            take_away(note)
            notes.drop(UID)
        assert not log.exists(), step
    pytest.fail("it never came through")


@pytest.mark.usefixtures("no_links")
def test_no_other_file_is_replaced_where_there_are_no_hard_links(notes: PlacingNotes, folder: Path) -> None:
    put(notes, UID, "x", wanted(folder, "log.jsonl"))
    assert everything(folder) == {"log.jsonl": b"log.jsonl\n", "mine": b"mine"}
    with pytest.raises(LogAppeared):
        put(notes, UID, "x", wanted(folder, "mine"))
    assert (folder / "mine").read_text() == "mine"


def test_a_second_time_adds_to_the_note(notes: PlacingNotes, folder: Path) -> None:
    put(notes, UID, "x", wanted(folder, "a/log.jsonl"))
    note = put(notes, UID, "x", wanted(folder, "a/b/c.txt"))
    assert [Path(each.path).name for each in take_away(note)] == ["log.jsonl", "c.txt"]
    assert everything(folder) == {"mine": b"mine"}


def test_what_the_agent_deleted_and_was_put_again_can_be_taken_away(notes: PlacingNotes, folder: Path) -> None:
    put(notes, UID, "x", wanted(folder, *NAMES))
    (folder / "a" / "log.jsonl").unlink()
    note = put(notes, UID, "x", wanted(folder, "a/log.jsonl"))
    take_away(note)
    assert everything(folder) == {"mine": b"mine"}


def test_one_file_that_changed_keeps_them_all(notes: PlacingNotes, folder: Path) -> None:
    note = put(notes, UID, "x", wanted(folder, *NAMES))
    with (folder / "d.txt").open("a") as file:
        file.write("more")
    before = everything(folder)
    with pytest.raises(PutFileChanged):
        take_away(note)
    assert everything(folder) == before


def test_a_full_disk_is_said(notes: PlacingNotes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, os, "fsync", 1, no_space)
    with pytest.raises(DiskFull):
        put(notes, UID, "x", wanted(folder, *NAMES))


def test_a_note_that_is_torn_is_said(notes: PlacingNotes, folder: Path) -> None:
    put(notes, UID, "x", wanted(folder, "d.txt"))
    (notes.folder / f"{UID}.json").write_text('{"session":')
    with pytest.raises(NoteUnreadable):
        notes.of(UID)
