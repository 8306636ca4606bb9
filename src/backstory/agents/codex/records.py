"""The records of a log: a line of JSON each, ``{timestamp, type, payload}``."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct, field

from backstory.agents.codex.usage import Usage


class Info(Struct):
    total_token_usage: Usage | None = None
    last_token_usage: Usage | None = None


class Item(Struct):
    type: str = ""
    id: Any = None
    content: Any = None
    message: Any = None
    status: Any = None
    command: Any = None
    cwd: Any = None
    aggregated_output: Any = None
    exit_code: Any = None
    changes: Any = None
    stdout: Any = None
    stderr: Any = None
    server: Any = None
    tool: Any = None
    arguments: Any = None
    result: Any = None
    error: Any = None


class Payload(Struct):
    type: str = ""
    id: Any = None
    turn_id: Any = None
    root_turn_id: Any = None
    role: Any = None
    content: Any = None
    summary: Any = None
    name: Any = None
    namespace: Any = None
    call_id: Any = None
    arguments: Any = None
    input: Any = None
    action: Any = None
    output: Any = None
    tools: Any = None
    author: Any = None
    revised_prompt: Any = None
    message: Any = None
    kind: Any = None
    images: Any = None
    local_images: Any = None
    info: Info | None = None
    item: Item | None = None
    error: Any = None
    codex_error_info: Any = None
    last_agent_message: Any = None
    duration_ms: Any = None
    reason: Any = None
    num_turns: Any = None
    thread_name: Any = None
    exit_code: Any = None
    success: Any = None
    result: Any = None
    cwd: Any = None
    model: Any = None
    cli_version: Any = None
    git: Any = None
    origin: Any = field(default=None, name="internal_chat_message_metadata_passthrough")


class Record(Struct):
    type: str = ""
    timestamp: Any = None
    payload: Payload | None = None


EARLY = re.compile(rb'\s*\{"(?:id|record_type|type)"\s*:')


decoder = msgspec.json.Decoder(Record)
