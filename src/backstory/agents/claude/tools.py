"""The tools, and what the user said in their results."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct, field

from backstory.agents.claude.records import plain_text
from backstory.model import Tool, ToolResult

TOOLS = {
    "Read": Tool.READ,
    "NotebookRead": Tool.READ,
    "Edit": Tool.EDIT,
    "MultiEdit": Tool.EDIT,
    "NotebookEdit": Tool.EDIT,
    "Write": Tool.WRITE,
    "Bash": Tool.SHELL,
    "BashOutput": Tool.SHELL,
    "Grep": Tool.GREP,
    "Glob": Tool.GLOB,
    "Task": Tool.TASK,
    "Agent": Tool.TASK,
    "WebFetch": Tool.FETCH,
    "WebSearch": Tool.SEARCH,
}

PLANNING = "ExitPlanMode"
USER_REFUSED = "The user doesn't want to proceed"
_REFUSED = re.compile(r"the user said:\n(?!The user wants to clarify these questions)(.+)", re.DOTALL)
_ASKING = "AskUserQuestion"
_ANSWERED = "User has answered your questions:"
_ANSWER = re.compile(r'"="([^"]*)"')


class _Answered(Struct):
    """A result of the tool that asks the user."""

    answers: dict[str, Any] = field(default_factory=dict)


def tool_of(name: str) -> Tool:
    """What kind of tool it is."""
    return TOOLS.get(name, Tool.OTHER)


def refusal(result: ToolResult) -> str:
    """What the user said when refusing a call."""
    found = _REFUSED.search(result.content)
    return found.group(1).strip() if found else ""


def answers(result: ToolResult, told: bytes) -> list[str]:
    """What the user answered to the agent's questions."""
    if result.tool_name != _ASKING and not result.content.startswith(_ANSWERED):
        return []
    try:
        given = msgspec.json.decode(told, type=_Answered).answers
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        given = {}
    if given:
        return [plain_text(each) for each in given.values()]
    return _ANSWER.findall(result.content) if result.content.startswith(_ANSWERED) else []
