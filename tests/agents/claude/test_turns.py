"""Which turn follows which, and how turns end."""

from __future__ import annotations

from pathlib import Path

import pytest

from backstory import ids
from backstory.model import (
    AssistantText,
    Error,
    Hook,
    Outcome,
    Retry,
)
from tests.support.claude_records import (
    SESSION,
    answer,
    assistant,
    ended,
    only,
    record,
    result,
    said,
    user,
)
from tests.support.reading import told


def test_a_turn_follows_the_turn_before() -> None:
    first, second = said(user("a", "p1"), answer("1", "a1", "p1"), user("b", "p2", "a1")).in_order()
    assert (second.parent_uid, second.parent_seq) == (first.uid, 2)
    assert first.parent_uid is None


def test_of_two_prompts_glued_together_on_one_line_both_turns_are_there() -> None:
    glued = user("one", "u1") + user("two", "u2", "u1")
    assert sorted(turn.prompt for turn in said(glued).turns.values()) == ["one", "two"]


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


def test_a_compaction_asked_for_later_does_not_make_the_turn_longer() -> None:
    summary = user("This session is being continued…", isCompactSummary=True, timestamp="2026-11-22T09:00:00.000Z")
    before, after = said(user("go"), answer("ok")), said(user("go"), answer("ok"), summary)
    assert after.in_order()[0].ended == before.in_order()[0].ended


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
