"""A session as a log of another agent: all that was said and done is in it, and every record is accounted for."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents, ids
from backstory.agents.claude.steer import Steering
from backstory.agents.claude.write import Writing as ClaudeWriting
from backstory.conversation.carried import Fidelity
from backstory.conversation.carrying import NO_RESULT, TurnCarrier
from backstory.conversation.tree import Point, Span, Tree
from backstory.derive.secrets import Redactor
from backstory.export.full_form import FullForms
from backstory.export.native_log import CarriedTurns, NativeLog
from backstory.export.read_back import Contents, read_back
from backstory.model import AssistantText, Plan, Relation, UserMessage
from backstory.store.tables import events
from backstory.workspace.clients.native_export import report_as_json
from tests.support import claude_records as claude
from tests.support import codex_records as codex
from tests.support.machines import Machine, case, claude_log, lines, place
from tests.support.reading import CASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from backstory.conversation.carrying import CarryEvent
    from backstory.store import Session

RECORDED = sorted(
    f"{agent}/{path.name}" for agent in ("claude", "codex") for path in (CASES / agent).iterdir() if path.is_dir()
)
SETTINGS = {"claude": {}, "codex": {"model_provider": "openai"}}
IMAGE = "iVBORw0KGgoAAAANSUhEUg=="
CLAUDE_LOG = claude_log(claude.SESSION)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Machine]]:
    """Returns the machine that has read a recorded session: the same for each test, of which none changes it."""
    made = dict[str, Machine]()

    def machine_of(name: str) -> Machine:
        if name not in made:
            made[name] = Machine(tmp_path_factory.mktemp("recorded"))
            made[name].write(place(name), case(name))
            made[name].read()
        return made[name]

    yield machine_of
    for each in made.values():
        each.close()


def only(machine: Machine) -> Session:
    (session,) = [each for each in machine.store.sessions() if each.relation != Relation.SUBAGENT]
    return session


def native(machine: Machine, target: str, session: Session | None = None, **more: Any) -> NativeLog:
    session = session or only(machine)
    given = {"to": None, "folder": "/w", "settings": SETTINGS[target], **more}
    return NativeLog(machine.store, session, target, **given)


def written(machine: Machine, target: str, **more: Any) -> tuple[NativeLog, list[dict[str, Any]]]:
    """A session as a log, and its records."""
    log = native(machine, target, **more)
    return log, [json.loads(each) for each in log.lines()]


def of_claude(machine: Machine, *records: bytes, target: str = "codex", **more: Any) -> tuple[NativeLog, list[Any]]:
    machine.write(CLAUDE_LOG, lines(*records))
    machine.read()
    return written(machine, target, **more)


def of_codex(machine: Machine, *records: bytes, target: str = "claude", **more: Any) -> tuple[NativeLog, list[Any]]:
    machine.write(codex.LOG, lines(codex.meta(), codex.begun("t1"), *records))
    machine.read()
    return written(machine, target, **more)


def payloads(records: list[Any], kind: str) -> list[Any]:
    return [each["payload"] for each in records if each["payload"].get("type") == kind]


def blocks(records: list[Any], kind: str) -> list[Any]:
    contents = [each["message"]["content"] for each in records if isinstance(each["message"]["content"], list)]
    return [block for content in contents for block in content if block["type"] == kind]


def fates(log: NativeLog) -> dict[int, str]:
    return {each.seq: each.fate.value for each in log.fidelity.records}


# all that was said ------------------------------------------------------------------------------------------------


def said(machine: Machine, session: Session) -> tuple[list[str], list[str]]:
    """The prompts and the answers of a session's branch, in full, without words typed while the agent worked."""
    forms, prompts, answers = FullForms(machine.store), list[str](), list[str]()
    leaf = machine.store.leaf(session)
    path = Tree(machine.store.tree(session)).ancestry(leaf.uid) if leaf is not None else []
    # A log that begins in the midst of a conversation has answers in no turn.
    on_path, seen = {None, *(turn.id for turn in path)}, set[int | None]()
    for stored in machine.store.events(session):
        event = forms.expand(stored)
        if stored.turn_id not in on_path:
            continue
        if isinstance(event, UserMessage) and stored.turn_id not in seen:
            seen.add(stored.turn_id)
            prompts.append(event.content.strip())
        if isinstance(event, AssistantText) and event.text.strip():
            answers.append(event.text.strip())
        if isinstance(event, Plan) and event.name == "proposed_plan":
            answers.append(event.content.strip())
    return prompts, answers


@pytest.mark.parametrize("target", ["claude", "codex"])
@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_session_is_read_back_with_every_prompt_and_answer(
    read: Callable[[str], Machine], tmp_path: Path, name: str, target: str
) -> None:
    machine = read(name)
    for session in machine.store.sessions(subagents=True):
        log = native(machine, target, session)
        data = b"".join(log.lines())
        other = Machine(tmp_path / session.uid)
        writer = agents.load(target).write
        assert writer is not None
        other.write(f".{target}/{writer.log_name(log.head)}", data)
        other.read(target)
        (again,) = other.store.sessions()
        assert again.native_id == log.native_id
        assert said(other, again) == said(machine, session)
        other.close()


@pytest.mark.parametrize("target", ["claude", "codex"])
@pytest.mark.parametrize("name", RECORDED)
def test_every_record_is_accounted_for_once(read: Callable[[str], Machine], name: str, target: str) -> None:
    machine = read(name)
    for session in machine.store.sessions(subagents=True):
        log = native(machine, target, session)
        assert log.contents.difference(read_back(target, log.native_id, log.lines())) is not None
        numbers = machine.store.ask(events.record_numbers, session.id)
        assert [each.seq for each in log.fidelity.records] == numbers
        assert len(numbers) == case(name).count(b"\n") + (not case(name).endswith(b"\n"))
        assert sum(log.fidelity.counts.values()) == len(numbers)


def test_a_log_is_the_same_each_time_and_its_ids_are_those_of_the_turns(machine: Machine) -> None:
    log, records = of_claude(machine, claude.user("Hello", "p1"), claude.answer("Hi.", "p2"))
    assert records == [json.loads(each) for each in log.lines()]
    (turn,) = machine.store.turns(only(machine))
    assert payloads(records, "task_started")[0]["turn_id"] == ids.written_turn_id(turn.uid)
    assert log.native_id == ids.written_log_id(only(machine).uid, turn.uid, "codex")
    assert uuid.UUID(log.native_id).version == 5


def test_a_log_that_a_turn_was_added_to_is_another_one(machine: Machine) -> None:
    first, _ = of_claude(machine, claude.user("Hello", "p1"), claude.answer("Hi.", "p2"))
    more = claude.user("More", "p3"), claude.answer("There.", "p4")
    second, _ = of_claude(machine, claude.user("Hello", "p1"), claude.answer("Hi.", "p2"), *more)
    assert first.native_id != second.native_id


def test_a_log_that_ends_inside_a_turn_is_another_one_than_that_of_the_whole(machine: Machine) -> None:
    asked = claude.user("Hello", "p1"), claude.answer("Hi.", "p2"), claude.answer("There.", "p3")
    whole, _ = of_claude(machine, *asked)
    (turn,) = machine.store.turns(only(machine))
    part, records = written(machine, "codex", to=Point(turn.uid, 2))
    assert part.native_id != whole.native_id
    assert "There." not in json.dumps(records)
    assert fates(part) == {1: "kept", 2: "kept", 3: "left_out"}


# calls ------------------------------------------------------------------------------------------------------------


def test_a_command_is_called_by_the_name_that_the_target_has_for_it(machine: Machine) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls", "description": "List"}}
    log, records = of_claude(
        machine, claude.user("Look", "p1"), claude.assistant(call, uuid="p2"), claude.result("reeds", "toolu_1")
    )
    (called,) = payloads(records, "function_call")
    assert (called["name"], json.loads(called["arguments"])) == ("exec_command", {"cmd": "ls"})
    assert payloads(records, "function_call_output")[0]["output"] == "reeds"
    assert fates(log) == {1: "kept", 2: "converted", 3: "kept"}


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ({"cmd": "ls"}, "ls"),
        ({"cmd": "ls", "workdir": "/w"}, "ls"),
        ({"cmd": "ls", "workdir": "/else where"}, "cd '/else where' && ls"),
    ],
)
def test_a_command_in_another_folder_is_run_there(machine: Machine, given: dict[str, str], command: str) -> None:
    called = codex.call("exec_command", "c1", **given)
    _, records = of_codex(machine, codex.prompt("Look"), called, codex.output("c1", "reeds"))
    assert blocks(records, "tool_use")[0]["input"] == {"command": command}


def test_a_tool_that_the_target_lacks_is_told_as_text_and_no_name_is_made_up(machine: Machine) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Grep", "input": {"pattern": "heron"}}
    log, records = of_claude(
        machine, claude.user("Look", "p1"), claude.assistant(call, uuid="p2"), claude.result("reeds:3", "toolu_1")
    )
    assert payloads(records, "function_call") == []
    (told,) = [each for each in payloads(records, "message") if "Grep" in each["content"][0]["text"]]
    assert told["role"] == "user"
    assert "heron" in told["content"][0]["text"]
    assert "reeds:3" in told["content"][0]["text"]
    assert fates(log) == {1: "kept", 2: "as_text", 3: "as_text"}


def test_what_is_told_as_text_is_neither_a_prompt_nor_an_answer(machine: Machine) -> None:
    called = codex.call("update_plan", "c1", plan=[{"step": "Look"}])
    log, _ = of_codex(machine, codex.prompt("Plan"), called, codex.output("c1", "Updated"), codex.answer("Done."))
    found = read_back("claude", log.native_id, log.lines())
    assert (len(found.prompts), len(found.answers), found.calls) == (1, 1, [])


def test_a_call_without_a_result_is_closed_with_an_error_that_says_so(machine: Machine) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    for target in ("claude", "codex"):
        log, records = of_claude(
            machine, claude.user("Look", "p1"), claude.assistant(call, uuid="p2"), claude.user("Well?", "p3"),
            target=target,
        )  # fmt: skip
        closed = blocks(records, "tool_result") if target == "claude" else payloads(records, "function_call_output")
        assert NO_RESULT in json.dumps(closed)
        assert fates(log)[2] == "converted"
    assert [each.get("is_error") for each in blocks(written(machine, "claude")[1], "tool_result")] == [True]


def test_a_result_stands_right_behind_its_calls_also_where_words_came_between(machine: Machine) -> None:
    records = of_codex(
        machine, codex.prompt("Look"), codex.call("exec_command", "c1", cmd="one"),
        codex.call("exec_command", "c2", cmd="two"), codex.answer("Waiting."), codex.output("c2", "second"),
        codex.output("c1", "first"), codex.answer("Done."),
    )[1]  # fmt: skip
    kinds = [[block["type"] for block in each["message"]["content"]] for each in records[1:]]
    assert kinds == [["tool_use"], ["tool_use"], ["text"], ["tool_result", "tool_result"], ["text"]]
    assert [each["tool_use_id"] for each in blocks(records, "tool_result")] == ["c1", "c2"]
    assert [each["content"] for each in blocks(records, "tool_result")] == ["first", "second"]


def test_two_calls_of_one_id_get_two_ids(machine: Machine) -> None:
    one = codex.call("exec_command", "c1", cmd="one"), codex.output("c1", "first")
    two = codex.begun("t2"), codex.prompt("Again"), codex.call("exec_command", "c1", cmd="two")
    _, records = of_codex(machine, codex.prompt("Look"), *one, *two, codex.output("c1", "second"))
    calls, results = blocks(records, "tool_use"), blocks(records, "tool_result")
    assert len({each["id"] for each in calls}) == 2
    assert [each["id"] for each in calls] == [each["tool_use_id"] for each in results]


ADDED = "*** Begin Patch\n*** Add File: notes.md\n+# Notes\n+one\n*** End Patch"
CHANGED = "*** Begin Patch\n*** Update File: notes.md\n@@\n # Notes\n-one\n+two\n*** End Patch"
SEVERAL = "*** Begin Patch\n*** Delete File: a\n*** Delete File: b\n*** End Patch"


def test_a_patch_of_one_place_is_the_targets_own_edit(machine: Machine) -> None:
    records = of_codex(
        machine, codex.prompt("Write"), codex.patch("c1", ADDED), codex.patched("c1", "Success."),
        codex.patch("c2", CHANGED), codex.patched("c2", "Success."), codex.patch("c3", SEVERAL),
        codex.patched("c3", "Success."),
    )[1]  # fmt: skip
    assert [(each["name"], each["input"]) for each in blocks(records, "tool_use")] == [
        ("Write", {"file_path": "/w/notes.md", "content": "# Notes\none\n"}),
        ("Edit", {"file_path": "/w/notes.md", "old_string": "# Notes\none\n", "new_string": "# Notes\ntwo\n"}),
    ]
    assert "*** Delete File: b" in json.dumps(blocks(records, "text"))


@pytest.mark.parametrize(("content", "is_patch"), [("# Notes\none\n", True), ("no end of line", False)])
def test_a_file_that_was_written_is_a_patch_if_a_patch_can_say_it(
    machine: Machine, content: str, is_patch: bool
) -> None:
    given = {"file_path": "notes.md", "content": content}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": given}
    _, records = of_claude(
        machine, claude.user("Write", "p1"), claude.assistant(call, uuid="p2"), claude.result("Written", "toolu_1")
    )
    assert [each["input"] for each in payloads(records, "custom_tool_call")] == [ADDED] * is_patch


def test_a_sessions_own_agent_keeps_its_calls_as_they_were(machine: Machine) -> None:
    given = {"command": "ls", "description": "List", "timeout": 5}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": given}
    log, records = of_claude(
        machine, claude.user("Look", "p1"), claude.assistant(call, uuid="p2"), claude.result("x", "toolu_1"),
        target="claude",
    )  # fmt: skip
    assert blocks(records, "tool_use") == [call]
    assert set(fates(log).values()) == {"kept"}


def test_turns_whose_spans_lie_over_each_other_keep_their_own_events(machine: Machine) -> None:
    of_codex(machine, codex.prompt("One"), codex.answer("1."), codex.begun("t2"), codex.prompt("Two"))
    session = only(machine)
    turns = CarriedTurns(
        machine.store, session, Tree(machine.store.tree(session)), target="claude", folder="/w", fidelity=Fidelity(),
        contents=Contents(), redactor=None,
    )  # fmt: skip
    stored = machine.store.turns(session)
    for spans in ([Span(turn.uid, 1, 9) for turn in stored], [Span(t.uid, t.first_seq, t.last_seq) for t in stored]):
        found = [[each.event.kind for each in own] for _, own in turns.by_turn(spans)]
        assert found == [["UserMessage", "AssistantText"], ["UserMessage"]]


# words that a record holds beside a tool's result -----------------------------------------------------------------

LOOKED = claude.assistant({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}, uuid="p2")
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no reeds here"}
BESIDE = claude.user([RESULT, {"type": "text", "text": "Why no reeds?"}], "p3")


def parts(log: NativeLog) -> dict[int, list[tuple[str, str]]]:
    """The kind and the fate of each event of the records that hold several."""
    records = report_as_json(log.fidelity)["records"]
    return {each["seq"]: [(p["kind"], p["fate"]) for p in each["parts"]] for each in records if "parts" in each}


@pytest.mark.parametrize("target", ["claude", "codex"])
def test_words_typed_while_a_tool_ran_are_the_prompt_of_their_turn(machine: Machine, target: str) -> None:
    log, _ = of_claude(machine, claude.user("Look", "p1"), LOOKED, BESIDE, claude.answer("None.", "p4"), target=target)
    other = Machine(machine.home / "other")
    other.write(f".{target}/{log.part.log_name(log.head)}", b"".join(log.lines()))
    other.read(target)
    (again,) = other.store.sessions()
    assert said(other, again) == (["Look", "Why no reeds?"], ["None."])
    other.close()


@pytest.mark.parametrize("target", ["claude", "codex"])
def test_a_result_beside_a_prompt_closes_the_call_of_the_turn_before(machine: Machine, target: str) -> None:
    log, records = of_claude(machine, claude.user("Look", "p1"), LOOKED, BESIDE, target=target)
    closed = blocks(records, "tool_result") if target == "claude" else payloads(records, "function_call_output")
    assert [each.get("content", each.get("output")) for each in closed] == ["no reeds here"]
    assert json.dumps(records).count("no reeds here") == 1
    assert parts(log) == {3: [("UserMessage", "kept"), ("ToolResult", "kept")]}


def test_a_record_of_two_events_has_the_fate_of_each(machine: Machine) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Grep", "input": {"pattern": "heron"}}
    log, _ = of_claude(machine, claude.user("Look", "p1"), claude.assistant(call, uuid="p2"), BESIDE)
    assert parts(log) == {3: [("UserMessage", "kept"), ("ToolResult", "as_text")]}
    assert fates(log) == {1: "kept", 2: "as_text", 3: "as_text"}


@pytest.mark.parametrize("target", ["claude", "codex"])
def test_words_that_a_working_agent_was_given_beside_a_result_stay_in_its_turn(machine: Machine, target: str) -> None:
    uuid_ = Steering().message_id("01J9")
    given = claude.user([RESULT, {"type": "text", "text": "Only the reeds"}], uuid_)
    log, records = of_claude(machine, claude.user("Look", "p1"), LOOKED, given, claude.answer("None."), target=target)
    assert json.dumps(records).count("Only the reeds") == 1
    assert log.contents.difference(read_back(target, log.native_id, log.lines())) is None
    assert parts(log)[3] == [("UserMessage", "converted"), ("ToolResult", "kept")]


@pytest.mark.parametrize("target", ["claude", "codex"])
def test_words_of_a_refusal_stand_in_its_result_alone(machine: Machine, target: str) -> None:
    refused = claude.refused("Use the map instead", "toolu_1")
    log, records = of_claude(machine, claude.user("Look", "p1"), LOOKED, refused, target=target)
    assert json.dumps(records).count("Use the map instead") == 1
    assert log.contents.difference(read_back(target, log.native_id, log.lines())) is None


@pytest.mark.parametrize("target", ["claude", "codex"])
@pytest.mark.parametrize("typed", ["prompts", "words"])
def test_a_log_that_lost_typed_words_on_its_way_is_found_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, target: str, typed: str
) -> None:
    uuid_ = "p3" if typed == "prompts" else Steering().message_id("01J9")
    beside = claude.user([RESULT, {"type": "text", "text": "Why no reeds?"}], uuid_)

    def lose(carrier: Any, each: CarryEvent, text: str, record: Sequence[CarryEvent]) -> None:
        if each.seq != 3:
            take(carrier, each, text, record)

    take = TurnCarrier._user
    monkeypatch.setattr(TurnCarrier, "_user", lose)
    log, _ = of_claude(machine, claude.user("Look", "p1"), LOOKED, beside, claude.answer("None."), target=target)
    how = log.contents.difference(read_back(target, log.native_id, log.lines()))
    assert how == {"prompts": "it has 1 prompts instead of 2", "words": "it lacks words typed in record 3"}[typed]


# what else a turn may hold ----------------------------------------------------------------------------------------


def test_what_a_model_thought_is_left_out_and_said_so(machine: Machine) -> None:
    thought = {"type": "thinking", "thinking": "Hm-4711", "signature": "c3R1Yg=="}
    for target in ("claude", "codex"):
        log, records = of_claude(
            machine, claude.user("Look", "p1"), claude.assistant(thought, uuid="p2"), claude.answer("Ah.", "p3"),
            target=target,
        )  # fmt: skip
        assert "Hm-4711" not in json.dumps(records)
        assert fates(log) == {1: "kept", 2: "left_out", 3: "kept"}


def test_images_go_along(machine: Machine) -> None:
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}
    _, records = of_claude(
        machine, claude.user([{"type": "text", "text": "Look"}, block], "p1"), claude.answer("Seen.")
    )
    (asked,) = [each for each in payloads(records, "message") if each["role"] == "user"]
    assert asked["content"][1] == {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}"}
    assert asked["content"][0]["text"] == "Look"


def test_images_come_back(machine: Machine) -> None:
    url = f"data:image/png;base64,{IMAGE}"
    shown = (
        codex.call("exec_command", "c1", cmd="show"),
        codex.output("c1", [{"type": "input_image", "image_url": url}]),
    )
    _, records = of_codex(machine, codex.prompt("Look", images=[url]), *shown, codex.answer("Seen."))
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}
    assert records[0]["message"]["content"] == [{"type": "text", "text": "Look"}, block]
    assert blocks(records, "tool_result")[0]["content"] == [block]


def test_an_image_that_a_tool_returned_goes_along_with_what_is_told_of_it(machine: Machine) -> None:
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/w/x.png"}}
    shown = claude.user([{"type": "tool_result", "tool_use_id": "toolu_1", "content": [block]}], "p3")
    log, records = of_claude(machine, claude.user("Look", "p1"), claude.assistant(call, uuid="p2"), shown)
    (told,) = [each for each in payloads(records, "message") if "x.png" in json.dumps(each)]
    assert told["content"][1] == {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}"}
    assert {each.why for each in log.fidelity.records if each.fate == "as_text"} == {"the target has no such tool"}


def test_an_image_that_the_log_only_names_is_said_to_be_lost(machine: Machine) -> None:
    log, records = of_codex(machine, codex.prompt("Look", local_images=["/tmp/x.png"]), codex.answer("Seen."))
    assert records[0]["message"]["content"] == "Look\n[image]"
    assert [each.fate for each in log.fidelity.records if each.kind == "UserMessage"] == ["as_text"]


def test_an_interrupted_turn_is_interrupted_there_too(machine: Machine) -> None:
    stopped = claude.user([{"type": "text", "text": "[Request interrupted by user]"}], "p3")
    _, records = of_claude(machine, claude.user("Look", "p1"), claude.answer("I l", "p2"), stopped)
    assert payloads(records, "turn_aborted")[0]["reason"] == "interrupted"
    assert payloads(records, "task_complete") == []
    assert "<turn_aborted>" in json.dumps(payloads(records, "message"))


def test_a_turn_that_codex_aborted_is_interrupted_in_claude(machine: Machine) -> None:
    aborted = codex.line("event_msg", type="turn_aborted", turn_id="t1", reason="interrupted")
    _, records = of_codex(machine, codex.prompt("Look"), codex.answer("I l"), aborted)
    assert records[-1]["message"]["content"] == [{"type": "text", "text": "[Request interrupted by user]"}]


def test_what_a_subagent_said_last_stands_in_its_calls_result(machine: Machine) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Agent", "input": {"prompt": "Count otters"}}
    child: dict[str, Any] = {"isSidechain": True, "agentId": "abc12345"}
    machine.write(
        CLAUDE_LOG.with_suffix("") / "subagents" / "agent-abc12345.jsonl",
        lines(claude.user("Count otters", "c1", **child), claude.answer("Two otters.", "c2", **child)),
    )
    launched = claude.result("Launched. agentId: abc12345", "toolu_1")
    for target in ("claude", "codex"):
        _, records = of_claude(
            machine, claude.user("Look", "p1"), claude.assistant(call, uuid="p2"), launched, target=target
        )
        assert json.dumps(records).count("Two otters.") == 1


SUMMARY = claude.user(
    f"This session is being continued. Summary-5: {'herons nest in the reeds. ' * 100}", "s1", isCompactSummary=True
)


def summarised(machine: Machine, target: str) -> tuple[NativeLog, list[Any]]:
    before = claude.user("First-1", "p1"), claude.answer("Answer-1", "p2")
    return of_claude(
        machine, *before, SUMMARY, claude.user("Second-2", "p3"), claude.answer("Two", "p4"), target=target
    )


@pytest.mark.parametrize("target", ["claude", "codex"])
def test_a_session_that_has_room_is_written_whole_without_its_summary(machine: Machine, target: str) -> None:
    log, records = summarised(machine, target)
    assert "Answer-1" in json.dumps(records)
    assert "Summary-5" not in json.dumps(records)
    assert fates(log)[3] == "left_out"


def test_a_session_without_room_begins_with_the_summary_in_force(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClaudeWriting, "window_chars", 20)
    log, records = summarised(machine, "claude")
    assert "Summary-5" in json.dumps(records[0])
    assert records[0]["isMeta"]
    assert "Answer-1" not in json.dumps(records)
    assert records[1]["message"]["content"] == "Second-2"
    assert list(fates(log).values()) == ["as_text"] * 3 + ["kept"] * 2


def test_a_branch_that_was_left_is_left_out(machine: Machine) -> None:
    log, records = of_claude(
        machine, claude.user("First", "p1"), claude.answer("One", "p2", "p1"), claude.user("Left-9", "p3", "p2"),
        claude.answer("Left-9 too", "p4", "p3"), claude.user("Taken", "p5", "p2"), claude.answer("Yes", "p6", "p5"),
    )  # fmt: skip
    assert "Left-9" not in json.dumps(records)
    assert fates(log) == {1: "kept", 2: "kept", 3: "left_out", 4: "left_out", 5: "kept", 6: "kept"}
    assert {each.why for each in log.fidelity.records if each.seq in (3, 4)} == {"it is on another branch"}


def test_words_typed_while_the_agent_worked_stay_in_their_turn(machine: Machine) -> None:
    machine.write(place("claude/steered"), case("claude/steered"))
    machine.read()
    before = len(machine.store.turns(only(machine)))
    for target, started in (("codex", "task_started"), ("claude", None)):
        log, records = written(machine, target)
        assert "converted" in fates(log).values()
        if started:
            assert len(payloads(records, started)) == before


def test_secrets_are_masked_and_images_that_nobody_can_mask_are_left_out(machine: Machine) -> None:
    secret = "ghp_" + "a1B2" * 9
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": f"login {secret}"}}
    log, records = of_claude(
        machine, claude.user([{"type": "text", "text": f"Use {secret}"}, block], "p1"),
        claude.assistant(call, uuid="p2"), claude.result(f"{secret} is fine", "toolu_1"), claude.answer(secret, "p4"),
        redactor=Redactor(),
    )  # fmt: skip
    assert secret not in json.dumps(records)
    assert IMAGE not in json.dumps(records)
    assert log.contents.difference(read_back("codex", log.native_id, log.lines())) is None


# what other people's programs stumbled over -----------------------------------------------------------------------


def test_codex_finds_times_as_text_both_ids_and_whose_thread_it_is(machine: Machine) -> None:
    log, records = of_claude(machine, claude.user("Hello", "p1"), claude.answer("Hi.", "p2"))
    head = records[0]["payload"]
    assert (head["id"], head["session_id"], head["thread_source"]) == (log.native_id, log.native_id, "user")
    assert head["model_provider"] == "openai"
    assert all(each["timestamp"].endswith("Z") for each in records)


def test_claude_finds_the_whole_envelope_of_each_answer(machine: Machine) -> None:
    _, records = of_codex(
        machine, codex.prompt("Look"), codex.answer("I look."), codex.call("exec_command", "c1", cmd="ls"),
        codex.output("c1", "x"),
    )  # fmt: skip
    answers = [each["message"] for each in records if each["type"] == "assistant"]
    named = {"id", "type", "role", "model", "stop_reason", "stop_sequence", "usage"}
    assert all(named <= each.keys() and len(each["content"]) == 1 for each in answers)
    assert len({each["id"] for each in answers}) == 1
    assert {each["stop_reason"] for each in answers} == {"tool_use"}


def test_claude_finds_inputs_that_are_objects_and_results_in_the_users_place(machine: Machine) -> None:
    _, records = of_codex(
        machine, codex.prompt("Look"), codex.call("exec_command", "c1", cmd="ls"), codex.output("c1", "x"),
        codex.answer("Done."),
    )  # fmt: skip
    assert all(isinstance(each["input"], dict) for each in blocks(records, "tool_use"))
    places = [(each["type"], each["message"]["content"][0]["type"]) for each in records[1:3]]
    assert places == [("assistant", "tool_use"), ("user", "tool_result")]


def test_records_of_claude_follow_each_other(machine: Machine) -> None:
    _, records = of_codex(machine, codex.prompt("Look"), codex.answer("One."), codex.begun("t2"), codex.prompt("More"))
    assert [each["parentUuid"] for each in records] == [None, *(each["uuid"] for each in records[:-1])]
    assert len({each["uuid"] for each in records}) == len(records)
    assert len({each["version"] for each in records}) == 1


def test_a_log_ends_with_its_last_line(machine: Machine) -> None:
    log, _ = of_codex(machine, codex.prompt("Look"), codex.answer("One."))
    for target in ("claude", "codex"):
        assert all(each.endswith(b"\n") and each.count(b"\n") == 1 for each in native(machine, target).lines())
    assert log.native_id


def test_what_codex_tells_its_developer_role_is_in_no_log_of_claude(machine: Machine) -> None:
    log, records = of_codex(machine, codex.developer("Be-kind-31."), codex.prompt("Look"), codex.answer("One."))
    assert "Be-kind-31" not in json.dumps(records)
    assert {each["message"]["role"] for each in records} == {"user", "assistant"}
    assert log.fidelity.counts["left_out"] >= 1


def test_a_log_of_another_session_is_no_log_of_this_one(machine: Machine) -> None:
    """Prompts typed alike in two sessions are two turns, and two logs."""
    machine.write(claude_log("one"), lines(claude.user("Hello", "p1"), claude.answer("Hi.", "p2")))
    machine.write(claude_log("two"), lines(claude.user("Hello", "v1"), claude.answer("Hi.", "v2")))
    machine.read()
    one, two = (native(machine, "codex", each) for each in machine.store.sessions())
    assert one.native_id != two.native_id


def test_a_log_that_says_something_else_is_found_out(machine: Machine) -> None:
    log, _ = of_claude(machine, claude.user("Hello", "p1"), claude.answer("Hi.", "p2"))
    whole = list(log.lines())
    for lost in range(1, len(whole)):
        found = read_back("codex", log.native_id, [*whole[:lost], *whole[lost + 1 :]])
        assert (log.contents.difference(found) is not None) == (b"output_text" in whole[lost])
    found = read_back("codex", log.native_id, [each for each in whole if b"Hello" not in each])
    assert log.contents.difference(found) == "it has 0 prompts instead of 1"
    changed = [each.replace(b"Hi.", b"No.") for each in whole]
    assert log.contents.difference(read_back("codex", log.native_id, changed)) == "number 1 of its answers differs"


def test_each_result_is_compared(machine: Machine) -> None:
    log, _ = of_codex(
        machine, codex.prompt("x"), codex.call("exec_command", "c1", cmd="ls"), codex.output("c1", "reeds")
    )
    changed = [each.replace(b"reeds", b"trees") for each in log.lines()]
    assert log.contents.difference(read_back("claude", log.native_id, changed)) == "the result of call c1 differs"
