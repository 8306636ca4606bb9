"""Copilot CLI's logs and database as crashes and other versions leave them: nothing hangs, and nothing is lost."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backstory.ingest import databases
from backstory.ingest.reindex import reindex
from backstory.model import Unknown
from tests.support.clock import NOW
from tests.support.copilot_database import DATABASE, ROWS, TABLES
from tests.support.machines import bytes_of, case, differences, prompts, sha256
from tests.support.rewound import LOG, SESSION, log, record

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.machines import Machine

WHOLE = log(1, 2, 3)
BEGUN, ASKED = WHOLE.splitlines()[:2]


def torn(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def newer(data: bytes) -> bytes:
    said = {"type": "hologram.shown", "data": {"at": [1]}, "id": "h", "timestamp": None, "parentId": 3, "more": {}}
    later = data.replace(b'"session.start", "data": {', b'"session.start", "data": {"version": 99, "later": {"a": 1}, ')
    assert later != data
    return later + json.dumps(said).encode() + b"\n"


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], int, list[int]]] = {
    "whole": (lambda data: data, 0, [1, 2, 3]),
    "cut short": (torn, 0, [1, 2]),
    "zeros at the end": (lambda data: data + b"\0" * 10_000, 0, [1, 2, 3]),
    "zeros in place of its end": (lambda data: torn(data) + b"\0" * 10_000 + b"\n", 1, [1, 2]),
    "a torn record glued to the next": (lambda data: data.replace(b'answer 2"', b"answ" + ASKED[:20]), 1, [1, 2, 3]),
    "two records on a line": (lambda data: data.replace(b"}\n{", b"}{"), 0, [1, 2, 3]),
    "a raw line end in a string": (lambda data: data.replace(b"answer 2", b"ans\nwer 2"), 2, [1, 2, 3]),
    "line separators of Unicode": (lambda data: data.replace(b"answer 2", "a\u2028b\u2029c".encode()), 0, [1, 2, 3]),
    "line ends of Windows": (lambda data: data.replace(b"\n", b"\r\n"), 0, [1, 2, 3]),
    "bytes that are no text": (lambda data: data.replace(b"answer 2", b"\xff\xfe\x80"), 0, [1, 2, 3]),
    "a record twice": (lambda data: data + b"\n".join(data.splitlines()[-2:]) + b"\n", 0, [1, 2, 3]),
    "no beginning": (lambda data: data.partition(b"\n")[2], 0, [1, 2, 3]),
    "a later version": (newer, 1, [1, 2, 3]),
}  # fmt: skip
"""How a log is damaged, how many of its records are unknown then, and which prompts it still tells."""


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_log_tells_all_but_what_is_damaged(machine: Machine, name: str) -> None:
    damage, unknown, told = DAMAGES[name]
    data = damage(WHOLE)
    machine.write(LOG, data)
    report = machine.read("copilot")
    assert report.errors == []
    assert prompts(machine.store) == [f"prompt {number}" for number in told]
    events = machine.store.events(machine.store.session(SESSION))
    assert sum(isinstance(each.event, Unknown) for each in events) == unknown
    (kept,) = machine.store.logs()
    assert bytes_of(machine.store, kept.id) == (len(data), sha256(data))
    before = machine.content()
    assert reindex(machine.store, now=NOW, events_too=True).failed == []
    assert differences(machine.content(), before) == []
    assert machine.store.verify().problems == []


@pytest.mark.parametrize("seed", range(15))
def test_a_recorded_log_with_damage_anywhere_is_read_and_kept(machine: Machine, seed: int) -> None:
    chance, data = random.Random(seed), bytearray(case("copilot/tools"))
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(data))
        data[at : at + chance.randrange(1, 300)] = chance.choice([b"", b"\0" * 50, b"\n", b"}{", b"\xe2\x80\xa8", b'"'])
    machine.write(LOG, bytes(data))
    assert machine.read("copilot").errors == []
    (kept,) = machine.store.logs()
    assert bytes_of(machine.store, kept.id) == (len(data), sha256(bytes(data)))
    assert reindex(machine.store, now=NOW, events_too=True).failed == []
    assert machine.store.verify().problems == []


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_log_with_a_hole_that_makes_it_larger_than_512_mb_is_read_to_its_end(machine: Machine) -> None:
    path = machine.write(LOG, log(1))
    with path.open("r+b") as file:
        file.truncate(600 * 1024 * 1024)
        file.seek(0, 2)
        file.write(b"\n" + record("user.message", 9, content="prompt 9") + b"\n")
    assert machine.read("copilot").unknown_records == {"line over 64 MB": 1}
    assert prompts(machine.store) == ["prompt 1", "prompt 9"]


@pytest.mark.parametrize("seed", range(25))
def test_a_database_with_damage_anywhere_is_read_or_told_and_never_changed(machine: Machine, seed: int) -> None:
    path = machine.write(DATABASE, b"")
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"pragma page_size = 512; {TABLES} {ROWS}")
    chance, data = random.Random(seed), bytearray(path.read_bytes())
    if seed % 5 == 0:
        del data[chance.randrange(len(data)) :]
    for _ in range(chance.randrange(1, 20)):
        at = chance.randrange(max(len(data) - 8, 1))
        data[at : at + 8] = chance.randbytes(8)
    path.write_bytes(bytes(data))
    report = machine.read("copilot")
    assert path.read_bytes() == bytes(data)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert report.errors or report.total("sessions_new") > 0


def test_a_database_that_is_deleted_while_it_is_read_for_is_no_trouble(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.write(DATABASE, b"x" * 100)
    monkeypatch.setattr(databases, "_copy", lambda source, target, size: source.unlink())
    (problem,) = machine.read("copilot").errors
    assert "next time" in problem.reason
    assert machine.read("copilot").errors == []
