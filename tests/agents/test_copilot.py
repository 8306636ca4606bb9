"""What Copilot's records mean, rule by rule. Whole recorded logs are in ``cases/copilot``."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import pytest

from backstory import bounds, ids
from backstory.agents.contract import LogRoot, SidecarContent
from backstory.agents.copilot import AGENT
from backstory.agents.copilot.database import Databases
from backstory.agents.copilot.sidecars import Sidecars
from backstory.model import (
    AssistantText,
    Command,
    Compacted,
    Complete,
    Error,
    Event,
    Hook,
    Init,
    ModelSwitch,
    Outcome,
    Plan,
    Relation,
    Thinking,
    Tokens,
    Tool,
    ToolCall,
    ToolResult,
    Unknown,
    UserMessage,
)
from tests.support.every import every
from tests.support.reading import Told, told

SESSION = "514f3844-2975-44e4-a4d0-211fd59e36e9"
PARENT = "e61a042d-fb07-4cea-af6f-8aba91101fcc"
LOG = Path("/home/dev/.copilot/session-state") / SESSION / "events.jsonl"
HELPER = "862353b6-196c-405e-bc4d-a709fcfb8843"


def record(type_: str, data: dict[str, Any] | None = None, at: int = 0, **more: Any) -> bytes:
    """A record ``at`` seconds into the session; its id comes from what it says, so that each has its own."""
    said = json.dumps([type_, data, at, more])
    envelope = {"id": ids.turn_uid("id", said), "timestamp": f"2026-11-21T21:00:{at:02}.000Z", "parentId": None}
    return json.dumps({"type": type_, "data": data or {}, **envelope, **more}).encode()


def start(session: str = SESSION, **more: Any) -> bytes:
    context = {"cwd": "/src", "branch": "main", "repository": "dev/work"}
    data = {"sessionId": session, "version": 1, "copilotVersion": "1.0.102", "context": context}
    return record("session.start", {**data, **more})


def typed(text: str, at: int = 1, **more: Any) -> bytes:
    return record("user.message", {"content": text, "transformedContent": f"<x/>\n\n{text}", **more}, at)


def answer(text: str = "", *calls: dict[str, Any], at: int = 2, **more: Any) -> bytes:
    return record("assistant.message", {"messageId": f"m{at}", "content": text, "toolRequests": calls, **more}, at)


def asked(name: str, call_id: str = "c1", **arguments: Any) -> dict[str, Any]:
    return {"toolCallId": call_id, "name": name, "arguments": arguments}


def started(name: str, call_id: str = "c1", **more: Any) -> bytes:
    return record("tool.execution_start", {"toolCallId": call_id, "toolName": name, "arguments": {}, **more})


def done(call_id: str = "c1", content: str = "fine", at: int = 3, **more: Any) -> bytes:
    data = {"toolCallId": call_id, "success": True, "result": {"content": content}, **more}
    return record("tool.execution_complete", data, at)


def receipt(input_: int, output: int, cached: int = 0, **more: Any) -> bytes:
    usage = {"model": "m", "inputTokens": input_, "outputTokens": output, "cacheReadTokens": cached, **more}
    return record("session.usage_record", {"usage": usage})


def shutdown(*totals: tuple[int, int], type_: str = "routine", **more: Any) -> bytes:
    metrics = {
        f"model-{place}": {"usage": {"inputTokens": input_, "outputTokens": output}}
        for place, (input_, output) in enumerate(totals)
    }
    return record("session.shutdown", {"shutdownType": type_, "modelMetrics": metrics, **more}, 50)


def loop(*records: bytes) -> list[bytes]:
    return [record("assistant.turn_start", {"turnId": "0"}), *records, record("assistant.turn_end", {"turnId": "0"})]


def read(*lines: bytes, path: Path = LOG) -> Told:
    return told("copilot", b"\n".join(lines), path)


def events(*lines: bytes) -> list[Event]:
    """What lines after a session's start and a prompt say."""
    return [event for *_, event in read(start(), typed("go"), *lines).events][2:]


def outcome(*lines: bytes) -> str | None:
    (turn,) = read(start(), typed("go"), *lines).in_order()
    return turn.outcome


# a log that repeats itself -----------------------------------------------------------------------------------------


def test_a_record_whose_id_was_there_already_is_a_copy() -> None:
    log = [start(), typed("go"), answer("ok"), typed("on", at=5), answer("done", at=6)]
    once, twice = read(*log), read(*log, *log, typed("and on", at=9))
    assert [each.prompt for each in twice.in_order()] == ["go", "on", "and on"]
    assert [each.first_seq for each in twice.in_order()][:2] == [each.first_seq for each in once.in_order()]
    kinds = [event.kind for *_, event in twice.events]
    assert kinds[:-1] == [event.kind for *_, event in once.events]


def test_a_copy_is_known_when_the_log_is_read_on_long_after() -> None:
    log = [start(), *(typed(f"prompt {n}", at=n % 60, n=n) for n in range(40))]
    lines = [*log, *log, typed("and on", at=9)]
    identity, state, found = AGENT.log.identify(LOG, lines[0]), None, list[str]()
    assert identity is not None
    for n, line in enumerate(lines, 1):
        reader = AGENT.log.reader(identity, state, partial(iter, lines[: n - 1]))
        found += [event.content for _, event in reader.read(line, n).events if isinstance(event, UserMessage)]
        state = reader.state()
    assert found == [*(f"prompt {n}" for n in range(40)), "and on"]


# where logs are, and whose they are -----------------------------------------------------------------------------


def test_logs_are_below_the_home_folder() -> None:
    (place,) = AGENT.log.roots({}, Path("/home/dev"))
    assert place == LogRoot(folder=Path("/home/dev/.copilot/session-state"), root=Path("/home/dev/.copilot"))


def test_the_environment_says_where_logs_are() -> None:
    (place,) = AGENT.log.roots({"COPILOT_HOME": "/elsewhere"}, Path("/home/dev"))
    assert place.folder == Path("/elsewhere/session-state")


def test_the_state_folder_of_early_builds_is_a_place_too() -> None:
    places = AGENT.log.roots({"XDG_STATE_HOME": "/state"}, Path("/home/dev"))
    assert [str(place.root) for place in places] == ["/home/dev/.copilot", "/state/.copilot"]


def test_a_state_folder_that_was_moved_is_no_second_place(tmp_path: Path) -> None:
    (tmp_path / "home/.copilot/session-state").mkdir(parents=True)
    (tmp_path / "state/.copilot").mkdir(parents=True)
    (tmp_path / "state/.copilot/session-state").symlink_to(tmp_path / "home/.copilot/session-state")
    places = AGENT.log.roots({"XDG_STATE_HOME": str(tmp_path / "state")}, tmp_path / "home")
    assert [place.root for place in places] == [tmp_path / "home/.copilot"]


def test_the_folder_of_the_earliest_builds_is_a_place_where_it_is_there(tmp_path: Path) -> None:
    (tmp_path / ".copilot/history-session-state").mkdir(parents=True)
    places = AGENT.log.roots({}, tmp_path)
    assert [place.folder.name for place in places] == ["session-state", "history-session-state"]
    assert Databases().databases({}, tmp_path) == [tmp_path / ".copilot/session-store.db"]


@every(
    ("path", "expected"),
    [
        (f"session-state/{SESSION}/events.jsonl", True),
        (f"session-state/{SESSION}/events.jsonl.zst", True),
        (f"session-state/{SESSION}.jsonl", True),
        (f"session-state/{SESSION}/files/data.jsonl", False),
        (f"session-state/{SESSION}/files/{SESSION}.jsonl", False),
        (f"session-state/{SESSION}/workspace.yaml", False),
        (f"history-session-state/{SESSION}.json", True),
        (f"history-session-state/{SESSION}.jsonl", False),
    ],
)
def test_a_session_has_one_log(path: str, expected: bool) -> None:
    assert AGENT.log.is_log(Path("/home/dev/.copilot") / path) is expected


def test_a_session_says_its_own_id() -> None:
    assert read(start("other")).identity.native_id == "other"


def test_a_log_whose_beginning_is_lost_goes_by_its_folder() -> None:
    assert read(typed("go"), answer("yes")).identity.native_id == SESSION


def test_an_early_log_whose_beginning_is_lost_goes_by_its_name() -> None:
    assert read(typed("go"), answer("yes"), path=Path(f"{SESSION}.jsonl")).identity.native_id == SESSION


def test_a_torn_first_record_does_not_yet_say_whose_it_is() -> None:
    torn = b'{"type":"session.start","data":{"sessionId":"abc'
    assert AGENT.log.identify(LOG, torn) is None
    assert AGENT.log.identify(LOG, torn + b"\n" + typed("go")) is not None


def test_a_record_that_is_longer_than_the_head_is_known_by_how_it_starts() -> None:
    head = b'{"type":"user.message","data":{"content":"' + b"x" * ids.HEAD_BYTES
    identity = AGENT.log.identify(LOG, head[: ids.HEAD_BYTES])
    assert identity is not None and identity.native_id == SESSION


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"user","uuid":"u","sessionId":"s","message":{"content":"\\"type\\":\\"session.start\\""}}',
        b'{"timestamp":"2026-11-21T21:00:00Z","type":"session_meta","payload":{"id":"t"}}',
        b'{"type":"user.message","content":"no data"}',
        b'{"type":"other.event","data":{},"id":"1"}',
        b"not JSON",
        b"",
    ],
)
def test_another_agents_log_is_not_taken_for_ours(line: bytes) -> None:
    assert AGENT.log.identify(LOG, line + b"\n") is None


def test_a_session_that_another_one_started_aside_belongs_under_it() -> None:
    identity = read(start(detachedFromSpawningParentSessionId=PARENT)).identity
    assert (identity.parent_native_id, identity.relation) == (PARENT, Relation.SUBAGENT)


def test_a_record_is_known_by_its_id() -> None:
    assert AGENT.log.native_id_of(record("abort", id="abc")) == "abc"
    assert AGENT.log.native_id_of(record("abort", id=None)) is None
    assert AGENT.log.native_id_of(b"torn {") is None


def test_a_last_record_is_whole_or_not() -> None:
    assert AGENT.log.is_whole(typed("go"))
    assert not AGENT.log.is_whole(typed("go")[:-1])


# the session ----------------------------------------------------------------------------------------------------


def test_the_start_tells_where_and_with_what() -> None:
    said = read(start(selectedModel="gpt-5"))
    assert said.all(Init) == [Init(cwd="/src", model="gpt-5", version="1.0.102")]
    facts = said.session
    assert (facts.cwd, facts.branch, facts.repository, facts.agent_version) == ("/src", "main", "dev/work", "1.0.102")


def test_a_change_of_place_changes_the_branch_but_not_where_it_began() -> None:
    moved = record("session.context_changed", {"cwd": "/other", "branch": "fix", "repository": "dev/other"})
    facts = read(start(), moved).session
    assert (facts.cwd, facts.branch, facts.repository) == ("/src", "fix", "dev/other")


def test_a_handoff_says_what_was_done_and_where() -> None:
    data = {"summary": "Half is done.", "repository": {"owner": "dev", "name": "far", "branch": "topic"}}
    said = read(start(), record("session.handoff", data))
    assert said.all(Hook) == [Hook(name="handoff", output="Half is done.")]
    assert (said.session.repository, said.session.branch) == ("dev/far", "topic")


def test_a_title_is_taken_where_one_is_told() -> None:
    assert (
        read(start(), record("session.title_changed", {"title": " Fix it "}, ephemeral=True)).session.title == "Fix it"
    )


def test_what_was_only_for_the_screen_says_nothing() -> None:
    said = read(start(), record("assistant.message_delta", {"deltaContent": "a"}, ephemeral=True))
    assert len(said.events) == 1 and said.unknown == {}


# prompts --------------------------------------------------------------------------------------------------------


def test_a_prompt_is_what_was_typed_not_what_was_sent() -> None:
    said = read(start(), typed("Fix the bug"))
    assert said.prompts() == ["Fix the bug"]
    (turn,) = said.in_order()
    assert (turn.prompt, turn.started) == ("Fix the bug", ids.parse_time_ms("2026-11-21T21:00:01Z"))


def test_a_turn_is_known_by_its_prompts_id_whatever_the_session() -> None:
    one, other = read(start("one"), typed("go")), read(start("other"), typed("go"))
    assert list(one.turns) == list(other.turns)


def test_turns_follow_each_other() -> None:
    first, second = read(start(), typed("one"), answer("1"), typed("two", at=5)).in_order()
    assert (second.parent_uid, second.parent_seq) == (first.uid, 3)


@pytest.mark.parametrize("source", ["system", "skill-pdf", "agent-abc", "autopilot"])
def test_words_in_the_users_place_are_no_prompt(source: str) -> None:
    said = read(start(), typed("Go on.", source=source))
    assert said.prompts() == [] and said.turns == {}
    assert said.all(Hook) == [Hook(name=source, output="Go on.")]


@pytest.mark.parametrize("source", ["user", "autopilot-objective", "telephone"])
def test_words_that_came_another_way_are_still_a_prompt(source: str) -> None:
    assert read(start(), typed("Go on.", source=source)).prompts() == ["Go on."]


def test_autopilot_going_on_by_itself_is_no_prompt() -> None:
    sent = "<current_datetime>2026-08-05T09:49:23.464+02:00</current_datetime>\n\nGo on."
    nudge = record("user.message", {"content": "", "transformedContent": sent, "isAutopilotContinuation": True})
    assert events(nudge) == [Hook(name="autopilot", output="Go on.")]


def test_a_prompt_may_be_all_attachments() -> None:
    attached = [{"type": "file", "path": "/src/a.png", "displayName": "a.png"}, {"type": "blob"}]
    assert read(start(), typed("", attachments=attached)).prompts() == ["[a.png]\n[blob]"]


def test_a_prompt_typed_while_the_agent_works_is_a_turn() -> None:
    said = read(start(), typed("one"), answer("1"), typed("and this", at=5, delivery="steering"))
    assert said.prompts() == ["one", "and this"] and len(said.turns) == 2


# answers and tools ----------------------------------------------------------------------------------------------


def test_an_answer_is_its_thinking_its_text_and_its_calls() -> None:
    said = events(answer("Reading.", asked("view", path="/src/a.py"), reasoningText="Look first."))
    assert said == [
        Thinking(text="Look first."),
        AssistantText(text="Reading."),
        ToolCall(
            tool_use_id="c1", tool_name="view", tool=Tool.READ, file_path="/src/a.py", input={"path": "/src/a.py"}
        ),
    ]


def test_thinking_that_is_told_twice_is_one() -> None:
    thought = record("assistant.reasoning", {"reasoningId": "r", "content": "Hm."})
    assert events(thought, answer("Yes.", reasoningText="Hm."))[:2] == [
        Thinking(text="Hm."),
        AssistantText(text="Yes."),
    ]


def test_the_same_thought_twice_is_two() -> None:
    said = events(answer(reasoningText="Hm.", at=2), answer(reasoningText="Hm.", at=3))
    assert said == [Thinking(text="Hm.")] * 2


def test_a_call_is_told_once_though_it_is_asked_for_and_started() -> None:
    said = read(start(), typed("go"), answer("", asked("bash", command="ls")), started("bash"), done())
    assert len(said.all(ToolCall)) == len(said.all(ToolResult)) == 1


def test_a_call_that_no_answer_asked_for_is_told_when_it_starts() -> None:
    call, result = events(started("bash", arguments={"command": "ls"}), done())
    assert isinstance(call, ToolCall) and call.input == {"command": "ls"}
    assert isinstance(result, ToolResult) and result.tool_name == "bash"


@every(
    ("name", "tool"),
    [
        ("view", Tool.READ),
        ("edit", Tool.EDIT),
        ("apply_patch", Tool.EDIT),
        ("create", Tool.WRITE),
        ("bash", Tool.SHELL),
        ("powershell", Tool.SHELL),
        ("grep", Tool.GREP),
        ("glob", Tool.GLOB),
        ("task", Tool.TASK),
        ("web_fetch", Tool.FETCH),
        ("web_search", Tool.SEARCH),
        ("github-mcp-server-list_issues", Tool.OTHER),
    ],
)
def test_tools_go_by_our_names(name: str, tool: Tool) -> None:
    (call,) = events(answer("", asked(name)))
    assert isinstance(call, ToolCall) and (call.tool_name, call.tool) == (name, tool)


@pytest.mark.parametrize(("command", "tool"), [("view", Tool.READ), ("create", Tool.WRITE), ("str_replace", Tool.EDIT)])
def test_the_old_editor_does_what_its_command_says(command: str, tool: Tool) -> None:
    (call,) = events(answer("", asked("str_replace_editor", command=command, path="/a")))
    assert isinstance(call, ToolCall) and call.tool == tool


def test_a_patch_given_as_text_names_its_file() -> None:
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-a\n+b\n*** End Patch"
    (call,) = events(answer("", {"toolCallId": "c1", "name": "apply_patch", "type": "custom", "arguments": patch}))
    assert isinstance(call, ToolCall)
    assert (call.file_path, call.input) == ("src/a.py", {"input": patch})


def test_arguments_given_as_text_are_read() -> None:
    (call,) = events(answer("", {"toolCallId": "c1", "name": "view", "arguments": '{"path": "/a"}'}))
    assert isinstance(call, ToolCall) and call.file_path == "/a"


def test_a_result_names_the_file_it_changed_where_the_call_did_not() -> None:
    said = events(answer("", asked("mystery")), done(fileEdits=[{"path": "/src/b", "kind": "edit"}]))
    assert isinstance(said[1], ToolResult) and said[1].file_path == "/src/b"


def test_a_refused_call_says_why() -> None:
    error = {"message": "Permission denied by rule", "code": "denied"}
    (result,) = events(done(success=False, result=None, error=error))
    assert isinstance(result, ToolResult) and (result.content, result.is_error) == ("Permission denied by rule", True)


@pytest.mark.parametrize(
    ("more", "content"),
    [
        ({"shellExecution": {"exitCode": 3}}, "out"),
        ({}, "out\n<shellId: 0 completed with exit code 3>"),
        ({}, "out\n<exited with exit code 1>"),
    ],
)
def test_a_command_that_ended_with_another_code_than_0_failed(more: dict[str, Any], content: str) -> None:
    said = events(answer("", asked("bash", command="x")), done(content=content, **more))
    assert isinstance(said[1], ToolResult) and said[1].is_error and said[1].content == content


def test_a_file_that_speaks_of_exit_codes_has_not_failed() -> None:
    said = events(answer("", asked("view", path="/a")), done(content="<exited with exit code 1>"))
    assert isinstance(said[1], ToolResult) and not said[1].is_error


def test_a_plan_that_is_put_before_the_user_is_a_plan() -> None:
    said = events(answer("", asked("exit_plan_mode", summary="1. Do it")))
    assert said[1] == Plan(name="exit_plan_mode", content="1. Do it")


def test_a_helpers_work_is_in_the_turn_but_its_words_are_not_the_answer() -> None:
    reading = asked("view", "c2", path="/a")
    said = read(
        start(),
        typed("go"),
        answer("", asked("task")),
        record("user.message", {"content": "Look.", "source": f"agent-{SESSION}"}, agentId=HELPER),
        record("assistant.message", {"content": "I see.", "toolRequests": [reading]}, agentId=HELPER),
        record("tool.execution_complete", {"toolCallId": "c2", "result": {"content": "x"}}, agentId=HELPER),
        done(content="I saw."),
        answer("It is so.", at=9),
    )
    assert said.prompts() == ["go"] and len(said.turns) == 1
    assert [event.text for event in said.all(AssistantText)] == ["It is so."]
    told = [("subagent prompt", "Look."), ("subagent", "I see.")]
    assert [(each.name, each.output) for each in said.all(Hook)] == told
    assert [(event.tool_name, event.file_path) for event in said.all(ToolResult)] == [("view", "/a"), ("task", None)]


def test_an_older_helper_is_known_by_the_call_that_made_it() -> None:
    said = events(answer("", asked("task")), answer("I see.", at=5, parentToolCallId="c1"))
    assert said[1:] == [Hook(tool_use_id="c1", name="subagent", output="I see.")]


def test_what_a_helper_is_told_and_says_names_the_call_that_it_is_at_work_by() -> None:
    pairs = ("c1", "h1"), ("c2", "h2")
    begun = [record("subagent.started", {"toolCallId": call}, agentId=helper) for call, helper in pairs]
    said = read(
        start(), typed("go"), answer("", asked("task"), asked("task", "c2")), *begun,
        record("user.message", {"content": "First."}, agentId="h1"),
        record("user.message", {"content": "Second."}, agentId="h2"),
        answer("Done.", at=5, agentId="h2", parentToolCallId="c2"),
    )  # fmt: skip
    assert [(each.output, each.tool_use_id) for each in said.all(Hook)] == [
        ("First.", "c1"), ("Second.", "c2"), ("Done.", "c2"),
    ]  # fmt: skip


# other things that happen ---------------------------------------------------------------------------------------


def test_choosing_the_first_model_switches_none() -> None:
    said = read(start(), record("session.model_change", {"newModel": "auto"}), typed("go"))
    assert said.all(ModelSwitch) == []


def test_another_model_is_a_switch_and_the_same_is_not() -> None:
    change = record("session.model_change", {"previousModel": "auto", "newModel": "gpt-5"})
    effort = record("session.model_change", {"newModel": "gpt-5", "reasoningEffort": "high"}, at=7)
    assert events(change, effort) == [ModelSwitch(model="gpt-5")]


def test_a_session_resumed_with_another_model_switches() -> None:
    said = read(start(selectedModel="a"), typed("go"), record("session.resume", {"selectedModel": "b"}))
    assert said.all(ModelSwitch) == [ModelSwitch(model="b")]


def test_auto_turning_to_another_model_is_a_switch() -> None:
    routed = [record("session.auto_mode_resolved", {"chosenModel": each}) for each in ("a", "a", "b")]
    assert events(*routed) == [ModelSwitch(model="b")]


def test_a_helpers_model_is_its_own_affair() -> None:
    change = record("session.model_change", {"newModel": "small"}, agentId=HELPER)
    mine = answer("", at=5, model="small", agentId=HELPER)
    said = read(start(), typed("go"), answer("Yes.", model="big"), change, mine)
    assert said.all(ModelSwitch) == [] and said.in_order()[0].model == "small"


def test_a_compaction_tells_its_summary() -> None:
    assert events(record("session.compaction_complete", {"success": True, "summaryContent": "So far."})) == [
        Compacted(summary="So far.")
    ]


def test_a_compaction_that_failed_is_none() -> None:
    failed = record("session.compaction_complete", {"success": False, "error": "no model"})
    assert events(failed) == [Hook(name="compaction failed", output="no model")]


def test_a_cleared_context_is_the_command_that_cleared_it() -> None:
    assert events(record("session.context_cleared", {"messagesCleared": 4})) == [Command(name="/clear")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (record("session.info", {"infoType": "rewind", "message": "Rewound."}), Hook(name="rewind", output="Rewound.")),
        (record("session.warning", {"warningType": "w", "message": "Odd."}), Hook(name="w", output="Odd.")),
        (
            record("system.notification", {"content": "Done.", "kind": {"type": "shell_completed"}}),
            Hook(name="shell_completed", output="Done."),
        ),
        (
            record("hook.end", {"hookType": "postToolUse", "success": False, "error": {"message": "code 1"}}),
            Hook(name="postToolUse", output="code 1"),
        ),
        (record("skill.invoked", {"name": "greet", "content": "Say hi."}), Hook(name="skill greet", output="Say hi.")),
        (
            record("subagent.failed", {"agentName": "explore", "error": "lost"}, agentId=HELPER),
            Hook(name="subagent failed", output="lost"),
        ),
    ],
)
def test_what_is_put_into_the_conversation_is_told(line: bytes, expected: Event) -> None:
    assert events(line) == [expected]


def test_a_hook_that_says_nothing_is_not_told() -> None:
    assert events(record("hook.end", {"hookType": "preToolUse", "success": True})) == []


def test_a_compactions_own_request_says_nothing() -> None:
    said = read(start(), record("model.messages_snapshot", {"messages": [{"role": "user", "content": "all of it"}]}))
    assert len(said.events) == 1 and said.unknown == {}


def test_an_unknown_type_is_kept_and_counted() -> None:
    said = read(start(), record("session.teleported", {"to": "mars"}))
    assert said.unknown == {"session.teleported": 1}
    assert said.all(Unknown) == [Unknown(type="session.teleported")]


# how turns end --------------------------------------------------------------------------------------------------


def test_an_answer_without_calls_completes_a_turn() -> None:
    assert outcome(*loop(answer("Yes."))) == Outcome.COMPLETED


def test_an_empty_last_answer_completes_a_turn() -> None:
    assert outcome(*loop(answer(""))) == Outcome.COMPLETED


def test_a_turn_that_waits_for_a_tool_has_not_ended() -> None:
    assert outcome(*loop(answer("Looking.", asked("bash")))) is None


@pytest.mark.parametrize("late", [True, False])
def test_an_abort_cancels_a_turn_before_and_after_its_last_step_ends(late: bool) -> None:
    step = [*loop(answer("", asked("bash"))), record("abort", {"reason": "user_initiated"}, 4)]
    lines = step if late else [step[0], step[1], step[3], step[2]]
    said = read(start(), typed("go"), *lines, done(at=5), shutdown())
    (turn,) = said.in_order()
    assert (turn.outcome, turn.stop_reason) == (Outcome.CANCELLED, "user_initiated")
    assert said.all(Error) == [Error(message="aborted: user_initiated", code="interrupted")]


def test_an_error_fails_a_turn_and_going_on_after_it_does_not() -> None:
    error = record("session.error", {"errorType": "rate_limit", "message": "429 slow down", "statusCode": 429})
    assert outcome(*loop(), error) == Outcome.FAILED
    assert outcome(*loop(), error, *loop(answer("Yes."))) == Outcome.COMPLETED
    assert events(error) == [Error(message="429 slow down", code="429")]


def test_leaving_in_the_middle_of_an_answer_cancels_it_then() -> None:
    (turn,) = read(start(), typed("go"), record("assistant.turn_start", {}), shutdown()).in_order()
    assert (turn.outcome, turn.ended) == (Outcome.CANCELLED, ids.parse_time_ms("2026-11-21T21:00:50Z"))


def test_leaving_after_steering_an_agent_at_work_cancels_what_it_was_steered_to() -> None:
    steering = typed("rather this", at=4, delivery="steering")
    said = read(start(), typed("go"), record("assistant.turn_start", {}), steering, shutdown())
    assert [turn.outcome for turn in said.in_order()] == [None, Outcome.CANCELLED]


def test_leaving_after_an_answer_does_not_make_its_turn_longer() -> None:
    (turn,) = read(start(), typed("go"), *loop(answer("Yes.")), shutdown()).in_order()
    assert (turn.outcome, turn.ended) == (Outcome.COMPLETED, ids.parse_time_ms("2026-11-21T21:00:02Z"))


def test_a_crash_says_so() -> None:
    crash = shutdown(type_="error", errorReason="out of memory")
    assert outcome(record("assistant.turn_start", {}), crash) == Outcome.CRASHED
    assert events(crash) == [Error(message="out of memory", code="shutdown")]


def test_a_process_that_never_said_it_ended_crashed() -> None:
    resume = record("session.resume", {"eventCount": 3})
    assert outcome(record("assistant.turn_start", {}), resume) == Outcome.CRASHED


def test_joining_a_session_that_works_changes_nothing() -> None:
    joined = record("session.resume", {"eventCount": 3, "sessionWasActive": True})
    assert outcome(record("assistant.turn_start", {}), joined) is None


def test_a_task_done_tells_its_summary_as_the_answer() -> None:
    task_done = record("session.task_complete", {"summary": "All three exist.", "success": True})
    assert events(task_done) == [AssistantText(text="All three exist."), Complete(success=True)]
    assert outcome(answer("", asked("task_complete")), task_done) == Outcome.COMPLETED


def test_leaving_after_a_task_is_done_cancels_nothing() -> None:
    calling = answer("", asked("task_complete"))
    task_done = record("session.task_complete", {"summary": "Done.", "success": True}, 4)
    (turn,) = read(start(), typed("go"), *loop(calling, done(), task_done), shutdown()).in_order()
    assert (turn.outcome, turn.ended) == (Outcome.COMPLETED, ids.parse_time_ms("2026-11-21T21:00:04Z"))


def test_a_blocked_task_has_failed_and_one_to_go_on_with_has_not_ended() -> None:
    blocked = record("session.task_complete", {"success": False, "outcome": "blocked"})
    going_on = record("session.task_complete", {"success": True, "outcome": "continue"})
    assert outcome(blocked) == Outcome.FAILED
    assert outcome(answer("", asked("task_complete")), going_on) is None


def test_a_command_that_the_user_types_is_none_of_the_agents_doing() -> None:
    request = {"toolCallId": "u", "toolName": "local_shell", "arguments": {"command": "ls"}}
    lines = [*loop(answer("Yes.")), record("tool.user_requested", request, 20), done("u", at=21, isUserRequested=True)]
    assert events(*lines)[1:] == [Command(name="! ls"), Command(name="", output="fine")]
    (turn,) = read(start(), typed("go"), *lines).in_order()
    assert (turn.outcome, turn.ended) == (Outcome.COMPLETED, ids.parse_time_ms("2026-11-21T21:00:02Z"))


# tokens ---------------------------------------------------------------------------------------------------------


def tokens_of(*lines: bytes) -> list[tuple[int | None, int | None, int | None, str | None]]:
    turns = read(start(), *lines).in_order()
    return [(turn.tokens.input, turn.tokens.output, turn.tokens.cache_read, turn.tokens_source) for turn in turns]


def test_receipts_are_added_up_without_what_came_from_the_cache() -> None:
    assert tokens_of(typed("go"), receipt(100, 10), receipt(250, 20, cached=200)) == [(150, 30, 200, "reported")]


def test_a_helpers_receipts_count_for_the_turn_but_not_for_its_model() -> None:
    said = read(start(), typed("go"), receipt(100, 10), receipt(50, 5, model="small", parentToolCallId="c1"))
    (turn,) = said.in_order()
    assert (turn.tokens, turn.model) == (Tokens(input=150, output=15, cache_read=0), "m")


def latencies(*lines: bytes) -> list[int | None]:
    return [turn.api_latency_ms for turn in read(start(), *lines).in_order()]


def test_how_long_the_model_took_is_that_of_a_turns_receipts() -> None:
    one = [typed("one"), receipt(1, 1, duration=40), receipt(1, 1, duration=9, parentToolCallId="c1")]
    assert latencies(*one, typed("two", at=5), receipt(1, 1, duration=5), shutdown((3, 3), totalApiDurationMs=54)) == [
        49, 5,
    ]  # fmt: skip
    # Of a total only what no receipt told would be new.
    assert latencies(*one, shutdown((2, 2), totalApiDurationMs=49)) == [49]


def test_a_compaction_is_a_request_too() -> None:
    compaction = record("session.compaction_complete", {"compactionTokensUsed": {"outputTokens": 5, "duration": 13}})
    assert latencies(typed("go"), receipt(1, 1, duration=40), compaction) == [53]
    # Where nothing tells of the other requests the rest of the time is not known.
    assert latencies(typed("go"), answer("Yes."), compaction) == [None]


def test_without_receipts_the_total_of_a_process_is_that_of_its_one_turn() -> None:
    first = [typed("one"), answer("1", outputTokens=10), shutdown((9, 10), totalApiDurationMs=6000)]
    second = [record("session.resume", {}), typed("two", at=5), answer("2", outputTokens=5, at=6)]
    assert latencies(*first, *second, shutdown((19, 15), totalApiDurationMs=6900)) == [6000, 900]
    rewound = [record("session.resume", {}), typed("two", at=5), answer("2", outputTokens=12, at=6)]
    assert latencies(*first, *rewound, shutdown((9, 12), totalApiDurationMs=7000)) == [6000, 7000]
    anew = [start("other"), typed("two", at=5), answer("2", outputTokens=12, at=6)]
    assert latencies(*first, *anew, shutdown((9, 12), totalApiDurationMs=7000)) == [6000, 7000]


def test_the_total_of_several_turns_says_of_none_how_long_the_model_took() -> None:
    turns = [typed("one"), answer("1", outputTokens=1), typed("two", at=5), answer("2", outputTokens=1, at=6)]
    assert latencies(*turns, shutdown((9, 2), totalApiDurationMs=6000)) == [None, None]


def test_a_total_of_zero_measured_nothing() -> None:
    assert latencies(typed("go"), shutdown((0, 0), totalApiDurationMs=0)) == [None]


def test_what_receipts_told_is_not_counted_again_at_the_end() -> None:
    assert tokens_of(typed("go"), receipt(100, 10), answer("Yes.", outputTokens=10), shutdown((100, 10))) == [
        (100, 10, 0, "reported")
    ]


def test_what_a_resumed_process_says_in_all_is_not_counted_again() -> None:
    first = [typed("one"), receipt(100, 10), shutdown((100, 10)), record("session.resume", {})]
    second = [typed("two", at=5), receipt(300, 7), shutdown((400, 17))]
    assert tokens_of(*first, *second) == [(100, 10, 0, "reported"), (300, 7, 0, "reported")]


def test_an_older_process_tells_the_rest_at_its_end() -> None:
    lines = [typed("go"), answer("Yes.", outputTokens=10), shutdown((80, 8), (20, 2))]
    assert tokens_of(*lines) == [(100, 10, None, "reported")]


def test_the_rest_of_several_turns_is_told_with_the_last_and_marked() -> None:
    one, two = answer("1", outputTokens=10, at=2), answer("2", outputTokens=5, at=6)
    assert tokens_of(typed("a"), one, typed("b", at=5), two, shutdown((100, 15))) == [
        (None, 10, None, "reported"),
        (100, 5, None, "run"),
    ]


def test_an_older_process_that_was_resumed_goes_on_counting() -> None:
    first = [typed("a"), answer("1", outputTokens=10), shutdown((100, 10)), record("session.resume", {})]
    second = [typed("b", at=5), answer("2", outputTokens=5, at=6), shutdown((150, 15))]
    assert tokens_of(*first, *second) == [(100, 10, None, "reported"), (50, 5, None, "reported")]


@pytest.mark.parametrize("second_total", [(40, 5), (140, 5)])
def test_a_process_that_counts_from_zero_again_is_noticed(second_total: tuple[int, int]) -> None:
    first = [typed("a"), answer("1", outputTokens=3), shutdown((100, 3)), record("session.resume", {})]
    second = [typed("b", at=5), answer("2", outputTokens=5, at=6), shutdown(second_total)]
    assert tokens_of(*first, *second)[1] == (second_total[0], 5, None, "reported")


PAST = [typed("a"), answer("1", outputTokens=50)]
RESUMED = [record("session.resume", {}), typed("b", at=5), answer("2", outputTokens=20, at=6)]


@pytest.mark.parametrize("past", [PAST, [*PAST, shutdown((100, 50))]], ids=["cut off", "whole"])
def test_a_turn_after_a_copied_past_has_what_its_own_process_used(past: list[bytes]) -> None:
    assert tokens_of(*past, *RESUMED, shutdown((30, 20)))[1] == (30, 20, None, "reported")


def test_turns_after_a_copied_past_share_what_their_own_process_used() -> None:
    more = [typed("c", at=7), answer("3", outputTokens=5, at=8)]
    assert tokens_of(*PAST, *RESUMED, *more, shutdown((30, 25))) == [
        (None, 50, None, "reported"), (None, 20, None, "reported"), (30, 5, None, "run"),
    ]  # fmt: skip


def test_a_turn_after_a_rewind_has_what_its_process_used_since_it_read_the_log_anew() -> None:
    assert tokens_of(*PAST, typed("b", at=5), answer("2", outputTokens=20, at=6), shutdown((30, 20)))[1] == (
        30, 20, None, "reported",
    )  # fmt: skip


@pytest.mark.parametrize("total", [(100, 50), (0, 0)], ids=["the past's", "none"])
def test_a_total_without_what_a_turn_used_says_no_zero_of_its_input(total: tuple[int, int]) -> None:
    assert tokens_of(*PAST, shutdown((100, 50)), *RESUMED, shutdown(total))[1] == (None, 20, None, "reported")


def test_a_total_that_holds_less_than_was_counted_is_a_part() -> None:
    assert tokens_of(*PAST, *RESUMED, shutdown((30, 10)))[1] == (30, 20, None, "partial")


def test_another_session_in_the_same_file_counts_from_zero() -> None:
    first = [typed("a"), answer("1", outputTokens=10), shutdown((100, 10))]
    second = [start("other"), typed("b", at=5), answer("2", outputTokens=12, at=6), shutdown((120, 12))]
    assert tokens_of(*first, *second) == [(100, 10, None, "reported"), (120, 12, None, "reported")]


def test_an_answer_in_pieces_tells_its_tokens_once() -> None:
    pieces = [answer(f"part {at}", at=at, outputTokens=30, apiCallId="one", chunkCount=2) for at in (2, 3)]
    assert tokens_of(typed("go"), *pieces) == [(None, 30, None, "reported")]


def test_a_compactions_tokens_are_in_no_total() -> None:
    used = {"inputTokens": 50, "outputTokens": 5}
    compaction = record("session.compaction_complete", {"success": True, "compactionTokensUsed": used})
    assert tokens_of(typed("go"), receipt(100, 10), compaction, shutdown((100, 10))) == [(150, 15, 0, "reported")]


def test_a_process_that_asked_no_model_tells_nothing() -> None:
    assert tokens_of(typed("go"), shutdown()) == [(None, None, None, None)]


# damage ---------------------------------------------------------------------------------------------------------


def test_a_torn_record_is_unknown_and_the_next_is_read() -> None:
    said = read(start(), typed("go")[:-20], typed("again", at=5))
    assert said.prompts() == ["again"] and said.unknown == {"not JSON": 1}


def test_two_records_on_a_line_are_both_read() -> None:
    said = read(start(), typed("go") + answer("Yes."))
    assert said.prompts() == ["go"] and said.all(AssistantText) == [AssistantText(text="Yes.")]
    assert said.unknown == {}


def test_a_whole_record_after_a_torn_one_on_its_line_is_read() -> None:
    said = read(start(), answer("Half an ans")[:60] + typed("and then", at=5))
    assert said.prompts() == ["and then"] and said.unknown == {"not JSON": 1}
    assert [event for seq, *_, event in said.events if seq == 2] == [
        Unknown(type="not JSON"),
        UserMessage(content="and then"),
    ]


def test_a_line_of_torn_records_is_given_up_soon() -> None:
    said = read(start(), typed("go"), b'{"type":"abort","data":{' * 50_000)
    assert said.unknown == {"not JSON": 1}


def test_prompts_that_share_a_line_are_turns_each() -> None:
    said = read(start(), typed("one") + typed("two", 2) + answer("done"))
    assert [turn.prompt for turn in said.in_order()] == ["one", "two"]


def test_line_separators_of_unicode_end_no_line() -> None:
    text = "one\u2028two\u2029three\u0085four"
    line = json.dumps(json.loads(typed(text)), ensure_ascii=False).encode()
    assert read(start(), line).prompts() == [text]


def test_a_line_end_inside_a_string_breaks_its_record_only() -> None:
    broken = typed("first HERE second").replace(b" HERE ", b"\n", 1)
    said = read(start(), typed("go"), broken, answer("Yes."))
    assert said.prompts() == ["go"] and said.all(AssistantText) == [AssistantText(text="Yes.")]
    assert said.unknown == {"not JSON": 2}


def test_zeros_after_a_record_are_passed_over() -> None:
    assert read(start(), typed("go") + b"\0" * 500).prompts() == ["go"]


def test_a_byte_order_mark_is_passed_over() -> None:
    assert read(b"\xef\xbb\xbf" + start(), typed("go")).prompts() == ["go"]


def test_a_very_long_answer_is_read_whole() -> None:
    text = "long " * 2_000_000
    assert events(answer(text)) == [AssistantText(text=text)]


def test_a_number_out_of_all_bounds_is_left_out() -> None:
    huge = int("9" * 400)
    said = read(start(), typed("go"), receipt(huge, 10), record("abort", {}, timestamp=huge))
    (turn,) = said.in_order()
    assert (turn.tokens.input, turn.tokens.output) == (bounds.LOST, 10)
    assert said.events[-1][2] is None


@every("data", [None, 3, "text", [], {"content": None}, {"content": [{"text": "a"}, 5, None]}])
@every(
    "type_",
    [
        "abort", "assistant.message", "assistant.reasoning", "hook.end", "session.compaction_complete",
        "session.context_changed", "session.error", "session.handoff", "session.info", "session.model_change",
        "session.resume", "session.shutdown", "session.start", "session.task_complete", "session.usage_record",
        "skill.invoked", "system.notification", "tool.execution_complete", "tool.execution_start", "user.message",
    ],
)  # fmt: skip
def test_a_record_with_odd_data_is_read(type_: str, data: Any) -> None:
    line = json.dumps({"type": type_, "data": data, "id": "x", "timestamp": None}).encode()
    assert read(start(), typed("go"), line).unknown == {}
    assert read(start(), typed("go"), line[:-1] + b',"agentId":"a"}').unknown == {}


def test_a_record_of_a_later_version_is_read_for_what_is_known_of_it() -> None:
    later = json.loads(typed("go"))
    later |= {"version": 9, "seal": {"by": "x"}}
    later["data"] |= {"content2": ["new"], "mood": 7}
    assert read(start(version=9), json.dumps(later).encode()).prompts() == ["go"]


def test_what_a_reader_keeps_stays_small() -> None:
    identity = AGENT.log.identify(LOG, start() + b"\n")
    assert identity is not None
    reader = AGENT.log.reader(identity, None, lambda: ())
    for seq in range(1, 6_000):
        reader.read(answer("", asked("bash", f"call-{seq}", command="x" * 100)), seq)
    assert len(reader.state()) < 200_000


# what lies beside a log ---------------------------------------------------------------------------------------


@every(
    "name",
    [
        "workspace.yaml", "plan.md", "autopilot-objective.json", "checkpoints/index.md", "checkpoints/001-a.md",
        "files/a", "files/deep/er/b.txt", "research/r.md",
    ],
)  # fmt: skip
def test_a_sessions_own_files_belong_to_its_log(name: str) -> None:
    assert Sidecars().log_of(PurePath(SESSION, name)) == PurePath(SESSION, "events.jsonl")


@pytest.mark.parametrize(
    "below",
    [
        "workspace.yaml", f"{SESSION}/session.db", f"{SESSION}/files", f"{SESSION}/rewind-snapshots/index.json",
        f"{SESSION}/checkpoints/deep/001-a.md", f"{SESSION}/else/plan.md", ".session-operation-locks/x.lock",
    ],
)  # fmt: skip
def test_other_files_belong_to_none(below: str) -> None:
    assert Sidecars().log_of(PurePath(below)) is None


def workspace(text: str) -> SidecarContent:
    return Sidecars().read("workspace.yaml", text.encode())


RECORDED = f"""\
id: {SESSION}
cwd: /src/work
git_root: /src
repository: dev/work
branch: main
client_name: github/cli
name: Mend the gate
user_named: false
summary_count: 1
created_at: 2026-11-22T01:48:25.179Z
"""


def test_a_workspace_says_where_a_session_is_and_what_it_is_called() -> None:
    expected = SidecarContent(title="Mend the gate", cwd="/src/work", repository="dev/work", branch="main")
    assert workspace(RECORDED) == workspace(RECORDED.replace("\n", "\r\n")) == expected


@pytest.mark.parametrize(
    ("text", "title", "is_given"),
    [
        ("name: By hand\nuser_named: true", "By hand", True),
        ("name: By hand\nsummary: By the agent", "By hand", True),
        ("name: Not by hand\nsummary: By the agent\nuser_named: false", "Not by hand", False),
        ("summary: By the agent", "By the agent", False),
        ("summary: By the agent\nuser_named: true", "By the agent", False),
        ("user_named: true", None, False),
    ],
)
def test_a_name_is_the_users_where_the_workspace_says_so(text: str, title: str | None, is_given: bool) -> None:
    found = workspace(text)
    assert (found.title, found.is_title_given) == (title, is_given)


@every(
    ("given", "title"),
    [
        ("Fix it # later", "Fix it"),
        ("Fix #12", "Fix"),
        ("Fix a#b", "Fix a#b"),
        ('"Fix: the \\"gate\\"\\n"', 'Fix: the "gate"'),
        ("'It''s done: all of it'", "It's done: all of it"),
        ("|-\n  First line\n  Second line\n", "First line\nSecond line"),
        (">\n  Folded\n  once\n", "Folded once"),
        ("Grüße, 世界", "Grüße, 世界"),
        ("", None),
        ("~", None),
        ("null", None),
        ("[a, b]", None),
        ("{a: b}", None),
        ("!!python/object:os.system x", None),
        ("&anchor x", None),
        ("*anchor", None),
        ('"torn', None),
        ("'torn", None),
        ("'to'rn'", None),
        ("'", None),
        ("a: b", None),
        ("\n  nested: x", None),
        ("- x", None),
        ("x" * 5_000, "x" * 1_000),
    ],
)
def test_only_plain_texts_of_a_workspace_are_taken(given: str, title: str | None) -> None:
    found = workspace(f"cwd: /src\nname: {given}\nbranch: main\n")
    assert (found.title, found.cwd, found.branch) == (title, "/src", "main")


def test_what_a_workspace_says_twice_counts_the_first_time() -> None:
    assert workspace("name: One\nname: Two\n").title == "One"


def test_a_checkpoint_has_the_number_of_its_file() -> None:
    found = Sidecars().read("checkpoints/012-slug-it.md", b"<overview>Done.</overview>")
    assert found == SidecarContent(checkpoint=(12, "<overview>Done.</overview>"))


@pytest.mark.parametrize("name", ["checkpoints/notes.md", "checkpoints/001.txt", "plan.md", "files/001-a.md"])
def test_other_texts_are_no_checkpoints(name: str) -> None:
    assert not Sidecars().is_read(name)
    assert Sidecars().read(name, b"<overview>Done.</overview>") == SidecarContent()


def test_an_index_has_the_titles_of_checkpoints() -> None:
    rows = "| # | Title | File |\n|---|---|---|\n| 1 | One \\| two | 001-one.md |\n| 10 | Ten | 010-ten.md |\n"
    found = Sidecars().read("checkpoints/index.md", rows.encode())
    assert found.checkpoint_titles == {1: "One | two", 10: "Ten"}
