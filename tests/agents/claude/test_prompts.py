"""What in the user's place is a prompt, a command, or neither."""

from __future__ import annotations

import pytest

from backstory import ids
from backstory.model import (
    Command,
    Compacted,
    Hook,
    ToolResult,
    UserMessage,
)
from tests.support.claude_records import (
    SESSION,
    answer,
    only,
    record,
    said,
    user,
)


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


def test_a_subagents_first_words_are_its_prompt() -> None:
    what = said(user("count", isSidechain=True), path=f"{SESSION}/subagents/agent-abc.jsonl")
    assert what.prompts() == ["count"]


def test_a_summary_after_a_compaction_is_no_prompt() -> None:
    what = said(user("go"), user("This session is being continued…", isCompactSummary=True))
    assert (what.prompts(), only(what, Compacted).summary) == (["go"], "This session is being continued…")
