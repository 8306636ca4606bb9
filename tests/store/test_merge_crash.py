"""A merge that is cut off, between any two transactions or at any step on the disk: merging again ends the same."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory import errors
from backstory.exchange import merge_logs
from backstory.model import AssistantText
from backstory.store import Store
from tests.support.clock import Clock
from tests.support.copies import merge, opened, say
from tests.support.counts import steps
from tests.support.faults import failing_disk
from tests.support.machines import content, differences, problems

if TYPE_CHECKING:
    from pathlib import Path

# A connection that is given up on a broken disk has nobody to tell what our layer raised.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]
STEPS_MAX = 3_000


class Killed(Exception):
    """The process is gone."""


@pytest.fixture(autouse=True)
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_logs, "SLICE_BYTES", 300)


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """Two copies that both went on: with turns, a turn that grew, sessions of their own and removed ones."""
    clock = Clock()
    with opened(tmp_path / "ours", clock) as store:
        for name in ("herons", "removed here", "removed there"):
            say(store, store.create_session(name), name)
    shutil.copy(tmp_path / "ours", tmp_path / "theirs")
    clock.ms += 1_000
    with opened(tmp_path / "ours", clock) as store:
        say(store, 1, "here")
        store.remove(2)
    with opened(tmp_path / "theirs", clock) as store:
        store.append_events(1, [AssistantText(text="more of the first"), AssistantText(text="and more")])
        for n in range(3):
            clock.ms += 1
            say(store, 1, f"there {n}")
        say(store, 2, "it went on")
        store.remove(3)
        say(store, store.create_session("new"), "new")
        store.rename(1, "cranes")
    return tmp_path


def merged_whole(folder: Path) -> dict[str, object]:
    with trial(folder) as store, opened(folder / "theirs", Clock()) as theirs:
        merge(store, theirs)
        return content(store)


def trial(folder: Path) -> Store:
    shutil.copy(folder / "ours", folder / "trial")
    return opened(folder / "trial", Clock())


def ends_the_same(folder: Path, whole: dict[str, object]) -> None:
    """Merging again ends as a merge that nobody cut off."""
    with opened(folder / "trial", Clock()) as store, opened(folder / "theirs", Clock()) as theirs:
        assert problems(store) == []
        merge(store, theirs)
        assert differences(content(store), whole) == []
        assert problems(store) == []
        assert not merge(store, theirs)


def test_a_merge_killed_at_any_step_ends_the_same(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, write = merged_whole(prepared), Store._write
    for last in range(STEPS_MAX):
        left = [last]

        def until_killed(self: Store, change: object, *, decided: bool = False, left: list[int] = left) -> object:
            if self.path.name == "trial":
                if not left[0]:
                    raise Killed
                left[0] -= 1
            return write(self, change, decided=decided)  # type: ignore[arg-type]

        with trial(prepared) as store, opened(prepared / "theirs", Clock()) as theirs:
            monkeypatch.setattr(Store, "_write", until_killed)
            with suppress(Killed):
                merge(store, theirs)
        monkeypatch.setattr(Store, "_write", write)
        ends_the_same(prepared, whole)
        if left[0]:
            break
    assert 10 < last < STEPS_MAX


@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError], ids=["full", "failing"])
def test_a_disk_that_fails_at_any_step_of_a_merge_leaves_what_merging_again_finishes(
    prepared: Path, error: type[Exception]
) -> None:
    whole = merged_whole(prepared)
    with failing_disk() as disk:
        for step in steps(STEPS_MAX, every=76, first=38 * (error is apsw.IOError)):
            store, theirs = trial(prepared), opened(prepared / "theirs", Clock())
            with store, theirs:
                disk.fail(step, error, for_good=True)
                with suppress(errors.BackstoryError):
                    merge(store, theirs)
                disk.heal()
            ends_the_same(prepared, whole)
            if not disk.failed:
                break
        else:
            pytest.fail("it never passed whole")
