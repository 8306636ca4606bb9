"""The signs that stand before sessions and turns, and their colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.model import STOPPED_TO_COMPACT

if TYPE_CHECKING:
    from backstory.workspace.meter import Meter

METER = ((90, "red"), (60, "yellow"), (0, "green"))
"""From how many percent of its limit on a context has which colour."""
METER_LEAST = 10
"""A smaller share is not worth a word beside a run."""
RUNNING = "running"
"""In place of how its last turn ended, for a session that is running."""
OUTCOMES = {
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "cancelled": ("■", "magenta"),
    "crashed": ("!", "red"),
    RUNNING: ("●", "cyan"),
}
"""By how a turn ended; in no colour that a white background hides, as yellow is hidden."""


def origin_mark(elsewhere: str | None, *, is_conflict: bool) -> str:
    """Return the mark before a session that people elsewhere made, or that claims to be one of ours."""
    return "[conflict] " if is_conflict else "[from elsewhere] " if elsewhere is not None else ""


def outcome_mark(outcome: str | None, stop_reason: str | None = None) -> tuple[str, str]:
    """The sign of how a turn ended, and its colour; none while it is open, and none if it goes on after a summary."""
    return ("", "") if stop_reason == STOPPED_TO_COMPACT else OUTCOMES.get(outcome or "", ("", ""))


def meter_words(meter: Meter | None, least: int = 0) -> tuple[str, str]:
    """Return a context's fill, and its colour; two '' if it is unknown or below ``least`` percent."""
    if meter is None or meter.percent < least:
        return "", ""
    return f"{meter.percent} %", next(colour for floor, colour in METER if meter.percent >= floor)
