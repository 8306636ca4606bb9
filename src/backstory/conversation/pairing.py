"""Results below their calls, also where an agent made several calls at once; what is said again, once. Pure.

A result comes up to its call as long as nobody said anything between the two; otherwise it stays where it is, and is
given together with the call that it answers. What a subagent says stays where it is, and comes with the call by
which the subagent is at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from backstory.conversation.compact import compact_result
from backstory.derive.essence import INTERRUPTED, is_refusal
from backstory.model import AssistantText, Error, Hook, KindClass, Thinking, ToolCall, ToolResult, kinds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from backstory.model import Event

HELD_MAX = 500
"""The most events that wait for results of the calls before them."""
CALLS_KNOWN_MAX = 1_000
SAID = tuple(each for each in kinds_of(KindClass.SAID) if each is not Thinking)
"""Kinds of words, by a person, the model, or about both, that keep their place among calls and results."""

SUMMING_UP = frozenset({"task_complete"})
"""Tools by which a model says that it is done. What it says is repeated as their result, and as its answer."""

T = TypeVar("T")


class _Held(Generic[T]):
    """An event that waits to be shown; a call with the results that came so far, or the call that a result answers."""

    def __init__(self, item: T, call: ToolCall | None = None, answers: ToolCall | None = None) -> None:
        self.item, self.call, self.answers = item, call, answers
        self.results: list[T] = []

    @property
    def waits(self) -> bool:
        return self.call is not None and not self.results


class Pairing(Generic[T]):
    """Pairs items as they come: ``take`` and ``release`` return what can be shown, each with the call it answers."""

    def __init__(self, event_of: Callable[[T], Event], turn_of: Callable[[T], object]) -> None:
        self._event_of, self._turn_of = event_of, turn_of
        self._held: list[_Held[T]] = []
        self._known: dict[str, ToolCall] = {}
        self._turn: object = None

    def take(self, item: T) -> Iterator[tuple[T, ToolCall | None]]:
        """Take the next item; returns those that need not wait any longer."""
        held, known, event = self._held, self._known, self._event_of(item)
        if isinstance(event, SAID) or self._turn_of(item) != self._turn or len(held) >= HELD_MAX:
            yield from self.release()
        self._turn = self._turn_of(item)
        match event:
            case ToolCall():
                held.append(_Held(item, call=event))
                known[event.tool_use_id] = event
                if len(known) > CALLS_KNOWN_MAX:
                    known.pop(next(iter(known)))
            case ToolResult():
                call = next((each for each in held if each.call and _is_of(event, each.call)), None)
                if call is not None:
                    call.results.append(item)
                else:
                    held.append(_Held(item, answers=known.get(event.tool_use_id) if event.tool_use_id else None))
            case Hook(tool_use_id=call_id) if call_id:
                held.append(_Held(item, answers=known.get(call_id)))
            case _:
                held.append(_Held(item))
        yield from _released(held, next((n for n, each in enumerate(held) if each.waits), len(held)))

    def release(self) -> Iterator[tuple[T, ToolCall | None]]:
        """Return all items that wait. A result that comes later is returned with its call."""
        yield from _released(self._held, len(self._held))


def results_below_calls(
    items: Iterable[T], event_of: Callable[[T], Event], turn_of: Callable[[T], object]
) -> Iterator[tuple[T, ToolCall | None]]:
    """All items, each result right below its call; one that stands elsewhere comes with the call that it answers.

    A subagent's words come with the call by which it is at work.
    """
    pairing = Pairing(event_of, turn_of)
    for item in items:
        yield from pairing.take(item)
    yield from pairing.release()


def without_repeats(
    pairs: Iterable[tuple[T, ToolCall | None]], event_of: Callable[[T], Event], with_event: Callable[[T, Event], T]
) -> Iterator[tuple[T, ToolCall | None]]:
    """Yield like ``results_below_calls``, without a call's words, and the result, that the next event repeats."""
    held: tuple[T, ToolCall | None] | None = None
    call = ToolCall(tool_name="")
    for pair in pairs:
        event = event_of(pair[0])
        if held is not None and _repeats(event, call):
            if event_of(held[0]) is call:
                yield with_event(held[0], msgspec.structs.replace(call, input={})), None
        elif held is not None:
            yield held
        held = pair
        if isinstance(event, ToolCall) and event.tool_name in SUMMING_UP:
            call = event
        elif not isinstance(event, ToolResult) or not _is_of(event, call):
            yield pair
            held = None
    if held is not None:
        yield held


class Interruptions(Generic[T]):
    """Says of calls whose agent was stopped that they were interrupted; ``take`` and ``release`` return what is known.

    Clients say of them what they say of a call that a person refused: the record behind the results is the difference.
    """

    def __init__(self, event_of: Callable[[T], Event], with_event: Callable[[T, Event], T]) -> None:
        self._event_of, self._with_event = event_of, with_event
        self._held: list[T] = []

    def take(self, item: T) -> Iterator[T]:
        """Take the next item; returns those that need not wait any longer."""
        event = self._event_of(item)
        if isinstance(event, ToolResult) and event.is_error and is_refusal(event.content):
            self._held.append(item)
            return
        if isinstance(event, Error) and event.code == INTERRUPTED:
            self._held = [self._with_event(each, _interrupted(self._event_of(each))) for each in self._held]
        yield from self.release()
        yield item

    def release(self) -> Iterator[T]:
        """Return the items that wait for what comes next, as they are."""
        held, self._held = self._held, []
        yield from held


def with_interruptions(
    items: Iterable[T], event_of: Callable[[T], Event], with_event: Callable[[T, Event], T]
) -> Iterator[T]:
    """Yield the items, with ``Interruptions`` among them."""
    interruptions = Interruptions(event_of, with_event)
    for item in items:
        yield from interruptions.take(item)
    yield from interruptions.release()


def _interrupted(result: Event) -> Event:
    return msgspec.structs.replace(result, content=INTERRUPTED)


def with_answers(
    pairs: Iterable[tuple[T, ToolCall | None]], event_of: Callable[[T], Event]
) -> Iterator[tuple[T, ToolCall | None, T | None]]:
    """Yield as ``results_below_calls`` does, each call together with the result right below it."""
    held: T | None = None
    for item, answered in pairs:
        event = event_of(item)
        if held is not None:
            call = event_of(held)
            if isinstance(call, ToolCall) and isinstance(event, ToolResult) and not answered and _is_of(event, call):
                yield held, None, item
                held = None
                continue
            yield held, None, None
            held = None
        if isinstance(event, ToolCall):
            held = item
        else:
            yield item, answered, None
    if held is not None:
        yield held, None, None


def _repeats(event: Event, call: ToolCall) -> bool:
    """Return True if an event says what a call says."""
    said = call.input.get("summary") if isinstance(call.input, dict) else None
    match event:
        case ToolResult(content=content) if isinstance(said, str) and _is_of(event, call):
            return content in (said, compact_result(event.tool_name, event.tool, said))
        case AssistantText(text=text):
            return text == said
        case _:
            return False


def _is_of(result: ToolResult, call: ToolCall) -> bool:
    return bool(result.tool_use_id) and result.tool_use_id == call.tool_use_id


def _released(held: list[_Held[T]], count: int) -> Iterator[tuple[T, ToolCall | None]]:
    """The first of those that are held, which wait no longer."""
    ready, held[:count] = held[:count], []
    for each in ready:
        yield each.item, each.answers
        for result in each.results:
            yield result, None
