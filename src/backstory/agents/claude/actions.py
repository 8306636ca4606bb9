"""The calls of this agent as actions, whatever a tool is called, and actions as its calls."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from backstory.conversation.carried import Action, ReplaceText, RunCommand, WriteFile

if TYPE_CHECKING:
    from backstory.model import ToolCall


def action_of(call: ToolCall) -> Action | None:
    """See ``contract.WritePart``. An ``Edit`` may begin and end inside lines, which no other tool says as well."""
    match call.tool_name, call.input:
        case "Bash", {"command": str(command)}:
            return RunCommand(command=command)
        case "Write", {"file_path": str(path), "content": str(content)}:
            return WriteFile(path=path, content=content)
    return None


def call_for(action: Action, folder: str) -> tuple[str, Any]:
    """See ``contract.WritePart``. Paths are absolute here, and every command begins in the session's folder."""
    match action:
        case RunCommand(command=command, folder=where):
            moved = where is not None and where != folder
            return "Bash", {"command": f"cd {shlex.quote(where or '')} && {command}" if moved else command}
        case ReplaceText(path=path, old=old, new=new):
            return "Edit", {"file_path": _absolute(path, folder), "old_string": old, "new_string": new}
        case WriteFile(path=path, content=content):
            return "Write", {"file_path": _absolute(path, folder), "content": content}


def _absolute(path: str, folder: str) -> str:
    return path if path.startswith("/") else f"{folder.rstrip('/')}/{path}"


def own_call(call: ToolCall) -> tuple[str, Any] | None:
    """See ``contract.WritePart``."""
    return (call.tool_name, call.input) if call.tool_name and isinstance(call.input, dict) else None
