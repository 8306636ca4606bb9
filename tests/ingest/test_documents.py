"""Logs that are one JSON document over many lines, as the earliest builds of Copilot CLI kept them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.export.full_form import FullForms
from backstory.ingest import log_reader
from backstory.ingest.log_reader import numbered_lines
from backstory.ingest.reindex import reindex
from backstory.model import AssistantText, Error, ToolCall, ToolResult, Unknown, UserMessage
from tests.support.clock import NOW
from tests.support.machines import CASES, Machine, differences, kept, lies, looked_up, prompts, restored, sha256

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.model import Event

SESSION = "06141331-92e8-4e9e-8bbb-9b7a729eb01a"
FOLDER = Path(".copilot/history-session-state")
NAME = f"session_{SESSION}_1760182820882.json"


def entry(kind: str, text: str = "", minute: int = 0, **more: Any) -> dict[str, Any]:
    id_ = f"{kind}-{text}-{minute}-{more.get('callId', '')}"
    said = {"text": text} if text else {}
    return {"id": id_, "timestamp": f"2025-10-11T11:{minute:02}:00.000Z", "type": kind, **said, **more}


def called(kind: str, minute: int, **result: Any) -> dict[str, Any]:
    given = {"command": "ls", "description": "look"}
    return entry(kind, minute=minute, callId="c1", name="bash", arguments=given, **result)


TIMELINE = [
    entry("info", "Connected", 1),
    entry("user", "Mend the gate", 2),
    entry("copilot", "I look first.", 3),
    called("tool_call_completed", 4, result={"type": "success", "log": "gate.py\n<exited with exit code 0>"}),
    entry("copilot", "It is mended.", 5),
    entry("user", "Paint it\u2028blue", 6),
    entry("copilot", "It is blue.", 7),
]
MESSAGES = [
    {"role": "system", "content": "You are an agent."},
    {
        "role": "user",
        "content": "Mend the gate\n\n<current_datetime>2025</current_datetime>\n\n<reminder>\nx\n</reminder>",
    },
    {
        "role": "assistant",
        "content": "I look first.",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "gate.py"},
    {"role": "assistant", "content": "It is mended."},
]


def document(timeline: list[Any] | None = None, indent: int | None = 2, **more: Any) -> bytes:
    told = {
        "sessionId": SESSION,
        "startTime": "2025-10-11T11:00:00.000Z",
        "chatMessages": MESSAGES,
        "timeline": TIMELINE if timeline is None else timeline,
        **more,
    }
    return json.dumps(told, indent=indent, ensure_ascii=False).encode()


def put(machine: Machine, data: bytes, name: str = NAME) -> Path:
    return machine.write(FOLDER / name, data)


def events(machine: Machine) -> list[Event]:
    return [each.event for each in machine.store.events(machine.store.session(SESSION))]


def words(machine: Machine) -> list[str]:
    return [each.text for each in events(machine) if isinstance(each, AssistantText)]


def test_a_document_is_read_record_by_record(machine: Machine) -> None:
    put(machine, document())
    report = machine.read("copilot")
    assert (report.errors, report.unknown_records) == ([], {})
    assert prompts(machine.store) == ["Mend the gate", "Paint it\u2028blue"]
    assert words(machine) == ["I look first.", "It is mended.", "It is blue."]
    seqs = [each.seq for each in machine.store.events(machine.store.session(SESSION))]
    assert len(set(seqs)) == len(TIMELINE) and seqs == sorted(seqs)


def test_its_turns_have_their_times_and_ends(machine: Machine) -> None:
    put(machine, document(selectedModel="gpt-5"))
    machine.read("copilot")
    first, second = machine.store.turns(machine.store.session(SESSION))
    assert (first.outcome, second.outcome, second.model) == ("completed", "completed", "gpt-5")
    assert (second.started or 0) - (first.started or 0) == 4 * 60_000
    assert second.parent_uid == first.uid and first.last_seq < second.first_seq


def test_a_session_without_any_time_in_its_beginning_began_when_the_document_says(machine: Machine) -> None:
    put(machine, document(timeline=[]))
    machine.read("copilot")
    assert machine.store.session(SESSION).created == "2025-10-11T11:00:00.000Z"


@pytest.mark.parametrize("indent", [2, 4, None])
def test_its_bytes_come_back_and_its_records_tell_the_same_again(
    machine: Machine, tmp_path: Path, indent: int | None
) -> None:
    data = document(indent=indent)
    put(machine, data)
    machine.read("copilot")
    before = machine.content()
    assert reindex(machine.store, now=NOW, events_too=True).failed == []
    assert differences(machine.content(), before) == []
    session = machine.store.session(SESSION)
    (told,) = restored(machine.store, tmp_path / "out", only=session)
    assert lies(told).read_bytes() == data
    assert machine.store.verify().problems == []


def test_an_events_full_form_comes_from_its_record(machine: Machine) -> None:
    output = "line\n" * 20_000
    timeline = [
        *TIMELINE[:3],
        called("tool_call_requested", 4),
        called("tool_call_completed", 5, result={"type": "success", "log": output}),
    ]
    put(machine, document(timeline))
    machine.read("copilot")
    full = FullForms(machine.store)
    told = [full.expand(each) for each in machine.store.events(machine.store.session(SESSION))]
    (result,) = [each for each in told if isinstance(each, ToolResult)]
    assert (result.content, result.tool_name) == (output, "bash")


def test_a_call_that_is_asked_for_and_done_is_told_once(machine: Machine) -> None:
    done = called("tool_call_completed", 5, result={"type": "rejected", "log": "The user said no."})
    put(machine, document([*TIMELINE[:2], called("tool_call_requested", 4), done]))
    machine.read("copilot")
    assert len([each for each in events(machine) if isinstance(each, ToolCall)]) == 1
    (result,) = [each for each in events(machine) if isinstance(each, ToolResult)]
    assert result.is_error


def test_what_a_command_did_is_derived(machine: Machine) -> None:
    created = entry(
        "tool_call_completed", minute=4, callId="c2", name="str_replace_editor", result={"type": "success", "log": ""},
        arguments={"command": "create", "path": "/src/gate.py", "file_text": "x"},
    )  # fmt: skip
    put(machine, document([*TIMELINE[:2], created]))
    machine.read("copilot")
    assert looked_up(machine.store_path, "select file_path, action from session_files") == [("/src/gate.py", "create")]


def test_an_error_fails_its_turn(machine: Machine) -> None:
    put(machine, document([TIMELINE[1], entry("error", "The model is gone.", 3)]))
    machine.read("copilot")
    assert [each.message for each in events(machine) if isinstance(each, Error)] == ["The model is gone."]
    (turn,) = machine.store.turns(machine.store.session(SESSION))
    assert turn.outcome == "failed"


def test_an_entry_of_a_kind_that_is_not_known_is_kept_and_counted(machine: Machine) -> None:
    put(machine, document([TIMELINE[1], entry("hologram", "a cat", 3)]))
    assert machine.read("copilot").unknown_records == {"hologram": 1}
    assert [each.type for each in events(machine) if isinstance(each, Unknown)] == ["hologram"]


@pytest.mark.parametrize("indent", [2, None])
def test_without_a_timeline_what_the_model_was_sent_is_told(machine: Machine, indent: int | None) -> None:
    put(machine, document([], indent))
    machine.read("copilot")
    assert prompts(machine.store) == ["Mend the gate"]
    assert words(machine) == ["I look first.", "It is mended."]
    (result,) = [each for each in events(machine) if isinstance(each, ToolResult)]
    assert (result.content, result.tool_name) == ("gate.py", "bash")


@pytest.mark.parametrize("share", range(1, 20))
def test_a_document_that_was_cut_off_says_what_it_says_and_goes_on_where_it_was(
    machine: Machine, another: Callable[[], Machine], share: int
) -> None:
    whole = document()
    put(machine, whole[: len(whole) * share // 20])
    assert machine.read("copilot").errors == []
    put(machine, whole)
    assert machine.read("copilot").errors == []
    at_once = another()
    put(at_once, whole)
    at_once.read("copilot")
    assert differences(machine.content(), at_once.content()) == []


def test_a_document_written_anew_with_more_in_it_keeps_the_numbers_of_what_it_had(machine: Machine) -> None:
    put(machine, document(TIMELINE[:5]))
    machine.read("copilot")
    before = {each.id: each.seq for each in machine.store.events(machine.store.session(SESSION))}
    numbers = sorted(before.values())
    put(machine, document())
    assert machine.read("copilot").errors == []
    session = machine.store.session(SESSION)
    assert [each.seq for each in machine.store.events(session)][: len(numbers)] == numbers
    assert prompts(machine.store) == ["Mend the gate", "Paint it\u2028blue"]
    assert words(machine) == ["I look first.", "It is mended.", "It is blue."]
    assert machine.store.verify().problems == []


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_blocks_and_slices_smaller_than_records_make_no_difference(
    machine: Machine, another: Callable[[], Machine], monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    put(machine, document())
    machine.read("copilot")
    monkeypatch.setattr(log_reader, "BLOCK_BYTES", block)
    monkeypatch.setattr(log_reader, "SLICE_BYTES", 200)
    pieced = another()
    put(pieced, document())
    pieced.read("copilot")
    assert differences(pieced.content(), machine.content()) == []


@pytest.mark.parametrize(
    "data", [b'{"name": "else"}', b"[]", b"{\n", b"not JSON\n", b'{\n  "other": [\n    {\n      "a": 1\n    }\n  ]\n}']
)
def test_another_document_is_said_to_be_none_of_ours(machine: Machine, data: bytes) -> None:
    put(machine, data)
    (problem,) = machine.read("copilot").not_understood
    assert "no record of this agent" in problem.reason
    assert kept(machine.store) == [sha256(data)]


def test_a_document_that_does_not_say_its_session_goes_by_its_name() -> None:
    head = b'{\n  "startTime": "2025-10-11T11:00:00.000Z",\n'
    identity = agents.load("copilot").log.identify(FOLDER / NAME, head)
    assert identity is not None and identity.native_id == SESSION


def test_damage_inside_a_record_costs_that_record_only(machine: Machine) -> None:
    put(machine, document().replace(b'"text": "It is mended."', b'"text": "It is men'))
    assert machine.read("copilot").unknown_records == {"not JSON": 1}
    assert words(machine) == ["I look first.", "It is blue."]


@pytest.mark.parametrize("element", [None, 1, "text", [], {}, {"type": 1}, {"type": "user", "text": 5}])
def test_odd_elements_are_read_for_what_they_are(machine: Machine, element: Any) -> None:
    put(machine, document([element, *TIMELINE], chatMessages=[element]))
    assert machine.read("copilot").errors == []
    assert prompts(machine.store) == ["Mend the gate", "Paint it\u2028blue"]
    assert machine.store.verify().problems == []


def test_a_recorded_document_is_one_session(machine: Machine) -> None:
    (recorded,) = (CASES / "copilot" / "document").rglob("session_*.json")
    put(machine, recorded.read_bytes())
    assert machine.read("copilot").errors == []
    said = [each for each in events(machine) if isinstance(each, UserMessage)]
    assert len(said) == 1
    (log,) = machine.store.logs(machine.store.session(SESSION))
    assert len(list(numbered_lines(machine.store, log))) == 13
