"""What Claude Code's records mean, rule by rule. Whole recorded logs are in ``cases/claude``."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from backstory import ids
from backstory.agents import bounded
from backstory.agents.claude import AGENT
from backstory.derive.facts import Found, RecordFacts
from backstory.model import (
    AssistantText,
    Command,
    Compacted,
    Error,
    Event,
    FoundSummary,
    Hook,
    LogIdentity,
    Outcome,
    Plan,
    Relation,
    Retry,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Unknown,
    UserMessage,
)
from tests.support.reading import Told, told

SESSION = "0ddba11-0000-4000-8000-000000000000"
_numbers = itertools.count(1)


def record(type_: str, uuid: str = "", parent: str | None = None, **more: Any) -> bytes:
    """A record of a conversation; without a parent it follows the one before it."""
    more = {"sessionId": SESSION, "timestamp": "2026-11-21T21:00:00.000Z", **more}
    more |= {"type": type_, "uuid": uuid or f"u{next(_numbers)}", "parentUuid": parent}
    return json.dumps(more).encode()


def user(text: Any, uuid: str = "", parent: str | None = None, **more: Any) -> bytes:
    return record("user", uuid, parent, message={"role": "user", "content": text}, **more)


def assistant(*blocks: dict[str, Any], uuid: str = "", parent: str | None = None, **more: Any) -> bytes:
    message = {"id": "m1", "model": "claude-x", "role": "assistant", "content": list(blocks)}
    message |= more.pop("message", {})
    return record("assistant", uuid, parent, message=message, **more)


def answer(text: str, uuid: str = "", parent: str | None = None, **more: Any) -> bytes:
    return assistant({"type": "text", "text": text}, uuid=uuid, parent=parent, **more)


def spent(message_id: str, output: int, input_: int = 10, **more: Any) -> bytes:
    usage = {
        "input_tokens": input_,
        "output_tokens": output,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 3,
    }
    return answer("…", message={"id": message_id, "usage": usage}, **more)


def ended(message_id: str, output: int) -> bytes:
    """The last record of a message, which holds its final count."""
    usage = {"input_tokens": 10, "output_tokens": output}
    return answer("…", message={"id": message_id, "usage": usage, "stop_reason": "end_turn"})


def result(content: str, call_id: str, *, is_error: bool = False, **more: Any) -> bytes:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}
    return user([block], **more)


def refused(words: str, call_id: str) -> bytes:
    text = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\n"
    return result(text + words, call_id, is_error=True)


def queue(operation: str, content: str | None = None, **more: Any) -> bytes:
    return control("queue-operation", operation=operation, **({} if content is None else {"content": content}), **more)


def control(type_: str, **more: Any) -> bytes:
    return json.dumps({"type": type_, "sessionId": SESSION, **more}).encode()


def said(*lines: bytes, path: str = f"{SESSION}.jsonl") -> Told:
    return told("claude", b"\n".join(lines) + b"\n", Path(path))


def only(what: Told, kind: type[Event]) -> Any:
    (one,) = what.all(kind)
    return one


# whose log it is ------------------------------------------------------------------------------------------------


def test_a_session_goes_by_the_name_of_its_file() -> None:
    assert said(user("go")).identity.native_id == SESSION


def test_a_helper_goes_under_the_session_whose_folder_it_lies_in() -> None:
    identity = said(user("count"), path=f"projects/p/{SESSION}/subagents/agent-abc.jsonl").identity
    assert (identity.native_id, identity.parent_native_id) == (f"{SESSION}/abc", SESSION)
    assert identity.relation == Relation.SUBAGENT


def test_an_older_helper_beside_its_session_goes_under_the_session_its_records_name() -> None:
    identity = said(user("count", isSidechain=True), path="projects/p/agent-abc.jsonl").identity
    assert (identity.native_id, identity.relation) == (f"{SESSION}/abc", Relation.SUBAGENT)


def test_a_file_without_records_of_ours_is_not_taken() -> None:
    assert AGENT.log.identify(Path("x.jsonl"), b'{"timestamp":"2026","type":"event_msg","payload":{}}\n') is None


def test_the_journal_of_a_workflow_is_no_log() -> None:
    assert not AGENT.log.is_log(Path("workflows/r/journal.jsonl"))
    assert AGENT.log.is_log(Path("a.jsonl.zst"))


def test_a_record_goes_by_its_uuid() -> None:
    assert AGENT.log.native_id_of(user("go", "u-7")) == "u-7"
    assert AGENT.log.native_id_of(control("mode")) is None
    assert AGENT.log.native_id_of(b"torn {") is None


# prompts --------------------------------------------------------------------------------------------------------


def test_a_prompt_begins_a_turn_known_by_its_uuid() -> None:
    (turn,) = said(user("go", "p1")).in_order()
    assert (turn.uid, turn.native_id, turn.prompt) == (ids.turn_uid("claude", "p1"), "p1", "go")


def test_a_copy_in_another_session_has_the_same_turn_uid() -> None:
    original, copy = user("go", "p1"), user("go", "p1", sessionId="another", sessionKind="bg")
    assert said(original).turns.keys() == said(copy, path="another.jsonl").turns.keys()


def test_a_meta_record_is_no_prompt() -> None:
    assert said(user("Caveat: …", isMeta=True)).prompts() == []


def test_a_tool_result_is_no_prompt() -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}
    what = said(user("go"), user([result]))
    assert what.prompts() == ["go"]
    assert only(what, ToolResult).content == "done"


def test_a_prompt_beside_a_result_stands_before_it() -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}
    what = said(user([result, {"type": "text", "text": "now this"}]))
    assert [type(event) for *_, event in what.events] == [UserMessage, ToolResult]


@pytest.mark.parametrize("tag", ["ide_opened_file", "ide_selection", "system-reminder"])
def test_what_the_editor_put_before_a_prompt_is_left_out(tag: str) -> None:
    assert said(user(f"<{tag}>a\nb</{tag}>\nfix it")).prompts() == ["fix it"]


def test_editor_context_alone_is_no_prompt() -> None:
    what = said(user("<ide_opened_file>a.py</ide_opened_file>"))
    assert (what.prompts(), only(what, Hook).name) == ([], "context")


def test_an_image_is_named_in_the_prompt() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "…"}}
    assert said(user([{"type": "text", "text": "look"}, image])).prompts() == ["look\n[image]"]


def test_a_command_of_the_client_is_a_command() -> None:
    text = "<command-name>/model</command-name>\n<command-args>x</command-args>"
    what = said(user(text), user("<local-command-stdout>Set model to x</local-command-stdout>"))
    assert what.all(Command) == [Command(name="/model x"), Command(name="", output="Set model to x")]
    assert what.prompts() == []


def test_a_command_that_expands_to_a_prompt_is_the_prompt_as_typed() -> None:
    name = "<command-message>review</command-message>\n<command-name>/review</command-name>"
    text = f"{name}\n<command-args>12</command-args>"
    assert said(user(text)).prompts() == ["/review 12"]


def test_a_shell_command_of_the_users_own_is_a_command() -> None:
    assert only(said(user("<bash-input>ls</bash-input>")), Command).name == "! ls"


def test_a_queued_prompt_is_a_prompt() -> None:
    attachment = {"type": "queued_command", "prompt": "and this", "commandMode": "prompt"}
    assert said(user("go"), record("attachment", attachment=attachment)).prompts() == ["go", "and this"]


def test_a_side_chain_in_a_session_is_not_typed_by_the_user() -> None:
    what = said(user("go"), user("count", isSidechain=True))
    assert what.prompts() == ["go"]
    assert only(what, Hook).name == "subagent prompt"


GO_ON = (
    "<azureal-internal-auto-continue>\nContinue the in-progress work from the supplied Azureal session context. Do not "
    "treat this as a new user request, do not change objectives, and keep following the user's latest instructions.\n"
    "</azureal-internal-auto-continue>"
)


def test_what_another_program_says_to_go_on_begins_a_turn_without_a_prompt() -> None:
    context = "<azureal-session-context>\n## User\ngo\n</azureal-session-context>\n\n"
    goes_on = answer("Done.", message={"id": "m1", "usage": {"input_tokens": 10, "output_tokens": 2}})
    what = said(user(context + GO_ON, "p1"), goes_on, user("thanks", "p2"))
    first, second = what.in_order()
    assert (what.prompts(), only(what, Hook).output) == (["thanks"], GO_ON)
    assert (first.prompt, first.native_id, first.tokens.output) == ("", "p1", 2)
    assert (second.prompt, second.parent_uid) == ("thanks", first.uid)


def test_two_ways_on_from_what_another_program_said_are_two_branches() -> None:
    what = said(user(GO_ON, "p1"), user("a", "p2", "p1"), user("b", "p3", "p1"))
    first, *others = what.in_order()
    assert [turn.parent_uid for turn in others] == [first.uid, first.uid]


def test_a_person_who_asks_about_such_words_stays_a_person() -> None:
    asked = f"{GO_ON}\nWhere does this come from?"
    assert said(user(asked)).prompts() == [asked]


def test_a_helpers_first_words_are_its_prompt() -> None:
    what = said(user("count", isSidechain=True), path=f"{SESSION}/subagents/agent-abc.jsonl")
    assert what.prompts() == ["count"]


def test_a_summary_after_a_compaction_is_no_prompt() -> None:
    what = said(user("go"), user("This session is being continued…", isCompactSummary=True))
    assert (what.prompts(), only(what, Compacted).summary) == (["go"], "This session is being continued…")


# titles and other facts ---------------------------------------------------------------------------------------


def test_a_summary_is_told_with_its_leaf_and_is_no_title_of_the_log_that_it_stands_in() -> None:
    reader, facts = bounded.log_reader(AGENT, LogIdentity(native_id=SESSION), None, tuple), RecordFacts()
    for line in (control("summary", summary=" Theirs ", leafUuid="elsewhere"), user("go", "u1"), answer("ok", "a1")):
        facts.take(reader.read(line, 1))
    found = Found()
    facts.move_to(found)
    assert reader.session.title is None
    assert found.summaries == [FoundSummary(ids.record_key("elsewhere"), "Theirs")]
    assert found.record_ids == ids.record_key("u1") + ids.record_key("a1")


def test_a_summary_that_names_no_leaf_is_of_the_log_that_it_stands_in() -> None:
    assert said(control("summary", summary="Ours"), user("go")).session.title == "Ours"


# the tree -------------------------------------------------------------------------------------------------------


def test_a_turn_follows_the_turn_before() -> None:
    first, second = said(user("a", "p1"), answer("1", "a1", "p1"), user("b", "p2", "a1")).in_order()
    assert (second.parent_uid, second.parent_seq) == (first.uid, 2)
    assert first.parent_uid is None


def test_two_prompts_after_the_same_answer_are_two_branches() -> None:
    first, second, third = said(
        user("a", "p1"), answer("1", "a1", "p1"), user("b", "p2", "a1"), answer("2", "a2", "p2"), user("c", "p3", "a1")
    ).in_order()
    assert second.parent_uid == third.parent_uid == first.uid
    assert second.parent_seq == third.parent_seq == 2


def test_a_branch_is_found_through_records_that_say_nothing() -> None:
    first, second, third = said(
        user("a", "p1"), answer("1", "a1", "p1"), record("system", "s1", "a1", subtype="turn_duration"),
        user("b", "p2", "s1"), user("c", "p3", "a1"),
    ).in_order()  # fmt: skip
    assert second.parent_uid == third.parent_uid == first.uid


def test_a_dangling_parent_is_no_branch() -> None:
    first, second, third = said(
        user("a", "p1"), answer("1", "a1", "p1"), user("b", "p2", "gone"), answer("2", "a2", "p2"),
        user("c", "p3", "lost"),
    ).in_order()  # fmt: skip
    assert (second.parent_uid, third.parent_uid) == (first.uid, second.uid)


def test_a_branch_from_long_ago_is_found_by_reading_again() -> None:
    lines = [user("a", "p1"), answer("1", "a1", "p1"), user("b", "p2", "a1")]
    lines += [answer(str(number), f"x{number}", f"x{number - 1}" if number else "p2") for number in range(200)]
    lines.append(user("c", "p3", "a1"))
    whole = said(*lines)
    assert whole.in_order()[-1].parent_uid == whole.in_order()[0].uid
    assert told("claude", b"\n".join(lines), Path(f"{SESSION}.jsonl"), cuts=[203]) == whole


# how turns end --------------------------------------------------------------------------------------------------


def test_a_turn_whose_last_word_is_an_answer_is_completed() -> None:
    assert said(user("go"), answer("ok")).in_order()[0].outcome == Outcome.COMPLETED


def test_a_turn_that_stops_in_a_tool_says_nothing_of_how_it_ended() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    assert said(user("go"), answer("I will"), assistant(call)).in_order()[0].outcome is None


@pytest.mark.parametrize("text", ["[Request interrupted by user]", "[Request interrupted by user for tool use]"])
def test_an_interrupted_turn_is_cancelled(text: str) -> None:
    what = said(user("go"), user([{"type": "text", "text": text}]))
    assert what.in_order()[0].outcome == Outcome.CANCELLED
    assert only(what, Error) == Error(message=text, code="interrupted")
    assert what.prompts() == ["go"]


def test_an_endless_duration_is_no_duration() -> None:
    line = record("system", subtype="turn_duration", durationMs="?").replace(b'"?"', b"1e400")
    assert said(user("go"), line).in_order()[0].duration_ms is None


def test_an_error_of_the_service_fails_the_turn() -> None:
    what = said(user("go"), answer("API Error: 529", isApiErrorMessage=True, apiErrorStatus=529))
    assert what.in_order()[0].outcome == Outcome.FAILED
    assert only(what, Error).code == "529"


def test_a_retried_request_is_a_retry() -> None:
    what = said(user("go"), record("system", subtype="api_error", retryAttempt=2, error={"message": "529"}))
    assert only(what, Retry) == Retry(attempt=2, message="529")


def test_a_notice_of_the_client_is_no_answer() -> None:
    what = said(user("go"), answer("No response requested.", message={"model": "<synthetic>"}))
    assert (what.all(AssistantText), only(what, Hook).name) == ([], "notice")
    assert what.in_order()[0].model is None


def test_what_the_model_had_said_when_it_was_cut_off_is_an_answer() -> None:
    cut_off = answer("Few animals have", message={"model": "<synthetic>"})
    what = said(user("go"), cut_off, user("[Request interrupted by user]"))
    assert only(what, AssistantText).text == "Few animals have"
    assert what.in_order()[0].model is None


def test_a_notice_that_a_resume_writes_does_not_make_the_turn_longer() -> None:
    later = {"timestamp": "2026-11-22T09:00:00.000Z"}
    what = said(user("go"), answer("ok"), answer("No response requested.", message={"model": "<synthetic>"}, **later))
    assert what.in_order()[0].ended == ids.parse_time_ms("2026-11-21T21:00:00.000Z")


# tokens and costs -----------------------------------------------------------------------------------------------


def test_a_compaction_asked_for_later_does_not_make_the_turn_longer() -> None:
    summary = user("This session is being continued…", isCompactSummary=True, timestamp="2026-11-22T09:00:00.000Z")
    before, after = said(user("go"), answer("ok")), said(user("go"), answer("ok"), summary)
    assert after.in_order()[0].ended == before.in_order()[0].ended


def test_the_usage_of_a_message_told_by_each_block_counts_once_at_its_largest() -> None:
    (turn,) = said(user("go"), spent("m1", 1), spent("m1", 30), spent("m1", 20), spent("m2", 7)).in_order()
    tokens = turn.tokens
    assert (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write) == (20, 37, 10, 6)


def test_output_is_a_lower_bound_until_every_message_has_a_reason_to_stop() -> None:
    one, other = spent("m1", 1), spent("m2", 7)
    (turn,) = said(user("go"), one, ended("m1", 30), other).in_order()
    assert (turn.tokens.output, turn.tokens_source) == (37, "partial")
    (turn,) = said(user("go"), one, ended("m1", 30), other, ended("m2", 7)).in_order()
    assert turn.tokens_source == "reported"


def test_a_block_that_comes_after_the_end_of_its_message_opens_it_no_more() -> None:
    (turn,) = said(user("go"), ended("m1", 30), spent("m1", 30)).in_order()
    assert turn.tokens_source == "reported"


def test_many_messages_without_an_end_stay_a_lower_bound_in_bounded_space() -> None:
    (turn,) = said(user("go"), *(spent(f"m{n}", 1) for n in range(100)), ended("m99", 5)).in_order()
    assert (turn.tokens.output, turn.tokens_source) == (104, "partial")


def test_a_message_id_used_for_two_requests_counts_twice() -> None:
    (turn,) = said(user("go"), spent("m1", 5, requestId="r1"), spent("m1", 6, requestId="r2")).in_order()
    assert turn.tokens.output == 11


def test_without_usage_the_tokens_are_unknown() -> None:
    (turn,) = said(user("go"), answer("ok")).in_order()
    assert (turn.tokens.output, turn.tokens_source) == (None, None)


def test_a_running_total_of_the_cost_is_shared_out_by_its_differences() -> None:
    first, second = said(
        user("a"), answer("1"), control("cost-state", totalCostUSD=0.25), control("cost-state", totalCostUSD=0.5),
        user("b"), answer("2"), control("cost-state", totalCostUSD=0.75),
    ).in_order()  # fmt: skip
    assert (first.cost_usd, second.cost_usd, second.cost_source) == (0.5, 0.25, "reported")


def test_a_first_total_after_several_turns_may_be_a_parents_and_counts_for_none() -> None:
    what = said(user("a"), answer("1"), user("b"), answer("2"), control("cost-state", totalCostUSD=9.0))
    assert [turn.cost_usd for turn in what.in_order()] == [None, None]


# answers and tools ----------------------------------------------------------------------------------------------


def test_the_blocks_of_a_record_are_its_parts_in_order() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"file_path": "/a.py"}}
    what = said(assistant({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I edit."}, call))
    assert [(part, type(event)) for _, part, *_, event in what.events] == [
        (0, Thinking),
        (1, AssistantText),
        (2, ToolCall),
    ]
    assert (only(what, ToolCall).tool, only(what, ToolCall).file_path) == (Tool.EDIT, "/a.py")


def test_a_result_has_the_name_and_the_path_of_its_call() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/a.py"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "no"}], "is_error": True}
    found = only(said(assistant(call), user([result])), ToolResult)
    assert (found.tool_name, found.tool, found.file_path) == ("Read", Tool.READ, "/a.py")
    assert (found.content, found.is_error) == ("no", True)


PLAN = assistant({"type": "tool_use", "id": "t1", "name": "ExitPlanMode", "input": {"plan": "# Do it"}})


def test_a_search_for_tools_gives_their_names() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "ToolSearch", "input": {"query": "select:Ask,Tell"}}
    named = [{"type": "tool_reference", "tool_name": name} for name in ("Ask", "Tell")]
    given = {"type": "tool_result", "tool_use_id": "t1", "content": named}
    assert only(said(assistant(call), user([given])), ToolResult).content == "Ask\nTell"


def test_a_plan_that_was_put_before_the_user_is_a_plan_too() -> None:
    assert only(said(user("go"), PLAN, result("User has approved your plan.", "t1")), Plan).content == "# Do it"


def test_a_plan_that_the_user_refused_was_put_before_the_user() -> None:
    assert only(said(user("go"), PLAN, refused("smaller, please", "t1")), Plan).content == "# Do it"


def test_a_plan_whose_call_failed_is_none() -> None:
    assert (
        said(user("go"), PLAN, result("ExitPlanMode is disabled for this session", "t1", is_error=True)).all(Plan) == []
    )


# what the user said beside prompts -------------------------------------------------------------------------------


def test_words_typed_while_the_agent_works_and_given_to_it_are_the_users_in_the_same_turn() -> None:
    what = said(user("go"), answer("Wait"), queue("enqueue", "no, main"), queue("remove"), answer("Main then"))
    assert [each.content for each in what.all(UserMessage)] == ["go", "no, main"]
    assert [turn.prompt for turn in what.in_order()] == ["go"]


def test_queued_words_are_given_in_the_order_they_were_typed() -> None:
    what = said(user("go"), queue("enqueue", "one"), queue("enqueue", "two"), queue("remove"), queue("remove"))
    assert [each.content for each in what.all(UserMessage)] == ["go", "one", "two"]


def test_queued_words_that_become_a_prompt_are_told_once() -> None:
    what = said(user("go"), queue("enqueue", "then this"), queue("dequeue"), user("then this"))
    assert [each.content for each in what.all(UserMessage)] == what.prompts() == ["go", "then this"]


def test_queued_words_that_were_taken_back_were_said_to_nobody() -> None:
    what = said(user("go"), queue("enqueue", "hm"), queue("popAll", "hm"), queue("enqueue", "yes"), queue("remove"))
    assert [each.content for each in what.all(UserMessage)] == ["go", "yes"]


def test_a_notification_in_the_queue_is_no_persons_words() -> None:
    note = "<agent-notification>\n<task-id>1</task-id></agent-notification>"
    what = said(user("go"), queue("enqueue", note), queue("remove"))
    assert (what.prompts(), only(what, Hook).name) == (["go"], "agent-notification")


def test_words_absorbed_in_the_midst_of_a_turn_stay_in_it() -> None:
    given = {"reason": "absorbed_mid_turn", "commandUuid": "c1"}
    attached = {"type": "queued_command", "prompt": "steer", "source_uuid": "c1", "commandMode": "prompt"}
    what = said(
        user("go"), queue("enqueue"), queue("remove", "steer", **given), record("attachment", attachment=attached)
    )
    assert [each.content for each in what.all(UserMessage)] == ["go", "steer"]
    assert [turn.prompt for turn in what.in_order()] == ["go"]


def test_words_that_left_the_queue_for_another_reason_were_not_given() -> None:
    what = said(user("go"), queue("enqueue", "never mind"), queue("remove", reason="cancelled"))
    assert [each.content for each in what.all(UserMessage)] == ["go"]


def test_words_given_at_once_and_logged_again_are_told_once() -> None:
    attached = {"type": "queued_command", "prompt": "steer", "commandMode": "prompt"}
    what = said(user("go"), queue("enqueue", "steer"), queue("remove"), record("attachment", attachment=attached))
    assert [each.content for each in what.all(UserMessage)] == ["go", "steer"]


def test_what_the_user_said_when_refusing_a_call_is_the_users() -> None:
    what = said(user("go"), PLAN, refused("rebase from main first", "t1"))
    assert [each.content for each in what.all(UserMessage)] == ["go", "rebase from main first"]
    assert [turn.prompt for turn in what.in_order()] == ["go"]


def test_a_refusal_that_only_asks_back_holds_no_words() -> None:
    asking_back = "The user wants to clarify these questions.\n    Questions asked: …"
    assert len(said(user("go"), PLAN, refused(asking_back, "t1")).all(UserMessage)) == 1


def test_what_the_user_answered_to_a_question_is_the_users() -> None:
    call = assistant({"type": "tool_use", "id": "q1", "name": "AskUserQuestion", "input": {"questions": []}})
    text = 'User has answered your questions: "Which?"="Both, please". You can now continue'
    what = said(user("go"), call, result(text, "q1", toolUseResult={"answers": {"Which?": "Both, please"}}))
    assert [each.content for each in what.all(UserMessage)] == ["go", "Both, please"]
    assert [each.content for each in said(user("go"), call, result(text, "q1")).all(UserMessage)] == [
        "go",
        "Both, please",
    ]


def test_a_command_that_is_told_to_the_model_is_a_prompt() -> None:
    goal = "<command-name>/goal</command-name>\n<command-args>Be done.</command-args>"
    output = "<local-command-stdout>Goal set: Be done.</local-command-stdout>"
    told_so = user("A Stop hook is now active.", isMeta=True)
    what = said(user(goal, "g1"), user(output), told_so, ended("m1", 4))
    (turn,) = what.in_order()
    assert (turn.prompt, turn.native_id, turn.tokens.output) == ("/goal Be done.", "g1", 4)


def test_a_command_of_the_clients_own_is_no_prompt_when_the_session_goes_on_later() -> None:
    leaving = user("<command-name>/exit</command-name>")
    what = said(user("go"), answer("ok"), leaving, user("Continue from where you left off.", isMeta=True), user("next"))
    assert what.prompts() == ["go", "next"]


def test_a_clients_notice_is_no_prompt() -> None:
    what = said(user("go"), user("Operation stopped by hook: Another session is active"))
    assert (what.prompts(), only(what, Hook).name) == (["go"], "stopped")


def test_a_log_that_begins_in_the_midst_has_a_turn_without_a_prompt() -> None:
    (turn,) = said(result("done", "t0"), ended("m1", 9), user("next")).in_order()[:1]
    assert (turn.prompt, turn.tokens.output, turn.model) == ("", 9, "claude-x")


def test_a_turn_that_was_stopped_after_so_many_steps_failed() -> None:
    stopped = record("attachment", attachment={"type": "max_turns_reached", "maxTurns": 3, "turnCount": 4})
    (turn,) = said(user("go"), answer("…"), stopped).in_order()
    assert (turn.outcome, turn.stop_reason) == (Outcome.FAILED, "max_turns")


def test_several_durations_of_a_turn_add_up() -> None:
    lasted = [record("system", subtype="turn_duration", durationMs=ms) for ms in (398_000, 76_000)]
    (turn,) = said(user("go"), answer("ok"), *lasted).in_order()
    assert turn.duration_ms == 474_000


def _ended_process(total_ms: int | float) -> bytes:
    return record("cost-state", totalCostUSD=0, totalAPIDuration=total_ms)


def test_how_long_the_model_took_is_by_how_much_the_sessions_total_grew() -> None:
    first, second = [user("one"), answer("1"), _ended_process(143)], [user("two"), answer("2"), _ended_process(167)]
    assert [turn.api_latency_ms for turn in said(*first, *second).in_order()] == [143, 24]


def test_a_total_of_several_turns_says_of_none_how_long_the_model_took() -> None:
    both = [user("one"), answer("1"), user("two"), answer("2"), _ended_process(500)]
    more = [user("three"), answer("3"), user("four"), answer("4"), _ended_process(900)]
    turns = said(*both, *more, user("five"), answer("5"), _ended_process(930)).in_order()
    assert [turn.api_latency_ms for turn in turns] == [None, None, None, None, 30]


@pytest.mark.parametrize("total_ms", [143, 10])
def test_a_total_that_did_not_grow_measured_nothing(total_ms: int) -> None:
    again = [user("two"), _ended_process(total_ms), user("three"), _ended_process(total_ms + 7)]
    turns = said(user("one"), answer("1"), _ended_process(143), *again).in_order()
    assert [turn.api_latency_ms for turn in turns] == [143, None, 7]


def test_a_blank_answer_is_no_event() -> None:
    assert said(user("go"), answer("\n\n"), answer("ok")).all(AssistantText) == [AssistantText(text="ok")]


def test_a_record_that_was_written_twice_is_told_once() -> None:
    assert len(said(user("go"), answer("ok", "a1"), answer("ok", "a1")).all(AssistantText)) == 1


# the session ----------------------------------------------------------------------------------------------------


def test_a_title_given_by_hand_wins_over_one_that_was_made() -> None:
    what = said(user("go"), control("custom-title", customTitle="Mine"), control("ai-title", aiTitle="Made"))
    assert what.session.title == "Mine"


def test_the_folder_is_the_first_and_the_branch_and_version_are_the_last() -> None:
    what = said(
        user("a", cwd="/a", gitBranch="main", version="2.0"), user("b", cwd="/b", gitBranch="fix", version="2.1"),
        user("c", cwd="/b", gitBranch="HEAD", version="2.1"),
    )  # fmt: skip
    facts = what.session
    assert (facts.cwd, facts.branch, facts.agent_version) == ("/a", "fix", "2.1")


# odd lines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        answer("ok").replace(b'"ok"', rb'"ok \ud800"'),
        answer("ok").replace(b'"uuid"', b'"score": NaN, "uuid"'),
        b"\xef\xbb\xbf" + answer("ok"),
        answer("ok") + b"\0\0\0",
        answer("ok").replace(b"ok", b"ok \xff"),
    ],
    ids=["a lone surrogate", "NaN", "a byte order mark", "a tail of NUL", "invalid UTF-8"],
)
def test_an_odd_line_is_still_read(line: bytes) -> None:
    what = said(user("go"), line)
    assert only(what, AssistantText).text.startswith("ok")
    assert what.unknown == {}


def test_two_records_on_a_line_are_both_read() -> None:
    what = said(user("go"), answer("one") + control("summary", summary="A title"))
    assert only(what, AssistantText).text == "one"
    assert what.session.title == "A title"


def test_a_line_nested_beyond_reason_is_unknown_and_does_not_stop_the_rest() -> None:
    deep = b'{"type":"user","uuid":"d","attachment":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    what = said(user("go"), deep, b"not json at all", answer("ok"))
    assert what.unknown == {"not JSON": 2}
    assert only(what, AssistantText).text == "ok"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (record("novelty"), "novelty"),
        (control("novelty"), "novelty"),
        (record("system", subtype="novelty"), "system/novelty"),
        (record("attachment", attachment={"type": "novelty"}), "attachment/novelty"),
        (assistant({"type": "novelty"}), "assistant/novelty"),
        (b'{"sessionId":"s"}', "record without a type"),
    ],
)
def test_an_unknown_type_is_an_event_and_counted(line: bytes, kind: str) -> None:
    what = said(user("go"), line)
    assert only(what, Unknown).type == kind
    assert what.unknown == {kind: 1}


def test_the_state_stays_small_however_long_the_log() -> None:
    lines = []
    for number in range(3_000):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {}}
        lines += [user(f"prompt {number}", f"p{number}"), answer("x" * 100, f"a{number}"), assistant(call)]
    identity = AGENT.log.identify(Path(f"{SESSION}.jsonl"), lines[0])
    assert identity is not None
    reader = AGENT.log.reader(identity, None, lambda: ())
    for seq, line in enumerate(lines, start=1):
        reader.read(line, seq)
    assert len(reader.state()) < 500_000


def test_files_that_a_command_changed_are_told_as_the_client_saw_them() -> None:
    call = assistant({"type": "tool_use", "id": "b1", "name": "Bash", "input": {"command": "make"}})
    diff = {
        "files": [{"filePath": "/w/new.txt", "created": True}, {"filePath": "/w/old.txt", "hunks": []}],
        "moreFiles": 1,
        "changedFiles": ["/w/new.txt", "/w/old.txt", "/w/third.txt"],
    }
    what = said(user("go"), call, result("ok", "b1", toolUseResult={"stdout": "ok", "bashEditDiff": diff}))
    assert only(what, ToolResult).changes == {"/w/new.txt": "create", "/w/old.txt": "edit", "/w/third.txt": "edit"}


def test_two_records_on_a_line_keep_what_the_client_saw_a_command_change() -> None:
    call = assistant({"type": "tool_use", "id": "b1", "name": "Bash", "input": {"command": "make"}})
    diff = {"files": [{"filePath": "/w/new.txt", "created": True}], "changedFiles": ["/w/new.txt"]}
    told = result("ok", "b1", toolUseResult={"stdout": "ok", "bashEditDiff": diff})
    what = said(user("go"), call, told + record("last-prompt"))
    assert only(what, ToolResult).changes == {"/w/new.txt": "create"}
    assert what.unknown == {}
