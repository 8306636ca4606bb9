"""However many processes read along, the store says the same; one that is lost costs the logs that it had."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.ingest import ingest as ingest_module
from backstory.ingest import readers, worker
from backstory.ingest.discover import discover
from backstory.ingest.log_reader import full_pace
from backstory.ingest.readers import AHEAD_BYTES, HANDED_MAX, READERS_MAX, Readers, count_for
from backstory.ingest.sources import Reading
from backstory.store.tables import logs
from tests.support.machines import SMALL, Machine, claude_line, claude_log, differences, lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

COPIES = 6
LONG_RECORDS, SAID_BYTES = 100, 120_000
MB = 1024 * 1024


def write_logs(machine: Machine) -> None:
    """Logs of every kind, one in several slices, and copies of a session that are found together."""
    for name in SMALL:
        machine.put(name)
    for number in range(COPIES):
        said = [claude_line("user", f"u{each}", f"word{each} of the same session") for each in range(number + 2)]
        machine.write(f".claude/projects/-copy-{number}/00000000-0000-4000-8000-000000000009.jsonl", lines(*said))
    dice = random.Random(1)
    long = (claude_line("user", f"l{each}", dice.randbytes(SAID_BYTES).hex()) for each in range(LONG_RECORDS))
    machine.write(claude_log("long"), lines(*long))


@pytest.fixture(scope="module")
def read_alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a store has of these logs that one process reads."""
    alone = Machine(tmp_path_factory.mktemp("alone"))
    write_logs(alone)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ingest_module, "WORKER_BYTES", 1 << 40)
        assert alone.read().errors == []
    found = alone.content()
    alone.close()
    return found


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_store_says_the_same_whatever_the_number_of_processes(
    machine: Machine, read_alone: dict[str, Any], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    write_logs(machine)
    started: list[int] = []
    begin = worker.Worker.__init__

    def counted(self: worker.Worker, waiting: worker.WaitingFrames) -> None:
        started.append(1)
        begin(self, waiting)

    monkeypatch.setattr(worker.Worker, "__init__", counted)
    monkeypatch.setattr(ingest_module, "WORKER_BYTES", 0)
    monkeypatch.setattr(ingest_module, "count_for", lambda to_do: count)
    report = machine.read()
    assert (report.errors, len(started)) == ([], count)
    assert differences(machine.content(), read_alone) == []


def test_a_brief_ingest_starts_no_process(another: Callable[[], Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    machine = another()
    write_logs(machine)
    monkeypatch.setattr(ingest_module, "WORKER_BYTES", 0)
    monkeypatch.delattr(worker.Worker, "__init__")
    found, _ = discover([agents.load("claude")], {}, machine.home)
    assert ingest_module.ingest_briefly(machine.store, found, full_pace()).errors == []
    assert machine.store.ask_or([], logs.recent_stamps, 1) != []


@pytest.mark.parametrize(
    ("processors", "to_do", "count"),
    [(1, 1 << 40, 1), (2, 1 << 40, 1), (3, 1 << 40, 2), (4, 1 << 40, 3), (64, 1 << 40, READERS_MAX), (64, 8 * MB, 1)],
)
def test_there_are_as_many_as_processors_but_one_and_work(processors: int, to_do: int, count: int) -> None:
    assert count_for(to_do, processors) == count


@pytest.fixture
def two(machine: Machine) -> Iterator[Readers]:
    every = Readers(2)
    yield every
    every.end()


def reading(machine: Machine, name: str, size: int) -> tuple[Reading, worker.Job]:
    """A log as it is handed over, as if it had this size."""
    import msgspec

    from backstory import agents
    from backstory.ingest.sources import source_of
    from backstory.ingest.worker import job_of
    from backstory.model import LogIdentity

    path = machine.write(claude_log(name), lines(claude_line("user", f"u-{name}", name)))
    found, _ = discover([agents.load("claude")], {}, machine.home)
    each = next(each for each in found if each.path == str(path))
    source = source_of(each, LogIdentity(native_id=name), path.read_bytes(), None)
    return Reading(each=msgspec.structs.replace(each, size=size)), job_of(source, 1, None)


def test_a_log_goes_to_the_one_with_the_least_before_it(machine: Machine, two: Readers) -> None:
    handed = [reading(machine, name, size) for name, size in (("a", 9), ("b", 4), ("c", 4), ("d", 2))]
    for each, job in handed:
        assert two.give(each, job) == []
    assert [[each.each.size for each in reader.handed] for reader in two._readers] == [[9], [4, 4, 2]]


def test_with_enough_before_all_of_them_there_is_no_room_but_for_a_large_log(machine: Machine, two: Readers) -> None:
    for name in "ab":
        assert two.has_room(1)
        two.give(*reading(machine, name, AHEAD_BYTES))
    assert (two.has_room(1), two.has_room(AHEAD_BYTES + 1)) == (False, True)


def test_no_process_is_given_more_logs_than_it_may_have(
    machine: Machine, two: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "HANDED_MAX", 1)
    for name in "ab":
        assert not two.is_full
        two.give(*reading(machine, name, 1))
    assert (two.is_full, two.has_room(1), HANDED_MAX) == (True, False, 64)


def test_the_logs_of_one_that_is_lost_come_back_and_the_other_goes_on(machine: Machine, two: Readers) -> None:
    first, second = (reading(machine, name, size) for name, size in (("a", 9), ("b", 4)))
    two._readers[0].worker._process.kill()
    two._readers[0].worker._process.wait()
    lost = two.give(*first)
    two.give(*second)
    outcomes = []
    while two.is_reading:
        taken = two.take()
        if isinstance(taken, list):
            lost += taken
        else:
            outcomes.append((taken[0].each.path, taken[1].is_last))
    assert [each.each.path for each in lost] == [first[0].each.path]
    assert outcomes == [(second[0].each.path, True)]


def test_where_one_cannot_be_started_none_is_left_running(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, started = worker.Worker.__init__, list[worker.Worker]()

    def begin_once(self: worker.Worker, waiting: worker.WaitingFrames) -> None:
        if started:
            raise BlockingIOError("no more processes")
        begin(self, waiting)
        started.append(self)

    monkeypatch.setattr(worker.Worker, "__init__", begin_once)
    with pytest.raises(BlockingIOError):
        Readers(2)
    assert started[0]._process.poll() is not None


def test_what_waits_to_be_written_is_bounded_for_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    from collections import deque
    from threading import Thread

    monkeypatch.setattr(worker, "WAITING_BYTES_MAX", 10)
    waiting, left, right = worker.WaitingFrames(), deque[bytes | None](), deque[bytes | None]()
    waiting.put(left, b"x" * 10, lambda: False)
    late = Thread(target=lambda: waiting.put(right, b"y", lambda: False))
    late.start()
    late.join(0.05)
    assert late.is_alive(), "another process's frame waits for room, too"
    assert waiting.take(left) == b"x" * 10
    late.join(10)
    assert waiting.take(right) == b"y"
