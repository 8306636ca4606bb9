"""Commands that sessions wait for again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.chronicle.patterns.finding import (
    MINUTE_MS,
    SECOND_MS,
    Pattern,
    Tip,
    TipEvidence,
    grouped,
    in_words,
    median,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.workspace.history.habits import HabitCall, Habits

NAME = "waits"
TIMES_MIN, LONG_MS, MOST_MS = 3, 20 * SECOND_MS, 10 * MINUTE_MS
QUICK = frozenset(
    {"git", "gh", "ls", "cat", "head", "tail", "grep", "rg", "find", "mkdir", "cp", "mv", "rm", "chmod", "ln", "touch",
     "which", "pwd", "sed", "awk", "wc", "diff", "stat", "echo"}
)  # fmt: skip
"""Done at once: where they took long, a person was asked."""
RULE = (
    f"The same command of a place took {LONG_MS // 1000} s or more {TIMES_MIN} times or more, and as long at "
    "the median of its runs of 5 s and more. Commands that are done at once do not count (git, ls, grep, …: "
    f"there a person was waited for), nor do runs of more than {MOST_MS // MINUTE_MS} minutes. What it cost: "
    "the time of those runs."
)


def find(habits: Habits) -> Iterator[Tip]:
    """A finding for each command."""
    ran = [each for each in habits.calls if _counts(each)]
    for calls in grouped(ran, key=lambda call: (habits.place(call.session), call.words)):
        times = [each.duration_ms or 0 for each in calls]
        long = sorted(
            (each for each in calls if (each.duration_ms or 0) >= LONG_MS), key=lambda each: -(each.duration_ms or 0)
        )
        if len(long) < TIMES_MIN or median(times) < LONG_MS:
            continue
        place, name = habits.named(habits.place(calls[0].session)), " ".join(calls[0].words)
        middle = in_words(median(each.duration_ms or 0 for each in long))
        where = habits.instructions({each.agent for each in long})
        yield Tip(
            pattern=NAME,
            is_calls=True,
            problem=f"`{name}` in {place} was waited for {len(long)} times, {middle} at the median",
            action=f"A line for {where}: “Run `{name}` in the background, or only the part that a change concerns; "
            "all of it once at the end.”",
            evidence=tuple(
                TipEvidence(
                    session=each.session, context=each.context, seqs=(each.seq,), text=in_words(each.duration_ms or 0),
                    ms=each.duration_ms,
                )
                for each in long
            ),
        )  # fmt: skip


def _counts(call: HabitCall) -> bool:
    took = call.duration_ms or 0
    return bool(call.words) and call.words[0] not in QUICK and not call.reading and 5 * SECOND_MS <= took <= MOST_MS


PATTERN = Pattern(name=NAME, rule=RULE, is_cost=False, find=find)
