"""The command that continues a session in its agent's own client, as lists and searches give it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.errors import BackstoryError
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Sequence

_ID = lazy_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def is_safe_id(native_id: str) -> bool:
    """Return True if an agent's own id is safe in a command and in a path: a log may hold anything."""
    return _ID.fullmatch(native_id) is not None


def is_resumable(agents_of: Sequence[str], native_id: str | None, number: str | None) -> bool:
    """Return True if a session is one that an agent's own client continues; no agent is imported to know it.

    False for sessions of our own runs, for subagents', and where the agent has no such client.
    """
    if number is not None or native_id is None or len(agents_of) != 1 or not is_safe_id(native_id):
        return False
    from backstory import agents  # lists that nobody reads as JSON look for no agent

    return agents.is_resumable(agents_of[0])


def resume_command(agents_of: Sequence[str], native_id: str | None, number: str | None) -> list[str] | None:
    """The agent's own command for a session that one agent's log holds, with its program by name.

    None where ``is_resumable`` says no.
    """
    if native_id is None or not is_resumable(agents_of, native_id, number):
        return None
    from backstory import agents

    try:
        part = agents.load(agents_of[0]).resume
    except BackstoryError:
        return None
    return None if part is None else part.command(part.executable, native_id)
