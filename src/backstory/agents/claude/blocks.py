"""The blocks of messages: what the model said, the tools that it called, and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory.agents.claude import records
from backstory.agents.claude.records import Block, plain_text
from backstory.agents.claude.tools import PLAN_TOOL, REFUSED_BY_USER, answers, path_in, refusal, tool_of
from backstory.agents.turn_fold import remember
from backstory.model import AssistantText, Event, Plan, Thinking, ToolCall, ToolResult, UserMessage

if TYPE_CHECKING:
    from backstory.agents.claude.records import Content
    from backstory.agents.turn_fold import OpenCalls, UnknownCounts

_PLANS_OPEN_MAX = 4


class Blocks:
    """Turns blocks into events. A call is remembered until its result comes."""

    def __init__(self, calls: OpenCalls, plans: dict[str, str], unknown: UnknownCounts) -> None:
        """``plans``: the plans of open calls, by the ids of these."""
        self._calls, self._plans, self._unknown = calls, plans, unknown

    def answer(self, content: Content) -> list[Event]:
        """Return the events of a message of the model."""
        if isinstance(content, str):
            return [AssistantText(text=content)] if content.strip() else []
        events: list[Event] = []
        for block in content or ():
            events += self._answer_block(Block(type="text", text=block) if isinstance(block, str) else block)
        return events

    def results(self, content: Content, tool_use_result: msgspec.Raw) -> list[Event]:
        """The results of tools in a message in the user's place; ``tool_use_result`` repeats them in more detail."""
        events: list[Event] = []
        if isinstance(content, list):
            for block in content:
                if isinstance(block, Block) and block.type == "tool_result":
                    events += self._result(block, bytes(tool_use_result))
        return events

    def _answer_block(self, block: Block) -> list[Event]:
        match block.type:
            case "text":
                return [AssistantText(text=block.text)] if block.text and block.text.strip() else []
            case "thinking":
                return [Thinking(text=block.thinking)] if block.thinking else []
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                return [self._tool_call(block)]
            case kind if kind.endswith("_tool_result"):
                return [self._tool_result(block)]
            case kind if kind in records.KEPT_BLOCKS:
                return []
            case kind:
                return [self._unknown.emit(f"assistant/{kind}")]

    def _tool_call(self, block: Block) -> ToolCall:
        given = block.input if isinstance(block.input, dict) else {}
        name = block.name or ""
        plan = given.get("plan")
        if name == PLAN_TOOL and isinstance(plan, str):
            remember(self._plans, block.id or "", plan, _PLANS_OPEN_MAX)
        return self._calls.open(block.id or "", name, tool_of(name), path_in(given), given)

    def _result(self, block: Block, tool_use_result: bytes) -> list[Event]:
        """A tool's result, what the user said in it, and the plan that the call put before the user."""
        result = self._tool_result(block)
        if MARK in tool_use_result:
            result = msgspec.structs.replace(result, changes=changes(tool_use_result))
        # Earlier clients did not mark what was refused as an error.
        is_refused = result.is_error or result.content.startswith(REFUSED_BY_USER)
        words = refusal(result) if is_refused else "\n".join(answers(result, tool_use_result))
        events: list[Event] = [result, UserMessage(content=words)] if words.strip() else [result]
        plan = self._plans.pop(result.tool_use_id, None)
        if plan is not None and (not result.is_error or REFUSED_BY_USER in result.content):
            # A call that failed showed its plan to nobody.
            events.append(Plan(name=PLAN_TOOL, content=plan))
        return events

    def _tool_result(self, block: Block) -> ToolResult:
        call_id = block.tool_use_id or ""
        return self._calls.close(call_id).result(call_id, plain_text(block.content), is_error=bool(block.is_error))


# changed files --------------------------------------------------------------------------------------------------------
# The files that a shell command changed, as a client saw them that watches the repository it works in.


MARK = b'"bashEditDiff"'
"""In every result that lists such files."""


class _ChangedFile(Struct):
    path: str = field(name="filePath")
    created: bool = False
    deleted: bool = False


class _Diff(Struct):
    files: list[_ChangedFile] = field(default_factory=list)
    changed: list[str] = field(default_factory=list, name="changedFiles")


class _ShellResult(Struct):
    diff: _Diff = field(default_factory=_Diff, name="bashEditDiff")


def changes(tool_use_result: bytes) -> dict[str, str]:
    """Return the change of each path by a shell's result: ``create``, ``edit`` or ``delete``."""
    try:
        seen = msgspec.json.decode(tool_use_result, type=_ShellResult).diff
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    found = dict.fromkeys(seen.changed, "edit")
    for each in seen.files:
        found[each.path] = "create" if each.created else "delete" if each.deleted else "edit"
    return found
