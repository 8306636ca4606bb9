"""A store can be made smaller, and says the same afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.store import open_store
from backstory.store.tables import logs
from tests.support.clock import NOW
from tests.support.machines import Machine, differences, kept, looked_up

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import apsw

LOGS = ("claude/resume", "codex/tools", "codex/mcp")


def filled(folder: Path) -> Machine:
    machine = Machine(folder)
    for name in LOGS:
        machine.put(name)
    machine.write(".claude/projects/p/long.jsonl", long_log(9))
    machine.read()
    return machine


def long_log(megabytes: int) -> bytes:
    line = b'{"type":"user","uuid":"u%08d","sessionId":"long","message":{"role":"user","content":"%s"}}\n'
    words = b"the heron nests in the reeds " * 300
    return b"".join(line % (n, words) for n in range(megabytes * 1024 * 1024 // len(line % (0, words))))


@pytest.mark.slow
def test_nothing_is_other_than_it_was_but_smaller(tmp_path: Path) -> None:
    machine = filled(tmp_path)
    before, bytes_kept = machine.content(), kept(machine.store)
    size = "select sum(length(data)) from chunks"
    ((packed,),) = looked_up(machine.store_path, size)
    machine.store.optimize(1 << 62)
    assert looked_up(machine.store_path, size)[0][0] < packed
    assert differences(machine.content(), before) == []
    assert kept(machine.store) == bytes_kept
    assert machine.store.verify().problems == []
    machine.close()


@pytest.mark.slow
def test_chunks_are_as_large_as_they_come(tmp_path: Path) -> None:
    machine = filled(tmp_path)
    machine.store.optimize(1 << 62)
    found = looked_up(machine.store_path, "select count(*), max(length) from chunks group by log_id order by 2 desc")
    assert found[0] == (3, 4 * 1024 * 1024)
    assert {count for count, _ in found[1:]} == {1}
    machine.close()


def test_what_is_packed_is_not_packed_again(tmp_path: Path) -> None:
    machine = filled(tmp_path)
    done: list[int] = []
    machine.store.optimize(1 << 62, lambda number, total: done.append(number))
    assert len(done) == len(LOGS) + 1
    machine.store.optimize(1 << 62, lambda number, total: done.append(number))
    assert len(done) == len(LOGS) + 1
    machine.close()


@pytest.mark.slow
def test_a_log_that_was_written_lately_is_left_alone(tmp_path: Path) -> None:
    machine = filled(tmp_path)
    done: list[int] = []
    machine.store.optimize(NOW - 10 * 365 * 24 * 3600 * 1000, lambda number, total: done.append(number))
    assert done == []
    machine.close()


@pytest.mark.slow
def test_a_packed_log_goes_on(tmp_path: Path) -> None:
    machine = filled(tmp_path)
    machine.store.optimize(1 << 62)
    path = machine.home / ".claude/projects/p/long.jsonl"
    whole = path.read_bytes() + long_log(1)
    path.write_bytes(whole)
    assert machine.read().total("bytes_read") == len(long_log(1))
    (log,) = machine.store.ask_or([], logs.of_native_id, "claude", "long")
    assert b"".join(machine.store.stream_log(log.id)) == whole
    machine.store.optimize(1 << 62)
    assert b"".join(machine.store.stream_log(log.id)) == whole
    machine.close()


# beside somebody who reads -------------------------------------------------------------------------------------------


@pytest.fixture
def in_chunks(tmp_path: Path) -> Iterator[tuple[Machine, int, bytes]]:
    """A machine with a log of three chunks, its id and its bytes."""
    machine, line, end = Machine(tmp_path), long_log(1).splitlines(keepends=True)[0], 0
    for count in (90, 30, 10):
        end += count
        machine.write(".claude/projects/p/long.jsonl", line * end)
        machine.read("claude")
    (log,) = machine.store.ask_or([], logs.of_native_id, "claude", "long")
    assert len(machine.store.ask(logs.chunk_marks, log.id)) == 3
    yield machine, log.id, line * end
    machine.close()


def pack_in_another_process(machine: Machine) -> None:
    """As another process would: on a connection of its own."""
    with open_store(machine.store_path) as other:
        other.optimize(1 << 62)


def test_who_reads_chunk_by_chunk_gets_the_whole_log(in_chunks: tuple[Machine, int, bytes]) -> None:
    machine, log_id, whole = in_chunks
    pieces = machine.store.stream_log(log_id)
    first = next(pieces)
    pack_in_another_process(machine)
    assert len(machine.store.ask(logs.chunk_marks, log_id)) == 1
    assert first + b"".join(pieces) == whole


def test_who_reads_bytes_gets_those(in_chunks: tuple[Machine, int, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    machine, log_id, whole = in_chunks
    last = machine.store.ask(logs.chunk_marks, log_id)[-1].start
    find = logs._frame

    def packed_meanwhile(db: apsw.Connection, of: int, at: int) -> tuple[bytes, int | None]:
        monkeypatch.undo()
        pack_in_another_process(machine)
        return find(db, of, at)

    for is_checked in (True, False):
        monkeypatch.setattr(logs, "_frame", packed_meanwhile)
        assert machine.store.read_log(log_id, last, 9, checked=is_checked) == whole[last : last + 9]
