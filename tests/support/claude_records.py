"""Records as Claude Code writes them into a log, and what is read of them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from backstory.model import (
    Event,
)
from tests.support.reading import Told, told

SESSION = "0ddba11-0000-4000-8000-000000000000"
numbers = itertools.count(1)


def record(type_: str, uuid: str = "", parent: str | None = None, **more: Any) -> bytes:
    """A record of a conversation; without a parent it follows the one before it."""
    more = {"sessionId": SESSION, "timestamp": "2026-11-21T21:00:00.000Z", **more}
    more |= {"type": type_, "uuid": uuid or f"u{next(numbers)}", "parentUuid": parent}
    return json.dumps(more).encode()


def user(text: Any, uuid: str = "", parent: str | None = None, **more: Any) -> bytes:
    return record("user", uuid, parent, message={"role": "user", "content": text}, **more)


def assistant(*blocks: dict[str, Any], uuid: str = "", parent: str | None = None, **more: Any) -> bytes:
    message = {"id": "m1", "model": "claude-x", "role": "assistant", "content": list(blocks)}
    message |= more.pop("message", {})
    return record("assistant", uuid, parent, message=message, **more)


def answer(text: str, uuid: str = "", parent: str | None = None, **more: Any) -> bytes:
    return assistant({"type": "text", "text": text}, uuid=uuid, parent=parent, **more)


def spent(message_id: str, output: int, input_: int = 10, **more: Any) -> bytes:
    usage = {
        "input_tokens": input_,
        "output_tokens": output,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 3,
    }
    return answer("…", message={"id": message_id, "usage": usage}, **more)


def ended(message_id: str, output: int) -> bytes:
    """The last record of a message, which holds its final count."""
    usage = {"input_tokens": 10, "output_tokens": output}
    return answer("…", message={"id": message_id, "usage": usage, "stop_reason": "end_turn"})


def result(content: str, call_id: str, *, is_error: bool = False, **more: Any) -> bytes:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}
    return user([block], **more)


def refused(words: str, call_id: str) -> bytes:
    text = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\n"
    return result(text + words, call_id, is_error=True)


def queue(operation: str, content: str | None = None, **more: Any) -> bytes:
    return control("queue-operation", operation=operation, **({} if content is None else {"content": content}), **more)


def control(type_: str, **more: Any) -> bytes:
    return json.dumps({"type": type_, "sessionId": SESSION, **more}).encode()


def ended_process(total_ms: int | float) -> bytes:
    return record("cost-state", totalCostUSD=0, totalAPIDuration=total_ms)


def said(*lines: bytes, path: str = f"{SESSION}.jsonl") -> Told:
    return told("claude", b"\n".join(lines) + b"\n", Path(path))


def only(what: Told, kind: type[Event]) -> Any:
    (one,) = what.all(kind)
    return one


PLAN = assistant({"type": "tool_use", "id": "t1", "name": "ExitPlanMode", "input": {"plan": "# Do it"}})
