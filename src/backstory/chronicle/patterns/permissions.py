"""Permission stops: an agent waits to be allowed what is always allowed."""

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
from backstory.model import Tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.workspace.history.habits import HabitCall, Habits

NAME = "permissions"
TIMES_MIN, SESSIONS_MIN = 5, 3
SLOW_MS, STOP_MS, AWAY_MS = 5 * SECOND_MS, 10 * SECOND_MS, 10 * MINUTE_MS
REFUSED_MAX = 0.1
QUICK_TOOLS = frozenset({Tool.EDIT, Tool.WRITE})
RULE = (
    f"Edits, or commands that only read (git diff, ls, cat, …), that took {STOP_MS // 1000} s or more: they "
    f"are done at once, so a person was asked. {TIMES_MIN} stops or more in {SESSIONS_MIN} sessions or more "
    f"that one allow rule would have spared, and of which a person refused at most {REFUSED_MAX:.0%}. Calls "
    f"that waited together count once, and of a stop at most {AWAY_MS // MINUTE_MS} minutes: longer, a person "
    "was away."
)


def find(habits: Habits) -> Iterator[Tip]:
    """A finding for each place and allow rule."""
    slow = (each for each in habits.calls if (each.duration_ms or 0) >= SLOW_MS)
    stops = [
        (rule, each)
        for each in _first_of_each(slow)
        if (rule := _rule(habits, each)) and (each.duration_ms or 0) >= STOP_MS
    ]
    refused = [(rule, each) for each in habits.refused if (rule := _rule(habits, each))]
    for found in grouped(stops, key=lambda pair: (habits.place(pair[1].session), pair[1].agent, pair[0])):
        rule, first = found[0]
        place = habits.place(first.session)
        waits = [each for _, each in found]
        said_no = sum(
            rule == other and each.agent == first.agent and habits.place(each.session) == place
            for other, each in refused
        )
        is_enough = len(waits) >= TIMES_MIN and len({each.session for each in waits}) >= SESSIONS_MIN
        if not is_enough or said_no > REFUSED_MAX * (len(waits) + said_no):
            continue
        yield _finding(habits, rule, waits, said_no)


def _finding(habits: Habits, rule: str, waits: list[HabitCall], said_no: int) -> Tip:
    first = waits[0]
    what = f"run `{' '.join(first.reading)}`" if first.reading else "edit"
    waits = sorted(waits, key=lambda each: -(each.duration_ms or 0))
    middle = in_words(median(min(each.duration_ms or 0, AWAY_MS) for each in waits))
    return Tip(
        pattern=NAME,
        is_calls=True,
        problem=f"{habits.guides[first.agent].title} waited {len(waits)} times for leave to {what} in "
        f"{habits.named(habits.place(first.session))}, {middle} at the median; {said_no or 'none'} more were refused",
        action=f"If you allow them all anyway: {rule} in {habits.guides[first.agent].settings}",
        evidence=tuple(
            TipEvidence(
                session=each.session, context=each.context, seqs=(each.seq,), text=_waited(each.duration_ms or 0),
                ms=min(each.duration_ms or 0, AWAY_MS),
            )
            for each in waits
        ),
    )  # fmt: skip


def _waited(ms: int) -> str:
    return in_words(ms) + (f", counted as {in_words(AWAY_MS)}" if ms > AWAY_MS else "")


def _rule(habits: Habits, call: HabitCall) -> str | None:
    guide = habits.guides.get(call.agent)
    if guide is None:
        return None
    if call.tool in QUICK_TOOLS:
        return guide.allow_rule(call.tool_name, ())
    return guide.allow_rule(call.tool_name, call.reading) if call.reading else None


def _first_of_each(calls: Iterable[HabitCall]) -> Iterator[HabitCall]:
    """Yield the first of calls that waited at the same time: the others may have waited for that one."""
    ends: dict[str, int] = {}
    for each in calls:
        at, took = each.at or 0, each.duration_ms or 0
        if at >= ends.get(each.context, 0):
            yield each
        ends[each.context] = max(ends.get(each.context, 0), at + took)


PATTERN = Pattern(name=NAME, rule=RULE, is_cost=False, find=find)
