"""Calls that Codex's sandbox or approval policy refused.

Its stream shows only those that somebody declined. The others are lines of its stderr, which name no call: what they
say shows whether it was a patch or a command. A command that the sandbox let begin fails like any other.
"""

from __future__ import annotations

from backstory.lazy_regex import lazy_regex
from backstory.model import Tool, ToolCall

DECLINED = "declined"
_PATCH = lazy_regex(r"patch rejected: ")
_COMMAND = lazy_regex(r'reject command\b|Rejected\(\\?"`(?P<command>.*)` rejected: ')


def refused_on_stderr(message: str) -> ToolCall | None:
    """The call whose refusal an error on stderr is about; None for any other error.

    >>> refused_on_stderr("patch rejected: writing is blocked by read-only sandbox").tool_name
    'apply_patch'
    """
    if _PATCH.search(message):
        return ToolCall(tool_name="apply_patch", tool=Tool.EDIT)
    if found := _COMMAND.search(message):
        command = found.group("command")
        return ToolCall(tool_name="shell", tool=Tool.SHELL, input={"command": command} if command else {})
    return None
