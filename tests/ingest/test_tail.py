"""A log read behind what the store has of it: the same records with the same numbers as an ingest, in any pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.conversation.compact import compact_event
from backstory.ingest.log_reader import BLOCK_BYTES
from backstory.ingest.tail import GONE, REPLACED, LogTail
from backstory.model import Unknown, event_to_json
from backstory.store.tables.logs import OVERSIZE
from tests.support.machines import SMALL, Machine, case, claude_line, claude_log, conversation, lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.store import Session


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.close()


def tail_of(machine: Machine) -> tuple[LogTail, Session]:
    (session,) = [each for each in machine.store.sessions(subagents=True) if machine.store.logs(each)]
    (log,) = machine.store.logs(session)
    return LogTail(machine.store, session, log), session


def looked(tail: LogTail) -> list[tuple[int, int, bytes]]:
    """What a tail returns until nothing more comes: (seq, part, event)."""
    found = []
    while (growth := tail.look()) is not None:
        found += [
            (seq, part, event_to_json(compact_event(event)))
            for seq, said in growth.records
            for part, event in said.events
        ]
    return found


@pytest.mark.parametrize("name", SMALL)
def test_what_follows_has_the_events_and_numbers_that_an_ingest_gives_it(name: str, tmp_path: Path) -> None:
    data = case(name)
    ends = [at + 1 for at, byte in enumerate(data) if byte == 0x0A]
    for number, cut in enumerate({ends[len(ends) // 3], ends[len(ends) // 2] - 7, ends[-1] - 1}):
        machine = Machine(tmp_path / str(number))
        log = machine.put(name, data[:cut])
        machine.read()
        tail, session = tail_of(machine)
        shown = {(each.seq, each.part) for each in machine.store.events(session)}
        tail.shown_to = max((seq for seq, _ in shown), default=0)
        found = []
        for end in (cut + 1, cut + 300, len(data)):
            log.write_bytes(data[: max(end, cut)])
            found += looked(tail)
        machine.read()
        stored = machine.store.events(session)
        assert found == [
            (each.seq, each.part, event_to_json(each.event)) for each in stored if (each.seq, each.part) not in shown
        ]
        machine.close()


def test_a_line_that_is_too_long_comes_as_the_one_event_that_is_stored_of_it(
    here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstory.agents.jsonl.LINE_BYTES_MAX", 5_000)
    log = here.write(claude_log("one"), lines(*conversation(4)))
    here.read()
    tail, session = tail_of(here)
    with log.open("ab") as file:
        file.write(lines(claude_line("user", "u9", "x" * 6_000)))
    found = looked(tail)
    here.read()
    last = here.store.events(session)[-1]
    assert found == [(last.seq, last.part, event_to_json(last.event))]
    assert last.event == Unknown(type=OVERSIZE)


def test_nothing_is_opened_or_returned_while_nothing_changes(here: Machine) -> None:
    here.write(claude_log("one"), lines(*conversation(4)))
    here.read()
    tail, _ = tail_of(here)
    assert looked(tail) == []
    tail.path.chmod(0)
    assert tail.look() is None


def test_half_a_line_is_no_record_until_the_rest_has_come(here: Machine) -> None:
    log = here.write(claude_log("one"), lines(*conversation(2)))
    here.read()
    tail, _ = tail_of(here)
    assert looked(tail) == []
    line = claude_line("user", "u9", "the heron")
    for part in (line[:20], line[20:-1]):
        with log.open("ab") as file:
            file.write(part)
        assert looked(tail) == []
    with log.open("ab") as file:
        file.write(line[-1:])
    assert [seq for seq, _, _ in looked(tail)] == [3], "a whole record is shown before its end comes"
    with log.open("ab") as file:
        file.write(b"\n")
    assert looked(tail) == []


def test_a_log_that_another_one_took_the_place_of_repeats_nothing(here: Machine) -> None:
    log = here.write(claude_log("one"), lines(*conversation(4)))
    here.read()
    tail, _ = tail_of(here)
    with log.open("ab") as file:
        file.write(lines(*conversation(6)[4:]))
    assert [seq for seq, _, _ in looked(tail)] == [5, 6]
    log.write_bytes(lines(conversation(6)[0], claude_line("user", "new", "another"), *conversation(6)[5:]))
    growth = tail.look()
    assert growth is not None
    assert growth.change == REPLACED
    assert [seq for seq, _ in growth.records] == [7]
    assert "another" in repr(growth.records)


def test_a_deleted_log_is_reported_once_and_followed_again_where_it_ended(here: Machine) -> None:
    log = here.write(claude_log("one"), lines(*conversation(4)))
    here.read()
    tail, _ = tail_of(here)
    assert looked(tail) == []
    log.unlink()
    growth = tail.look()
    assert growth is not None
    assert growth.change == GONE
    assert tail.look() is None
    log.write_bytes(lines(*conversation(5)))
    growth = tail.look()
    assert growth is not None
    assert (growth.change, [seq for seq, _ in growth.records]) == (None, [5])


def test_a_log_larger_than_a_block_comes_in_several_looks(here: Machine) -> None:
    log = here.write(claude_log("one"), lines(*conversation(2)))
    here.read()
    tail, _ = tail_of(here)
    long = claude_line("user", "long", "heron " * (BLOCK_BYTES // 5))
    with log.open("ab") as file:
        file.write(lines(long, claude_line("user", "last", "over")))
    first = tail.look()
    assert first is not None
    assert (first.records, first.has_more) == ((), True)
    assert [seq for seq, _, _ in looked(tail)] == [3, 4]


def test_a_record_that_its_adapter_fails_at_ends_nothing(here: Machine) -> None:
    log = here.write(claude_log("one"), lines(*conversation(2)))
    here.read()
    tail, _ = tail_of(here)
    with log.open("ab") as file:
        file.write(lines(b'{"type":"user","message":[1,2', b"\xff\xfe", *conversation(3)[2:]))
    assert [seq for seq, _, _ in looked(tail)][-1] == 5
