"""The calls of this agent as actions, whatever a tool is called, and actions as its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory.agents.codex.tools import inner_command
from backstory.conversation.carried import Action, ReplaceText, RunCommand, WriteFile

if TYPE_CHECKING:
    from backstory.model import ToolCall

SHELL, PATCH = "exec_command", "apply_patch"
BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, UPDATE = "*** Add File: ", "*** Update File: "


def action_of(call: ToolCall) -> Action | None:
    """See ``contract.WritePart``. A patch is one action if it changes one place of one file."""
    match call.tool_name, call.input:
        case "exec_command", {"cmd": str(command)}:
            return RunCommand(command=command, folder=_text(call.input.get("workdir")))
        case "exec_command" | "shell" | "shell_command" | "local_shell" | "container.exec", {"command": command}:
            where = _text(call.input.get("workdir")) or _text(call.input.get("working_directory"))
            return _command(command, where)
        case "apply_patch", {"patch": str(patch)}:
            return _patched(patch)
    return None


def call_for(action: Action, folder: str) -> tuple[str, Any] | None:
    """See ``contract.WritePart``. A patch has whole lines, each with its end: other texts cannot be written as one."""
    match action:
        case RunCommand(command=command, folder=where):
            return SHELL, {"cmd": command, **({"workdir": where} if where and where != folder else {})}
        case WriteFile(path=path, content=content) if content.endswith("\n") and "\r" not in content:
            added = [f"+{line}" for line in content[:-1].split("\n")]
            return PATCH, {"patch": "\n".join([BEGIN, f"{ADD}{path}", *added, END])}
    return None


def own_call(call: ToolCall) -> tuple[str, Any] | None:
    """See ``contract.WritePart``. A run's stream names calls in its own way, and some calls have no result in a log."""
    name, given = call.tool_name, call.input
    match name, given:
        case "exec_command", {"cmd": str()}:
            return name, given
        case "exec_command" | "shell" | "local_shell", {"command": str()}:
            action = action_of(call)
            return None if action is None else call_for(action, "")
        case "apply_patch", {"patch": str()}:
            return name, given
        case "apply_patch" | "local_shell" | "web_search" | "image_generation" | "tool_search", _:
            return None
    # What the stream calls SERVER.TOOL, and a script's input, is no function of this name.
    return (name, given) if name and "." not in name and isinstance(given, dict) and set(given) != {"input"} else None


def _command(command: object, folder: str | None) -> RunCommand | None:
    match command:
        case str():
            return RunCommand(command=command, folder=folder)
        case ["bash" | "sh" | "zsh" | "/bin/bash" | "/bin/sh" | "/bin/zsh", "-c" | "-lc", str(inner)]:
            return RunCommand(command=inner, folder=folder)
        case list() if command and all(isinstance(word, str) for word in command):
            import shlex  # few logs name a command by its words

            return RunCommand(command=inner_command(shlex.join(command)), folder=folder)
    return None


def _patched(patch: str) -> Action | None:
    lines = patch.strip().split("\n")
    if len(lines) < 3 or lines[0] != BEGIN or lines[-1] != END:
        return None
    head, body = lines[1], lines[2:-1]
    if head.startswith(ADD) and all(line.startswith("+") for line in body):
        return WriteFile(path=head.removeprefix(ADD), content="".join(f"{line[1:]}\n" for line in body))
    if head.startswith(UPDATE) and body and body[0].startswith("@@"):
        return _replaced(head.removeprefix(UPDATE), body[1:])
    return None


def _replaced(path: str, body: list[str]) -> ReplaceText | None:
    if not body or any(line[:1] not in (" ", "-", "+") for line in body):
        return None
    old = "".join(f"{line[1:]}\n" for line in body if line[0] in " -")
    new = "".join(f"{line[1:]}\n" for line in body if line[0] in " +")
    return ReplaceText(path=path, old=old, new=new) if old else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
