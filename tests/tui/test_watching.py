"""The screen looks for changes when the system tells of one, and once a second where it tells of nothing."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest

from backstory.cli.picker import picking, watching
from backstory.cli.picker.state import StoreChanged
from backstory.cli.picker.watching import FolderWatch
from tests.support.going import DEADLINE_S
from tests.support.piloted import piloted, screen
from tests.support.session_screens import SESSION, SessionMachine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no inotify")


class Told:
    """Counts how often it was told of a change."""

    def __init__(self) -> None:
        self.times, self._came = 0, threading.Semaphore(0)
        self.watch = FolderWatch(self._tell, 0)

    def _tell(self) -> None:
        self.times += 1
        self._came.release()

    def is_told(self) -> bool:
        return self._came.acquire(timeout=DEADLINE_S)


@pytest.fixture
def told() -> Iterator[Told]:
    made = Told()
    yield made
    made.watch.close()


def test_each_kind_of_change_is_told(told: Told, tmp_path: Path) -> None:
    file = tmp_path / "file"
    assert told.watch.watch([tmp_path])
    file.touch()
    assert told.is_told()
    file.write_text("more")
    assert told.is_told()
    file.rename(tmp_path / "other")
    assert told.is_told()
    (tmp_path / "other").unlink()
    assert told.is_told()


def test_a_folder_that_takes_the_place_of_a_watched_one_is_watched_next(told: Told, tmp_path: Path) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    assert told.watch.watch([folder])
    folder.rename(tmp_path / "away")
    assert told.is_told()
    other.rename(folder)
    assert told.watch.watch([folder])
    (folder / "file").touch()
    assert told.is_told()


def test_a_folder_that_is_gone_or_of_another_machine_is_not_watched(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not told.watch.watch([tmp_path / "gone"])
    monkeypatch.setattr(watching, "LOCAL", set())
    assert not told.watch.watch([tmp_path])


def test_a_system_that_tells_of_nothing_watches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    watch = FolderWatch(lambda: None, 0)
    assert not watch.watch([tmp_path])
    watch.close()


class Looks:
    """Counts the looks for changes of the stores."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        look = picking.Background._changes

        def counted(asking: picking.Background) -> Iterator[StoreChanged]:
            self.times += 1
            yield from look(asking)

        monkeypatch.setattr(picking.Background, "_changes", counted)


@pytest.mark.slow
def test_a_screen_that_is_told_of_nothing_looks_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOCAL", set())
    machine, looks = SessionMachine(tmp_path), Looks(monkeypatch)

    async def test() -> None:
        async with screen(machine.project, machine.environ) as seen:
            await seen.until_seen("8 sessions")
            await seen.until(lambda: looks.times)
            machine.shown("rename", SESSION, "Another title")
            await seen.until_seen("Another title")

    piloted(test)


@pytest.mark.slow
def test_a_screen_on_which_nothing_happens_looks_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, looks = SessionMachine(tmp_path), Looks(monkeypatch)
    waits = dict[int, list[float | None]]()
    wait = threading.Condition.wait

    def noted(condition: threading.Condition, timeout: float | None = None) -> bool:
        waits.setdefault(id(condition), []).append(timeout)
        return wait(condition, timeout)

    async def test() -> None:
        async with screen(machine.project, machine.environ) as seen:
            await seen.until_seen("8 sessions")
            await seen.until(lambda: looks.times)
            monkeypatch.setattr(threading.Condition, "wait", noted)
            machine.shown("rename", SESSION, "Another title")
            await seen.until_seen("Another title")
            await seen.settled()
            assert set(waits[id(seen.app._first._asking._changed)]) == {None}

    piloted(test)
