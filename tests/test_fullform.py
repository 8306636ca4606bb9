"""Full forms are read from the bytes, and each record once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from backstory.fullform import FullForms
from backstory.model import AssistantText, ToolCall
from tests.ingest.machines import Machine, claude_line, claude_log, lines

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.store import StoredEvent

PARTS = 200


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
    events = [forms.of(each) for each in machine.store.events(machine.store.session("log"))]
    assert [each.text for each in events if isinstance(each, AssistantText)] == [f"part {n}" for n in range(PARTS)]
    assert [each.input["description"] for each in events if isinstance(each, ToolCall)] == ["x" * 500]
    assert read == [1, 2]
    machine.close()
