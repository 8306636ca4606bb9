"""The tests' clock."""

from __future__ import annotations

NOW = 1_790_000_000_000
"""The tests' present: 2026-09-21, in ms since 1970."""


class Clock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.ms = NOW

    def __call__(self) -> int:
        return self.ms
