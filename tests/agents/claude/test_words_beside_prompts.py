"""What the user said beside prompts: queued words, refusals, answers; and what only looks like it."""

from __future__ import annotations

from backstory.model import (
    Hook,
    UserMessage,
)
from tests.support.claude_records import (
    PLAN,
    answer,
    assistant,
    ended,
    only,
    queue,
    record,
    refused,
    result,
    said,
    user,
)


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
