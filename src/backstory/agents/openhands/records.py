"""The records of a conversation, as far as they are read: events, and what is a record of its state."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct


class Block(Struct):
    type: str = ""
    text: str | None = None
    image_urls: list[str] | None = None
    thinking: str | None = None


class Message(Struct):
    role: str = ""
    content: list[Block | str] | str | None = None
    reasoning_content: str | None = None
    thinking_blocks: list[Block] | None = None


class Observation(Struct):
    kind: str = ""
    content: list[Block | str] | str | None = None
    is_error: bool | None = None
    exit_code: Any = None
    timeout: bool | None = None
    path: str | None = None
    error: str | None = None


class Line(Struct):
    """An event; of the state the folder, or the tokens of a request, which have no ``kind`` of an event."""

    kind: str = ""
    id: str | None = None
    timestamp: str | None = None
    source: str = ""
    llm_message: Message | None = None
    llm_response_id: str | None = None
    thought: list[Block | str] | None = None
    reasoning_content: str | None = None
    thinking_blocks: list[Block] | None = None
    action: dict[str, Any] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    observation: Observation | None = None
    error: str | None = None
    rejection_reason: str | None = None
    summary: str | None = None
    code: str | None = None
    detail: str | None = None
    working_dir: str | None = None
    response_id: str | None = None
    model: str | None = None
    prompt_tokens: Any = None
    completion_tokens: Any = None
    cache_read_tokens: Any = None
    cache_write_tokens: Any = None
    reasoning_tokens: Any = None
    context_window: Any = None


decoder = msgspec.json.Decoder(Line)


def words_of(content: list[Block | str] | str | None) -> str:
    """The text of a message; an image is named."""
    if content is None or isinstance(content, str):
        return content or ""
    said = [block if isinstance(block, str) else _text(block) for block in content]
    return "\n".join(filter(None, said))


def _text(block: Block) -> str:
    return "[image]" if block.type == "image" else block.text or ""
