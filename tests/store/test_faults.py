"""An operation that fails at its first step on the disk, its second, … until it passes whole."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory import errors
from backstory.model import AssistantText, LogIdentity, SessionFacts, ToolResult, UserMessage
from backstory.store import RecordBatch, Store, open_store
from backstory.store.file import maintenance
from backstory.store.tables import logs
from tests.support.clock import NOW
from tests.support.faults import Disk, failing_disk, kinds_of_steps
from tests.support.machines import problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# A connection that is given up on a broken disk has nobody to tell what our layer raised.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

STEPS_MAX = 2_000
ERRORS = (apsw.FullError, apsw.IOError)


@pytest.fixture
def disk() -> Iterator[Disk]:
    with failing_disk() as failing:
        yield failing


def opened(path: Path, shared: bool) -> Store:
    return open_store(path, shared=shared, now=lambda: NOW, randomness=lambda length: b"r" * length)


def prepared(path: Path, shared: bool) -> None:
    """A store with two sessions; the second has many small chunks."""
    letters = iter("abcd")
    with open_store(path, shared=shared, now=lambda: NOW, randomness=lambda n: next(letters).encode() * n) as store:
        one, two = store.create_session("one"), store.create_session("two")
        store.append_events(one, [UserMessage(content="first"), AssistantText(text="x" * 3_000)])
        for n in range(20):
            store.append_events(two, [AssistantText(text=f"{n}" * 50)])


def create(store: Store) -> None:
    store.create_session("new")


def append(store: Store) -> None:
    store.append_events(2, [UserMessage(content="more"), ToolResult(tool_name="Read", content="line\n" * 5_000)])


def write_slice(store: Store) -> None:
    data = b'{"type":"user"}\n' * 4_000
    piece = RecordBatch(
        agent="claude", identity=LogIdentity(native_id="n"), session_uid="0" * 26, created=0, relpath="a", path="/a",
        log_id=None, expected_read_to=0, expected_next_seq=1, read_to=len(data), parsed_to=len(data), tail_seq=None,
        next_seq=4_001, generation=1, first_hash=b"x", tail_hash=b"y", state=b"{}",
        chunks=[logs.pack(0, data)], seq_ranges=[logs.SeqRange(0, len(data), 1, 4_000)], facts=SessionFacts(),
    )  # fmt: skip
    (written,) = store.append([piece])
    assert written.refused is None


def complete(store: Store) -> None:
    store.mark_completed(1, 1_000, 0.5)


def rename(store: Store) -> None:
    store.rename(1, "renamed")


def remove(store: Store) -> None:
    store.remove(1)


def fold(store: Store) -> None:
    maintenance.merge_idle_chunks(store, NOW)


def contents(store: Store) -> list[object]:
    """All that a person would miss."""
    if not store.exists:
        return []
    return [
        (
            (each.uid, each.number, each.name, each.completed, each.cost_usd),
            [(stored.seq, stored.event) for stored in store.events(each)],
            [b"".join(store.stream_log(log.id)) for log in store.logs(each)],
            [(turn.uid, turn.prompt, turn.outcome) for turn in store.turns(each)],
            sorted(store.ask(logs.chunk_marks, log.id)[0] for log in store.logs(each)),
        )
        for each in sorted(store.sessions(), key=lambda each: each.uid)
    ]


def outcome_of(
    disk: Disk, path: Path, shared: bool, operation: Callable[[Store], None]
) -> tuple[list[object], list[str]]:
    """What a store holds afterwards, and the steps to there."""
    with opened(path, shared) as store:
        disk.heal()
        operation(store)
        passed = disk.passed
        return contents(store), passed


OPERATIONS = [create, append, write_slice, complete, rename, remove, fold]


@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for_good"])
@pytest.mark.parametrize("shared", [False, True], ids=["project", "home"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_an_operation_that_the_disk_breaks_off_is_whole_or_not_there(
    disk: Disk, tmp_path: Path, operation: Callable[[Store], None], shared: bool, for_good: bool
) -> None:
    prepared(tmp_path / "prepared.bks", shared)
    check_every_step(disk, tmp_path, operation, shared=shared, for_good=for_good)


@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for_good"])
@pytest.mark.parametrize("shared", [False, True], ids=["project", "home"])
@pytest.mark.parametrize("operation", [create, write_slice], ids=lambda operation: operation.__name__)
def test_a_store_whose_beginning_the_disk_breaks_off_can_be_begun_again(
    disk: Disk, tmp_path: Path, operation: Callable[[Store], None], shared: bool, for_good: bool
) -> None:
    check_every_step(disk, tmp_path, operation, shared=shared, for_good=for_good)


def check_every_step(
    disk: Disk, folder: Path, operation: Callable[[Store], None], *, shared: bool, for_good: bool
) -> None:
    before = copied(folder, 0)
    with opened(before, shared) as store:
        old = contents(store)
    new, passed = outcome_of(disk, before, shared, operation)
    for step in kinds_of_steps(passed, every=2, first=for_good):
        path = copied(folder, step)
        store = opened(path, shared)
        disk.fail(step, ERRORS[step % 2], for_good=for_good)
        refused = None
        try:
            operation(store)
        except errors.BackstoryError as error:
            refused = error
        finally:
            give_up(store)
            disk.heal()
        with opened(path, shared) as store:
            # What a crash left behind is taken up by the first who asks, whatever is asked.
            store.ask_or({}, logs.file_stamps)
            found = contents(store)
            assert found in (old, new) if refused else found == new, f"step {step}: {disk.failed} {refused}"
            if found:
                assert problems(store) == []
            if found != new:
                operation(store)
                assert contents(store) == new
                assert problems(store) == []
        if not disk.failed:
            assert step > len(passed) > 1
            return
        shutil.rmtree(path.parent)
        assert step < STEPS_MAX, "it did not pass whole"
    raise AssertionError("did not pass whole behind the last step")


def give_up(store: Store) -> None:
    """Close a store whose disk may be gone. SQLite does not mind; only apsw tells what our layer raised."""
    for _ in range(2):
        with suppress(*ERRORS):
            store.close()


def copied(folder: Path, step: int) -> Path:
    """A fresh copy of what was prepared, in a folder of its own; a missing file when nothing was."""
    path = folder / str(step) / "store.bks"
    path.parent.mkdir()
    if (folder / "prepared.bks").exists():
        shutil.copy(folder / "prepared.bks", path)
    return path


@pytest.mark.parametrize(("error", "told"), [(apsw.FullError, errors.DiskFull), (apsw.IOError, errors.StoreFailed)])
@pytest.mark.parametrize("shared", [False, True], ids=["project", "home"])
def test_a_disk_that_fails_is_named(
    disk: Disk, tmp_path: Path, error: type[Exception], told: type[Exception], shared: bool
) -> None:
    path = tmp_path / "store.bks"
    prepared(path, shared)
    with opened(path, shared) as store:
        store.sessions()
        disk.fail(1, error, for_good=True)
        with pytest.raises(told, match="before is complete"):
            append(store)
        disk.heal()
        append(store)
        assert problems(store) == []


@pytest.mark.parametrize("shared", [False, True], ids=["project", "home"])
def test_a_backup_that_the_disk_breaks_off_leaves_nothing(disk: Disk, tmp_path: Path, shared: bool) -> None:
    prepared(tmp_path / "store.bks", shared)
    with opened(tmp_path / "store.bks", shared) as store:
        store.sessions()
        for step in range(1, STEPS_MAX):
            target = tmp_path / "copies" / f"{step}.bks"
            # Once: apsw cannot tell of two errors of our layer in one backup.
            disk.fail(step, ERRORS[step % 2], for_good=False)
            try:
                store.backup(target)
            except errors.BackstoryError:
                assert list(target.parent.iterdir()) == [], f"step {step}: {disk.failed}"
                continue
            finally:
                disk.heal()
            break
    assert step > 1
    with opened(target, shared) as copy:
        assert copy.verify().problems == []
        assert len(copy.sessions()) == 2
