"""Calls of tools: what they were given, and what came back."""

from __future__ import annotations

import re
import shlex
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from backstory.agents.codex.records import EventMsg, ItemResult, McpResult, ResponseItem, TurnItem, fitted, plain_text
from backstory.lazy import lazy_regex
from backstory.model import Event, Tool, ToolCall, ToolResult

TOOLS = {
    "exec_command": Tool.SHELL,
    "shell": Tool.SHELL,
    "shell_command": Tool.SHELL,
    "local_shell": Tool.SHELL,
    "write_stdin": Tool.SHELL,
    "unified_exec": Tool.SHELL,
    "container.exec": Tool.SHELL,
    "apply_patch": Tool.EDIT,
    "view_image": Tool.READ,
    "read_file": Tool.READ,
    "grep_files": Tool.GREP,
    "list_dir": Tool.GLOB,
    "web_search": Tool.SEARCH,
    "spawn_agent": Tool.TASK,
    "spawn": Tool.TASK,
}

_SHELLS = frozenset({"bash", "sh", "zsh"})
_PATCHED = lazy_regex(r"^\*\*\* (?:Update|Add|Delete) File: (.+?)\s*$", re.MULTILINE)
_EXIT = lazy_regex(r"^(?:Process exited with code|Exit code:) (-?\d+)", re.MULTILINE)
_ENVELOPE = lazy_regex(r"(?:Chunk ID|Exit code|Wall time|Process exited|Script )")
_FAILED = lazy_regex(
    "apply_patch verification failed|failed to parse function arguments|unsupported call|exec_command failed"
    "|write_stdin failed|Script failed|(?:Wall time: [^\n]*\n)?aborted(?: by user)?$"
)
_any_decoder = msgspec.json.Decoder()


class ResultMetadata(Struct):
    exit_code: int = 0


class ToolResultObject(Struct):
    """A result that is more than its text, as older builds and MCP write it."""

    content: Any = None
    output: Any = None
    success: bool | None = None
    metadata: ResultMetadata | None = None

    def exit_code(self) -> int:
        return self.metadata.exit_code if self.metadata is not None else 0


def call_of(item: ResponseItem) -> tuple[str, dict[str, Any], str | None]:
    """A call's name, input and path."""
    name, namespace = item.name or "", item.namespace or ""
    match item.type:
        case "custom_tool_call":
            text = item.input or ""
            patch = name == "apply_patch"
            return name, {"patch" if patch else "input": text}, _patched(text) if patch else None
        case "local_shell_call" | "web_search_call":
            return item.type.removesuffix("_call"), item.action or {}, None
        case "image_generation_call":
            return "image_generation", {"prompt": item.revised_prompt or ""}, None
        case kind:
            name = name or kind.removesuffix("_call")
            given = arguments_of(item.arguments)
            path = given.get("file_path") or given.get("path")
            if not isinstance(path, str):
                path = _patched(item.arguments) if isinstance(item.arguments, str) else None
            return f"{namespace}__{name}" if namespace.startswith("mcp__") else name, given, path


def arguments_of(arguments: dict[str, Any] | str | None) -> dict[str, Any]:
    if isinstance(arguments, dict):
        return arguments
    try:
        given = _any_decoder.decode(arguments) if arguments else {}
    except (msgspec.DecodeError, RecursionError):
        given = None
    return given if isinstance(given, dict) else {"arguments": arguments}


def inner_command(command: str) -> str:
    """A command without the shell that Codex starts for it."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    is_wrapped = len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in ("-lc", "-c")
    return words[2] if is_wrapped else command


def output_of(output: Any) -> tuple[str, bool]:
    """A result's text, and whether it is a failure."""
    if isinstance(output, dict) and ("content" in output or "output" in output):
        result = fitted(output, ToolResultObject)
        text, said = output_of(result.output if result.content is None else result.content)
        return text, said or result.success is False or result.exit_code() != 0
    text = plain_text(output)
    if text.startswith('{"') and '"metadata"' in text:
        wrapped = fitted(arguments_of(text), ToolResultObject)
        if isinstance(wrapped.output, str):
            return wrapped.output, wrapped.exit_code() != 0 or bool(_FAILED.match(wrapped.output))
    if _FAILED.match(text):
        return text, True
    if _ENVELOPE.match(text):
        exited = _EXIT.search(text.partition("Output:")[0])
        return text, exited is not None and int(exited.group(1)) != 0
    return text, False


def event_failed(payload: EventMsg) -> bool:
    return payload.success is False or payload.exit_code not in (None, 0) or _mcp_failed(payload.result)


def _mcp_failed(result: McpResult | str | None) -> bool:
    if not isinstance(result, McpResult):
        return False
    answer = result.ok or result
    return result.err is not UNSET or bool(answer.isError or answer.is_error)


def item_failed(item: TurnItem) -> bool:
    return item.status == "failed" or item.exit_code not in (None, 0)


def nested_call(item: TurnItem) -> list[Event]:
    """A command, patch or MCP call made by a script that the model wrote: its call and its result."""
    name, tool, path, given, content = "", Tool.OTHER, None, dict[str, Any](), ""
    match item.type:
        case "CommandExecution":
            name, tool = "exec_command", Tool.SHELL
            given, content = {"command": item.command, "cwd": item.cwd}, item.aggregated_output or ""
        case "FileChange":
            name, tool = "apply_patch", Tool.EDIT
            path = next(iter(item.changes), None) if isinstance(item.changes, dict) else None
            given, content = {"changes": item.changes}, item.stdout or item.stderr or ""
        case "McpToolCall":
            name = f"mcp__{item.server or ''}__{item.tool or ''}"
            given = arguments_of(item.arguments)
            content = plain_text(item.result.content if isinstance(item.result, ItemResult) else item.error)
        case _:
            return []
    call_id = item.id or ""
    return [
        ToolCall(tool_use_id=call_id, tool_name=name, tool=tool, file_path=path, input=given),
        ToolResult(
            tool_use_id=call_id,
            tool_name=name,
            tool=tool,
            file_path=path,
            content=content,
            is_error=item_failed(item),
        ),
    ]


def _patched(text: str) -> str | None:
    """The first path that a patch names."""
    if "*** Begin Patch" not in text:
        return None
    found = _PATCHED.search(text if "\n" in text else text.replace("\\n", "\n"))
    return found.group(1) if found else None
