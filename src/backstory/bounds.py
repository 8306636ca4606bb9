"""Numbers and times: which can be kept, and as people read them, the same on every face.

Counts have 64 bits, amounts are numbers, times are from 1970 to 9999.

An agent may write any value. One that cannot be kept is None, never a wrong number and never an error.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from backstory.lazy import lazy_regex

INTEGER_MAX = 2**63 - 1
"""The largest integer of a column."""
OVER = INTEGER_MAX + 1
"""The value of a sum that has grown too large: it can be handed on, and is not kept."""
LOST = 2**64 - 1
"""A count that is there and could not be kept, until it leaves a reader as None: a sum with such a part is, too."""
NUMBER_MAX = 2**53
"""The greatest number of a record, and the greatest offset: what every JSON parser reads as it stands."""
LINE_BYTES_MAX = 32 * 1024 * 1024
"""No line of a JSON export is longer, its end included, and no text of another store: reading one takes memory."""
TIME_MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, UTC."""
OUT_OF_RANGE = "out of range: "
"""A value of an agent that cannot be kept is counted under this and its name."""
_DIGITS_MAX = 19
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def count(value: object) -> int | None:
    """A number of tokens, milliseconds, tries, …; None where it is none that can be kept.

    >>> count(12), count(12.9), count("12"), count(2**63), count(-1), count(float("inf")), count("many")
    (12, 12, 12, None, None, None, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= INTEGER_MAX:
        return None
    number = int(value)
    # As a float the largest integer is one more than it is.
    return number if number <= INTEGER_MAX else None


def amount(value: object) -> float | None:
    """A cost; None where it is none that can be kept."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= INTEGER_MAX and math.isfinite(value) else None


def added(*counts: int | None) -> int:
    """A sum of counts, of which missing ones are 0; it grows no further than ``OVER``, and is ``LOST`` by one part.

    >>> added(1, None, 2), added(1, LOST), added(INTEGER_MAX, 5) == OVER
    (3, 18446744073709551615, True)
    """
    total = 0
    for each in counts:
        total += each or 0
    if -INTEGER_MAX <= total <= INTEGER_MAX and LOST not in counts:
        return total
    return LOST if LOST in counts else OVER


def less(count: int, part: int) -> int:
    """A count without a part of it, not below zero; ``LOST`` where one of both is.

    >>> less(3, 2), less(3, 5), less(3, LOST) == LOST
    (1, 0, True)
    """
    return LOST if LOST in (count, part) else max(count - part, 0)


def time_ms(ms: int | None) -> int | None:
    """A time in ms since 1970; None where it is before that, or after the year 9999."""
    return ms if ms is not None and 0 <= ms <= TIME_MAX_MS else None


def moment(ms: int | None) -> datetime | None:
    """A time in UTC; None for one that no calendar of ours has. A store of an earlier version may hold any."""
    at = time_ms(ms)
    return None if at is None else _EPOCH + timedelta(milliseconds=at)


def iso(ms: int | None) -> str | None:
    """A time as JSON has it: ISO 8601, UTC, with milliseconds and Z.

    >>> iso(1_790_000_000_123), iso(None)
    ('2026-09-21T14:13:20.123Z', None)
    """
    at = moment(ms)
    return None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# as people read them --------------------------------------------------------------------------------------------------


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


_SIZE = lazy_regex(r"(?i)(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?)b?|b)?")


def size(count: int) -> str:
    """Format a number of bytes."""
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} KB" if count >= 1000 else f"{count} B"


def bytes_of(text: str) -> int | None:
    """The number of bytes that a person writes: 500MB, 1.5 GB, 800 KiB, 4096; None for anything else.

    >>> [bytes_of(each) for each in ("500MB", "1.5 g", "2KiB", "4096", "much", "-1")]
    [500000000, 1500000000, 2048, 4096, None, None]
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    number, unit, is_binary = found.groups()
    size = float(number) * (1024 if is_binary else 1000) ** " kmgt".index((unit or " ").lower())
    return int(size) if size <= INTEGER_MAX else None


def local(ms: int | None) -> str:
    """Format a time in the zone of the person."""
    at = moment(ms)
    if at is None:
        return "" if ms is None else NO_TIME
    try:
        return at.astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        # In their own zone the year is out of range.
        return at.strftime("%Y-%m-%d %H:%M")
