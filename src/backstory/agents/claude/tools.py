"""The tools, and what the user said in their results."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct, field

from backstory.agents.claude.records import plain_text
from backstory.lazy import lazy_regex
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

PLAN_TOOL = "ExitPlanMode"
REFUSED_BY_USER = "The user doesn't want to proceed"
_WORDS_OF_REFUSAL = lazy_regex(r"the user said:\n(?!The user wants to clarify these questions)(.+)", re.DOTALL)
_QUESTION_TOOL = "AskUserQuestion"
_ANSWERED_START = "User has answered your questions:"
_ANSWER_IN_TEXT = lazy_regex(r'"="([^"]*)"')


class _QuestionResult(Struct):
    """A result of the tool that asks the user."""

    answers: dict[str, Any] = field(default_factory=dict)


def tool_of(name: str) -> Tool:
    """Return the kind of a tool."""
    return TOOLS.get(name, Tool.OTHER)


def path_in(given: dict[str, Any]) -> str | None:
    """The file that a call is about, from what it was given."""
    path = given.get("file_path") or given.get("notebook_path") or given.get("path")
    return path if isinstance(path, str) else None


def refusal(result: ToolResult) -> str:
    """Return the user's words on refusing a call."""
    found = _WORDS_OF_REFUSAL.search(result.content)
    return found.group(1).strip() if found else ""


def answers(result: ToolResult, tool_use_result: bytes) -> list[str]:
    """Return the user's answers to the agent's questions."""
    if result.tool_name != _QUESTION_TOOL and not result.content.startswith(_ANSWERED_START):
        return []
    try:
        given = msgspec.json.decode(tool_use_result, type=_QuestionResult).answers
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        given = {}
    if given:
        return [plain_text(each) for each in given.values()]
    return _ANSWER_IN_TEXT.findall(result.content) if result.content.startswith(_ANSWERED_START) else []
