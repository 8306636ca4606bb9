"""Effects, which are Vibe's calls of tools: their kinds, the file each is about, and what came back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory.agents.vibe.records import words_of
from backstory.model import Tool, encoded

if TYPE_CHECKING:
    from backstory.agents.vibe.records import EffectState

TOOLS = {
    "read_file": Tool.READ, "read": Tool.READ, "search_replace": Tool.EDIT, "edit": Tool.EDIT,
    "write_file": Tool.WRITE, "write": Tool.WRITE, "bash": Tool.SHELL, "shell": Tool.SHELL, "grep": Tool.GREP,
    "glob": Tool.GLOB, "list_files": Tool.GLOB, "task": Tool.TASK, "spawn_agent": Tool.TASK, "web_fetch": Tool.FETCH,
    "web_search": Tool.SEARCH,
}  # fmt: skip
"""By the last word of a name, which begins with the tool's group."""
_PATHS = ("file_path", "path")
_TEXTS = ("stdout", "stderr", "content")
"""The words in what a tool returned; the rest are facts about them."""


def tool_of(name: str) -> Tool:
    return TOOLS.get(name.rpartition(".")[2], Tool.OTHER)


def path_in(given: dict[str, Any]) -> str | None:
    return next((value for name in _PATHS if isinstance(value := given.get(name), str)), None)


def result_text(state: EffectState) -> str:
    """The words that an effect returned."""
    output = state.output
    found = output.structured_content if output is not None else None
    if isinstance(found, dict):
        texts = [text for name in _TEXTS if isinstance(text := found.get(name), str) and text]
        if texts:
            return "\n".join(texts)
    words = words_of(output.content) if output is not None else ""
    for text in (words, state.output_text, _message_of(state.error)):
        if isinstance(text, str) and text:
            return text
    return encoded(found).decode() if found else ""


def facts_in(state: EffectState) -> str:
    """Other values that an effect returned, as JSON."""
    found = state.output.structured_content if state.output is not None else None
    if not isinstance(found, dict):
        return ""
    facts = {name: value for name, value in found.items() if name not in _TEXTS}
    return encoded(facts).decode() if facts else ""


def has_failed(state: EffectState) -> bool:
    """Return True if an effect failed: a command's own exit code says so, where its status does not."""
    if state.status != "completed" or (state.output is not None and state.output.type not in (None, "success")):
        return True
    found = state.output.structured_content if state.output is not None else None
    code = found.get("returncode") if isinstance(found, dict) else None
    return isinstance(code, int) and code != 0


def _message_of(error: Any) -> Any:
    return error.get("message") if isinstance(error, dict) else error
