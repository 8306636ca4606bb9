"""What is derived from an event: the text that is searched, its scope, and its length. Pure functions."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from backstory import model

if TYPE_CHECKING:
    from collections.abc import Iterator

INDEXED_CHARS_MAX = 1_000_000
"""Of one event at most this many characters are searched; its bytes are kept whole."""


class Scope(StrEnum):
    """Where in a session a text stands."""

    PROMPT = "prompt"
    ANSWER = "answer"
    THINKING = "thinking"
    TOOL_INPUT = "tool_input"
    TOOL_OUTPUT = "tool_output"
    SYSTEM = "system"


def searchable(event: model.Event) -> tuple[str, str] | None:
    """The scope of an event and its text, or None where there is nothing to find."""
    match event:
        case model.ToolResult(tool=model.Tool.READ | model.Tool.EDIT):
            # A number before every line would come between the words of a phrase.
            found = (Scope.TOOL_OUTPUT.value, _LINE_NUMBER.sub("", event.content))
        case model.ToolResult():
            found = (Scope.TOOL_OUTPUT.value, event.content)
        case model.ToolCall():
            found = (Scope.TOOL_INPUT.value, f"{event.tool_name} {' '.join(texts_in(event.input))}")
        case model.AssistantText():
            found = (Scope.ANSWER.value, event.text)
        case model.UserMessage():
            found = (Scope.PROMPT.value, event.content)
        case model.Thinking():
            found = (Scope.THINKING.value, event.text)
        case model.Plan():
            found = (Scope.ANSWER.value, event.content)
        case model.Compacted():
            found = (Scope.SYSTEM.value, event.summary)
        case model.Error() | model.Retry():
            found = (Scope.SYSTEM.value, event.message)
        case model.Hook():
            found = (Scope.SYSTEM.value, f"{event.name} {event.output}")
        case model.Command():
            found = (Scope.SYSTEM.value, f"{event.name} {event.output}")
        case _:
            return None
    return found if found[1] else None


def index_text(text: str) -> str:
    """``text`` as it goes into the index: each CJK character a word of its own."""
    if len(text) > INDEXED_CHARS_MAX:
        text = text[:INDEXED_CHARS_MAX]
    return text if text.isascii() else _cjk().sub(r" \g<0> ", text)


def char_len(event: model.Event) -> int:
    """How many characters the event had before it was compacted: its text, or its tool's name and input as JSON."""
    match event:
        case model.ToolResult() | model.UserMessage() | model.Plan():
            return len(event.content)
        case model.AssistantText() | model.Thinking():
            return len(event.text)
        case model.ToolCall():
            return len(event.tool_name) + len(msgspec.json.encode(event.input).decode())
        case model.Hook():
            return len(event.output)
        case model.Command():
            return len(event.name) + len(event.output)
        case model.Error() | model.Retry():
            return len(event.message)
        case model.Compacted():
            return len(event.summary)
        case _:
            return 0


def texts_in(value: Any) -> Iterator[str]:
    """Every string inside a JSON value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)


_LINE_NUMBER = re.compile(r"^ *\d+[→\t]", re.MULTILINE)


@cache
def _cjk() -> re.Pattern[str]:
    # Han, kana and Hangul: scripts that are written without spaces, or whose words take endings without one.
    return re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]")
