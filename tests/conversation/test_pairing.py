"""Results stand below their calls, also those of calls that were made at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.conversation.pairing import HELD_MAX, results_below_calls, without_repeats
from backstory.model import AssistantText, Event, Hook, Thinking, ToolCall, ToolResult, UserMessage
from tests.support.every import every

if TYPE_CHECKING:
    from collections.abc import Iterator

Item = tuple[Event, int]


def call(name: str) -> Item:
    return ToolCall(tool_use_id=name, tool_name=name), 1


def result(name: str, content: str = "", *, turn: int = 1) -> Item:
    return ToolResult(tool_use_id=name, content=content), turn


def words(event: Event) -> str:
    match event:
        case ToolCall():
            return event.tool_name.upper()
        case ToolResult():
            return f"{event.tool_use_id}{event.content}"
        case UserMessage():
            return f"> {event.content}"
        case _:
            return type(event).__name__


def ordered(*items: Item) -> list[str]:
    """The events in the order that they are shown in; ``B:b`` is b's result, shown with its call's name."""
    found = results_below_calls(items, lambda each: each[0], lambda each: each[1])
    return [f"{words(of)}:{words(item[0])}" if of else words(item[0]) for item, of in found]


def test_three_calls_at_once_have_their_results_below_them() -> None:
    items = call("a"), call("b"), call("c"), result("b"), result("c"), result("a")
    assert ordered(*items) == ["A", "a", "B", "b", "C", "c"]


def test_what_comes_one_after_the_other_stays_as_it_is() -> None:
    assert ordered(call("a"), result("a"), call("b"), result("b")) == ["A", "a", "B", "b"]


def test_a_result_does_not_come_up_past_what_was_said_and_names_its_call() -> None:
    said: Item = AssistantText(text="meanwhile"), 1
    assert ordered(call("a"), said, call("b"), result("b"), result("a")) == ["A", "AssistantText", "B", "b", "A:a"]


def test_what_a_helper_says_names_the_call_that_it_is_at_work_by() -> None:
    said: Item = Hook(tool_use_id="a", name="subagent", output="…"), 1
    assert ordered(call("a"), call("b"), said, result("b"), result("a")) == ["A", "a", "B", "b", "A:Hook"]


def test_a_result_in_another_turn_stays_in_that_and_names_its_call() -> None:
    prompt: Item = UserMessage(content="and?"), 2
    assert ordered(call("a"), prompt, result("a", turn=2)) == ["A", "> and?", "A:a"]


def test_thoughts_keep_results_from_nothing() -> None:
    assert ordered(call("a"), (Thinking(text="hm"), 1), call("b"), result("b"), result("a")) == [
        "A", "a", "Thinking", "B", "b",
    ]  # fmt: skip


def test_several_results_of_a_call_stand_below_it_in_order() -> None:
    assert ordered(call("a"), call("b"), result("b", "1"), result("b", "2"), result("a")) == ["A", "a", "B", "b1", "b2"]


def test_a_result_whose_call_nobody_knows_stands_where_it_came() -> None:
    unknown: Item = ToolResult(content="?"), 1
    assert ordered(call("a"), result("x"), unknown, result("a")) == ["A", "a", "x", "?"]


def test_calls_without_results_are_all_shown() -> None:
    assert ordered(call("a"), call("b"), result("b")) == ["A", "B", "b"]


def test_what_waits_for_a_result_is_shown_before_all_is_read() -> None:
    read: list[int] = []

    def endless() -> Iterator[Item]:
        yield call("never")
        for n in range(10 * HELD_MAX):
            read.append(n)
            yield (Thinking(text="hm"), 1)

    shown = results_below_calls(endless(), lambda each: each[0], lambda each: each[1])
    assert isinstance(next(shown)[0][0], ToolCall)
    assert len(read) <= HELD_MAX


def test_a_call_with_its_result_is_shown_at_once() -> None:
    def going_on() -> Iterator[Item]:
        yield call("a")
        yield result("a")
        raise AssertionError("nothing more is needed")

    shown = results_below_calls(going_on(), lambda each: each[0], lambda each: each[1])
    assert [words(next(shown)[0][0]), words(next(shown)[0][0])] == ["A", "a"]


ENDED = ToolCall(tool_use_id="e", tool_name="task_complete", input={"summary": "1\n2\n3\n4"})
RESULT = ToolResult(tool_use_id="e", tool_name="task_complete", content="1\n2\n3\n  (+1 more)")
ANSWER = AssistantText(text="1\n2\n3\n4")
BARE = ToolCall(tool_use_id="e", tool_name="task_complete")


@every(
    ("told", "shown"),
    [
        ((ENDED, RESULT, ANSWER), [BARE, ANSWER]),
        ((ENDED, ANSWER), [BARE, ANSWER]),
        ((ENDED, RESULT), [BARE, RESULT]),
        ((ENDED, RESULT, AssistantText(text="And more.")), [BARE, RESULT, AssistantText(text="And more.")]),
        (
            (ENDED, ToolResult(tool_use_id="e", content="Refused.")),
            [ENDED, ToolResult(tool_use_id="e", content="Refused.")],
        ),
        ((ENDED, Thinking(text="…"), ANSWER), [ENDED, Thinking(text="…"), ANSWER]),
        ((ENDED,), [ENDED]),
        ((ANSWER, ANSWER), [ANSWER, ANSWER]),
    ],
)
def test_what_a_model_says_as_it_ends_a_task_is_told_once(told: tuple[Event, ...], shown: list[Event]) -> None:
    pairs = [(event, None) for event in told]
    assert [event for event, _ in without_repeats(pairs, lambda each: each, lambda _, event: event)] == shown
