"""How many of a long row of attempts a test makes: some in every run of the suite, all in ``make long``."""

from __future__ import annotations

import os

IS_LONG = bool(os.environ.get("BACKSTORY_LONG"))


def steps(most: int, *, every: int, first: int = 0) -> range:
    """The steps from 1 to ``most`` at which something is broken off: one of ``every`` so many, from ``first`` on.

    Tests of one kind begin at different steps, so that together they try more of them.
    """
    return range(1, most) if IS_LONG else range(1 + first % every, most, every)


def examples(most: int) -> int:
    """The number of examples of a property: in ``make long`` and ``make fuzz`` this many, else a third of it."""
    return most if IS_LONG else -(-most // 3)
