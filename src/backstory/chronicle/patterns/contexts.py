"""Contexts that grow before they are cut: many turns begin with so much that each request reads it all again."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from backstory.chronicle.patterns.finding import (
    Pattern,
    Tip,
    TipEvidence,
    contexts,
    counted,
    dollars_of,
    grouped,
    price_of,
    was_cut,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.workspace.history.habits import Habits, HabitTurn

NAME = "contexts"
LARGE, KEPT = 100_000, 30_000
TURNS_MIN = 3
STILL_THERE = 0.6
RULE = (
    f"{TURNS_MIN} turns or more of a context began when the turn before had sent {LARGE:,} tokens or more in a "
    "request, and nothing had been cut: no summary stands between the two, and the turn itself sent at least "
    f"{STILL_THERE:.0%} of that. About what it cost: what the cache reads of those turns cost, less the share that "
    f"{KEPT:,} tokens of summary would take."
)


def find(habits: Habits) -> Iterator[Tip]:
    """A finding for each place."""
    seen = [evidence for turns in contexts(habits) if (evidence := _of_context(habits, turns)) is not None]
    for found in grouped(seen, key=lambda each: habits.place(each.session)):
        found.sort(key=lambda each: (-(each.usd or 0), -len(each.seqs)))
        turns, place = sum(len(each.seqs) for each in found), habits.named(habits.place(found[0].session))
        yield Tip(
            pattern=NAME,
            problem=f"{counted(turns, 'turn')} in {place} began with more than {LARGE:,} tokens "
            "of context, which each of their requests read again",
            action="Begin the next task in a new session. To go on with this one in less room: "
            "`backstory compact --now SESSION`, then `backstory run --session SESSION \"…\"`",
            evidence=tuple(found),
        )  # fmt: skip


def _of_context(habits: Habits, turns: list[HabitTurn]) -> TipEvidence | None:
    large = [(before, turn) for before, turn in pairwise(turns) if _began_large(habits, before, turn)]
    if len(large) < TURNS_MIN:
        return None
    most = max(before.tokens.largest_input or 0 for before, _ in large)
    costs = [_saved(habits, before, turn) for before, turn in large]
    known = [each for each in costs if each is not None]
    return TipEvidence(
        session=turns[0].session, context=turns[0].context, seqs=tuple(turn.seq for _, turn in large),
        text=f"{len(large)} of {counted(len(turns), 'turn')} began with up to {most:,} tokens",
        usd=sum(known) if known else None,
    )  # fmt: skip


def _began_large(habits: Habits, before: HabitTurn, turn: HabitTurn) -> bool:
    size, own = before.tokens.largest_input or 0, turn.tokens.largest_input or 0
    return size >= LARGE and own >= size * STILL_THERE and not was_cut(habits, turn.context, before.seq, turn.seq)


def _saved(habits: Habits, before: HabitTurn, turn: HabitTurn) -> float | None:
    paid = dollars_of(price_of(habits, turn), cache_read=turn.tokens.cache_read or 0)
    return None if paid is None else paid * (1 - KEPT / (before.tokens.largest_input or LARGE))


PATTERN = Pattern(name=NAME, rule=RULE, is_cost=True, find=find)
