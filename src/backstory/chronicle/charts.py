"""The amounts of a report as charts have them: bars of days, each in parts, and a field of hours and weekdays."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from backstory.ask.stats import HOURS, WEEKDAYS
from backstory.bounds import counted, duration, short
from backstory.chronicle.report import Amount, BarPart, Chart, OfGroup
from backstory.derive.pricing import UNKNOWN, CostKind, shown_as, total
from backstory.derive.tally import GroupKey
from backstory.workspace.history.stats import used

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backstory.ask.stats import By
    from backstory.derive.tally import Figures
    from backstory.workspace.history.stats import StatsGroup

PARTS_MOST = 5
"""More parts of a bar are one, called others: so many can be told apart."""
OTHERS = "others"
DAYS_MOST = 100
"""The bars of a longer time are of weeks."""
TICKS_MOST = 5
MINUTE_MS, HOUR_MS = 60_000, 3_600_000


class Measure(NamedTuple):
    """An amount of turns. ``number``: of one group; ``text``: of several; ``tick``: of a height."""

    words: str
    number: Callable[[Figures], float]
    text: Callable[[Sequence[Figures]], str]
    tick: Callable[[float], str]
    unit: float = 1


def _tokens(of: Sequence[Figures]) -> str:
    is_least = any(each.partial_tokens for each in of)
    return f"{'≥ ' if is_least else ''}{counted(sum(map(used, of)), 'token')}"


MEASURES: Mapping[str, Measure] = {
    "cost": Measure(
        "Cost", lambda of: of.cost.low_usd or 0.0,
        lambda of: of[0].cost.shown if len(of) == 1 else total(each.cost for each in of if each.cost != UNKNOWN).shown,
        lambda usd: shown_as(CostKind.EXACT, usd), 0.01,
    ),
    "tokens": Measure("Tokens", used, _tokens, lambda count: short(round(count))),
    "time": Measure(
        "Time worked", lambda of: of.duration_ms or 0,
        lambda of: duration(sum(each.duration_ms or 0 for each in of)) or "no time", lambda ms: duration(round(ms)),
        MINUTE_MS,
    ),
    "turns": Measure(
        "Turns", lambda of: of.turns, lambda of: counted(sum(each.turns for each in of), "turn"),
        lambda count: f"{round(count):,}",
    ),
}  # fmt: skip
"""The amounts that a height may say, by their names in addresses."""
STACKS = ("model", "agent", "repository")
"""The properties by which a bar may be in parts; each with "day " before it is a grouping."""


class _Span(NamedTuple):
    """The days of a bar."""

    name: str
    since: int
    until: int


def daily(groups: Sequence[StatsGroup], by: By | None, measure: str, name: Callable[[str | None], str]) -> Chart | None:
    """Draw the groups of days, in parts by a property; None where nothing has a date. ``name``: of a value of it."""
    known = [each for each in groups if _day(each, by) is not None]
    if not known:
        return None
    how, spans, places = MEASURES[measure], *_spans([str(_day(each, by)) for each in known])
    largest: dict[GroupKey, float] = {}
    for each in known:
        group = _key(each, by)
        largest[group] = largest.get(group, 0) + how.number(each.figures)
    kept = sorted(largest, key=lambda key: -largest[key])
    names = {key: name(key.value) for key in kept[: PARTS_MOST + (len(kept) == PARTS_MOST + 1)]}
    cells: dict[tuple[GroupKey | None, int], list[Figures]] = {}
    for each in known:
        part, place = _key(each, by), places[str(_day(each, by))]
        for key in (part if part in names else None, _WHOLE):
            cells.setdefault((key, place), []).append(each.figures)
    parts = [BarPart(names[key], _amounts(how, spans, cells, key, OfGroup(by, key))) for key in names]
    if len(kept) > len(names):
        parts.append(BarPart(OTHERS, _amounts(how, spans, cells, None, OfGroup())))
    sums = _amounts(how, spans, cells, _WHOLE, OfGroup())
    of_weeks = "week" if len(spans) < len(places) else "day"
    return Chart(
        title=f"{how.words} by {of_weeks}{f' and {by}' if by else ''}", heads=tuple(each.name for each in spans),
        parts=tuple(parts), sums=sums, ticks=ticks(max(each.number for each in sums), how),
    )  # fmt: skip


_WHOLE = GroupKey(value="", within="")
"""The key of a whole bar: no group has it."""


def _day(group: StatsGroup, by: By | None) -> str | None:
    return group.key.within if by else group.key.value


def _key(group: StatsGroup, by: By | None) -> GroupKey:
    key = group.key
    return GroupKey(value=key.value, project=key.project, project_name=key.project_name) if by else GroupKey()


def _amounts(
    how: Measure, spans: Sequence[_Span], cells: Mapping[tuple[GroupKey | None, int], list[Figures]],
    key: GroupKey | None, about: OfGroup,
) -> tuple[Amount, ...]:  # fmt: skip
    found = []
    for place, span in enumerate(spans):
        of = cells.get((key, place))
        group = OfGroup(about.by, about.key, span.since, span.until)
        found.append(Amount(0, "", None) if of is None else Amount(sum(map(how.number, of)), how.text(of), group))
    return tuple(found)


def _spans(days: Sequence[str]) -> tuple[list[_Span], dict[str, int]]:
    """The bars from the first day to the last, those without anything too; and which of them each day is in."""
    first, last = date.fromisoformat(min(days)), date.fromisoformat(max(days))
    count, step = (last - first).days + 1, 1
    if count > DAYS_MOST:
        first, step = first - timedelta(days=first.weekday()), 7
        count = (last - first).days + 1
    spans = []
    for start in range(0, count, step):
        begins = first + timedelta(days=start)
        spans.append(_Span(begins.isoformat(), day_ms(begins), day_ms(begins + timedelta(days=step))))
    return spans, {(first + timedelta(days=n)).isoformat(): n // step for n in range(count)}


def day_ms(day: date) -> int:
    """The moment at which a day begins in the system's zone."""
    return int(datetime(day.year, day.month, day.day).timestamp() * 1000)


def field(groups: Sequence[StatsGroup]) -> Chart:
    """Draw the turns that began on each weekday at each hour."""
    turns = {(each.key.within, each.key.value): each.figures for each in groups}
    how = MEASURES["turns"]
    parts = []
    for weekday in WEEKDAYS:
        row = []
        for hour in HOURS:
            of = turns.get((weekday, hour))
            about = OfGroup("weekday hour", GroupKey(value=hour, within=weekday))
            row.append(Amount(0, "", None) if of is None else Amount(of.turns, how.text([of]), about))
        parts.append(BarPart(weekday, tuple(row)))
    return Chart(title="Turns by weekday and hour", heads=HOURS, parts=tuple(parts), sums=(), is_field=True)


def ticks(most: float, how: Measure) -> tuple[tuple[float, str], ...]:
    """Heights of round numbers up to the largest, without none."""
    if most <= 0:
        return ()
    at_least = max(most / TICKS_MOST, how.unit)
    size = how.unit * 10 ** math.floor(math.log10(at_least / how.unit))
    steps = (size, 2 * size, 5 * size, 10 * size)
    if how.unit == MINUTE_MS and at_least > 10 * MINUTE_MS:
        # Hours are round as hours are counted.
        hours = 10 ** max(math.floor(math.log10(at_least / HOUR_MS)), 0) * HOUR_MS
        steps = (HOUR_MS // 4, HOUR_MS // 2, hours, 2 * hours, 5 * hours, 10 * hours)  # type: ignore[assignment]
    step = next((each for each in steps if each >= at_least * 0.999), steps[-1])
    heights = accumulate([step] * max(1, math.floor(most / step + 1e-9)))
    return tuple((each, how.tick(each)) for each in heights)
