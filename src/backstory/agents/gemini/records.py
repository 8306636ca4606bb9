"""The lines of a log as they are decoded; a field that no reader needs is skipped."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from backstory.agents import numbers


class Usage(numbers.Counts):
    """The tokens of a request; the cached ones are input, too, and thoughts are beside the output."""

    input: numbers.Count = None
    output: numbers.Count = None
    cached: numbers.Count = None
    thoughts: numbers.Count = None
    tool: numbers.Count = None


class Thought(Struct):
    subject: Any = None
    description: Any = None


class Call(Struct):
    """A call with its result: it is written when it has ended."""

    id: str = ""
    name: str = ""
    args: Any = None
    result: Any = None
    status: str | None = None
    timestamp: Any = None
    display: Any = field(name="resultDisplay", default=None)
    agent_id: str | None = field(name="agentId", default=None)


class Message(Struct):
    """A record of the conversation; without a type it is a header."""

    id: str | None = None
    timestamp: Any = None
    type: str | None = None
    content: Any = None
    shown: Any = field(name="displayContent", default=None)
    """A prompt as typed, where the model was given more."""
    calls: list[Call] | None = field(name="toolCalls", default=None)
    thoughts: list[Thought] | None = None
    tokens: Usage | None = None
    model: str | None = None


class Changes(Struct):
    """New values of the session, among them the list of what is still in the conversation."""

    messages: list[Message] | None = None
    summary: Any = None


class Line(Message):
    """Any line."""

    session_id: str | None = field(name="sessionId", default=None)
    directories: list[str] | None = None
    set: Changes | None = field(name="$set", default=None)
    rewind_to: str | None = field(name="$rewindTo", default=None)


decoder = msgspec.json.Decoder(Line)


def plain_text(content: Any) -> str:
    """The words of a message: a string, or its parts with text; a thought among them is none."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "\n".join(text for text in map(_part_text, parts) if text)


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or part.get("thought") is True:
        return ""
    if isinstance(part.get("text"), str):
        return str(part["text"])
    return "[image]" if "inlineData" in part or "fileData" in part else ""


def is_result(content: Any) -> bool:
    """Return True if a message in the user's place returns results of tools, which their calls hold already."""
    return isinstance(content, list) and any(isinstance(part, dict) and "functionResponse" in part for part in content)
