"""Limits of how often may be asked: a bucket for each token and each address, which fills again with time."""

from __future__ import annotations

import time
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

from backstory.server.refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

BURST, A_SECOND = 240, 20.0
KEPT = 10_000
"""The most buckets; the one that was used longest ago goes first, and is then full again."""


class Limits:
    """Counts requests: ``burst`` may come at once, and ``a_second`` from then on. Many threads use it."""

    def __init__(
        self, burst: int = BURST, a_second: float = A_SECOND, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst, self._a_second, self._clock = burst, a_second, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def count(self, who: str, much: int = 1) -> None:
        """Count a request, or with 0 only look. Raises Refused for someone who has asked too often."""
        now = self._clock()
        with self._lock:
            left, at = self._left.pop(who, (float(self._burst), now))
            left = min(self._burst, left + (now - at) * self._a_second)
            self._left[who] = (left - much if left >= 1 else left, now)
            if len(self._left) > KEPT:
                self._left.popitem(last=False)
        if left < 1:
            raise Refused(429, "too_often", "These are too many requests. Try again in a few seconds.")
