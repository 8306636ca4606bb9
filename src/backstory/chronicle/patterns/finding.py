"""Patterns, and their findings."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from backstory.bounds import iso
from backstory.derive.pricing import cost_of
from backstory.model import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from backstory.derive.pricing import Price
    from backstory.workspace.history.habits import Habits, HabitTurn

T = TypeVar("T")
SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000
HOUR_USD = 30
"""Only for the order of findings: dollars that an hour of a waiting person counts."""


class TipEvidence(Struct, frozen=True, kw_only=True):
    """One place where it is seen.

    ``session``: the uid of the session that is listed; ``context``: of the one whose records ``seqs`` are, a subagent's
    perhaps. ``usd`` and ``ms``: about what it cost there; None where nobody knows.
    """

    session: str
    context: str
    seqs: tuple[int, ...]
    """The records that count: of calls, or of prompts."""
    text: str
    usd: float | None = None
    ms: int | None = None


class Tip(Struct, frozen=True, kw_only=True):
    """A finding that recurs, and a remedy. ``usd`` and ``ms``: its approximate cost; None if unknown."""

    pattern: str
    problem: str
    action: str
    evidence: tuple[TipEvidence, ...]
    """The strongest first."""
    is_calls: bool = False
    """True if the records are calls; else they are prompts, which say what their turns were."""

    @property
    def sessions(self) -> int:
        """In how many sessions."""
        return len({each.session for each in self.evidence})

    @property
    def count(self) -> int:
        """The number of occurrences."""
        return sum(len(each.seqs) for each in self.evidence)

    @property
    def usd(self) -> float | None:
        """About how many dollars it cost."""
        known = [each.usd for each in self.evidence if each.usd is not None]
        return sum(known) if known else None

    @property
    def ms(self) -> int | None:
        """About how much time it cost."""
        known = [each.ms for each in self.evidence if each.ms is not None]
        return sum(known) if known else None

    @property
    def weight(self) -> float:
        """The cost in dollars and time together, for the order."""
        return (self.usd or 0) + (self.ms or 0) / HOUR_MS * HOUR_USD


class Pattern(Struct, frozen=True, kw_only=True):
    """A rule, in words and as a function. ``is_cost``: whether it is about what is paid."""

    name: str
    rule: str
    is_cost: bool
    find: Callable[[Habits], Iterable[Tip]]


def grouped(values: Iterable[T], key: Callable[[T], Hashable]) -> Iterator[list[T]]:
    """Values with the same key, in their order."""
    found: dict[Hashable, list[T]] = defaultdict(list)
    for each in values:
        found[key(each)].append(each)
    yield from found.values()


def contexts(habits: Habits) -> Iterator[list[HabitTurn]]:
    """The turns of each context, in order."""
    for _, turns in groupby(habits.turns, key=lambda turn: turn.context):
        yield list(turns)


def was_cut(habits: Habits, context: str, after: int, before: int) -> bool:
    """Return True if a context was summarised between two records."""
    return any(after < seq < before for seq in habits.compacted.get(context, ()))


def day_of(turn: HabitTurn) -> str | None:
    """The day that a turn began on, UTC, as ISO 8601; None where that is no day."""
    at = iso(turn.started)
    return None if at is None else at[:10]


def price_of(habits: Habits, turn: HabitTurn, model: str | None = None) -> Price | None:
    """The price of a turn's model, or of another one, on its day."""
    return habits.prices.price(turn.agent, model or turn.model, day_of(turn))


def dollars_of(price: Price | None, **tokens: int) -> float | None:
    """Return the cost of tokens in dollars; None if unknown."""
    return cost_of(Tokens(**({"input": 0, "output": 0} | tokens)), price).low_usd


def share_of_call(habits: Habits, turn: HabitTurn | None) -> float | None:
    """About what a call of a turn cost: its share of the turn. Each is answered by a request, and so is the prompt."""
    calls = habits.calls_of.get(turn.uid) if turn is not None else None
    if turn is None or not calls or turn.cost.low_usd is None:
        return None
    return turn.cost.low_usd / (calls + 1)


def median(values: Iterable[float]) -> float:
    """The one in the middle; 0 of none."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0


def counted(count: int, noun: str) -> str:
    """``1 turn``, ``2 turns``."""
    return f"{count:,} {noun if count == 1 else f'{noun}s'}"


def in_words(ms: float) -> str:
    """A duration: ``40 s``, ``12 min``, ``3.5 h``."""
    if ms < 2 * MINUTE_MS:
        return f"{ms / SECOND_MS:.0f} s"
    return f"{ms / MINUTE_MS:.0f} min" if ms < 2 * HOUR_MS else f"{ms / HOUR_MS:.1f} h"
