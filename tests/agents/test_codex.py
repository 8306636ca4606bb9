"""What Codex's records mean, rule by rule. Whole recorded logs are in ``cases/codex``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backstory import ids
from backstory.agents.codex import AGENT
from backstory.agents.codex.rollout import action_of
from backstory.bounds import LOST
from backstory.conversation.carried import RunCommand
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
    Retry,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Unknown,
)
from tests.support.every import every
from tests.support.reading import Told, told

THREAD = "01a1ffee-6b92-7df0-8b28-4d7e241733fa"
PARENT = "01a1ffee-0000-7df0-8b28-4d7e241733fa"
FIRST, SECOND, THIRD = "turn-1", "turn-2", "turn-3"


def record(type_: str, payload: dict[str, Any], at: str = "2026-11-21T21:00:00.000Z") -> bytes:
    return json.dumps({"timestamp": at, "type": type_, "payload": payload}).encode()


def meta(thread: str = THREAD, **more: Any) -> bytes:
    return record("session_meta", {"id": thread, "cwd": "/work", "cli_version": "0.169.0", **more})


def event(type_: str, **more: Any) -> bytes:
    return record("event_msg", {"type": type_, **more})


def response(type_: str, **more: Any) -> bytes:
    return record("response_item", {"type": type_, **more})


def task(turn_id: str) -> bytes:
    return event("task_started", turn_id=turn_id)


def typed(text: str, **more: Any) -> bytes:
    return event("user_message", message=text, **more)


def typed_item(text: str) -> bytes:
    return event("item_completed", item={"type": "UserMessage", "id": "u", "content": [{"type": "text", "text": text}]})


def user(text: str) -> bytes:
    return response("message", role="user", content=[{"type": "input_text", "text": text}])


def answer(text: str) -> bytes:
    return response("message", role="assistant", content=[{"type": "output_text", "text": text}])


def done(turn_id: str, **more: Any) -> bytes:
    return event("task_complete", turn_id=turn_id, last_agent_message="done", **more)


def usage(input_: int, output: int, cached: int = 0, **more: int) -> dict[str, int]:
    return {"input_tokens": input_, "cached_input_tokens": cached, "output_tokens": output, **more}


def count(total: dict[str, int], last: dict[str, int] | None = None) -> bytes:
    return event("token_count", info={"total_token_usage": total, "last_token_usage": last or total})


def said(*lines: bytes, path: str = f"rollout-2026-11-21T21-00-00-{THREAD}.jsonl") -> Told:
    return told("codex", b"\n".join(lines) + b"\n", Path(path))


def only(what: Told, kind: type[Event]) -> Any:
    (one,) = what.all(kind)
    return one


def called(name: str, arguments: str, output: Any) -> tuple[ToolCall, ToolResult]:
    what = said(
        meta(),
        task(FIRST),
        typed("go"),
        response("function_call", name=name, arguments=arguments, call_id="c1"),
        response("function_call_output", call_id="c1", output=output),
    )
    return only(what, ToolCall), only(what, ToolResult)


# whose log it is ------------------------------------------------------------------------------------------------


def test_the_places_follow_codex_home() -> None:
    assert [place.folder for place in AGENT.log.roots({}, Path("/home/u"))] == [
        Path("/home/u/.codex/sessions"),
        Path("/home/u/.codex/archived_sessions"),
    ]
    assert AGENT.log.roots({"CODEX_HOME": "/x"}, Path("/home/u"))[0].root == Path("/x")


@pytest.mark.parametrize("name", ["rollout-2026-x.jsonl", "rollout-2026-x.jsonl.zst"])
def test_a_rollout_is_a_log_compressed_or_not(name: str) -> None:
    assert AGENT.log.is_log(Path(name))


@pytest.mark.parametrize("name", ["history.jsonl", "rollout-2026-x.json", "session_index.jsonl"])
def test_other_files_are_no_logs(name: str) -> None:
    assert not AGENT.log.is_log(Path(name))


def test_the_first_session_meta_says_whose_log_it_is() -> None:
    assert said(meta(), meta(PARENT), task(FIRST)).identity.native_id == THREAD


def test_a_first_line_longer_than_the_head_still_says_whose_log_it_is() -> None:
    line = meta(forked_from_id=PARENT, base_instructions={"text": "x" * ids.HEAD_BYTES})
    identity = said(line, task(FIRST)).identity
    assert (identity.native_id, identity.relation) == (THREAD, Relation.FORK)


def test_the_order_of_the_keys_does_not_matter() -> None:
    payload = {"source": {"id": "other", "subagent": {"thread_spawn": {"id": "x", "parent_thread_id": PARENT}}}}
    line = json.dumps({"payload": payload | {"id": THREAD}, "type": "session_meta"}).encode()
    identity = said(line).identity
    assert (identity.native_id, identity.parent_native_id) == (THREAD, PARENT)


def test_without_a_session_meta_the_name_of_the_file_says_whose_log_it_is() -> None:
    assert said(task(FIRST), typed("go")).identity.native_id == THREAD


def test_a_file_without_records_of_ours_is_not_taken() -> None:
    assert AGENT.log.identify(Path("rollout-x.jsonl"), b'{"type":"thread.started","thread_id":"x"}\n') is None
    assert AGENT.log.identify(Path("rollout-x.jsonl"), b"") is None


def test_a_fork_names_its_parent() -> None:
    identity = said(meta(forked_from_id=PARENT)).identity
    assert (identity.parent_native_id, identity.relation) == (PARENT, Relation.FORK)


def test_a_helper_is_a_helper_though_it_was_forked_too() -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}}
    identity = said(meta(forked_from_id=PARENT, source=source)).identity
    assert (identity.parent_native_id, identity.relation) == (PARENT, Relation.SUBAGENT)


def test_only_ids_drawn_at_random_name_a_record() -> None:
    drawn = "msg_01a1ffee-6bd3-7cf3-aae8-5897250b62fe"
    assert AGENT.log.native_id_of(response("message", id=drawn)) == drawn
    assert AGENT.log.native_id_of(response("message", id="msg_1")) is None
    assert AGENT.log.native_id_of(event("item_completed", id=drawn)) is None
    assert AGENT.log.native_id_of(b"torn {") is None


# prompts and turns ----------------------------------------------------------------------------------------------


def test_a_prompt_told_by_every_channel_is_one_prompt() -> None:
    what = said(meta(), task(FIRST), user("go"), typed("go"), typed_item("go"))
    assert what.prompts() == ["go"]


GO_ON = (
    "<azureal-internal-auto-continue>\nContinue the in-progress work from the supplied Azureal session context. Do not "
    "treat this as a new user request, do not change objectives, and keep following the user's latest instructions.\n"
    "</azureal-internal-auto-continue>"
)


def test_what_another_program_says_to_go_on_begins_a_turn_without_a_prompt() -> None:
    sent = f"<azureal-session-context>\n## User\ngo\n</azureal-session-context>\n\n{GO_ON}"
    what = said(
        meta(), task(FIRST), user(sent), typed(sent), answer("Done."), done(FIRST), task(SECOND), typed("thanks")
    )
    first, second = what.in_order()
    assert (what.prompts(), what.all(Hook)) == (["thanks"], [Hook(name="azureal-internal-auto-continue", output=GO_ON)])
    assert (first.prompt, first.native_id, first.outcome) == ("", FIRST, Outcome.COMPLETED)
    assert (second.prompt, second.parent_uid) == ("thanks", first.uid)


def test_the_same_words_typed_twice_in_a_task_are_two_prompts() -> None:
    what = said(meta(), task(FIRST), user("go"), typed("go"), answer("…"), user("go"), typed("go"))
    assert [turn.native_id for turn in what.in_order()] == [FIRST, f"{FIRST}/2"]


def test_a_turn_goes_by_the_id_of_its_task() -> None:
    (turn,) = said(meta(), task(FIRST), typed("go")).in_order()
    assert (turn.uid, turn.native_id) == (ids.turn_uid("codex", FIRST), FIRST)


def test_a_turn_context_names_the_task_where_nothing_started_it() -> None:
    what = said(meta(), record("turn_context", {"turn_id": FIRST, "model": "m", "cwd": "/w"}), typed("go"))
    assert (what.in_order()[0].native_id, what.in_order()[0].model) == (FIRST, "m")


def test_without_task_ids_a_turn_goes_by_its_place_in_the_session() -> None:
    what = said(meta(), typed("one"), answer("1"), typed("two"))
    assert [turn.native_id for turn in what.in_order()] == [f"{THREAD}/1", f"{THREAD}/2"]


def test_in_an_old_log_the_models_copy_of_a_prompt_is_the_prompt() -> None:
    what = said(meta(), user("<environment_context>…"), user("go"), answer("ok"))
    assert what.prompts() == ["go"]
    assert what.in_order()[0].outcome == Outcome.COMPLETED


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context>\n…",
        "<user_instructions>…",
        "# AGENTS.md instructions for /work\n…",
        "<permissions instructions>…",
        "<turn_aborted>\n…",
        "<subagent_notification>…",
        "<user_shell_command>…",
    ],
)
def test_what_codex_writes_in_the_users_place_is_no_prompt(text: str) -> None:
    assert said(meta(), user(text)).prompts() == []


def test_where_the_log_says_who_wrote_it_the_words_do_not_matter() -> None:
    kinds = [["environments.environment_context"], ["user.text"]]
    lines = [
        response("message", role="user", content=[{"type": "input_text", "text": text}],
                 internal_chat_message_metadata_passthrough={"content_item_kinds": kind})
        for text, kind in zip(["new words of Codex", "<skill> is what I typed"], kinds, strict=True)
    ]  # fmt: skip
    assert said(meta(), *lines).prompts() == ["<skill> is what I typed"]


def test_a_real_prompt_may_begin_with_a_tag() -> None:
    assert said(meta(), user("<div> does not close")).prompts() == ["<div> does not close"]


def test_what_the_editor_adds_before_a_prompt_is_left_out() -> None:
    text = "# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request for Codex:\nfix it\n"
    assert said(meta(), task(FIRST), typed(text)).prompts() == ["fix it\n"]


def test_an_image_is_named_in_the_prompt() -> None:
    what = said(meta(), task(FIRST), typed("look", images=["data:…"], local_images=[]))
    assert what.prompts() == ["look\n[image]"]


def test_what_comes_before_the_first_prompt_has_no_turn() -> None:
    what = said(meta(), task(FIRST), typed("go"))
    (_, _, _, uid, first), *_ = what.events
    assert (type(first), uid) == (Init, None)


def test_a_task_without_a_prompt_belongs_to_the_turn_before_and_does_not_change_how_it_ended() -> None:
    what = said(
        meta(), task(FIRST), typed("go"), done(FIRST, duration_ms=5),
        task(SECOND), record("compacted", {"message": "summary"}), done(SECOND, duration_ms=99),
    )  # fmt: skip
    (turn,) = what.in_order()
    assert (turn.last_seq, turn.duration_ms) == (7, 5)
    assert only(what, Compacted).summary == "summary"


def test_copied_turns_of_a_helper_keep_their_ids_and_its_task_is_its_prompt() -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT}}}
    order = {"type": "input_text", "text": "Message Type: NEW_TASK\nSender: /root\nPayload:\ncount the files"}
    what = said(
        meta(source=source), meta(PARENT), task(FIRST), user("do the work"), answer("I delegate."),
        task(SECOND), response("agent_message", author="/root", content=[order]), answer("3"),
    )  # fmt: skip
    assert what.prompts() == ["do the work", "count the files"]
    assert [turn.native_id for turn in what.in_order()] == [FIRST, SECOND]


def test_later_words_to_a_helper_at_work_are_no_new_prompt() -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT}}}
    orders = [
        response("agent_message", author="/root", content=[{"type": "input_text", "text": text}])
        for text in ("count the files", "and the folders")
    ]
    what = said(meta(source=source), task(FIRST), *orders)
    assert (what.prompts(), only(what, Hook).output) == (["count the files"], "and the folders")


def test_a_helpers_word_to_its_parent_is_no_prompt() -> None:
    content = [{"type": "input_text", "text": "There are 3."}]
    what = said(meta(), task(FIRST), typed("go"), response("agent_message", author="/root/a", content=content))
    assert only(what, Hook) == Hook(name="message from /root/a", output="There are 3.")


# the tree -------------------------------------------------------------------------------------------------------


def three_turns(*after: bytes) -> Told:
    turns = [line for name in (FIRST, SECOND, THIRD) for line in (task(name), typed(name), done(name))]
    return said(meta(), *turns, *after)


def test_a_turn_follows_the_turn_before() -> None:
    first, second, third = three_turns().in_order()
    assert first.parent_uid is None
    assert (second.parent_uid, second.parent_seq) == (first.uid, first.last_seq)
    assert third.parent_uid == second.uid


def test_after_a_rollback_the_next_turn_follows_the_turn_before_those_taken_back() -> None:
    first, *_, last = three_turns(event("thread_rolled_back", num_turns=2), task("t4"), typed("again")).in_order()
    assert (last.parent_uid, last.parent_seq) == (first.uid, 5)


def test_a_second_rollback_counts_on_the_branch_it_is_on() -> None:
    first, *_, last = three_turns(
        event("thread_rolled_back", num_turns=2), task("t4"), typed("again"),
        event("thread_rolled_back", num_turns=1), task("t5"), typed("once more"),
    ).in_order()  # fmt: skip
    assert (last.prompt, last.parent_uid) == ("once more", first.uid)


def test_a_rollback_of_all_turns_begins_a_new_root() -> None:
    *_, last = three_turns(event("thread_rolled_back", num_turns=9), task("t4"), typed("again")).in_order()
    assert last.parent_uid is None


def test_a_turn_told_twice_keeps_its_place_in_the_tree() -> None:
    turns = three_turns(meta(PARENT), task(FIRST), typed(FIRST), task(SECOND), typed(SECOND)).turns
    first, second = ids.turn_uid("codex", FIRST), ids.turn_uid("codex", SECOND)
    assert (turns[first].parent_uid, turns[second].parent_uid) == (None, first)


def test_a_task_that_a_fork_repeats_in_the_same_log_is_told_once_where_it_was_first() -> None:
    first = (task(FIRST), typed("one"), answer("1"), count(usage(100, 10)), done(FIRST, duration_ms=5))
    what = said(meta(), *first, meta(THREAD, forked_from_id=PARENT), *first, task(SECOND), typed("two"), answer("2"))
    one, two = what.in_order()
    assert [each.text for each in what.all(AssistantText)] == ["1", "2"]
    assert (one.first_seq, one.last_seq, one.tokens.output) == (3, 7, 10)
    assert two.parent_uid == one.uid


def test_a_fork_in_the_same_log_goes_on_behind_the_last_turn_it_repeats() -> None:
    second = (task(SECOND), typed(SECOND), done(SECOND))
    _, _, _, last = three_turns(task(FIRST), typed(FIRST), done(FIRST), *second, task("t4"), typed("again")).in_order()
    assert last.parent_uid == ids.turn_uid("codex", SECOND)


def test_a_part_of_a_turn_ends_when_the_turn_that_it_is_a_part_of_does() -> None:
    started = event("task_started", turn_id=SECOND, root_turn_id=FIRST)
    (turn,) = said(meta(), started, typed("review"), done(FIRST)).in_order()
    assert turn.outcome == Outcome.COMPLETED


# what no screen told ----------------------------------------------------------------------------------------------


def test_a_prompt_that_only_the_model_was_sent_is_a_prompt() -> None:
    what = said(meta(), task(FIRST), user("<environment_context>x"), user("go"), answer("ok"), count(usage(9, 3)))
    (turn,) = what.in_order()
    assert (turn.prompt, turn.tokens.output) == ("go", 3)
    assert [event.kind for *_, event in sorted(what.events, key=lambda each: each[:2])][-2:] == [
        "UserMessage",
        "AssistantText",
    ]


def test_of_two_prompts_that_only_the_model_was_sent_both_turns_are_there() -> None:
    what = said(meta(), task(FIRST), user("go"), user("and quickly"), answer("ok"))
    first, second = sorted(what.turns.values(), key=lambda turn: turn.native_id)
    assert [first.prompt, second.prompt] == ["go", "and quickly"]
    assert second.parent_uid == first.uid


def test_a_prompt_that_is_told_after_the_models_copy_of_it_is_told_once() -> None:
    assert said(meta(), task(FIRST), user("go"), typed("go"), answer("ok")).prompts() == ["go"]


def test_a_command_that_the_user_ran_is_the_users() -> None:
    ran = "<command>\nls\n</command>\n<result>\nExit code: 0\na.txt\n</result>"
    text = f"<user_shell_command>\n{ran}\n</user_shell_command>"
    what = said(meta(), task(FIRST), user(text))
    assert what.all(Command) == [Command(name="! ls"), Command(name="", output="Exit code: 0\na.txt")]
    assert what.prompts() == []


def test_a_command_whose_result_is_not_told_is_told_all_the_same() -> None:
    text = "<user_shell_command>\n<command>\nls\n</command>\n</user_shell_command>"
    assert only(said(meta(), task(FIRST), user(text)), Command) == Command(name="! ls")


EARLY = [
    {"id": THREAD, "timestamp": "2025-08-21T21:00:00.000Z", "instructions": None, "git": {"branch": "main"}},
    {"record_type": "state"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>x"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
    {"type": "function_call", "name": "shell", "call_id": "c1", "arguments": '{"command":["ls"]}'},
    {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "one file"}]},
]


def test_a_log_of_the_first_builds_is_read() -> None:
    what = said(*(json.dumps(each, separators=(",", ":")).encode() for each in EARLY))
    (turn,) = what.in_order()
    assert what.identity.native_id == THREAD
    assert (what.session.branch, what.prompts(), turn.outcome) == ("main", ["go"], Outcome.COMPLETED)
    assert (only(what, ToolCall).tool_name, only(what, ToolResult).content) == ("shell", "a.txt")
    assert (only(what, Thinking).text, only(what, AssistantText).text, what.unknown) == ("hm", "one file", {})


@pytest.mark.parametrize(
    "told", ["\n  <cwd>/home/u/w</cwd>\n", "\nCurrent working directory: /home/u/w\nApproval: never\n"]
)
def test_a_log_of_the_first_builds_tells_its_folder_in_what_the_model_is_told(told: str) -> None:
    words = f"<environment_context>{told}</environment_context>"
    context = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}
    what = said(*(json.dumps(each).encode() for each in (EARLY[0], context, *EARLY[3:])))
    assert (what.session.cwd, what.prompts()) == ("/home/u/w", ["go"])


def test_a_review_is_a_helper_of_the_session_that_asked_for_it() -> None:
    line = meta(parent_thread_id=PARENT, source={"subagent": "review"}, thread_source="subagent")
    identity = said(line, task(FIRST)).identity
    assert (identity.parent_native_id, identity.relation) == (PARENT, Relation.SUBAGENT)


# how turns end --------------------------------------------------------------------------------------------------


def test_a_completed_task_completes_its_turn() -> None:
    what = said(meta(), task(FIRST), typed("go"), done(FIRST, duration_ms=250))
    (turn,) = what.in_order()
    assert (turn.outcome, turn.duration_ms) == (Outcome.COMPLETED, 250)
    assert only(what, Complete) == Complete(success=True, duration_ms=250)


def test_how_long_a_task_lasted_is_not_how_long_the_model_took() -> None:
    (turn,) = said(meta(), task(FIRST), typed("go"), done(FIRST, duration_ms=250, time_to_first_token_ms=50)).in_order()
    assert (turn.duration_ms, turn.api_latency_ms) == (250, None)


def test_an_endless_duration_is_no_duration() -> None:
    line = done(FIRST, duration_ms="?").replace(b'"?"', b"1e400")
    assert only(said(meta(), task(FIRST), typed("go"), line), Complete).duration_ms is None


def test_a_task_that_ends_with_an_error_fails_its_turn() -> None:
    error = {"message": "Quota exceeded.", "codex_error_info": "usage_limit_exceeded"}
    what = said(meta(), task(FIRST), typed("go"), event("task_complete", turn_id=FIRST, error=error))
    assert what.in_order()[0].outcome == Outcome.FAILED
    assert only(what, Error) == Error(message="Quota exceeded.", code="usage_limit_exceeded")
    assert not only(what, Complete).success


def test_an_error_told_before_the_task_ended_is_told_once() -> None:
    code = {"http_connection_failed": {"http_status_code": 500}}
    what = said(
        meta(), task(FIRST), typed("go"), event("error", message="down", codex_error_info=code),
        event("task_complete", turn_id=FIRST, error={"message": "down"}),
    )  # fmt: skip
    assert only(what, Error) == Error(message="down", code="http_connection_failed")
    assert what.events[-1][1] == 1, "the part number is that of a reader that saw the record alone"


def test_an_error_that_the_answer_got_over_does_not_fail_the_turn() -> None:
    what = said(meta(), task(FIRST), typed("go"), event("error", message="hm"), answer("ok"), done(FIRST))
    assert what.in_order()[0].outcome == Outcome.COMPLETED


@pytest.mark.parametrize("reason", ["interrupted", "replaced"])
def test_an_aborted_turn_is_cancelled(reason: str) -> None:
    what = said(meta(), task(FIRST), typed("go"), event("turn_aborted", turn_id=FIRST, reason=reason))
    assert what.in_order()[0].outcome == Outcome.CANCELLED
    assert only(what, Error) == Error(message=f"turn aborted: {reason}", code="interrupted")


def test_the_seal_on_a_copied_turn_does_not_say_how_the_turn_ended() -> None:
    seal = event("turn_aborted", turn_id=FIRST, reason="interrupted")
    assert said(meta(), meta(PARENT), task(FIRST), user("go"), seal).in_order()[0].outcome is None


def test_a_log_that_stops_short_says_nothing_of_how_its_turn_ended() -> None:
    assert said(meta(), task(FIRST), typed("go"), answer("I will")).in_order()[0].outcome is None


def test_a_retried_request_is_a_retry() -> None:
    assert only(said(meta(), event("stream_error", message="1/5")), Retry) == Retry(
        attempt=1, attempts_max=5, message="1/5"
    )


# tokens ---------------------------------------------------------------------------------------------------------


def test_tokens_are_what_the_running_total_grew_by() -> None:
    first, second = said(
        meta(), task(FIRST), typed("go"), count(usage(100, 10, cached=40)), count(usage(250, 30, cached=90)),
        task(SECOND), typed("on"), count(usage(400, 35, cached=200)),
    ).in_order()  # fmt: skip
    assert (first.tokens.input, first.tokens.cache_read, first.tokens.output) == (160, 90, 30)
    assert (second.tokens.input, second.tokens.cache_read, second.tokens.output) == (40, 110, 5)
    assert first.tokens_source == "reported"


def test_what_is_counted_before_a_prompt_that_only_the_model_was_sent_is_that_prompts() -> None:
    first, second = said(
        meta(), task(FIRST), user("go"), count(usage(1_200, 80)), answer("ok"),
        task(SECOND), user("on"), count(usage(1_500, 100)), answer("and ok"), count(usage(1_540, 140)),
    ).in_order()  # fmt: skip
    assert (first.prompt, first.tokens.input, first.tokens.output) == ("go", 1_200, 80)
    assert (second.prompt, second.tokens.input, second.tokens.output) == ("on", 340, 60)
    assert second.tokens_source == "reported"


def test_a_total_told_again_adds_nothing() -> None:
    again = count(usage(100, 10))
    (turn,) = said(meta(), task(FIRST), typed("go"), again, again, event("token_count", info=None), again).in_order()
    assert (turn.tokens.input, turn.tokens.output) == (100, 10)


def test_the_first_total_of_a_fork_counts_only_its_last_request() -> None:
    (turn,) = said(
        meta(forked_from_id=PARENT), task(FIRST), typed("go"), count(usage(27_600, 337), usage(1_200, 34))
    ).in_order()
    assert (turn.tokens.input, turn.tokens.output) == (1_200, 34)


def test_a_first_total_that_may_hold_a_parents_and_names_no_request_is_not_known() -> None:
    total, later = (event("token_count", info={"total_token_usage": usage(*each)}) for each in ((900, 90), (950, 97)))
    (fork,) = said(meta(forked_from_id=PARENT), task(FIRST), typed("go"), total).in_order()
    _, second, third = said(
        meta(), task(FIRST), typed("go"), task(SECOND), typed("on"), total, task("third"), typed("and on"), later
    ).in_order()
    assert [(each.tokens.input, each.tokens.output) for each in (fork, second)] == [(LOST, LOST)] * 2
    assert (third.tokens.input, third.tokens.output) == (50, 7)


def test_after_another_threads_records_the_total_begins_anew() -> None:
    _, second = said(
        meta(), task(FIRST), typed("go"), count(usage(100, 10)),
        meta(PARENT), task(SECOND), typed("on"), count(usage(900, 90), usage(50, 5)),
    ).in_order()  # fmt: skip
    assert (second.tokens.input, second.tokens.output) == (50, 5)


def test_a_total_that_shrank_is_a_new_count() -> None:
    (turn,) = said(meta(), task(FIRST), typed("go"), count(usage(100, 10)), count(usage(30, 3))).in_order()
    assert (turn.tokens.input, turn.tokens.output) == (130, 13)


def test_tokens_that_the_log_does_not_name_stay_unknown() -> None:
    (turn,) = said(meta(), task(FIRST), typed("go"), count(usage(1, 1))).in_order()
    assert turn.tokens.cache_write is None
    (turn,) = said(meta(), task(FIRST), typed("go"), count(usage(1, 1, cache_write_input_tokens=0))).in_order()
    assert turn.tokens.cache_write == 0


def test_what_a_model_can_take_counts_from_its_own_turn_on() -> None:
    lines = [meta()]
    for name, window in ((FIRST, 258_400), (SECOND, 128_000)):
        lines += [event("task_started", turn_id=name, model_context_window=window), typed(name), done(name)]
    assert [turn.context_window for turn in said(*lines).in_order()] == [258_400, 128_000]


def test_these_logs_know_no_costs() -> None:
    (turn,) = said(meta(), task(FIRST), typed("go"), count(usage(1, 1))).in_order()
    assert (turn.cost_usd, turn.cost_source) == (None, None)


# answers and tools ----------------------------------------------------------------------------------------------


def test_an_answer_told_by_every_channel_is_one_answer() -> None:
    item = {"type": "AgentMessage", "id": "m", "content": [{"type": "Text", "text": "ok"}]}
    what = said(
        meta(), task(FIRST), typed("go"), event("agent_message", message="ok"), event("item_completed", item=item),
        answer("ok"), event("agent_reasoning", text="hm"),
    )  # fmt: skip
    assert what.all(AssistantText) == [AssistantText(text="ok")]
    assert what.all(Thinking) == []


def test_thinking_is_shown_where_it_is_in_clear() -> None:
    summary = [{"type": "summary_text", "text": "Look first."}]
    assert only(said(meta(), response("reasoning", summary=summary)), Thinking).text == "Look first."
    assert said(meta(), response("reasoning", summary=[], encrypted_content="gAAAA")).all(Thinking) == []


def test_a_proposed_plan_is_a_plan_once() -> None:
    item = {"type": "Plan", "id": "p", "text": "# Do it"}
    what = said(meta(), event("item_completed", item=item), answer("<proposed_plan>\n# Do it\n</proposed_plan>"))
    assert only(what, Plan).content == "# Do it"
    assert what.all(AssistantText) == []


@pytest.mark.parametrize(
    ("name", "tool"),
    [("exec_command", Tool.SHELL), ("write_stdin", Tool.SHELL), ("view_image", Tool.READ), ("grep_files", Tool.GREP),
     ("list_dir", Tool.GLOB), ("spawn_agent", Tool.TASK), ("update_plan", Tool.OTHER)],
)  # fmt: skip
def test_a_tool_is_called_by_our_word_too(name: str, tool: Tool) -> None:
    call, result = called(name, "{}", "fine")
    assert (call.tool, call.tool_name, result.tool, result.tool_name) == (tool, name, tool, name)


def test_arguments_that_are_no_json_are_kept_as_they_are() -> None:
    call, _ = called("exec_command", "{broken", "fine")
    assert call.input == {"arguments": "{broken"}


def test_a_patch_names_the_file_it_is_for() -> None:
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-a\n+b\n*** Add File: b.py\n*** End Patch"
    what = said(meta(), response("custom_tool_call", name="apply_patch", input=patch, call_id="c1"))
    call = only(what, ToolCall)
    assert (call.tool, call.file_path, call.input) == (Tool.EDIT, "src/a.py", {"patch": patch})


def test_a_web_search_is_a_search() -> None:
    action = {"type": "search", "query": "sqlite"}
    call = only(said(meta(), response("web_search_call", id="ws_1", action=action)), ToolCall)
    assert (call.tool, call.tool_name, call.input) == (Tool.SEARCH, "web_search", action)


def test_a_server_is_part_of_the_name_of_its_tool() -> None:
    line = response("function_call", name="add", namespace="mcp__stub", arguments="{}", call_id="c1")
    assert only(said(meta(), line), ToolCall).tool_name == "mcp__stub__add"


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ("plain", "plain"),
        ('{"output":"text","metadata":{"exit_code":0}}', "text"),
        ({"content": "text", "success": True}, "text"),
        ([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:…"}], "a\n[image]"),
        ('{"output":"not wrapped"}', '{"output":"not wrapped"}'),
    ],
)
def test_an_output_is_read_in_each_of_its_forms(output: Any, content: str) -> None:
    _, result = called("exec_command", "{}", output)
    assert (result.content, result.is_error) == (content, False)


@every(
    "output",
    [
        '{"output":"text","metadata":{"exit_code":2}}',
        "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 3\nOutput:\nno\n",
        "Exit code: 1\nWall time: 0 seconds\nOutput:\nno\n",
        "apply_patch verification failed: no such file",
        "failed to parse function arguments: missing field",
        "unsupported call: no_such_tool",
        "exec_command failed: no such program",
        "write_stdin failed: unknown process",
        "Wall time: 2.7 seconds\naborted by user",
        [{"type": "input_text", "text": "Script failed\nWall time 0.0 seconds\nOutput:\n"}],
        {"content": "no", "success": False},
    ],
)
def test_a_failed_call_is_an_error(output: Any) -> None:
    assert called("exec_command", "{}", output)[1].is_error


@pytest.mark.parametrize(
    "output",
    [
        "Chunk ID: 1\nProcess exited with code 0\nOutput:\nProcess exited with code 3\n",
        "the words: unsupported call: x",
        "Process running with session ID 1",
    ],
)
def test_words_that_only_speak_of_failure_are_no_error(output: str) -> None:
    assert not called("exec_command", "{}", output)[1].is_error


def test_an_item_that_failed_makes_its_result_an_error() -> None:
    failed = {"type": "McpToolCall", "id": "c1", "status": "failed"}
    what = said(
        meta(), response("function_call", name="fail", namespace="mcp__s", arguments="{}", call_id="c1"),
        event("item_completed", item=failed), response("function_call_output", call_id="c1", output="it failed"),
    )  # fmt: skip
    assert only(what, ToolResult).is_error


def test_what_a_script_of_the_model_did_is_told_by_its_items_alone() -> None:
    command = {"type": "CommandExecution", "id": "exec-1", "command": ["ls"], "aggregated_output": "a", "exit_code": 1}
    change = {"type": "FileChange", "id": "exec-2", "changes": {"/w/a.md": {"type": "add"}}, "status": "completed"}
    direct = {"type": "CommandExecution", "id": "c1", "command": ["ls"], "exit_code": 0}
    items = [event("item_completed", item=item) for item in (command, change, direct)]
    what = said(meta(), task(FIRST), typed("go"), *items)
    assert [(call.tool, call.file_path) for call in what.all(ToolCall)] == [(Tool.SHELL, None), (Tool.EDIT, "/w/a.md")]
    results = what.all(ToolResult)
    assert [(each.tool_use_id, each.content, each.is_error) for each in results] == [
        ("exec-1", "a", True), ("exec-2", "", False),
    ]  # fmt: skip


# the session ----------------------------------------------------------------------------------------------------


def test_the_first_session_meta_begins_the_session_and_later_ones_say_nothing() -> None:
    git = {"branch": "main", "repository_url": "https://example.org/r.git"}
    what = said(meta(git=git), meta(PARENT, cwd="/elsewhere"), meta())
    assert only(what, Init) == Init(cwd="/work", version="0.169.0")
    facts = what.session
    assert (facts.cwd, facts.branch, facts.repository) == ("/work", "main", "https://example.org/r.git")
    assert facts.agent_version == "0.169.0"


def test_a_thread_that_is_named_has_a_title() -> None:
    assert said(meta(), event("thread_name_updated", thread_name="Tidy up")).session.title == "Tidy up"


def test_only_a_change_of_the_model_is_a_switch() -> None:
    models = [record("turn_context", {"model": model}) for model in ("a", "a", "b")]
    assert said(meta(), *models).all(ModelSwitch) == [ModelSwitch(model="b")]


# odd lines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        answer("ok").replace(b'"ok"', rb'"ok \ud800"'),
        answer("ok").replace(b'"role"', b'"score": NaN, "role"'),
        b"\xef\xbb\xbf" + answer("ok"),
        answer("ok") + b"\0\0\0",
        answer("ok").replace(b"ok", b"ok \xff"),
    ],
    ids=["a lone surrogate", "NaN", "a byte order mark", "a tail of NUL", "invalid UTF-8"],
)
def test_an_odd_line_is_still_read(line: bytes) -> None:
    what = said(meta(), line)
    assert only(what, AssistantText).text.startswith("ok")
    assert what.unknown == {}


def test_two_records_on_a_line_are_both_read() -> None:
    what = said(meta(), task(FIRST), typed("go"), answer("one") + answer("two"))
    assert [part for _, part, *_ in what.events[-2:]] == [0, 1]
    assert [each.text for each in what.all(AssistantText)] == ["one", "two"]


def test_a_repeated_telling_leaves_its_part_number_free() -> None:
    what = said(meta(), task(FIRST), typed("go"), typed_item("go") + answer("one"))
    assert what.events[-1][:2] == (4, 1)


def test_a_line_nested_beyond_reason_is_unknown_and_does_not_stop_the_rest() -> None:
    deep = b'{"type":"response_item","payload":{"content":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    what = said(meta(), deep, b"not json at all", answer("ok"))
    assert what.unknown == {"not JSON": 2}
    assert only(what, AssistantText).text == "ok"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (record("novelty", {}), "novelty"),
        (event("novelty"), "event_msg/novelty"),
        (response("novelty"), "response_item/novelty"),
        (event("item_completed", item={"type": "Novelty"}), "event_msg/item_completed/Novelty"),
        (b'{"timestamp":"2026-11-21T21:00:00Z"}', "record without a type"),
    ],
)
def test_an_unknown_type_is_an_event_and_counted(line: bytes, kind: str) -> None:
    what = said(meta(), line)
    assert only(what, Unknown).type == kind
    assert what.unknown == {kind: 1}


CALLED = ToolCall(tool_use_id="c1", tool_name="shell", tool=Tool.SHELL)


@pytest.mark.parametrize(
    ("line", "said_by_it"),
    [
        (response("message", id=5, role="assistant", content="ok", phase={}), AssistantText(text="ok")),
        (response("function_call", call_id="c1", name="shell", arguments=7), CALLED),
        (event("error", message="no", codex_error_info=[1]), Error(message="no")),
        (event("task_complete", turn_id=FIRST, error=3, duration_ms=9), Complete(success=True, duration_ms=9)),
        (event("item_completed", item={"type": "Error", "id": [], "message": "no"}), Error(message="no")),
        (record("compacted", {"message": {"text": "all"}}), Compacted()),
    ],
    ids=["an id", "arguments", "a code", "an error", "an item's id", "a summary"],
)
def test_a_field_of_another_shape_is_as_if_it_were_not_told(line: bytes, said_by_it: Event) -> None:
    what = said(meta(), task(FIRST), typed("go"), line)
    assert what.events[-1][-1] == said_by_it
    assert what.unknown == {}


def test_of_a_session_whose_origin_has_another_shape_the_rest_is_read() -> None:
    what = said(meta(git={"branch": 5, "repository_url": "https://a.example/b"}, source={"subagent": [1]}))
    assert (what.session.branch, what.session.repository) == (None, "https://a.example/b")
    assert (what.identity.native_id, what.identity.relation) == (THREAD, None)


@pytest.mark.parametrize(
    "line",
    [event("error").replace(b'"error"', b"5"), event("item_completed", item={"type": None}), record("event_msg", [])],  # type: ignore[arg-type]
    ids=["a type", "an item's type", "a payload"],
)
def test_what_has_a_type_that_is_no_word_is_unknown(line: bytes) -> None:
    assert said(meta(), line).unknown == {"not JSON": 1}


def test_the_state_stays_small_however_long_the_log() -> None:
    lines = [meta()]
    for number in range(3_000):
        lines += [task(f"turn-{number}"), typed(f"prompt {number}"), answer("x" * 100)]
        lines.append(response("function_call", name="exec_command", arguments="{}", call_id=f"call-{number}"))
    identity = AGENT.log.identify(Path(f"rollout-{THREAD}.jsonl"), lines[0])
    assert identity is not None
    reader = AGENT.log.reader(identity, None, lambda: ())
    for seq, line in enumerate(lines, start=1):
        reader.read(line, seq)
    assert len(reader.state()) < 300_000


@pytest.mark.parametrize(
    ("given", "command"),
    [
        (["bash", "-lc", "ls | wc"], "ls | wc"),
        (["/usr/bin/env", "ls", "a b"], "/usr/bin/env ls 'a b'"),
        ("ls", "ls"),
        ([], None),
        (["ls", 1], None),
    ],
)
def test_a_call_that_names_a_command_in_any_way_runs_it(given: object, command: str | None) -> None:
    done = action_of(ToolCall(tool_use_id="1", tool_name="shell", tool=Tool.SHELL, input={"command": given}))
    assert done == (None if command is None else RunCommand(command=command, folder=None))
