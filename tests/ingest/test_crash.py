"""An ingest that is killed at any moment, and several at once: what comes of it is what one undisturbed gives."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.errors import NotAStore, StoreNotFound
from backstory.ingest import ingest as ingest_module
from backstory.ingest import log_reader, matching
from backstory.ingest.ingest import ingest
from backstory.store import open_store
from backstory.store.tables import sessions
from tests.support.clock import NOW
from tests.support.counts import steps
from tests.support.machines import SMALL, Machine, case, differences, place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import apsw

SMALL_SLICE = 24 * 1024
"""Logs are read in several transactions each, so that there is something to be killed between."""
KILLS = 50
PAIRS = 50
MOST_KILLS_OF_ONE_STORE = 4
UNDISTURBED_S = 0.25
"""About as long as the whole ingest takes; kills are spread over it."""


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """The machine whose logs are read over and over, into a store that is removed each time."""
    made = Machine(tmp_path_factory.mktemp("disturbed"))
    for name in SMALL:
        made.put(name)
    # One log that is rewritten half way, so that also the matching of records is interrupted.
    made.write(place("claude/denied").with_name("copy.jsonl"), case("claude/denied"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def expected(disturbed: Machine) -> dict[str, Any]:
    disturbed.read()
    content = disturbed.content()
    forget_store(disturbed)
    return content


@pytest.fixture(autouse=True)
def unread(disturbed: Machine, expected: dict[str, Any]) -> Iterator[None]:
    """Each test begins without a store."""
    yield
    forget_store(disturbed)


def forget_store(machine: Machine) -> None:
    machine.store.close()
    for path in machine.store_path.parent.glob("store.db*"):
        path.unlink()


def in_child(machine: Machine, told: Callable[[], None], *, bulk: bool = False) -> int:
    """An ingest in another process; ``told`` is called there for every log it has done. Gives its id."""
    machine.store.close()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        log_reader.SLICE_BYTES = SMALL_SLICE
        log_reader.BLOCK_BYTES = SMALL_SLICE // 2
        ingest_module.BATCH_LOGS = 2
        if bulk:
            ingest_module.BULK_BYTES = ingest_module.WORKER_BYTES = 0
        with open_store(machine.store_path, shared=True, now=lambda: NOW) as store:
            chosen = [agents.load(name) for name in ("claude", "codex")]
            report = ingest(store, chosen, environ={}, home=machine.home, now=NOW, progress=lambda done, total: told())
        assert report.errors == [], report.errors
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def exit_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def told_through(pipe: int) -> None:
    os.write(pipe, b".")


def killed_after_some_logs(machine: Machine, count: int, *, bulk: bool) -> None:
    reading, writing = os.pipe()
    child = in_child(machine, lambda: told_through(writing), bulk=bulk)
    os.close(writing)
    while count > 0 and (done := os.read(reading, count)):
        count -= len(done)
    os.kill(child, signal.SIGKILL)
    exit_of(child)
    os.close(reading)


def killed_after_some_time(machine: Machine, seconds: float) -> None:
    child = in_child(machine, lambda: None)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    os.kill(child, signal.SIGKILL)
    exit_of(child)


@pytest.mark.slow
@pytest.mark.parametrize("seed", steps(KILLS, every=7))
def test_an_ingest_killed_at_any_moment_is_made_good_by_the_next(
    disturbed: Machine, expected: dict[str, Any], seed: int
) -> None:
    dice = random.Random(seed)
    for _ in range(dice.randint(1, MOST_KILLS_OF_ONE_STORE)):
        if seed % 2:
            killed_after_some_time(disturbed, dice.uniform(0, UNDISTURBED_S))
        else:
            killed_after_some_logs(disturbed, dice.randint(0, len(SMALL)), bulk=seed % 10 == 0)
        if disturbed.store.exists:
            # Whole before an ingest repairs anything; a file without its tables yet is no store.
            with contextlib.suppress(NotAStore, StoreNotFound):
                assert disturbed.store.verify().problems == []
    assert disturbed.read().errors == []
    assert differences(disturbed.content(), expected) == []
    assert disturbed.store.verify().problems == []
    assert disturbed.read().total("logs_read") == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", steps(PAIRS, every=7, first=2))
def test_two_ingests_at_once_do_no_harm(disturbed: Machine, expected: dict[str, Any], seed: int) -> None:
    children = [in_child(disturbed, lambda: None, bulk=seed % 10 == 0) for _ in range(2)]
    assert [exit_of(child) for child in children] == [0, 0]
    assert differences(disturbed.content(), expected) == []
    assert disturbed.store.verify().problems == []
    assert disturbed.read().total("logs_read") == 0


@pytest.mark.slow
def test_an_ingest_beside_agents_that_write_keeps_up(disturbed: Machine, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    shutil.copytree(disturbed.home, machine.home, dirs_exist_ok=True)
    path = machine.home / place("claude/resume")
    whole = case("claude/resume")
    path.write_bytes(b"")
    for end in range(0, len(whole), 9_000):
        child = in_child(machine, lambda: None)
        with path.open("ab") as file:
            file.write(whole[end : end + 4_000])
            file.flush()
            file.write(whole[end + 4_000 : end + 9_000])
        assert exit_of(child) == 0
    machine.read()
    undisturbed = Machine(tmp_path / "undisturbed")
    shutil.copytree(machine.home, undisturbed.home, dirs_exist_ok=True)
    undisturbed.read()
    assert differences(machine.content(), undisturbed.content()) == []
    machine.close()
    undisturbed.close()


class Stopped(BaseException):
    """The other process is stopped here."""


def one_more_slice_is_stored_by_another(machine: Machine) -> None:
    other = open_store(machine.store_path, shared=True, now=lambda: NOW)
    write, written = other.append, list[int]()

    def one_only(pieces: Any) -> Any:
        if written:
            raise Stopped
        written.append(1)
        return write(pieces)

    with pytest.MonkeyPatch.context() as patched, contextlib.suppress(Stopped):
        patched.setattr(other, "append", one_only)
        ingest(other, [agents.load("claude")], environ={}, home=machine.home, now=NOW)
    other.close()


def test_a_log_that_another_process_begins_between_two_looks_is_not_begun_twice(
    disturbed: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, shared = Machine(tmp_path / "alone"), Machine(tmp_path / "shared")
    for machine in (alone, shared):
        machine.put("claude/resume")
    alone.read()
    monkeypatch.setattr(log_reader, "SLICE_BYTES", SMALL_SLICE)
    monkeypatch.setattr(log_reader, "BLOCK_BYTES", SMALL_SLICE)

    ask = sessions.next_seq
    looks = [shared]

    def next_seq(db: apsw.Connection, uid: str) -> int:
        if looks:
            one_more_slice_is_stored_by_another(looks.pop())
        return ask(db, uid)

    monkeypatch.setattr(sessions, "next_seq", next_seq)
    assert shared.read().errors == []
    assert differences(shared.content(), alone.content()) == []
    alone.close()
    shared.close()


@pytest.mark.slow
def test_a_log_that_another_process_reads_a_slice_ahead_is_read_until_both_are_at_its_end(
    disturbed: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, shared = Machine(tmp_path / "alone"), Machine(tmp_path / "shared")
    for machine in (alone, shared):
        machine.put("claude/resume")
    alone.read()
    monkeypatch.setattr(log_reader, "SLICE_BYTES", 1_000)
    monkeypatch.setattr(log_reader, "BLOCK_BYTES", 1_000)
    is_other, looks = [False], list[int]()

    def start_of(*args: Any) -> Any:
        if not is_other[0]:
            is_other[0] = True
            looks.append(1)
            one_more_slice_is_stored_by_another(shared)
            is_other[0] = False
        return matching.start_of(*args)

    monkeypatch.setattr(ingest_module, "start_of", start_of)
    assert shared.read().errors == []
    assert len(looks) > 4
    assert differences(shared.content(), alone.content()) == []
    alone.close()
    shared.close()
