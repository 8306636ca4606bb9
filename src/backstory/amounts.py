"""Amounts as people read them, the same on every face: counts, dollars, sizes, durations, times of day."""

from __future__ import annotations

import math

from backstory import bounds

UNKNOWN = "–"
"""Shown for an unknown value, which is not 0."""
NO_TIME = "no time"
"""Shown for a time outside 1970 to 9999."""
_STEPS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def counted(count: int, one: str, many: str | None = None) -> str:
    """``1 session``, ``2 sessions``, ``12,345 sessions``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def short(count: int) -> str:
    """Format a count in two or three digits, where there is no room for all of them.

    >>> [short(each) for each in (0, 999, 1000, 9_949, 12_345, 999_600, 1_900_000)]
    ['0', '999', '1 k', '9.9 k', '12 k', '1 M', '1.9 M']
    """
    for size, unit in _STEPS:
        # 999,600 is a million rather than 1,000 thousands.
        if count >= size * 0.9995:
            scaled = count / size
            return f"{scaled:.1f}".removesuffix(".0") + f" {unit}" if scaled < 9.95 else f"{scaled:.0f} {unit}"
    return str(count)


def duration(ms: int | None) -> str:
    """Format a duration: ``12.3 s``, ``4 min``, ``2.5 h``.

    An unanswered prompt ends when it begins, which is not a duration: the result is empty.
    """
    if not ms or not math.isfinite(ms):
        return ""
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms / 60_000:.0f} min" if ms < 5_400_000 else f"{ms / 3_600_000:.1f} h"


def size(count: int) -> str:
    """Format a number of bytes."""
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} KB" if count >= 1000 else f"{count} B"


def local(ms: int | None) -> str:
    """Format a time in the zone of the person."""
    moment = bounds.moment(ms)
    if moment is None:
        return "" if ms is None else NO_TIME
    try:
        return moment.astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        # In their own zone the year is out of range.
        return moment.strftime("%Y-%m-%d %H:%M")
