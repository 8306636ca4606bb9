"""The records of a log, as far as they are read, and the text that they hold."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from backstory.agents.claude.usage import Usage
from backstory.model import encoded


class Block(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None
    is_error: bool | None = None


Content = str | list[Block | str] | None
"""What a message holds."""


class Message(Struct):
    id: str | None = None
    model: str | None = None
    content: Content = None
    usage: Usage | None = None
    stop_reason: str | None = None


class Record(Struct, rename="camel"):
    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    timestamp: Any = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    is_meta: bool | None = None
    is_sidechain: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    request_id: str | None = None
    message: Message | None = None
    attachment: Any = None
    content: Any = None
    duration_ms: Any = None
    retry_attempt: Any = None
    max_retries: Any = None
    error: Any = None
    hook_errors: Any = None
    api_error_status: int | str | None = None
    summary: Any = None
    leaf_uuid: Any = None
    operation: str | None = None
    reason: Any = None
    command_uuid: Any = None
    tool_use_result: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.Raw()
    ai_title: Any = None
    custom_title: Any = None
    agent_name: Any = None
    cost_usd: Any = field(default=None, name="costUSD")
    total_cost_usd: Any = field(default=None, name="totalCostUSD")
    total_api_duration: Any = field(default=None, name="totalAPIDuration")


record_decoder = msgspec.json.Decoder(Record)


def plain_text(value: Any) -> str:
    """The text of a content value: a string, blocks, or anything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(plain_text(each) for each in value)
    if isinstance(value, dict):
        for key in ("text", "tool_name" if value.get("type") == "tool_reference" else "message"):
            if isinstance(value.get(key), str):
                return str(value[key])
        if value.get("type") in ("image", "document"):
            return f"[{value['type']}]"
    return encoded(value).decode()


def text_of(content: Content) -> str:
    """What a message says in words, its tool results left out; an image is named."""
    if content is None or isinstance(content, str):
        return content or ""
    said = []
    for block in content:
        if isinstance(block, str):
            said.append(block)
        elif block.type == "text" and block.text:
            said.append(block.text)
        elif block.type in ("image", "document"):
            said.append(f"[{block.type}]")
    return "\n".join(said)
