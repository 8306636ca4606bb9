"""Calls of tools: their kinds, the file each is about, and what came back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory.lazy import lazy_regex
from backstory.model import Tool, encoded

if TYPE_CHECKING:
    from backstory.agents.gemini.records import Call

TOOLS = {
    "read_file": Tool.READ, "read_many_files": Tool.READ, "replace": Tool.EDIT, "edit": Tool.EDIT,
    "write_file": Tool.WRITE, "run_shell_command": Tool.SHELL, "search_file_content": Tool.GREP,
    "grep_search": Tool.GREP, "glob": Tool.GLOB, "invoke_agent": Tool.TASK, "web_fetch": Tool.FETCH,
    "google_web_search": Tool.SEARCH,
}  # fmt: skip
_PATHS = ("file_path", "absolute_path", "path")
_FAILED = frozenset({"error", "cancelled"})
_TAIL_CHARS = 4_000
_EXIT_CODE = lazy_regex(
    r"(?:^|\n)Exit Code: (-?\d+)"
    r"(?:\n(?:Signal|Background PIDs|Process Group PGID): [^\n]*)*\s*(?:</untrusted_context>)?\s*$"
)
"""The end of a command's result: its exit code stands there unless it is 0, whatever the call's status says."""
_FRAME_BEGIN = "<untrusted_context>\n"
_FRAME_END = lazy_regex(r"(?:\nProcess Group PGID: \d+)?(?:\n</untrusted_context>)?\s*$")
"""The end of the frame around what a command says."""


def tool_of(call: Call) -> Tool:
    # Subagents may be tools with names of their own.
    return Tool.TASK if call.agent_id else TOOLS.get(call.name, Tool.OTHER)


def path_in(given: dict[str, Any]) -> str | None:
    return next((value for name in _PATHS if isinstance(value := given.get(name), str)), None)


def result_text(call: Call) -> str:
    """The words that a call returned: as the model was given them, else as they were shown."""
    texts = [text for part in _parts(call.result) if (text := _part_text(part))]
    return "\n".join(texts) or (call.display if isinstance(call.display, str) else "")


def unframed(content: str) -> str:
    """Return the result of a command without the frame that the client puts around it."""
    tail = content[-_TAIL_CHARS:]
    found = _FRAME_END.search(tail)
    if found is None or not found[0].strip():
        return content
    said = content[: len(content) - len(tail) + found.start()]
    return said.replace(_FRAME_BEGIN, "", 1) if "</" in found[0] else said


def has_failed(call: Call, tool: str, content: str) -> bool:
    if call.status in _FAILED:
        return True
    found = _EXIT_CODE.search(content[-_TAIL_CHARS:]) if tool == Tool.SHELL else None
    return found is not None and int(found.group(1)) != 0


def _parts(result: Any) -> list[Any]:
    return result if isinstance(result, list) else [] if result is None else [result]


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    if isinstance(part.get("text"), str):
        return str(part["text"])
    if "inlineData" in part or "fileData" in part:
        return "[image]"
    response = part.get("functionResponse")
    given = response.get("response") if isinstance(response, dict) else None
    if not isinstance(given, dict):
        return ""
    for name in ("output", "error"):
        if isinstance(given.get(name), str):
            return str(given[name])
    return encoded(given).decode() if given else ""
