"""The messages of Cline's logs, as far as they are read."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field


class Metrics(Struct, rename="camel"):
    """The tokens of one request; those from a cache are in ``input_tokens``, too."""

    input_tokens: Any = None
    output_tokens: Any = None
    cache_read_tokens: Any = None
    cache_write_tokens: Any = None
    cost: Any = None


class Model(Struct):
    id: str | None = None


class Block(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: Any = None
    is_error: bool | None = None


Content = str | list[Block | str] | None


class Message(Struct):
    id: str | None = None
    role: str = ""
    content: Content = None
    ts: Any = None
    model: Model | None = field(name="modelInfo", default=None)
    metrics: Metrics | None = None


class Origin(Struct):
    version: str | None = None


class Head(Struct):
    """The values that stand around the messages."""

    origin: Origin | None = None


class Ids(Struct):
    id: str | None = None


decoder = msgspec.json.Decoder(Message)
head_decoder = msgspec.json.Decoder(Head)
ids_decoder = msgspec.json.Decoder(Ids)


def blocks_of(content: Content) -> list[Block]:
    """The parts of a message; one that is a text is one part."""
    if content is None:
        return []
    found = [content] if isinstance(content, str) else content
    return [Block(type="text", text=each) if isinstance(each, str) else each for each in found]
