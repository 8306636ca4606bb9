"""Calls of tools: what they were given, and what came back."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from backstory.agents.codex.records import Item, Payload
from backstory.agents.codex.values import plain_text, text_of
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


_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+?)\s*$", re.MULTILINE)
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)", re.MULTILINE)
_ENVELOPE = re.compile(r"(?:Chunk ID|Exit code|Wall time|Process exited|Script )")
_FAILED = re.compile(
    "apply_patch verification failed|failed to parse function arguments|unsupported call|exec_command failed"
    "|write_stdin failed|Script failed|(?:Wall time: [^\n]*\n)?aborted(?: by user)?$"
)
_any_decoder = msgspec.json.Decoder()


def call_of(payload: Payload) -> tuple[str, dict[str, Any], str | None]:
    """A call's name, input and path."""
    name, namespace = text_of(payload.name), text_of(payload.namespace)
    match payload.type:
        case "custom_tool_call":
            text = text_of(payload.input)
            patch = name == "apply_patch"
            return name, {"patch" if patch else "input": text}, _patched(text) if patch else None
        case "local_shell_call" | "web_search_call":
            given = payload.action if isinstance(payload.action, dict) else {}
            return payload.type.removesuffix("_call"), given, None
        case "image_generation_call":
            return "image_generation", {"prompt": text_of(payload.revised_prompt)}, None
        case kind:
            name = name or kind.removesuffix("_call")
            given = arguments_of(payload.arguments)
            path = given.get("file_path") or given.get("path")
            path = path if isinstance(path, str) else _patched(text_of(payload.arguments))
            return f"{namespace}__{name}" if namespace.startswith("mcp__") else name, given, path


def arguments_of(arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, dict):
        return arguments
    text = text_of(arguments)
    try:
        given = _any_decoder.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError):
        given = None
    return given if isinstance(given, dict) else {"arguments": text}


def output_of(output: Any) -> tuple[str, bool]:
    """A result's text as told, and whether it tells of a failure."""
    if isinstance(output, dict) and ("content" in output or "output" in output):
        text, said = output_of(output["content"] if output.get("content") is not None else output.get("output"))
        return text, said or output.get("success") is False or _exit_code(output) != 0
    text = plain_text(output)
    if text.startswith('{"') and '"metadata"' in text:
        wrapped = arguments_of(text)
        if isinstance(wrapped.get("output"), str):
            return wrapped["output"], _exit_code(wrapped) != 0 or bool(_FAILED.match(wrapped["output"]))
    if _FAILED.match(text):
        return text, True
    if _ENVELOPE.match(text):
        exited = _EXIT.search(text.partition("Output:")[0])
        return text, exited is not None and int(exited.group(1)) != 0
    return text, False


def _exit_code(result: dict[str, Any]) -> int:
    metadata = result.get("metadata")
    code = metadata.get("exit_code") if isinstance(metadata, dict) else None
    return code if isinstance(code, int) else 0


def event_failed(payload: Payload) -> bool:
    result = payload.result if isinstance(payload.result, dict) else {}
    answer = result.get("Ok", result)
    return (
        payload.success is False
        or payload.exit_code not in (None, 0)
        or "Err" in result
        or (isinstance(answer, dict) and bool(answer.get("isError") or answer.get("is_error")))
    )


def item_failed(item: Item) -> bool:
    return item.status == "failed" or item.exit_code not in (None, 0)


def nested_call(item: Item) -> list[Event]:
    """A command, patch or MCP call made by a script that the model wrote: its call and its result."""
    name, tool, path, given, content = "", Tool.OTHER, None, dict[str, Any](), ""
    match item.type:
        case "CommandExecution":
            name, tool = "exec_command", Tool.SHELL
            given, content = {"command": item.command, "cwd": item.cwd}, text_of(item.aggregated_output)
        case "FileChange":
            name, tool = "apply_patch", Tool.EDIT
            path = next(iter(item.changes), None) if isinstance(item.changes, dict) else None
            given, content = {"changes": item.changes}, text_of(item.stdout) or text_of(item.stderr)
        case "McpToolCall":
            name = f"mcp__{text_of(item.server)}__{text_of(item.tool)}"
            given = arguments_of(item.arguments)
            content = plain_text(item.result.get("content") if isinstance(item.result, dict) else item.error)
        case _:
            return []
    call_id = text_of(item.id)
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
