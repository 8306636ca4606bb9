"""Turns in less room, for contexts that cannot hold them whole: what a next prompt needs of them is kept longest.

That is what was asked, decided and changed, what was run and what failed. What was read can be read again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backstory import model
from backstory.derive.index_text import texts_in
from backstory.lazy_regex import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator


SAID_CHARS = 600
PASSING_CHARS = 200
"""Of what an agent says between two steps, unless it decides something."""
EDIT_CHARS = 200
COMMAND_CHARS = 150
FAILURE_CHARS = 300
OUTLINE_CHARS = 160
"""Of a prompt and of the last answer, where a turn is only outlined."""

_DECIDES = lazy_regex(
    r"\b(?:decid(?:e|ed|ing|es)|decision|instead of|rather than|we(?:'ll| will| should)|i(?:'ll| will) (?:use|keep|go)|"
    r"because|so that|chose|choose|must(?: not)?|never|always)\b",
    re.IGNORECASE,
)
_SENTENCE = lazy_regex(r"[^.!?\n]{20,400}(?:[.!?](?=\s|$)|$)", re.MULTILINE)
EDITS = (model.Tool.EDIT, model.Tool.WRITE)


def in_brief(given: model.TurnWithEvents) -> model.TurnWithEvents:
    """A turn's prompt, answers, edits, commands and failures, each shortened; without what it read and found."""
    last = _last_answer(given)
    events = (_brief(event, is_last=event is last) for event in given.events)
    return _with(given, SAID_CHARS, [event for event in events if event is not None])


def in_outline(given: model.TurnWithEvents) -> model.TurnWithEvents:
    """The beginning and the end of a turn's prompt and of its last answer, and the names of the files it changed."""
    return _with(given, OUTLINE_CHARS, list(_outline(given)))


def decisions_in(text: str) -> list[str]:
    """The sentences of a text that decide something or say why.

    >>> decisions_in("The parser is slow. We will use a table instead of the regex.")
    ['We will use a table instead of the regex.']
    """
    return [found for each in _SENTENCE.findall(text) if _DECIDES.search(found := each.strip())]


def short(text: str, room: int) -> str:
    """A text, or its beginning and its end with what is left out between them."""
    if len(text) <= room:
        return text
    half = room // 2
    return f"{text[:half]}\n… ({len(text) - 2 * half} characters left out) …\n{text[-half:]}"


def _with(given: model.TurnWithEvents, prompt_chars: int, events: list[model.Event]) -> model.TurnWithEvents:
    return replace(given, turn=replace(given.turn, prompt=short(given.turn.prompt, prompt_chars)), events=events)


def _last_answer(given: model.TurnWithEvents) -> model.AssistantText | None:
    return next((event for event in reversed(given.events) if isinstance(event, model.AssistantText)), None)


def _brief(event: model.Event, *, is_last: bool) -> model.Event | None:
    match event:
        case model.UserMessage():
            return replace(event, content=short(event.content, SAID_CHARS))
        case model.AssistantText():
            is_decision = is_last or _DECIDES.search(event.text) is not None
            return replace(event, text=short(event.text, SAID_CHARS if is_decision else PASSING_CHARS))
        case model.ToolCall(tool=model.Tool.EDIT | model.Tool.WRITE):
            return _shortened(event, EDIT_CHARS)
        case model.ToolCall(tool=model.Tool.SHELL):
            return _shortened(event, COMMAND_CHARS)
        case model.ToolResult(is_error=True):
            return replace(event, content=short(event.content, FAILURE_CHARS))
        case model.Error():
            return replace(event, message=short(event.message, FAILURE_CHARS))
        case model.Plan():
            return replace(event, content=short(event.content, SAID_CHARS))
        case model.Compacted(summary=summary) if summary:
            return event
        case _:
            return None


def _shortened(call: model.ToolCall, room: int) -> model.ToolCall:
    texts = [text for text in texts_in(call.input) if text != call.file_path]
    return replace(call, input={"text": short("\n".join(texts), room)} if texts else {})


def _outline(given: model.TurnWithEvents) -> Iterator[model.Event]:
    named = set[str]()
    for event in given.events:
        if isinstance(event, model.ToolCall) and event.tool in EDITS and event.file_path not in (None, *named):
            named.add(event.file_path or "")
            yield replace(event, input={})
    if (last := _last_answer(given)) is not None:
        yield replace(last, text=short(last.text, OUTLINE_CHARS))
