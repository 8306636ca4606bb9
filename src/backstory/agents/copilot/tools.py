"""Calls of tools: what they were given, and what came back."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from backstory.agents.copilot.values import as_number, as_text, message_text, plain_text
from backstory.lazy import lazy_regex
from backstory.model import Tool

TOOLS = {
    "view": Tool.READ,
    "show_file": Tool.READ,
    "edit": Tool.EDIT,
    "multi_edit": Tool.EDIT,
    "str_replace": Tool.EDIT,
    "str_replace_editor": Tool.EDIT,
    "insert": Tool.EDIT,
    "apply_patch": Tool.EDIT,
    "create": Tool.WRITE,
    "bash": Tool.SHELL,
    "powershell": Tool.SHELL,
    "shell": Tool.SHELL,
    "local_shell": Tool.SHELL,
    "read_bash": Tool.SHELL,
    "write_bash": Tool.SHELL,
    "stop_bash": Tool.SHELL,
    "read_powershell": Tool.SHELL,
    "write_powershell": Tool.SHELL,
    "stop_powershell": Tool.SHELL,
    "grep": Tool.GREP,
    "rg": Tool.GREP,
    "glob": Tool.GLOB,
    "task": Tool.TASK,
    "web_fetch": Tool.FETCH,
    "fetch": Tool.FETCH,
    "web_search": Tool.SEARCH,
}
EDITOR_COMMANDS = {"view": Tool.READ, "create": Tool.WRITE}
"""The acts of ``str_replace_editor`` besides editing."""
_PATH_MAX = 1_000
_PATCHED = lazy_regex(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_EXIT_CODE = lazy_regex(r"<(?:shellId: \S+ completed|exited) with exit code (-?\d+)>\s*$")
_any_decoder = msgspec.json.Decoder()


def arguments_in(arguments: Any) -> dict[str, Any]:
    """A call's input by name; a patch, which is a text alone, as ``input``."""
    if isinstance(arguments, dict):
        return arguments
    text = as_text(arguments)
    try:
        given = _any_decoder.decode(text) if text.lstrip().startswith("{") else None
    except (msgspec.DecodeError, RecursionError):
        given = None
    if isinstance(given, dict):
        return given
    return {} if arguments is None else {"input": text or arguments}


def path_in(given: dict[str, Any]) -> str | None:
    for name in ("path", "file_path"):
        if isinstance(given.get(name), str):
            return str(given[name])
    found = _PATCHED.search(as_text(given.get("input")) or as_text(given.get("patch")))
    return found.group(1).strip()[:_PATH_MAX] if found else None


def edited_path(edits: Any) -> str | None:
    """The first file that a tool says it changed."""
    first = edits[0] if isinstance(edits, list) and edits else None
    return (as_text(first.get("path")) or None) if isinstance(first, dict) else None


def result_text(data: dict[str, Any]) -> str:
    result, error = data.get("result"), data.get("error")
    if not isinstance(result, dict):
        return plain_text(result) or message_text(error)
    text = plain_text(result.get("content")) or plain_text(result.get("detailedContent")) or message_text(error)
    return text or ("[image]" if result.get("binaryResultsForLlm") else "")


def exit_code_of(data: dict[str, Any], tool: str, content: str) -> int:
    """A command's exit code, 0 for other tools: newer builds record it, older ones write it under the output."""
    shell = data.get("shellExecution")
    if isinstance(shell, dict) and (code := as_number(shell.get("exitCode"))) is not None:
        return code
    found = _EXIT_CODE.search(content[-200:]) if tool == Tool.SHELL else None
    return int(found.group(1)) if found else 0
