"""The records that a run prints, as far as they are read."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from backstory.agents.claude.records import Message, Usage


class Delta(Struct):
    type: str = ""
    text: str | None = None
    stop_reason: str | None = None


class StreamEvent(Struct):
    type: str = ""
    message: Message | None = None
    delta: Delta | None = None
    usage: Usage | None = None


class StreamRecord(Struct):
    type: str = ""
    tool_use_result: msgspec.Raw = msgspec.Raw()
    subtype: str | None = None
    timestamp: Any = None
    command_uuid: str | None = None
    state: Any = None
    capabilities: Any = None
    session_id: str | None = None
    parent_tool_use_id: str | None = None
    message: Message | str | None = None
    event: StreamEvent | None = None
    cwd: str | None = None
    model: str | None = None
    claude_code_version: str | None = None
    is_synthetic: bool | None = field(default=None, name="isSynthetic")
    is_api_error_message: bool | None = None
    api_error_status: int | str | None = None
    attempt: Any = None
    max_retries: Any = None
    error: Any = None
    error_status: int | str | None = None
    is_error: bool | None = None
    result: Any = None
    errors: Any = None
    terminal_reason: str | None = None
    local_command: Any = None
    local_command_source: Any = None
    stop_reason: str | None = None
    duration_ms: Any = None
    duration_api_ms: Any = None
    total_cost_usd: Any = None
    usage: Usage | None = None
    permission_denials: Any = None
    model_usage: Any = field(default=None, name="modelUsage")
    """The tokens that each model used, and the most that it takes."""


stream_decoder = msgspec.json.Decoder(StreamRecord)
