"""Bytes that are kept alone, because storing what they say failed, are told from the store and never let go of."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory import agents
from backstory.errors import BackstoryError
from backstory.ingest import log_reader
from backstory.ingest.discover import Candidate
from backstory.ingest.ingest import ingest_these
from backstory.ingest.reindex import reindex
from backstory.store import Store
from backstory.store.file import maintenance
from backstory.store.intake import append
from backstory.store.tables import turns
from tests.support.clock import NOW
from tests.support.faults import failing_disk, kinds_of_steps
from tests.support.machines import (
    CLAUDE_FOLDER,
    Machine,
    claude_line,
    claude_log,
    kept,
    lines,
    looked_up,
    problems,
    prompts,
    sha256,
)
from tests.support.writing import WRITING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

# A connection that is given up on a broken disk has nobody to tell what our layer raised.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

NAME = "guilty"
UNTOLD = "select count(*) from logs where told_to is not null"
WRITES_MAX, DISK_STEPS_MAX = 50, 400
SLICE_BYTES = 100_000
BIG = lines(*(claude_line("user", f"u{n}", f"{n} " + "x" * 20_000) for n in range(20)))
"""A log of several slices, once they are of SLICE_BYTES."""
SMALL = lines(claude_line("user", "g1", "asked"), claude_line("assistant", "g2", "answered"))
MORE = lines(claude_line("user", "g3", "asked more"), claude_line("assistant", "g4", "said more"))


class Killed(BaseException):
    """The process ends here."""


def refuse(*_: Any, **__: Any) -> Any:
    """In place of a function that stores something."""
    raise OverflowError("too large")


@contextmanager
def failing(module: ModuleType, name: str) -> Iterator[None]:
    """One function of the store refuses whatever it is given."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, refuse)
        yield


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "SLICE_BYTES", SLICE_BYTES)
    monkeypatch.setattr(log_reader, "BLOCK_BYTES", SLICE_BYTES // 2)


def kept_alone(machine: Machine, data: bytes, *, is_gone: bool = True) -> None:
    """Have the bytes of a log kept, and nothing of what they say."""
    path = machine.write(claude_log(NAME), data)
    with failing(turns, "upsert"):
        assert len(machine.read().errors) == 1
    assert looked_up(machine.store_path, UNTOLD) == [(1,)]
    if is_gone:
        path.unlink()


def undisturbed(machine: Machine, data: bytes) -> dict[str, Any]:
    """What an ingest of the same log gives that nothing disturbs."""
    machine.write(claude_log(NAME), data)
    machine.read()
    return machine.content()


def is_whole(machine: Machine, data: bytes) -> bool:
    return kept(machine.store) == [sha256(data)] and problems(machine.store) == []


def killed_before(machine: Machine, write: int) -> bool:
    """Whether an ingest came to so many transactions, and was killed there."""
    whole, seen = Store._write, list[int]()

    def counted(self: Store, *values: Any, **more: Any) -> Any:
        seen.append(1)
        if len(seen) == write:
            raise Killed
        return whole(self, *values, **more)

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(Store, "_write", counted)
        machine.read()
    return len(seen) >= write


@pytest.mark.slow
@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "there"])
def test_an_ingest_killed_between_any_two_writes_lets_go_of_no_byte(
    another: Callable[[], Machine], is_gone: bool
) -> None:
    expected, machine = undisturbed(another(), BIG), another()
    kept_alone(machine, BIG, is_gone=is_gone)
    before = machine.stored()
    for write in range(1, WRITES_MAX):
        machine.put_back(before)
        if not killed_before(machine, write):
            break
        assert is_whole(machine, BIG), f"killed before write {write}"
        assert machine.read().errors == []
        assert machine.content() == expected
        assert looked_up(machine.store_path, UNTOLD) == [(0,)]
    assert 3 < write < WRITES_MAX - 1


@pytest.mark.slow
@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError], ids=["full", "broken"])
def test_a_disk_that_fails_from_any_step_on_lets_go_of_no_byte(
    another: Callable[[], Machine], error: type[Exception]
) -> None:
    expected, machine = undisturbed(another(), SMALL), another()
    kept_alone(machine, SMALL)
    before = machine.stored()
    with failing_disk() as disk:
        machine.read()
        for step in kinds_of_steps([*disk.passed]):
            machine.put_back(before)
            disk.fail(step, error, for_good=True)
            with suppress(BackstoryError):
                machine.read()
            disk.heal()
            machine.store.close()
            if not disk.failed:
                break
            assert is_whole(machine, SMALL), f"failed at step {step}"
            assert machine.read().errors == []
            assert machine.content() == expected
    assert 5 < step < DISK_STEPS_MAX - 1


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name"), WRITING, ids=[name for _, name in WRITING])
def test_a_second_failure_lets_go_of_no_byte(
    machine: Machine, another: Callable[[], Machine], module: ModuleType, name: str
) -> None:
    kept_alone(machine, SMALL)
    with failing(module, name):
        machine.read()
    assert is_whole(machine, SMALL)
    assert machine.read().errors == []
    assert machine.content() == undisturbed(another(), SMALL)


def test_what_could_not_be_told_half_way_is_told_from_there(machine: Machine, another: Callable[[], Machine]) -> None:
    path = machine.write(claude_log(NAME), BIG)
    whole, seen = append.insert_events, list[int]()

    def refuses_the_third(*values: Any) -> Any:
        seen.append(1)
        return whole(*values) if len(seen) < 3 else refuse()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append, "insert_events", refuses_the_third)
        machine.read()
    ((told_to, read_to),) = looked_up(machine.store_path, "select told_to, read_to from logs")
    assert 0 < told_to < read_to == len(BIG)
    path.unlink()
    assert machine.read().errors == []
    assert is_whole(machine, BIG)
    assert machine.content() == undisturbed(another(), BIG)


def test_chunks_that_were_joined_over_the_place_are_told_from_there(
    machine: Machine, another: Callable[[], Machine]
) -> None:
    machine.write(claude_log(NAME), SMALL)
    machine.read()
    kept_alone(machine, SMALL + MORE)
    maintenance.merge_idle_chunks(machine.store, NOW * 2)
    assert looked_up(machine.store_path, "select count(*) from chunks") == [(1,)]
    assert machine.read().errors == []
    assert is_whole(machine, SMALL + MORE)
    assert machine.content() == undisturbed(another(), SMALL + MORE)


def test_what_its_file_holds_beyond_is_read_from_the_file(machine: Machine, another: Callable[[], Machine]) -> None:
    kept_alone(machine, SMALL)
    machine.write(claude_log(NAME), SMALL + MORE)
    report = machine.read()
    assert report.errors == []
    assert is_whole(machine, SMALL + MORE)
    assert machine.content() == undisturbed(another(), SMALL + MORE)
    assert machine.read().total("logs_read") == 0


def test_a_line_that_was_kept_alone_in_part_is_told_when_its_end_comes(
    machine: Machine, another: Callable[[], Machine]
) -> None:
    cut = len(SMALL) + 30
    kept_alone(machine, (SMALL + MORE)[:cut])
    assert machine.read().errors == []
    assert is_whole(machine, (SMALL + MORE)[:cut])
    machine.write(claude_log(NAME), SMALL + MORE)
    assert machine.read().errors == []
    assert is_whole(machine, SMALL + MORE)
    assert machine.content() == undisturbed(another(), SMALL + MORE)


def test_a_line_that_was_told_before_its_end_is_told_again_from_the_store(
    machine: Machine, another: Callable[[], Machine]
) -> None:
    machine.write(claude_log(NAME), SMALL.rstrip(b"\n"))
    machine.read()
    kept_alone(machine, SMALL + MORE)
    assert machine.read().errors == []
    assert is_whole(machine, SMALL + MORE)
    assert machine.content() == undisturbed(another(), SMALL + MORE)


def test_a_log_that_grows_while_it_cannot_be_told_is_kept_to_its_end(
    machine: Machine, another: Callable[[], Machine]
) -> None:
    kept_alone(machine, SMALL)
    machine.write(claude_log(NAME), SMALL + MORE)
    with failing(turns, "upsert"):
        assert len(machine.read().errors) == 1
    assert is_whole(machine, SMALL + MORE)
    (machine.home / claude_log(NAME)).unlink()
    assert machine.read().errors == []
    assert machine.content() == undisturbed(another(), SMALL + MORE)


def test_a_watched_log_is_told_from_the_store_when_more_comes(machine: Machine, another: Callable[[], Machine]) -> None:
    kept_alone(machine, SMALL)
    path = machine.write(claude_log(NAME), SMALL + MORE)
    status = path.stat()
    changed = Candidate(
        agent=agents.load("claude"), path=str(path), relpath=str(path.relative_to(machine.home / ".claude/projects")),
        device=status.st_dev, inode=status.st_ino, size=status.st_size, mtime_ns=status.st_mtime_ns,
    )  # fmt: skip
    assert ingest_these(machine.store, [changed]).errors == []
    assert is_whole(machine, SMALL + MORE)
    assert prompts(machine.store) == ["asked", "asked more"]


def test_bytes_that_are_damaged_keep_no_other_log_from_being_read(machine: Machine) -> None:
    kept_alone(machine, SMALL)
    looked_up(machine.store_path, "update chunks set data = x'00'")
    machine.write(claude_log("innocent"), lines(claude_line("user", "i1", "asked here")))
    (problem,) = machine.read().errors
    assert problem.path.endswith(f"{NAME}.jsonl")
    assert "damaged" in problem.reason
    assert prompts(machine.store) == ["asked here"]


def test_a_rewritten_log_that_is_told_late_takes_the_place_of_the_one_it_repeats(machine: Machine) -> None:
    machine.write(claude_log(NAME), SMALL)
    machine.read()
    rewritten = lines(claude_line("summary", None)) + SMALL + MORE
    kept_alone(machine, rewritten)
    assert sha256(SMALL) in kept(machine.store)
    assert machine.read().errors == []
    assert is_whole(machine, rewritten)
    assert prompts(machine.store) == ["asked", "asked more"]


def test_what_is_told_late_of_an_older_file_leaves_the_one_that_is_there(machine: Machine) -> None:
    one, two, three = (claude_line("user", f"g{n}", f"asked {n}") for n in range(3))
    first, rewritten = lines(one, two, three), lines(two, one)
    kept_alone(machine, first, is_gone=False)
    machine.write(claude_log(NAME), rewritten)
    write = append._write_turns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append, "_write_turns", lambda *given: refuse() if given[2].generation == 1 else write(*given))
        assert len(machine.read().errors) == 1
    both = sorted([sha256(first), sha256(rewritten)])
    assert kept(machine.store) == both
    assert prompts(machine.store) == ["asked 1", "asked 0"]
    assert machine.read().errors == []
    assert kept(machine.store) == both
    assert sorted(prompts(machine.store)) == ["asked 0", "asked 1", "asked 2"]
    assert looked_up(machine.store_path, UNTOLD) == [(0,)]


def test_a_reindex_leaves_what_is_kept_alone_to_the_next_ingest(
    machine: Machine, another: Callable[[], Machine]
) -> None:
    machine.write(claude_log(NAME), SMALL)
    machine.read()
    kept_alone(machine, SMALL + MORE)
    assert reindex(machine.store, now=NOW, events_too=True).failed == []
    assert is_whole(machine, SMALL + MORE)
    assert machine.read().errors == []
    assert machine.content() == undisturbed(another(), SMALL + MORE)


def test_a_log_that_nobody_understood_stays_until_all_of_it_is_kept_as_another(machine: Machine) -> None:
    claude = type(agents.load("claude").log)
    path = machine.write(CLAUDE_FOLDER / f"{NAME}.jsonl", BIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claude, "identify", lambda *_: None)
        machine.read()
    path.unlink()
    assert is_whole(machine, BIG)
    write, seen = append.write, list[int]()

    def refuses_from_the_second_on(*values: Any) -> Any:
        seen.append(1)
        return write(*values) if len(seen) < 2 else refuse()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append, "write", refuses_from_the_second_on)
        reindex(machine.store, now=NOW)
    assert len(seen) >= 2
    assert sha256(BIG) in kept(machine.store)
    reindex(machine.store, now=NOW)
    assert is_whole(machine, BIG)
    assert len(prompts(machine.store)) == 20
