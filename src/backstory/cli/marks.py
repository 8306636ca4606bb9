"""The signs that stand before sessions and turns, and their colours."""

from __future__ import annotations

RUNNING = "running"
"""In place of how its last turn ended, for a session that is running."""
OUTCOMES = {
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "cancelled": ("■", "yellow"),
    "crashed": ("!", "red"),
    RUNNING: ("●", "cyan"),
}
"""By how a turn ended."""


def origin_mark(elsewhere: str | None, *, is_conflict: bool) -> str:
    """What stands before a session that people elsewhere made, or that claims to be one of ours."""
    return "[conflict] " if is_conflict else "[from elsewhere] " if elsewhere is not None else ""
