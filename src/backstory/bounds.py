"""Which numbers and times can be kept: counts of 64 bits, amounts that are numbers, times from 1970 to 9999.

What an agent tells may be anything. What cannot be kept is nothing, never a wrong number and never an error.
"""

from __future__ import annotations

import math

INTEGER_MAX = 2**63 - 1
"""The largest integer of a column."""
OVER = INTEGER_MAX + 1
"""What a sum stays at that has grown too large: it can be handed on, and is not kept."""
TIME_MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, UTC."""
OUT_OF_RANGE = "out of range: "
"""Under this and its name what an agent told and cannot be kept is counted."""
_DIGITS_MAX = 19


def count(told: object) -> int | None:
    """A number of tokens, milliseconds, tries, …; None where it is none that can be kept.

    >>> count(12), count(12.9), count("12"), count(2**63), count(-1), count(float("inf")), count("many")
    (12, 12, 12, None, None, None, None)
    """
    if isinstance(told, str) and told.isascii() and told.isdigit() and len(told) <= _DIGITS_MAX:
        told = int(told)
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told <= INTEGER_MAX:
        return None
    number = int(told)
    # As a float the largest integer is one more than it is.
    return number if number <= INTEGER_MAX else None


def amount(told: object) -> float | None:
    """A cost; None where it is none that can be kept."""
    if isinstance(told, bool) or not isinstance(told, int | float):
        return None
    return float(told) if 0 <= told <= INTEGER_MAX and math.isfinite(told) else None


def added(*counts: int | None) -> int:
    """A sum of counts, of which those that were not told are 0; it grows no further than ``OVER``."""
    return min(sum(each or 0 for each in counts), OVER)


def time_ms(ms: int | None) -> int | None:
    """A time in ms since 1970; None where it is before that, or after the year 9999."""
    return ms if ms is not None and 0 <= ms <= TIME_MAX_MS else None
