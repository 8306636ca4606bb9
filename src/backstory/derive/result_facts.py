"""What a tool's result comes to in a few words, for the line of its call. Pure functions.

What a person would ask of a read is how much was read, of a command whether it went well and how long it took, of an
edit how many lines it changed. What is said so is not repeated below the call.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from backstory.derive.essence import changed_lines
from backstory.derive.notices import is_refusal
from backstory.lazy import lazy_regex
from backstory.model import Tool

if TYPE_CHECKING:
    from backstory.model import ToolCall, ToolResult

_EXIT = lazy_regex(r"(?:Exit code:?|Process exited with code) (-?\d{1,10})\b")
_EXIT_LINE = lazy_regex(r"^(?:Exit code:?|Process exited with code) -?\d{1,10}$", re.MULTILINE)
HEAD_CHARS = 400
"""Of a result so much is looked at for its exit code."""
_COUNTED = lazy_regex(r"\n {2}\((\d+) lines\)\n")
"""How many lines the compact form left out of what was read."""
_NUMBERED = lazy_regex(r" *(\d+)(?:→|\t|\. )")
"""How some agents number the lines of a file."""
_FILES = lazy_regex(r"\d+ files")


def call_facts(call: ToolCall) -> str:
    """What a call itself says: the lines that an edit adds and removes, or that a written file has.

    >>> from backstory.model import ToolCall
    >>> call_facts(ToolCall(tool_name="Edit", tool="EDIT", input={"old_string": "a", "new_string": "b\\nc"}))
    '+2 −1'
    """
    if call.tool == Tool.WRITE and (count := _lines_written(call.input)) is not None:
        return _counted(count)
    if call.tool not in (Tool.EDIT, Tool.WRITE, Tool.OTHER, Tool.SHELL, ""):
        return ""
    signs = [sign for sign, _ in changed_lines(call)]
    added, removed = signs.count("+"), signs.count("-")
    return " ".join(f"{sign}{count}" for sign, count in (("+", added), ("−", removed)) if count)


def result_facts(result: ToolResult) -> str:
    """What a result comes to: ``ok``, ``exit 1``, ``984 lines``, ``refused``; '' where its own lines say more."""
    if result.is_error:
        if is_refusal(result.content):
            return "refused"
        found = _EXIT.match(result.content)
        return f"exit {found.group(1)}" if found else "failed"
    if result.tool == Tool.SHELL:
        found = _EXIT.match(result.content)
        return f"exit {found.group(1)}" if found and found.group(1) != "0" else "ok"
    if result.tool == Tool.READ:
        return _lines_read(result.content)
    return result.content if result.tool == Tool.GLOB and _FILES.fullmatch(result.content) else ""


def is_said_by_facts(result: ToolResult) -> bool:
    """Return True if a result's own lines say nothing that its call and its facts do not say."""
    if result.is_error or result.changes:
        return result.is_error and is_refusal(result.content)
    if result.tool in (Tool.EDIT, Tool.WRITE):
        return True
    if result.tool == Tool.SHELL:
        return not result.content.strip()
    return result.tool in (Tool.READ, Tool.GLOB) and bool(result_facts(result))


def exit_line(content: str) -> str:
    """The line near the beginning of a result that says a command's exit code; '' where none does."""
    found = _EXIT_LINE.search(content, 0, HEAD_CHARS)
    return found.group() if found else ""


def result_body(result: ToolResult) -> str:
    """A result without the line that only says its exit code, which ``result_facts`` says."""
    first, newline, rest = result.content.partition("\n")
    return rest if newline and _EXIT.fullmatch(first.strip()) else result.content


def _lines_written(given: Any) -> int | None:
    if not isinstance(given, dict):
        return None
    count, content = given.get("_lines"), given.get("content")
    if isinstance(count, int):
        return count
    return len(_lines_of(content)) if isinstance(content, str) else None


def _lines_read(content: str) -> str:
    """How many lines of a file were read; which, if that was not its beginning."""
    lines = _lines_of(content)
    first = _NUMBERED.match(lines[0]) if lines else None
    last = _NUMBERED.match(lines[-1]) if lines else None
    if first and last and 1 < int(first.group(1)) <= int(last.group(1)):
        return f"lines {first.group(1)}–{last.group(1)}"
    if counted := _COUNTED.search(content):
        return _counted(int(counted.group(1)))
    return _counted(len(lines)) if first else ""


def _lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _counted(count: int) -> str:
    return f"{count:,} line{'s' * (count != 1)}"
