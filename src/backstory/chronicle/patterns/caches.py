"""Caches that ran out: after a pause the whole context is written to the cache again, at a higher price."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from backstory.chronicle.patterns.finding import (
    HOUR_MS,
    MINUTE_MS,
    Pattern,
    Tip,
    TipEvidence,
    contexts,
    dollars_of,
    grouped,
    in_words,
    price_of,
    was_cut,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.workspace.history.habits import Habits, HabitTurn

NAME = "caches"
LARGE, TIMES_MIN = 50_000, 3
AGAIN = 0.8
SHORT_MS, LONG_MS = 5 * MINUTE_MS, HOUR_MS
RULE = (
    "A turn began more than 5 minutes after the one before it ended (an hour, where the agent says that it "
    "pays for an hour), with the same model and nothing cut in between; the largest request before had "
    f"{LARGE:,} tokens or more, and the turn wrote at least {AGAIN:.0%} of that to the cache. {TIMES_MIN} "
    "times or more in a place. What it cost: writing those tokens instead of reading them."
)


def find(habits: Habits) -> Iterator[Tip]:
    """A finding for each place."""
    seen = [
        _evidence(habits, before, turn)
        for turns in contexts(habits)
        for before, turn in pairwise(turns)
        if _is_cold(habits, before, turn)
    ]
    for found in grouped(seen, key=lambda each: habits.place(each.session)):
        if len(found) < TIMES_MIN:
            continue
        found.sort(key=lambda each: -(each.usd or 0))
        place = habits.named(habits.place(found[0].session))
        yield Tip(
            pattern=NAME,
            problem=f"{len(found)} times in {place} a session of more than {LARGE:,} tokens was "
            "continued after its cache had run out",
            action="After a longer pause ask the next thing in a new session, or cut the old one first: "
            "`backstory compact --now SESSION`, then `backstory run --session SESSION \"…\"`",
            evidence=tuple(found),
        )  # fmt: skip


def _is_cold(habits: Habits, before: HabitTurn, turn: HabitTurn) -> bool:
    size, written = before.tokens.largest_input or 0, turn.tokens.cache_write or 0
    if size < LARGE or written < AGAIN * size or turn.model != before.model or before.ended is None:
        return False
    is_past = turn.started - before.ended > (LONG_MS if before.tokens.cache_write_1h else SHORT_MS)
    return is_past and not was_cut(habits, turn.context, before.seq, turn.seq)


def _evidence(habits: Habits, before: HabitTurn, turn: HabitTurn) -> TipEvidence:
    again = min(before.tokens.largest_input or 0, turn.tokens.cache_write or 0)
    held = {"cache_write_1h": again if turn.tokens.cache_write_1h else 0}
    price = price_of(habits, turn)
    write, read = dollars_of(price, cache_write=again, **held), dollars_of(price, cache_read=again)
    return TipEvidence(
        session=turn.session, context=turn.context, seqs=(turn.seq,),
        text=f"about {again:,} tokens written again after {in_words(turn.started - (before.ended or 0))}",
        usd=None if write is None or read is None else write - read,
    )  # fmt: skip


PATTERN = Pattern(name=NAME, rule=RULE, is_cost=True, find=find)
