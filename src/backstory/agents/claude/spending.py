"""Counts the cost of a turn: tokens message by message, money and the model's time also by running totals."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from backstory.agents import numbers
from backstory.agents.claude.records import Usage, add_record, is_whole
from backstory.model import PARTIAL

if TYPE_CHECKING:
    from backstory.agents.claude.records import Message, Record
    from backstory.agents.claude.state import State
    from backstory.model import Turn

_MESSAGES_OPEN_MAX = 16


class Spending:
    """Adds to the turn that goes on."""

    def __init__(self, state: State) -> None:
        self._state = state

    def note_answer(self, record: Record, message: Message) -> None:
        turn = self._state.turn
        if turn is None:
            return
        turn.model = message.model or turn.model
        turn.stop_reason = message.stop_reason or turn.stop_reason
        if record.cost_usd is not None:
            self._add_cost(turn, numbers.amount(record.cost_usd, "cost_usd"))
        if message.usage is not None:
            key = f"{message.id}/{record.request_id or ''}"
            self._note_usage(turn, key, message.usage)
            self._note_end_of_message(turn, key, message.stop_reason if is_whole(message.usage) else None)

    def _note_usage(self, turn: Turn, key: str, usage: Usage) -> None:
        # Each block of a message repeats its usage, growing: the largest counts, once.
        counted, turn.tokens = add_record(turn.tokens, self._state.usage.get(key), usage)
        self._state.usage[key] = counted
        if len(self._state.usage) > _MESSAGES_OPEN_MAX:
            self._state.usage.pop(next(iter(self._state.usage)))

    def _note_end_of_message(self, turn: Turn, key: str, stop_reason: str | None) -> None:
        """Note whether a message's count is final: a record without a reason to stop repeats that of its beginning.

        One that lacks input or output has none that is.
        """
        open_messages = self._state.unfinished
        if stop_reason is None and key not in self._state.finished:
            open_messages[key] = True
            if len(open_messages) > _MESSAGES_OPEN_MAX:
                # One of them is enough to know that the sum is a lower bound.
                open_messages.pop(next(islice(open_messages, 1, None)))
        elif stop_reason is not None:
            open_messages.pop(key, None)
            self._state.finished = [*self._state.finished, key][-_MESSAGES_OPEN_MAX:]
        turn.tokens_source = PARTIAL if open_messages else "reported"

    def note_total_cost(self, total: float | None) -> None:
        """The running total of a session. Its first value may hold a parent's cost, unless this is its first turn."""
        before, self._state.last_total_cost = self._state.last_total_cost, total
        turn = self._state.turn
        if turn is None:
            return
        if before is None:
            before = 0.0 if self._state.turns_seen == 1 else None
        if total is None or before is None:
            # What the turn cost before this total is not known, so that what follows is not its cost either.
            self._add_cost(turn, None)
        elif total >= before:
            self._add_cost(turn, total - before)

    def _add_cost(self, turn: Turn, cost_usd: float | None) -> None:
        """Add a part of what a turn cost; with one that is not known no sum of the others is its cost."""
        if cost_usd is None:
            self._state.turn_without_base = turn.uid
            turn.cost_usd = turn.cost_source = None
        elif self._state.turn_without_base != turn.uid:
            turn.cost_usd, turn.cost_source = (turn.cost_usd or 0.0) + cost_usd, "reported"

    def note_total_latency(self, total_ms: int | None) -> None:
        turn, lasted_ms = self._state.turn, self._state.latency.grown_ms(total_ms, self._state.turns_seen)
        if turn is not None and lasted_ms is not None:
            turn.api_latency_ms = lasted_ms
