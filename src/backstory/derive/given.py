"""Questions that a call asks a person, and the list of what there is to do that it sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from backstory.derive.essence import AT_HAND, DONE, TASK_KEYS, TASK_LISTS, first_text, text_of

if TYPE_CHECKING:
    from backstory.model import ToolCall


class Task(NamedTuple):
    """Something to do."""

    words: str
    is_done: bool
    is_at_hand: bool


class AskedQuestion(NamedTuple):
    """A question for a person. ``options``: the answers that are offered, each with what it means."""

    words: str
    options: tuple[tuple[str, str], ...] = ()


def tasks_of(call: ToolCall) -> tuple[Task, ...]:
    """The whole list of what there is to do, if a call sets it; else nothing."""
    for key in TASK_LISTS:
        if found := _objects(_given(call).get(key)):
            return tuple(_task(each) for each in found)
    return ()


def _task(given: dict[str, Any]) -> Task:
    status = given.get("status")
    return Task(first_text(given, TASK_KEYS), status in DONE, status in AT_HAND)


def questions_of(call: ToolCall) -> tuple[AskedQuestion, ...]:
    """The questions that a call asks a person; nothing if it asks none."""
    return tuple(
        AskedQuestion(words, tuple(_option(option) for option in _objects(each.get("options"))))
        for each in _objects(_given(call).get("questions"))
        if (words := text_of(each.get("question")))
    )


def _given(call: ToolCall) -> dict[str, Any]:
    return call.input if isinstance(call.input, dict) else {}


def _option(given: dict[str, Any]) -> tuple[str, str]:
    return first_text(given, ("label",)), first_text(given, ("description",))


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
