"""Records as Codex writes them into a log."""

from __future__ import annotations

import json
from typing import Any

THREAD = "0199a213-81c0-7800-8aa1-bbab2a035a53"
LOG = f".codex/sessions/2026/11/21/rollout-2026-11-21T21-00-00-{THREAD}.jsonl"


def line(kind: str, **payload: Any) -> bytes:
    """A record of a log."""
    return json.dumps({"timestamp": "2026-11-21T21:00:00.000Z", "type": kind, "payload": payload}).encode()


def meta(thread: str = THREAD, **more: Any) -> bytes:
    return line("session_meta", id=thread, cwd="/w", cli_version="0.169.0", **more)


def begun(turn: str) -> bytes:
    return line("event_msg", type="task_started", turn_id=turn)


def prompt(text: str, **more: Any) -> bytes:
    return line("event_msg", type="user_message", message=text, **more)


def answer(text: str) -> bytes:
    return line("response_item", type="message", role="assistant", content=[{"type": "output_text", "text": text}])


def call(name: str, call_id: str, **given: Any) -> bytes:
    return line("response_item", type="function_call", name=name, call_id=call_id, arguments=json.dumps(given))


def output(call_id: str, text: Any) -> bytes:
    return line("response_item", type="function_call_output", call_id=call_id, output=text)


def patch(call_id: str, text: str) -> bytes:
    return line("response_item", type="custom_tool_call", name="apply_patch", call_id=call_id, input=text)


def patched(call_id: str, text: str) -> bytes:
    return line("response_item", type="custom_tool_call_output", call_id=call_id, output=text)


def developer(text: str) -> bytes:
    return line("response_item", type="message", role="developer", content=[{"type": "input_text", "text": text}])
