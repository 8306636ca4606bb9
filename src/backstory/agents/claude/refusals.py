"""Calls that Claude Code's permissions refused: each result of a run lists those since the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory.agents.claude.tools import path_in, tool_of
from backstory.model import ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backstory.agents.claude.stream_records import StreamRecord


def refused_calls(results: Iterable[StreamRecord]) -> list[ToolCall]:
    """The calls that were refused, each once, in order."""
    found: dict[str, ToolCall] = {}
    for result in results:
        listed = result.permission_denials if isinstance(result.permission_denials, list) else []
        for call in (_call(each) for each in listed if isinstance(each, dict)):
            found.setdefault(call.tool_use_id or f"without an id {len(found)}", call)
    return list(found.values())


def _call(denied: dict[str, Any]) -> ToolCall:
    given = denied.get("tool_input")
    given = given if isinstance(given, dict) else {}
    name = str(denied.get("tool_name") or "")
    return ToolCall(
        tool_use_id=str(denied.get("tool_use_id") or ""),
        tool_name=name,
        tool=tool_of(name),
        file_path=path_in(given),
        input=given,
    )
