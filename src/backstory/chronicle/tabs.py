"""The reports that faces show beside each other, each with a period and a choice of projects: a tab for each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from backstory.bounds import counted
from backstory.chronicle import charts, cost, standup, tips
from backstory.chronicle.explain import group_queries, grouped_queries, standup_queries, tool_queries
from backstory.chronicle.explain_tips import query
from backstory.chronicle.report import Report, Section, masked
from backstory.chronicle.tips import no_tips
from backstory.chronicle.window import DAY_MS, nearest_day, window_words
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.history.stats import StatsQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backstory.ask.stats import By
    from backstory.workspace.history.stats import Stats
    from backstory.workspace.reader import Reader

Tell: TypeAlias = "Callable[[int, int | None], None]"
"""Receives how many of how many steps are done; None: of an unknown number."""


class Period(NamedTuple):
    """A time up to now. ``span_ms``: None is all time."""

    words: str
    span_ms: int | None


PERIODS = (
    Period("last 24 hours", DAY_MS),
    Period("last 7 days", 7 * DAY_MS),
    Period("last 30 days", 30 * DAY_MS),
    Period("all time", None),
)
DAY, MONTH = 0, 2
BEHIND_TITLE = "Behind these numbers"
"""The title of a section that has queries alone."""
GROUPS_MOST, PLACES_MOST = 50, 10
"""The most groups of a grouping, except of days, and the most places of a tip that have lines."""


class TabQuestion(Struct, frozen=True, kw_only=True):
    """A report that is asked for: a tab, a period, and the projects."""

    tab: int
    period: int
    everywhere: bool


def read(reader: Reader, now: int, asked: TabQuestion, tell: Tell) -> tuple[SessionFilter, Report]:
    """Compute a report. ``tell`` receives how far that is, and may raise to end it."""
    span = PERIODS[asked.period].span_ms
    wanted = SessionFilter(everywhere=asked.everywhere, since=None if span is None else now - span)
    return wanted, TABS[asked.tab].read(reader, wanted, tell)


class Drawn(Struct, frozen=True, kw_only=True):
    """The bars that a page has beside the numbers: of an amount, in parts. The queries behind numbers come along."""

    stack: str = charts.STACKS[0]
    measure: str = "cost"


def _standup(reader: Reader, wanted: SessionFilter, tell: Tell, page: Drawn | None = None) -> Report:
    found = masked(standup.standup(reader, wanted, tell), reader.masks, lambda _: tell(0, None))
    drawn = standup.report(found)
    if page is not None:
        drawn = replace(drawn, sections=(*drawn.sections, _behind(standup_queries(reader, wanted, only_work=False))))
    undated = f"{counted(found.undated, 'turn')} without a time left out." if found.undated else ""
    return _with_notes(reader, wanted, drawn, undated, is_empty=not found.places)


def _costs(reader: Reader, wanted: SessionFilter, tell: Tell, page: Drawn | None = None) -> Report:
    more: tuple[By, ...] = () if page is None else (f"day {page.stack}",)  # type: ignore[assignment]
    found = cost.cost_report(reader, StatsQuery(wanted=wanted), dearest=GROUPS_MOST, report=tell, more=more)
    found = masked(found, reader.masks, lambda _: tell(0, None))
    drawn = cost.report(found, GROUPS_MOST)
    if page is not None:
        stack = cast("By", page.stack)
        name = partial(cost.group_name, stack)
        chart = charts.daily(found.groups[more[0]], stack, page.measure, name)
        parts = ("", *(f"By {by}" for by in cost.GROUPINGS))
        queries = (group_queries(reader, wanted), *(grouped_queries(reader, wanted, by) for by in cost.GROUPINGS))
        drawn = _with_sql(drawn, dict(zip(parts, queries, strict=True)))
        sql = grouped_queries(reader, wanted, more[0])
        drawn = replace(drawn, sections=(drawn.sections[0], Section(chart=chart, sql=sql), *drawn.sections[1:]))
    unknown = cost.not_counted(found.total, found.summaries, found.undated)
    return _with_notes(reader, wanted, drawn, unknown, is_empty=not found.total.sessions)


def _activity(reader: Reader, wanted: SessionFilter, tell: Tell, page: Drawn | None = None) -> Report:
    times: tuple[By, ...] = ("hour", "weekday")
    more: tuple[By, ...] = () if page is None else ("weekday hour", "day")
    found = reader.stats_by(StatsQuery(wanted=wanted), (*times, *more), tell)
    first = found[0]
    unknown = cost.not_counted(first.total, first.summaries, first.undated)
    drawn = cost.activity_report(found[:2])
    if page is not None:
        drawn = _with_charts(reader, wanted, drawn, *found[2:])
    return _with_notes(reader, wanted, drawn, unknown, is_empty=not first.total.sessions)


def _with_charts(reader: Reader, wanted: SessionFilter, drawn: Report, field: Stats, days: Stats) -> Report:
    """The activity with the time worked on each day, and the hours of each weekday."""
    behind = partial(grouped_queries, reader, wanted)
    head, by_hour, by_weekday = drawn.sections
    sections = (
        replace(head, sql=group_queries(reader, wanted)),
        Section(chart=charts.daily(days.groups, None, "time", lambda _: ""), sql=behind("day")),
        Section(chart=charts.field(field.groups), sql=behind("weekday hour")),
        replace(by_hour, title="By hour", sql=behind("hour")),
        replace(by_weekday, title="By weekday", sql=behind("weekday")),
    )
    return replace(drawn, sections=sections)


def _tools(reader: Reader, wanted: SessionFilter, tell: Tell, page: Drawn | None = None) -> Report:
    found = masked(reader.tool_stats(StatsQuery(wanted=wanted), tell), reader.masks, lambda _: tell(0, None))
    table = replace(cost.tools_report(found), sql={} if page is None else tool_queries(reader, wanted))
    drawn = Report(title=f"Tools {window_words(wanted)}", sections=(table,))
    return _with_notes(reader, wanted, drawn, "", is_empty=not found.tools)


def _tips(reader: Reader, wanted: SessionFilter, tell: Tell, page: Drawn | None = None) -> Report:
    found = masked(tips.tips(reader, wanted, report=tell), reader.masks, lambda _: tell(0, None))
    drawn = tips.report(found, PLACES_MOST)
    if page is not None:
        shown = [replace(each, sql={"": query(tip)}) for each, tip in zip(drawn.sections, found.findings, strict=False)]
        drawn = replace(drawn, sections=(*shown, *drawn.sections[len(shown) :]))
    none = "" if found.findings or not found.turns else no_tips(found)
    return _with_notes(reader, wanted, drawn, none, is_empty=not found.turns)


def _behind(queries: Mapping[str, str]) -> Section:
    return Section(title=BEHIND_TITLE, sql=queries)


def _with_sql(drawn: Report, queries: Mapping[str, Mapping[str, str]]) -> Report:
    """A report whose sections have queries, by their titles."""
    return replace(drawn, sections=tuple(replace(each, sql=queries.get(each.title, {})) for each in drawn.sections))


def _with_notes(reader: Reader, wanted: SessionFilter, drawn: Report, note: str, *, is_empty: bool) -> Report:
    """A report with what is not in it; of one without anything only where there is something."""
    if not is_empty:
        return replace(drawn, notes=(*drawn.notes, note)) if note else drawn
    day = nearest_day(reader, wanted)
    where = "" if day is None else f" The nearest are of {day}."
    return Report(title=drawn.title, notes=(f"No sessions in this time.{where}" if day else "No sessions.",))


class Tab(NamedTuple):
    """A report. ``period``: that of its command, unless a person chooses another one.

    ``read``: computes it; with the last argument as a page has it.
    """

    name: str
    period: int
    read: Callable[..., Report]


TABS = (
    Tab("Stand-up", DAY, _standup),
    Tab("Costs", MONTH, _costs),
    Tab("Activity", MONTH, _activity),
    Tab("Tips", MONTH, _tips),
)
ON_PAGES = (*TABS[:3], Tab("Tools", MONTH, _tools), TABS[3])
"""The reports that pages have."""
