"""Events of ours as AZUREAL's: their JSON, and how long it takes them to be.

Calls and results come in their compact form, which is what is kept there. What that form has no kind for is a hook's
word there, so that no answer says what no model said; thoughts have no place at all.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory import model
from backstory.derive.index_text import char_len

if TYPE_CHECKING:
    from collections.abc import Iterator

Body = dict[str, Any]
THOUGHTS, CALLS, RESULTS, SUMMARIES, OTHERS = "thoughts", "full_calls", "full_results", "summaries", "unknown_records"
"""The parts that an event may lose."""
CONTENT_KINDS = frozenset({"Init", "UserMessage", "Command", "Plan", "AssistantText", "ToolCall", "ToolResult"})
"""A session whose last event of these follows its last ``Complete`` has no badge."""


class Told(Struct, frozen=True):
    """An event as it stands in a file: its kind, its JSON, and its length as AZUREAL counts it."""

    kind: str
    json: bytes
    char_len: int


def told(event: model.Event) -> Iterator[Told]:
    """Return the records that an event becomes: often one, and none if it has no place."""
    match event:
        case model.Init():
            yield _event("Init", {"cwd": event.cwd, "model": event.model or "unknown"})
        case model.UserMessage():
            yield _event("UserMessage", {"content": event.content}, event.content)
        case model.AssistantText():
            yield _event("AssistantText", {"text": event.text}, event.text)
        case model.ToolCall():
            yield _call(event)
        case model.ToolResult():
            yield _result(event)
        case model.Plan():
            yield _event("Plan", {"name": event.name, "content": event.content}, event.content)
        case model.Command():
            yield _event("Command", {"name": event.name}, event.name)
            yield from _hook(event.name, event.output)
        case model.ModelSwitch():
            yield _event("ModelSwitch", {"model": event.model})
        case model.Compacted():
            yield _event("Compacting", None)
        case model.Hook():
            yield from _hook(event.name, event.output)
        case model.Error():
            yield from _hook("error", event.message)
        case model.Retry():
            yield from _hook("retry", event.message)


def complete(success: bool, duration_ms: int | None, cost_usd: float | None) -> Told:
    """Return the record of a turn's end; 0 for unknown values, as AZUREAL has it."""
    return _event("Complete", {"success": success, "duration_ms": duration_ms or 0, "cost_usd": float(cost_usd or 0)})


def loses(event: model.Event, chars: int) -> str | None:
    """Return the part of an event that the file lacks, or None. ``chars``: its length before it was compact."""
    match event:
        case model.Thinking():
            return THOUGHTS
        case model.Unknown():
            return OTHERS
        case model.Compacted(summary=summary) if summary:
            return SUMMARIES
        case model.ToolCall() if char_len(event) < chars:
            return CALLS
        case model.ToolResult() if char_len(event) < chars:
            return RESULTS
    return None


def _call(call: model.ToolCall) -> Told:
    given = _sorted(call.input) if isinstance(call.input, dict) else {}
    body = {"tool_use_id": call.tool_use_id, "tool_name": call.tool_name, "file_path": call.file_path, "input": given}
    return _event("ToolCall", body, call.tool_name, _json(given))


def _result(result: model.ToolResult) -> Told:
    body = {
        "tool_use_id": result.tool_use_id, "tool_name": result.tool_name, "file_path": result.file_path,
        "content": result.content, "is_error": result.is_error,
    }  # fmt: skip
    return _event("ToolResult", body, result.content)


def _hook(name: str, output: str) -> Iterator[Told]:
    if output.strip():
        yield _event("Hook", {"name": name, "output": output}, output)


def _event(kind: str, body: Body | None, *counted: str | bytes) -> Told:
    """An event of a kind; ``counted`` is what its length is of, in bytes of UTF-8."""
    length = sum(len(each) if isinstance(each, bytes) else len(_bytes(each)) for each in counted)
    return Told(kind, _json(kind if body is None else {kind: body}), length)


def _sorted(value: Any) -> Any:
    """A value whose keys stand in the order of their bytes, as in a map of AZUREAL's."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def _json(value: Any) -> bytes:
    # As its own encoder writes it: only what must be is escaped, in small letters.
    return _bytes(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
