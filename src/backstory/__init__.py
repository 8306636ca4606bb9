"""backstory: one store for every coding-agent session.

The Python API, each name with an example:

>>> from backstory import UserMessage, ToolResult, compact_event, open_store
>>> compact_event(ToolResult(tool_name="Bash", content="one\\ntwo\\nthree")).content
'two\\nthree'

``open_store(path)`` gives a ``Store``; ``Store.create_session(name, worktree)`` begins one (and the file),
``Store.append_events(session, events)`` adds to it, ``Store.mark_completed(session, ...)`` says how it ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory._version import __version__

if TYPE_CHECKING:
    from backstory.compact_form import compact_event
    from backstory.errors import BackstoryError
    from backstory.model import (
        AssistantText,
        Command,
        Compacted,
        Complete,
        Error,
        Event,
        Hook,
        Init,
        ModelSwitch,
        Plan,
        Retry,
        Thinking,
        ToolCall,
        ToolResult,
        Turn,
        Unknown,
        UserMessage,
    )
    from backstory.store import Session, Store, open_store

_HOMES = {
    "backstory.compact_form": ("compact_event",),
    "backstory.errors": ("BackstoryError",),
    "backstory.model": (
        "AssistantText", "Command", "Compacted", "Complete", "Error", "Event", "Hook", "Init", "ModelSwitch", "Plan",
        "Retry", "Thinking", "ToolCall", "ToolResult", "Turn", "Unknown", "UserMessage",
    ),
    "backstory.store": ("Session", "Store", "open_store"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AssistantText", "BackstoryError", "Command", "Compacted", "Complete", "Error", "Event", "Hook", "Init",
    "ModelSwitch", "Plan", "Retry", "Session", "Store", "Thinking", "ToolCall", "ToolResult", "Turn", "Unknown",
    "UserMessage", "__version__", "compact_event", "open_store",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Names are fetched when asked for, so that `backstory --version` imports no database.
    import importlib

    if name not in _HOME_OF:
        raise AttributeError(f"module 'backstory' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
