"""Calls of tools: their kinds, the file each is about, and what came back."""

from __future__ import annotations

from typing import Any

import msgspec

from backstory.model import Tool, encoded

TOOLS = {
    "read_files": Tool.READ, "read_file": Tool.READ, "editor": Tool.EDIT, "apply_patch": Tool.EDIT,
    "replace_in_file": Tool.EDIT, "write_to_file": Tool.WRITE, "run_commands": Tool.SHELL,
    "execute_command": Tool.SHELL, "search_codebase": Tool.GREP, "search_files": Tool.GREP, "list_files": Tool.GLOB,
    "spawn_agent": Tool.TASK, "fetch_web_content": Tool.FETCH, "web_fetch": Tool.FETCH, "web_search": Tool.SEARCH,
}  # fmt: skip
_FAILED = ("aborted", "error", "failed")


def tool_of(name: str) -> Tool:
    return TOOLS.get(name, Tool.OTHER)


def path_in(given: dict[str, Any]) -> str | None:
    """The file that a call is about: of several that are read the first one."""
    files = given.get("files")
    first = files[0] if isinstance(files, list) and files else given
    found = first.get("path") if isinstance(first, dict) else first
    return found if isinstance(found, str) and found else None


def result_of(content: Any) -> tuple[str, bool]:
    """The words of a result, and whether any part of it says that it failed: a list, or JSON in a text."""
    if isinstance(content, str):
        found = _json_in(content)
        if not isinstance(found, dict | list):
            return content, False
        content = found
    parts = [_part(each) for each in (content if isinstance(content, list) else [content])]
    return "\n".join(words for words, _ in parts if words), any(failed for _, failed in parts)


def _part(part: Any) -> tuple[str, bool]:
    if not isinstance(part, dict):
        return (part if isinstance(part, str) else "" if part is None else encoded(part).decode()), False
    if part.get("type") == "image":
        return "[image]", False
    # A subagent's last words have a name of their own.
    said = next((part[key] for key in ("result", "text") if key in part), None)
    words = said if isinstance(said, str) else "" if said is None else result_of(said)[0]
    error = part.get("error")
    if isinstance(error, str) and error not in words:
        words = f"{words}\n{error}".strip("\n")
    if not words and not {"result", "text", "success"} & part.keys():
        words = encoded(part).decode()
    return words, part.get("success") is False or part.get("finishReason") in _FAILED


def _json_in(text: str) -> Any:
    if not text.startswith(("{", "[")):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
