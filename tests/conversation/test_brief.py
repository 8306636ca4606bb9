"""Turns in brief: what a context keeps of the turns that it has no room for whole."""

from __future__ import annotations

from backstory import model
from backstory.conversation.context import BRIEF_ROOM_LEAST, Context, build_context, decisions_in, in_brief, in_outline
from backstory.model import AssistantText, Error, Tool, ToolCall, ToolResult, TurnWithEvents

READ = ToolCall(tool_name="Read", tool=Tool.READ, file_path="/src/read_only.py", input={"file_path": "/src/x"})
FOUND = ToolResult(tool_name="Grep", tool=Tool.GREP, content="found_in_passing " * 200)
EDIT = ToolCall(tool_name="Edit", tool=Tool.EDIT, file_path="/src/edited.py", input={"new_string": "def cured(): ..."})
RAN = ToolCall(tool_name="Bash", tool=Tool.SHELL, input={"command": "cargo test --lib"})
FAILED = ToolResult(tool_name="Bash", tool=Tool.SHELL, content="assertion failed: left == right", is_error=True)


def turn(n: int, *events: model.Event, prompt: str | None = None) -> TurnWithEvents:
    made = model.Turn(uid=f"{n:026}", first_seq=n, last_seq=n, agent="a", prompt=prompt or f"prompt number {n}")
    return TurnWithEvents(turn=made, events=events)


def long(n: int) -> TurnWithEvents:
    """About 3,600 characters, of which what was found in passing takes the most."""
    calls = [each for _ in range(5) for each in (READ, FOUND)]
    return turn(n, *calls, EDIT, RAN, FAILED, AssistantText(text=f"answer number {n}"))


def context(turns: int, budget: int) -> Context:
    return build_context([long(n) for n in range(1, turns + 1)], budget_chars=budget)


def test_failures_decisions_and_edits_are_kept_longer_than_what_was_read() -> None:
    given = turn(1, READ, FOUND, AssistantText(text="I will keep the table, because it is quicker."), EDIT, RAN, FAILED)
    kept = in_brief(given).events
    assert [each.kind for each in kept] == ["AssistantText", "ToolCall", "ToolCall", "ToolResult"]
    assert kept[0] == given.events[2]
    assert READ not in kept
    assert FOUND not in kept


def test_errors_are_kept() -> None:
    assert list(in_brief(turn(1, Error(message="overloaded"))).events) == [Error(message="overloaded")]


def test_an_outline_names_each_changed_file_once_and_none_that_was_read() -> None:
    outline = in_outline(turn(1, READ, EDIT, EDIT, AssistantText(text="done " * 500)))
    assert [each.file_path for each in outline.events if isinstance(each, ToolCall)] == ["/src/edited.py"]
    (said,) = (each for each in outline.events if isinstance(each, AssistantText))
    assert len(said.text) < 300


def test_a_turn_in_brief_is_a_copy() -> None:
    given = turn(1, prompt="word " * 1_000)
    in_brief(given)
    assert len(given.turn.prompt) == 5_000


def test_what_fits_is_whole() -> None:
    whole = context(2, 1_000_000)
    assert (whole.turns, whole.turns_in_brief, whole.turns_left_out) == (2, 0, 0)
    assert not whole.is_cut
    assert "shortened" not in whole.text


def test_of_what_does_not_fit_the_older_turns_are_in_brief() -> None:
    made = context(12, 20_000)
    assert len(made.text) <= 20_000
    assert made.is_cut
    assert made.turns >= 3
    assert made.turns_in_brief >= 3
    assert made.turns + made.turns_in_brief + made.turns_left_out == 12
    brief, whole = made.text.split("shortened.)")[1].split("found_in_passing", 1)
    assert brief.index("def cured()") < brief.index("cargo test") < brief.index("assertion failed")
    assert "prompt number 12" in whole


def test_turns_stay_in_their_order() -> None:
    text = context(12, 20_000).text
    numbers = [text.index(f"prompt number {n}\n") for n in range(1, 13) if f"prompt number {n}\n" in text]
    assert len(numbers) > 6
    assert numbers == sorted(numbers)


def test_no_budget_is_exceeded() -> None:
    for budget in (0, 1, 60, 500, BRIEF_ROOM_LEAST - 1, BRIEF_ROOM_LEAST, 4_500, 7_777, 30_000, 44_000):
        assert len(context(12, budget).text) <= budget


def test_a_last_turn_that_is_larger_than_the_room_leaves_some_to_what_came_before() -> None:
    made = build_context([long(1), turn(2, AssistantText(text="word " * 10_000))], budget_chars=10_000)
    assert len(made.text) <= 10_000
    assert "answer number 1" in made.text
    assert made.text.endswith("word ")


def test_with_a_summary_no_less_of_it_is_given_for_turns_in_brief() -> None:
    summary = "What came before. " * 50
    made = build_context([long(n) for n in range(12)], budget_chars=12_000, summary=summary)
    assert summary.strip() in made.text
    assert len(made.text) <= 12_000


def test_decisions_are_whole_sentences() -> None:
    text = "The tests ran. We will use a table instead of the regex, since it was slow. Nothing else was open here."
    assert decisions_in(text) == ["We will use a table instead of the regex, since it was slow."]
    assert decisions_in("") == []
