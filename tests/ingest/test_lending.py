"""Subagents' logs that have bytes of their own, as those of earlier versions have, are made of their parent's."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import apsw
import pytest
import zstandard

from backstory import errors
from backstory.ingest import reported
from backstory.store import open_store
from backstory.store.file import maintenance
from backstory.store.tables import logs
from tests.support.clock import NOW
from tests.support.counts import IS_LONG
from tests.support.faults import failing_disk, kinds_of_steps
from tests.support.machines import Machine, conversation, differences, kept, lines, looked_up, problems
from tests.support.make_golden import GOLDEN
from tests.support.subagents import BYTES, CONTENT, LOG, bytes_in, is_settled, log_of, parent_of, report, said

if TYPE_CHECKING:
    from pathlib import Path

OWN = "select count(*) from chunks c join logs l on l.id = c.log_id where l.path like '%#%' and c.lender is null"
LATER = 1 << 62
KILLS = 100 if IS_LONG else 4
SPIN_S_MAX = 0.2
STEPS_MAX = 3_000


def read_apart(machine: Machine) -> None:
    """Read what is new as versions did that kept each subagent's bytes a second time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reported.SubagentLogs, "batches", lambda _: None)
        assert machine.read("claude").errors == []


@pytest.fixture
def apart(machine: Machine) -> Machine:
    """A machine whose store has bytes of its own for each of two subagents."""
    machine.write(LOG, CONTENT)
    read_apart(machine)
    assert own(machine) == 2
    return machine


def own(machine: Machine) -> int:
    """The number of chunks of subagents' logs that are bytes of their own."""
    ((count,),) = looked_up(machine.store_path, OWN)
    return int(count)


def packed(machine: Machine) -> int:
    ((size,),) = looked_up(machine.store_path, "select sum(length(data)) from chunks")
    return int(size)


def test_they_are_as_those_of_a_new_store(apart: Machine, tmp_path: Path) -> None:
    new = Machine(tmp_path / "new")
    new.write(LOG, CONTENT)
    new.read("claude")
    before, size = kept(apart.store), packed(apart)
    reported.lend(apart.store, LATER)
    chunks = (
        "select replace(l.path, ?, ''), c.start, c.length, c.sha256, c.data, replace(p.path, ?, '') from chunks c "
        "join logs l on l.id = c.log_id left join logs p on p.id = c.lender order by 1, 2"
    )
    found, wanted = (looked_up(each.store_path, chunks, str(each.home), str(each.home)) for each in (apart, new))
    assert found == wanted
    assert packed(apart) < size
    assert kept(apart.store) == before
    assert differences(apart.content(), new.content()) == []
    assert apart.store.verify().problems == []
    new.close()


def test_a_second_time_nothing_is_read(apart: Machine) -> None:
    reported.lend(apart.store, LATER)
    assert apart.store.ask(maintenance.families, LATER) == []


def test_logs_that_were_written_lately_are_left_alone(apart: Machine) -> None:
    reported.lend(apart.store, 0)
    assert own(apart) == 2


def test_what_came_later_copies_too(apart: Machine) -> None:
    content = CONTENT
    reported.lend(apart.store, LATER)
    for n in range(20, 26):
        content += lines(report(n), *conversation(1, n))
        apart.write(LOG, content)
        read_apart(apart)
    assert own(apart) == 6
    reported.lend(apart.store, LATER)
    assert own(apart) == 0
    # What came line by line is one chunk.
    assert len(apart.store.ask(maintenance.kept_chunks, log_of(apart.store).id)) == 2
    assert bytes_in(apart.store) == said(content)
    assert apart.store.verify().problems == []


def test_a_log_that_grows_lends_what_came_when_that_is_much(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reported, "OWNED_BYTES_LEAST", 3_000)
    content, counts = CONTENT, list[int]()
    machine.write(LOG, content)
    machine.read("claude")
    for n in range(20, 44):
        content += lines(report(n), *conversation(1, n))
        machine.write(LOG, content)
        assert machine.read("claude").errors == []
        counts.append(own(machine))
    # What came with the last reading is lent by the next.
    assert (max(counts), counts.count(1)) == (10, 3)
    assert bytes_in(machine.store) == said(content)
    assert machine.store.verify().problems == []
    new = Machine(tmp_path / "new")
    new.write(LOG, content)
    new.read("claude")
    assert differences(machine.content(), new.content()) == []
    new.close()


def test_a_long_log_is_not_read_again_for_the_little_that_came(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reported, "OWNED_BYTES_LEAST", 3_000)
    content, counts = CONTENT + lines(*conversation(1_000, 1_000)), list[int]()
    machine.write(LOG, content)
    machine.read("claude")
    for n in range(20, 44):
        content += lines(report(n), *conversation(1, n))
        machine.write(LOG, content)
        machine.read("claude")
        counts.append(own(machine))
    assert counts == sorted(counts)
    assert counts[-1] > 10
    assert bytes_in(machine.store) == said(content)


@pytest.mark.parametrize("size", [333, 1_000, 2_500])
def test_chunks_that_end_within_a_record_are_made_too(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    for name in ("ingest.log_reader.BLOCK_BYTES", "ingest.log_reader.SLICE_BYTES", "store.codec.CHUNK_BYTES"):
        monkeypatch.setattr(f"backstory.{name}", size)
    machine.write(LOG, CONTENT)
    read_apart(machine)
    assert own(machine) > 2
    monkeypatch.setattr("backstory.ingest.reported.CHUNK_BYTES", 700)
    with pytest.MonkeyPatch.context() as patched:
        # Small chunks are no smaller as copies.
        patched.setattr(maintenance, "is_smaller", lambda *_: True)
        reported.lend(machine.store, LATER)
    assert own(machine) == 0
    assert bytes_in(machine.store) == BYTES
    assert machine.store.verify().problems == []


def test_what_its_parent_does_not_say_stays(apart: Machine) -> None:
    """A parent's log that was rewritten lacks the records of a subagent that its older form had."""
    apart.write(LOG, lines(*conversation(2), *(report(n) for n in range(3, 9)), *conversation(4, 2)))
    read_apart(apart)
    before = kept(apart.store)
    reported.lend(apart.store, LATER)
    assert kept(apart.store) == before
    assert apart.store.verify().problems == []


@pytest.mark.parametrize(
    "damage",
    [
        "update chunks set data = x'00' where log_id = (select id from logs where path not like '%#%')",
        "update chunks set sha256 = zeroblob(32) where log_id = (select id from logs where path like '%#a58')",
    ],
    ids=["the parent's", "its own"],
)
def test_what_is_damaged_is_left_as_it_is(apart: Machine, damage: str) -> None:
    apart.close()
    db = apsw.Connection(str(apart.store_path))
    db.execute(damage)
    db.close()
    chunk = "select data, sha256, lender from chunks where log_id = (select id from logs where path like '%#a58')"
    before = looked_up(apart.store_path, chunk)
    reported.lend(apart.store, LATER)
    assert looked_up(apart.store_path, chunk) == before


@pytest.mark.parametrize("what", ["removed", "packed anew", "grown", "done"])
def test_another_process_comes_between(apart: Machine, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    content, parent = CONTENT, parent_of(apart.store).id
    if what == "removed":
        db = apsw.Connection(str(apart.store_path))
        db.execute("update sessions set relation = null where native_id like '%a58'")
        db.close()
    elif what == "grown":
        content += lines(report(30))
    lend = maintenance.lend

    def too_late(*given: Any) -> list[int]:
        monkeypatch.undo()
        with open_store(apart.store_path, shared=True, now=lambda: NOW) as other:
            if what == "removed":
                other.remove(parent)
            elif what == "packed anew":
                other.optimize(LATER)
            elif what == "done":
                reported.lend(other, LATER)
        if what == "grown":
            apart.write(LOG, content)
            read_apart(apart)
        return lend(*given)

    monkeypatch.setattr(maintenance, "lend", too_late)
    reported.lend(apart.store, LATER)
    assert bytes_in(apart.store) == said(content)
    assert apart.store.verify().problems == []
    if what == "removed":
        assert is_settled(apart.store)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_disk_that_fails_at_any_step_leaves_either_form_whole(apart: Machine) -> None:
    before, passed = apart.stored(), list[str]()
    apart.put_back(before)
    with failing_disk() as disk, apart.store as store:
        reported.lend(store, LATER)
        store.optimize(LATER)
        passed = [*disk.passed]
    for step in kinds_of_steps(passed):
        apart.put_back(before)
        with failing_disk() as disk:
            disk.fail(step, apsw.FullError, for_good=True)
            with apart.store as store:
                with suppress(errors.BackstoryError, apsw.Error):
                    reported.lend(store, LATER)
                    store.optimize(LATER)
                has_failed = bool(disk.failed)
                disk.heal()
        with apart.store as store:
            assert problems(store) == []
            assert bytes_in(store) == BYTES
            if not has_failed:
                assert step > len(passed)
                assert own(apart) == 0
                return
            reported.lend(store, LATER)
            assert own(apart) == 0
            assert bytes_in(store) == BYTES
        assert step < STEPS_MAX, "it never ended"
    pytest.fail("it never ended")


# processes that are killed --------------------------------------------------------------------------------------------

# It forks for each line that it is given: a store is optimized in a process of its own, which may be killed.
NURSERY = """
import os, sys
from pathlib import Path
from backstory.ingest import reported
from backstory.store import open_store

def work(path, begun):
    with open_store(path, shared=True) as store:
        store.make_ready()
        begun()
        reported.lend(store, 1 << 62)
        store.optimize(1 << 62)

reported.CHUNK_BYTES = 6_000
# Here all that is imported late is imported, once.
work(Path(sys.argv[1]), lambda: None)
for line in sys.stdin:
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        os.write(1, b"gone %d\\n" % os.waitstatus_to_exitcode(status))
        continue
    work(Path(line.rstrip()), lambda: os.write(1, b"%d\\n" % os.getpid()))
    os._exit(0)
"""


def many(machine: Machine, subagents: int) -> None:
    """Have a log that reports of very many subagents, each of which has bytes of its own."""
    records = [report(n, f"a{n // 6}") for n in range(subagents * 6)]
    machine.write(LOG, lines(*conversation(2), *records))
    read_apart(machine)
    assert own(machine) == subagents
    machine.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4 if IS_LONG else 1))
def test_killed_at_any_moment_it_loses_no_byte_and_goes_on(tmp_path: Path, seed: int) -> None:
    machine, chance = Machine(tmp_path), random.Random(seed)
    many(machine, 40)
    before, bytes_before = machine.store_path.read_bytes(), kept(machine.store)
    machine.close()
    left = set[int]()
    (tmp_path / "first.db").write_bytes(before)
    command = [sys.executable, "-c", NURSERY, str(tmp_path / "first.db")]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        for n in range(KILLS):
            if n % 3 == 0:
                machine.store_path.write_bytes(before)
            nursery.stdin.write(f"{machine.store_path}\n")
            nursery.stdin.flush()
            pid = int(nursery.stdout.readline())
            until = time.perf_counter() + chance.random() * SPIN_S_MAX
            while time.perf_counter() < until:
                pass
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            assert nursery.stdout.readline().startswith("gone ")
            assert kept(machine.store) == bytes_before
            assert machine.store.verify().problems == []
            machine.close()
            left.add(own(machine))
        nursery.stdin.close()
        nursery.wait()
    reported.lend(machine.store, LATER)
    assert own(machine) == 0
    assert kept(machine.store) == bytes_before
    assert machine.store.verify().problems == []
    assert not IS_LONG or len(left) > 3, left
    machine.close()


@pytest.mark.slow
def test_two_at_once_and_an_ingest_meanwhile_lose_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    many(machine, 30)
    program = NURSERY.partition("for line in")[0]
    both = [subprocess.Popen([sys.executable, "-c", program, str(machine.store_path)]) for _ in range(2)]
    content = (machine.home / LOG).read_bytes()
    while any(each.poll() is None for each in both):
        content += lines(report(len(content), "a3"))
        machine.write(LOG, content)
        assert machine.read("claude").errors == []
    assert [each.returncode for each in both] == [0, 0]
    assert bytes_in(machine.store, "#a3") == said(content, "a3")
    assert machine.store.verify().problems == []
    machine.close()


# a store of an earlier schema -----------------------------------------------------------------------------------------


def test_a_store_of_schema_4_that_was_packed_hard_is_made_as_a_new_one(tmp_path: Path) -> None:
    """Made by the last program of schema 4, with ``optimize --all``."""
    old = (GOLDEN / "reported-v4.db.zst").read_bytes()
    machine = Machine(tmp_path)
    machine.store_path.write_bytes(zstandard.ZstdDecompressor().decompress(old))
    assert machine.store.ask(logs.to_repack, LATER) != []
    reported.lend(machine.store, LATER)
    assert own(machine) == 0
    assert bytes_in(machine.store) == BYTES
    assert machine.store.verify().problems == []
    machine.close()
