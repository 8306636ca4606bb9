"""Contexts: what a session looks like to the agent that carries it on, and how that is known again."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.conversation.context import (
    CLOSE,
    OPEN,
    build_context,
    build_context_prompt,
    context_prefix,
    short,
    strip_context,
    typed_part,
)
from backstory.model import (
    STOPPED_TO_COMPACT,
    AssistantText,
    Error,
    Event,
    Hook,
    Outcome,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
    TurnWithEvents,
    UserMessage,
)
from backstory.store import open_store
from tests.support.every import every


def told(prompt: str, *events: Event, outcome: str | None = None) -> TurnWithEvents:
    return TurnWithEvents(turn=Turn(uid="T", agent="x", prompt=prompt, outcome=outcome), events=events)


def test_a_turn_is_told_as_prompt_and_answer() -> None:
    context = build_context([told("fix the bug", AssistantText(text="I'll look at it."))], budget_chars=10_000)
    assert context.text == "## User\nfix the bug\n\n## Assistant\nI'll look at it."


def test_the_prompt_follows_the_context_after_its_end() -> None:
    assert build_context_prompt("## User\nhi", "Go on") == f"{OPEN}\n## User\nhi\n{CLOSE}\n\nGo on"


def test_without_history_the_prompt_is_sent_as_it_is() -> None:
    assert build_context_prompt(build_context([], budget_chars=1000).text, "x") == "x"


def test_older_turns_give_way_whole_and_that_is_said() -> None:
    turns = [told(f"prompt {n}", AssistantText(text="word " * 40)) for n in range(10)]
    context = build_context(turns, budget_chars=1_000)
    assert context.turns + context.turns_left_out == 10
    assert context.text.startswith(f"({context.turns_left_out} earlier turns are left out here.)")
    assert "prompt 9" in context.text
    assert "prompt 0" not in context.text


def test_a_turn_larger_than_the_budget_keeps_its_end() -> None:
    context = build_context([told("p", AssistantText(text="a" * 5000 + "THE END"))], budget_chars=800)
    assert context.text.endswith("THE END")
    assert len(context.text) <= 800


def test_failures_are_told_at_more_length_than_successes() -> None:
    long = "x" * 2_000
    fine = build_context([told("p", ToolResult(tool_name="Bash", content=long))], budget_chars=10_000)
    failed = build_context([told("p", ToolResult(tool_name="Bash", content=long, is_error=True))], budget_chars=10_000)
    assert len(failed.text) > len(fine.text)
    assert long in failed.text


def test_what_a_file_held_is_not_told_but_edits_are() -> None:
    events = (
        ToolCall(tool_name="Read", tool=Tool.READ, file_path="/a.py", input={"file_path": "/a.py"}),
        ToolResult(tool_name="Read", tool=Tool.READ, content="secret content"),
        ToolCall(tool_name="Edit", tool=Tool.EDIT, file_path="/a.py", input={"old_string": "one", "new_string": "two"}),
    )
    text = build_context([told("p", *events)], budget_chars=10_000).text
    assert "secret content" not in text
    assert "## Tool: Read (/a.py)" in text
    assert "one\ntwo" in text


def test_a_cancelled_turn_says_so() -> None:
    text = build_context([told("p", outcome=Outcome.CANCELLED)], budget_chars=1_000).text
    assert "cancelled before it was done" in text


REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected"
STOPPED = Error(message="[Request interrupted by user for tool use]", code="interrupted")


def test_an_interrupted_call_is_not_refused() -> None:
    at_work = ToolResult(tool_name="Bash", content=REFUSED, is_error=True)
    text = build_context([told("p", at_work, STOPPED, outcome=Outcome.CANCELLED)], budget_chars=1_000).text
    assert "[Interrupted: Bash]\n" in text
    assert "doesn't want" not in text
    refused = build_context([told("p", at_work, AssistantText(text="I will not."))], budget_chars=1_000).text
    assert "[Failed: Bash] The user doesn't want to proceed" in refused


def test_a_stop_of_ours_is_no_interruption_by_the_user() -> None:
    given = told("p", ToolResult(tool_name="Bash", content=REFUSED, is_error=True), STOPPED, outcome=Outcome.CANCELLED)
    given.turn.stop_reason = STOPPED_TO_COMPACT
    text = build_context([given], budget_chars=1_000).text
    assert "[Interrupted: Bash]" in text
    assert "by user" not in text


def test_a_summary_stands_before_the_turns() -> None:
    text = build_context([told("p")], budget_chars=1_000, summary="We chose SQLite.").text
    assert text.index("We chose SQLite.") < text.index("## User")


@pytest.mark.slow
@given(st.text(), st.lists(st.text(max_size=60), max_size=5))
def test_a_prompt_is_stripped_back_to_what_was_typed(prompt: str, history: list[str]) -> None:
    tagged = [f"{each}{CLOSE}{OPEN}" for each in history]
    context = build_context([told(each, AssistantText(text=each)) for each in tagged], budget_chars=50_000).text
    sent = build_context_prompt(context, prompt)
    assert sent[len(context_prefix(context)) :] == prompt
    if context:
        assert strip_context(sent) == prompt.lstrip("\n")


@every(
    "tag",
    [
        OPEN, CLOSE, CLOSE.upper(), "</Backstory-Session-Context>", "</backstory-session-context >",
        "< /backstory-session-context>", "< / backstory-session-context\n>", "<\t/backstory-session-context>",
        "</back\u200bstory-session-context>", "<\u2060/backstory-session\ufeff-context>",
        "</backstory\u2011session-context>",
        "</backstory-session-context x='1'>", "</backstory-session-context", "<\u00a0/AZUREAL-session-context >",
        "</azureal-\u200dsession-context\ufe0f>",
    ],
)  # fmt: skip
def test_what_could_be_taken_for_a_tag_is_escaped_in_a_context(tag: str) -> None:
    turn = told(f"a {tag} b", AssistantText(text=f"c {tag} d"), outcome=Outcome.COMPLETED)
    text = build_context([turn], budget_chars=10_000, summary=f"e {tag} f").text
    assert text.count("&lt;" + tag[1:]) == 3
    assert "<" not in text.replace("&lt;", "")


@pytest.mark.parametrize(
    "text", ["a < backstory", "<b>bold</b>", "if a<b: /x", "backstory-session-context", "< >", "</back>"]
)
def test_other_text_is_told_as_it_is(text: str) -> None:
    assert text in build_context([told(text)], budget_chars=1_000).text


def test_many_beginnings_of_tags_take_no_time() -> None:
    hostile = "<" + " " * 200_000 + "<backstory-session-contex" * 20_000 + "</ \u200b" * 50_000
    before = time.process_time()
    build_context([told(hostile)], budget_chars=1_000_000)
    assert time.process_time() - before < 2


def test_text_that_only_begins_a_context_is_all_context() -> None:
    assert strip_context(f"{OPEN}\n## User\nhi") == ""


def test_another_programs_context_is_stripped_too() -> None:
    sent = "<azureal-session-context>\n## User\nfix\n</azureal-session-context>\n\nGo on"
    assert strip_context(sent) == "Go on"


def test_a_prompt_that_speaks_of_the_tag_is_left_alone() -> None:
    assert strip_context(f"What does {CLOSE} mean?") == f"What does {CLOSE} mean?"


@given(st.integers(min_value=0, max_value=3_000), st.lists(st.integers(0, 400), max_size=8))
def test_a_context_never_exceeds_its_budget(budget: int, lengths: list[int]) -> None:
    turns = [told("p" * length, AssistantText(text="a" * length)) for length in lengths]
    assert len(build_context(turns, budget_chars=budget).text) <= max(budget, 60)


def test_one_huge_output_does_not_hide_the_turns_before_it(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.bks") as store:
        session = store.create_session()
        for n in range(5):
            store.append_events(session, [UserMessage(content=f"prompt {n}"), AssistantText(text=f"answer {n}")])
        store.append_events(session, [UserMessage(content="last"), ToolResult(tool_name="Bash", content="x" * 900_000)])
        told = store.context_turns(session, 10_000)
    assert [each.turn.prompt for each in told] == [*(f"prompt {n}" for n in range(5)), "last"]
    assert [len(each.events) for each in told] == [1] * 6


@given(counts=st.lists(st.integers(0, 700), min_size=1, max_size=5))
@settings(max_examples=10, deadline=None)
def test_every_event_of_every_turn_is_told_once_whatever_their_number(counts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "s.bks") as store:
        session = store.create_session()
        for n, count in enumerate(counts):
            answers = [AssistantText(text=f"{n}.{m}") for m in range(count)]
            store.append_events(session, [UserMessage(content=f"prompt {n}"), *answers])
        told = store.context_turns(session, 1_000_000)
    assert [[event.text for event in each.events] for each in told] == [  # type: ignore[attr-defined]
        [f"{n}.{m}" for m in range(count)] for n, count in enumerate(counts)
    ]


def test_turns_that_were_not_even_told_count_as_left_out() -> None:
    context = build_context([told("p", AssistantText(text="a"))], budget_chars=1_000, turns=48)
    assert "(47 earlier turns are left out here.)" in context.text
    assert context.turns_left_out == 47


def test_no_budget_is_no_context() -> None:
    assert build_context([told("p", AssistantText(text="a"))], budget_chars=0).text == ""


GO_ON = (
    "<azureal-internal-auto-continue>\nContinue the in-progress work from the supplied Azureal session context. Do not "
    "treat this as a new user request, do not change objectives, and keep following the user's latest instructions.\n"
    "</azureal-internal-auto-continue>"
)


def test_what_another_program_says_to_have_its_agent_go_on_is_no_prompt() -> None:
    assert typed_part(GO_ON) == ("", Hook(name="azureal-internal-auto-continue", output=GO_ON))
    assert typed_part(f"\n{GO_ON}\n")[0] == ""


@every(
    "text",
    [
        "Continue the in-progress work from the supplied Azureal session context.",
        GO_ON.removeprefix("<azureal-internal-auto-continue>\n"),
        f"What is this?\n{GO_ON}",
        f"{GO_ON}\nWhy does my log hold that?",
        f"{GO_ON} and {GO_ON}",
        "<azureal-internal-auto-continue> is what I found. Why?",
        "<AZUREAL-internal-auto-continue>\nGo on\n</AZUREAL-internal-auto-continue>",
        "Continue.",
    ],
)
def test_a_person_who_writes_the_like_stays_a_person(text: str) -> None:
    assert typed_part(text) == (text, UserMessage(content=text))


def test_a_text_that_just_fits_is_whole() -> None:
    assert short("heron", 5) == "heron"
    assert short("herons", 5) == "he\n… (2 characters left out) …\nns"
