"""Full forms are read from the bytes, and each record once."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory.errors import StoreDamaged
from backstory.export.full_form import FullForms
from backstory.model import AssistantText, Thinking, ToolCall, ToolResult
from backstory.store import Store, codec
from tests.support.machines import SMALL, Machine, claude_line, claude_log, lines

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.store import StoredEvent

PARTS = 200
RECORDS = 500
LONG = "and so on " * 30


def test_the_records_of_a_log_are_not_looked_for_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would unpack the chunk it lies in."""
    machine = with_records(tmp_path)
    read_log, asked = Store.read_log, list[int]()

    def counted(store: Store, log_id: int, start: int, length: int) -> bytes:
        asked.append(start)
        return read_log(store, log_id, start, length)

    monkeypatch.setattr(Store, "read_log", counted)
    assert thoughts(machine) == [f"prompt {n} {LONG}" for n in range(RECORDS)]
    assert len(asked) <= 3
    machine.close()


def test_each_chunk_is_unpacked_once_however_many_records_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path)
    text = "x" * 10_000
    machine.write(claude_log("log"), lines(*(thought(n, f"{n} {text}") for n in range(1_000))))
    machine.read()
    unpack_chunk, unpacked = codec.unpack_chunk, list[bytes]()

    def counted(frame: bytes, length: int, digest: bytes, find: codec.FindsDictionaries) -> bytes:
        unpacked.append(digest)
        return unpack_chunk(frame, length, digest, find)

    monkeypatch.setattr(codec, "unpack_chunk", counted)
    assert len(thoughts(machine)) == 1_000
    assert len(unpacked) == len(set(unpacked)) == 3
    machine.close()


def test_what_is_damaged_behind_a_record_does_not_keep_it_from_being_read(tmp_path: Path) -> None:
    machine = with_records(tmp_path)
    for number in range(RECORDS, RECORDS + 3):
        with (tmp_path / "home" / claude_log("log")).open("ab") as log:
            log.write(lines(claude_line("user", str(number), f"prompt {number}")))
        machine.read()
    machine.store.close()
    with closing(apsw.Connection(str(machine.store_path))) as db:
        damaged = "update chunks set data = zeroblob(length(data)) where start = (select max(start) from chunks)"
        db.execute(damaged)
    events = machine.store.events(machine.store.session("log"))
    forms = FullForms(machine.store)
    assert [forms.record(each)[:1] for each in events[:-1]] == [b"{"] * (RECORDS + 2)
    with pytest.raises(StoreDamaged):
        forms.record(events[-1])
    machine.close()


def with_records(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.write(claude_log("log"), lines(*(thought(n, f"prompt {n} {LONG}") for n in range(RECORDS))))
    machine.read()
    return machine


def thought(number: int, text: str) -> bytes:
    """A record of which the compact form is a beginning."""
    said = {"content": [{"type": "thinking", "thinking": text}]}
    return json.dumps(json.loads(claude_line("assistant", str(number))) | {"message": said}).encode()


def thoughts(machine: Machine) -> list[str]:
    forms = FullForms(machine.store)
    events = [forms.expand(each) for each in machine.store.events(machine.store.session("log"))]
    return [each.text for each in events if isinstance(each, Thinking)]


def test_what_the_compact_form_has_all_of_is_not_read_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write(claude_log("log"), lines(claude_line("user", "a", "hi"), thought(1, "short"), thought(2, LONG)))
    machine.read()
    read = list[int]()

    def counted(stored: StoredEvent) -> bytes:
        read.append(stored.seq)
        return forms.record(stored)

    forms = FullForms(machine.store, record=counted)
    events = [forms.expand(each) for each in machine.store.events(machine.store.session("log"))]
    assert [each.text for each in events if isinstance(each, Thinking)] == ["short", LONG]
    assert read == [3]
    machine.close()


def test_a_record_of_many_parts_is_read_once_for_all_of_them(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    said = [{"type": "text", "text": f"part {n}"} for n in range(PARTS)]
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls", "description": "x" * 500}}
    record = json.loads(claude_line("assistant", "b")) | {"message": {"role": "assistant", "content": [*said, call]}}
    machine.write(claude_log("log"), lines(claude_line("user", "a", "hi"), json.dumps(record).encode()))
    machine.read()
    read = list[int]()

    def counted(stored: StoredEvent) -> bytes:
        read.append(stored.seq)
        return forms.record(stored)

    forms = FullForms(machine.store, record=counted)
    events = [forms.expand(each) for each in machine.store.events(machine.store.session("log"))]
    assert [each.text for each in events if isinstance(each, AssistantText)] == [f"part {n}" for n in range(PARTS)]
    assert [each.input["description"] for each in events if isinstance(each, ToolCall)] == ["x" * 500]
    assert read == [2]
    machine.close()


def test_whether_a_result_failed_is_what_the_records_around_it_say(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for name in SMALL:
        machine.put(name)
    machine.read()
    forms, failed = FullForms(machine.store), 0
    for session in machine.store.sessions(subagents=True):
        for stored in machine.store.events(session):
            whole = forms.expand(stored)
            if isinstance(whole, ToolResult) and isinstance(stored.event, ToolResult):
                assert whole.is_error == stored.event.is_error
                failed += whole.is_error
    assert failed
    machine.close()
