"""A store can be made smaller, and says the same afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.store.tables import logs
from tests.support.clock import NOW
from tests.support.machines import Machine, differences, kept, looked_up

if TYPE_CHECKING:
    from pathlib import Path

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
