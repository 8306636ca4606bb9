"""Signs before sessions and turns, and times in a person's zone: ``12 s ago``, ``5 min``, ``15:32``, ``1 Feb``."""

from __future__ import annotations

from datetime import date, datetime
from functools import lru_cache

from backstory import bounds
from backstory.bounds import NO_TIME, UNKNOWN
from backstory.model import STOPPED_TO_COMPACT

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
DAYS_NAMED = 7
"""The number of days with a heading of their own; the days before share one for each month."""
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LONG_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def when(ms: int | None, now: int) -> str:
    """Format a time for a person: seconds or minutes within the last hour, else the time of day or the day.

    ``12 s ago``, ``5 min``; ``15:32`` today; ``yesterday``; ``1 Feb`` this year; ``1 Feb 2024``; ``–`` if unknown.
    A time in the future is a time of day or a day.
    """
    there = _local(ms)
    if ms is None or there is None:
        return UNKNOWN if ms is None else NO_TIME
    if fresh := _fresh(ms, now):
        return fresh
    days = _days_ago(there.date(), now)
    return f"{there:%H:%M}" if days == 0 else "yesterday" if days == 1 else _date(there.date(), now)


def when_below_heading(ms: int | None, now: int) -> str:
    """Format a time below a heading of ``heading_of``, which names the day already, or the month."""
    there = _local(ms)
    if ms is None or there is None:
        return UNKNOWN if ms is None else NO_TIME
    named_day = 0 <= _days_ago(there.date(), now) < DAYS_NAMED
    return _fresh(ms, now) or (f"{there:%H:%M}" if named_day else f"{there.day} {MONTHS[there.month - 1]}")


def heading_of(ms: int | None, now: int) -> str:
    """Return the heading a time belongs below: ``today``, ``yesterday``, ``Wednesday 18 November``, ``October 2026``.

    Only the last ``DAYS_NAMED`` days have headings of their own. A time in the future belongs to its month.
    """
    there = _local(ms)
    if there is None:
        return "at an unknown time"
    days = _days_ago(there.date(), now)
    if 0 <= days < DAYS_NAMED:
        named = f"{WEEKDAYS[there.weekday()]} {there.day} {LONG_MONTHS[there.month - 1]}"
        return ("today", "yesterday")[days] if days < 2 else named
    return f"{LONG_MONTHS[there.month - 1]} {there.year}"


def stretch(start: int, end: int, now: int) -> str:
    """Format a time from its start to its end: ``19 Jan 02:12–02:39``, ``today 23:50``, ``1 Jan 2024 – 3 Feb 2024``."""
    first, last = _local(start), _local(end)
    if first is None or last is None:
        return NO_TIME
    day = _day(first.date(), now)
    if first.date() != last.date():
        return f"{day} {first:%H:%M} – {_day(last.date(), now)} {last:%H:%M}"
    until = "" if f"{first:%H:%M}" == f"{last:%H:%M}" else f"–{last:%H:%M}"
    return f"{day} {first:%H:%M}{until}"


def moment(ms: int | None, before: int | None, now: int) -> str:
    """Format a time behind another one: ``02:12``, or ``19 Jan 02:12`` where that was on another day."""
    there, other = _local(ms), _local(before)
    if ms is None or there is None:
        return "" if ms is None else NO_TIME
    is_same_day = other is not None and there.date() == other.date()
    return f"{there:%H:%M}" if is_same_day else stretch(ms, ms, now)


def _day(day: date, now: int) -> str:
    days = _days_ago(day, now)
    return ("today", "yesterday")[days] if days in (0, 1) else _date(day, now)


def _fresh(ms: int, now: int) -> str:
    """Seconds or minutes ago, of the last hour; else nothing."""
    ago = now - ms
    if not 0 <= ago < HOUR_MS:
        return ""
    return f"{ago // 1000} s ago" if ago < MINUTE_MS else f"{ago // MINUTE_MS} min"


def _date(day: date, now: int) -> str:
    today = _local(now)
    year = "" if today is not None and day.year == today.year else f" {day.year}"
    return f"{day.day} {MONTHS[day.month - 1]}{year}"


def _days_ago(day: date, now: int) -> int:
    today = _local(now)
    return (today.date() - day).days if today is not None else -1


@lru_cache(maxsize=4)
def _local(ms: int | None) -> datetime | None:
    """A time in the person's zone; None outside 1970 to 9999."""
    moment = bounds.moment(ms)
    try:
        return None if moment is None else moment.astimezone()
    except (OverflowError, ValueError, OSError):
        # In their own zone the year is out of range.
        return moment


# signs before sessions and turns --------------------------------------------------------------------------------------


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


def outcome_mark(outcome: str | None, stop_reason: str | None = None) -> tuple[str, str]:
    """The sign of how a turn ended, and its colour; none while it is open, and none if it goes on after a summary."""
    return ("", "") if stop_reason == STOPPED_TO_COMPACT else OUTCOMES.get(outcome or "", ("", ""))
