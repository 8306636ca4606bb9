"""Words in the user's place: a person's prompt, or something that the client put there."""

from __future__ import annotations

from typing import Any

from backstory.agents.gemini.records import Message, is_result, plain_text
from backstory.lazy import lazy_regex
from backstory.model import Compacted, Event, Hook

_CONTEXT = "<session_context>"
_OLD_CONTEXT = "This is the Gemini CLI. We are setting up the context for our chat."
_SNAPSHOT = "<state_snapshot>"
_OF_THE_CLIENT = ("System: Potential loop detected", "System: Please continue")
_REFERENCED = "\n--- Content from referenced files ---"
_FOLDER = lazy_regex(
    r"\n- \*\*Workspace Directories:\*\*\n +- ([^\n]+)|\nI'm currently working in the directory: ([^\n]+)"
)


def is_context(text: str) -> bool:
    """Return True for the description of the environment with which a client begins."""
    return text.startswith((_CONTEXT, _OLD_CONTEXT))


def folder_in(text: str) -> str | None:
    """Return the first folder of the workspace that such a description names."""
    found = _FOLDER.search(text)
    return (found.group(1) or found.group(2)).strip() if found else None


def typed(message: Message) -> str:
    """Return a prompt as it was typed, without the files that the client put behind it."""
    if message.shown is not None and (text := plain_text(message.shown)):
        return text
    return plain_text(_before_files(message.content))


def untyped(text: str, content: Any) -> list[Event] | None:
    """Return the events of what nobody typed; None if somebody did."""
    if is_result(content):
        return []
    if text.startswith(_SNAPSHOT):
        return [Compacted(summary=text)]
    if text.startswith(_OF_THE_CLIENT):
        return [Hook(name="client", output=text)]
    return None if text.strip() else []


def _before_files(content: Any) -> Any:
    if isinstance(content, list):
        for at, part in enumerate(content):
            text = part.get("text") if isinstance(part, dict) else part
            if at and isinstance(text, str) and text.startswith(_REFERENCED):
                return content[:at]
    return content
