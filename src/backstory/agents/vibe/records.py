"""The records of a session as they are decoded; a field that no reader needs is skipped."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from backstory.agents import numbers


class Usage(numbers.Counts, rename="camel"):
    """The tokens of a session so far, or of its last request; the cached ones are input, too."""

    input_tokens: numbers.Count = None
    cached_input_tokens: numbers.Count = None
    output_tokens: numbers.Count = None


class Outcome(Struct):
    type: str | None = None
    cause: str | None = None


class Detail(Struct, rename="camel"):
    """The call of an effect."""

    tool_name: str | None = None
    input: Any = None


class Output(Struct):
    type: str | None = None
    content: Any = None
    structured_content: Any = None


class EffectState(Struct, rename="camel"):
    status: str | None = None
    output: Output | None = None
    output_text: Any = None
    error: Any = None


class Details(Struct, rename="camel"):
    """More about a checkpoint."""

    summary_length: Any = None


class Entry(Struct, rename="camel"):
    """A part of the conversation, as people are shown it."""

    id: str | None = None
    type: str | None = None
    role: str | None = None
    source: str | None = None
    turn_id: str | None = None
    created_at: Any = None
    updated_at: Any = None
    generation_status: str | None = None
    content: Any = None
    text: Any = None
    outcome: Outcome | None = None
    detail: Detail | None = None
    state: EffectState | None = None
    kind: str | None = None
    details: Details | None = None
    title: Any = None
    message: Any = None
    """The words of an error or a checkpoint; role and content of a message of the model's context."""


class LatestTurn(Struct, rename="camel"):
    id: str | None = None
    status: str | None = None
    reason: Any = None
    completed_at: Any = None


class Session(Struct, rename="camel"):
    title: str | None = None
    token_usage: Usage | None = None
    context_usage: Usage | None = None


class Snapshot(Struct, rename="camel"):
    """The state of a session."""

    latest_turn: LatestTurn | None = None
    session: Session | None = None


class Change(Struct):
    """A change of the conversation or of the session's state."""

    op: str | None = None
    entry: Entry | None = None
    state: Snapshot | None = None


class Payload(Struct):
    delta: list[Change] = field(default_factory=list)


class Environment(Struct):
    working_directory: str | None = None


class Config(Struct):
    model_name: str | None = None


class Record(Entry, rename="camel"):
    """Any record."""

    payload: Payload | None = None
    """In a line of the journal."""
    snapshot: Snapshot | None = None
    environment: Environment | None = None
    """In the facts about a session, as are those that follow."""
    config: Config | None = None
    git_branch: str | None = field(name="git_branch", default=None)
    turn_index: Any = field(name="turn_index", default=None)
    """In a message of the model's context."""


decoder = msgspec.json.Decoder(Record)


def words_of(content: Any) -> str:
    """The words of a message: its parts of text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(text for text in map(_part_text, parts) if text)


def _part_text(part: Any) -> str:
    if not isinstance(part, dict):
        return part if isinstance(part, str) else ""
    if isinstance(part.get("text"), str):
        return str(part["text"])
    return f"[{part['type']}]" if part.get("type") in ("image", "audio", "file", "resource") else ""
