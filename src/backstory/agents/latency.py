"""The time of the model in a turn, for an agent that writes only a running total when its process ends."""

from __future__ import annotations

from msgspec import Struct, field


class Total(Struct):
    """A running total as last written, and how many turns had begun by then."""

    total_ms: int | None = field(default=None, name="told_ms")
    turns: int = 0

    def grown_ms(self, total_ms: int | None, turns: int, *, is_anew: bool = False) -> int | None:
        """Return the turn's part of a new total since it began; None if that is not one turn, or unknown.

        ``is_anew``: the total was counted from zero. A total that has not grown is no measurement: agents do not
        count requests that failed or were cut off.
        """
        before_ms, is_one = self.total_ms, turns - self.turns == 1
        if is_anew or (before_ms is None and turns == 1):
            before_ms = 0
        self.total_ms, self.turns = total_ms, turns
        if total_ms is None or before_ms is None or not is_one or total_ms <= before_ms:
            return None
        return total_ms - before_ms
