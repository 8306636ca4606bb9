"""The lines of pi's logs, as far as they are read."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct


class Cost(Struct):
    total: Any = None


class Usage(Struct, rename="camel"):
    """The tokens of one request; those from a cache are not in ``input``."""

    input: Any = None
    output: Any = None
    cache_read: Any = None
    cache_write: Any = None
    reasoning: Any = None
    cost: Cost | None = None


class Block(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: Any = None


Content = str | list[Block | str] | None


class Message(Struct, rename="camel"):
    role: str = ""
    content: Content = None
    timestamp: Any = None
    model: str | None = None
    usage: Usage | None = None
    stop_reason: str | None = None
    error_message: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    details: msgspec.Raw = msgspec.Raw(b"")
    is_error: bool | None = None
    command: str | None = None
    output: str | None = None
    exit_code: Any = None
    cancelled: bool | None = None
    exclude_from_context: bool | None = None
    custom_type: str | None = None
    display: Any = None


class Line(Struct, rename="camel"):
    type: str = ""
    id: str | None = None
    parent_id: str | None = None
    timestamp: Any = None
    message: Message | None = None
    cwd: str | None = None
    model_id: str | None = None
    name: str | None = None
    summary: str | None = None
    custom_type: str | None = None
    content: Content = None
    version: Any = None


class Ids(Struct, rename="camel"):
    """The members that place an entry in the tree."""

    id: str | None = None
    parent_id: str | None = None
    type: str = ""


decoder = msgspec.json.Decoder(Line)
ids_decoder = msgspec.json.Decoder(Ids)


def words_of(content: Content) -> str:
    """The text of a message; an image is named."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(filter(None, (block if isinstance(block, str) else _text(block) for block in content)))


def _text(block: Block) -> str:
    return "[image]" if block.type == "image" else block.text or "" if block.type == "text" else ""
