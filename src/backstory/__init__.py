"""backstory: one store for every coding-agent session.

The Python API; docs/api.md has an example of each name, and of how they fit together.

>>> from backstory import AssistantText, UserMessage, build_context, build_context_prompt, open_store
>>> with open_store("sessions.bks") as store:
...     session = store.create_session("Fix the build")
...     _ = store.append_events(session, [UserMessage(content="Why?"), AssistantText(text="A missing comma.")])
...     store.mark_completed(session, duration_ms=1200, cost_usd=0.01)
...     context = build_context(store.context_turns(session, 400_000), budget_chars=400_000)
>>> print(build_context_prompt(context.text, "Fix it."))
<backstory-session-context>
## User
Why?
<BLANKLINE>
## Assistant
A missing comma.
</backstory-session-context>
<BLANKLINE>
Fix it.
"""

from __future__ import annotations

TYPE_CHECKING = False
"""As ``typing`` has it, which `backstory --version` need not import."""

if TYPE_CHECKING:
    from typing import Any

    from backstory.ask.readonly import Answer
    from backstory.conversation.compact import compact_event
    from backstory.conversation.context import (
        Context,
        build_context,
        build_context_prompt,
        strip_context,
    )
    from backstory.conversation.tree import get_ancestry, get_leaf_messages, get_leaves
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
        Outcome,
        Plan,
        Retry,
        Thinking,
        Tokens,
        Tool,
        ToolCall,
        ToolResult,
        Turn,
        TurnWithEvents,
        Unknown,
        UserMessage,
    )
    from backstory.store import Filter, Session, Store, StoredEvent, cleanup_orphans, open_store
    from backstory.workspace.opening import open_workspace

__version__ = "0.1.0"
"""A constant: reading package metadata at start-up would cost 50 ms."""

_HOMES = {
    "backstory.conversation.compact": ("compact_event",),
    "backstory.conversation.context": ("Context", "build_context", "build_context_prompt", "strip_context"),
    "backstory.errors": ("BackstoryError",),
    "backstory.model": (
        "AssistantText", "Command", "Compacted", "Complete", "Error", "Event", "Hook", "Init", "ModelSwitch",
        "Outcome", "Plan", "Retry", "Thinking", "Tokens", "Tool", "ToolCall", "ToolResult", "Turn", "TurnWithEvents",
        "Unknown", "UserMessage",
    ),
    "backstory.store": ("Filter", "Session", "Store", "StoredEvent", "cleanup_orphans", "open_store"),
    "backstory.ask.readonly": ("Answer",),
    "backstory.conversation.tree": ("get_ancestry", "get_leaf_messages", "get_leaves"),
    "backstory.workspace.opening": ("open_workspace",),
}  # fmt: skip
_EARLIER = {"ToldTurn": "TurnWithEvents"}
"""Earlier names, which work and warn, and go away with version 1."""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Answer", "AssistantText", "BackstoryError", "Command", "Compacted", "Complete", "Context", "Error", "Event",
    "Filter", "Hook", "Init", "ModelSwitch", "Outcome", "Plan", "Retry", "Session", "Store", "StoredEvent", "Thinking",
    "Tokens", "Tool", "ToolCall", "ToolResult", "Turn", "TurnWithEvents", "Unknown", "UserMessage", "__version__",
    "build_context", "build_context_prompt", "cleanup_orphans", "compact_event", "get_ancestry", "get_leaf_messages",
    "get_leaves", "open_store", "open_workspace", "strip_context",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    # Names are fetched when asked for, so that `backstory --version` imports no database.
    import importlib

    if name in _EARLIER:
        import warnings

        warnings.warn(f"backstory.{name} is now backstory.{_EARLIER[name]}", DeprecationWarning, stacklevel=2)
        name = _EARLIER[name]
    if name not in _HOME_OF:
        raise AttributeError(f"module 'backstory' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
