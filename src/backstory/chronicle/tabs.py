"""The reports that faces show beside each other, each with a period and a choice of projects: a tab for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from backstory.bounds import counted
from backstory.chronicle import cost, standup, tips
from backstory.chronicle.report import Report, masked
from backstory.chronicle.tips import no_tips
from backstory.chronicle.window import DAY_MS, nearest_day
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.history.stats import StatsQuery

if TYPE_CHECKING:
    from collections.abc import Callable

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


def _standup(reader: Reader, wanted: SessionFilter, tell: Tell) -> Report:
    found = masked(standup.standup(reader, wanted, tell), reader.masks, lambda _: tell(0, None))
    drawn = standup.report(found)
    undated = f"{counted(found.undated, 'turn')} without a time left out." if found.undated else ""
    return _with_notes(reader, wanted, drawn, undated, is_empty=not found.places)


def _costs(reader: Reader, wanted: SessionFilter, tell: Tell) -> Report:
    found = cost.cost_report(reader, StatsQuery(wanted=wanted), dearest=GROUPS_MOST, report=tell)
    found = masked(found, reader.masks, lambda _: tell(0, None))
    drawn = cost.report(found, GROUPS_MOST)
    unknown = cost.not_counted(found.total, found.summaries, found.undated)
    return _with_notes(reader, wanted, drawn, unknown, is_empty=not found.total.sessions)


def _activity(reader: Reader, wanted: SessionFilter, tell: Tell) -> Report:
    found = reader.stats_by(StatsQuery(wanted=wanted), ("hour", "weekday"), tell)
    first = found[0]
    unknown = cost.not_counted(first.total, first.summaries, first.undated)
    return _with_notes(reader, wanted, cost.activity_report(found), unknown, is_empty=not first.total.sessions)


def _tips(reader: Reader, wanted: SessionFilter, tell: Tell) -> Report:
    found = masked(tips.tips(reader, wanted, report=tell), reader.masks, lambda _: tell(0, None))
    drawn = tips.report(found, PLACES_MOST)
    none = "" if found.findings or not found.turns else no_tips(found)
    return _with_notes(reader, wanted, drawn, none, is_empty=not found.turns)


def _with_notes(reader: Reader, wanted: SessionFilter, drawn: Report, note: str, *, is_empty: bool) -> Report:
    """A report with what is not in it; of one without anything only where there is something."""
    if not is_empty:
        return replace(drawn, notes=(*drawn.notes, note)) if note else drawn
    day = nearest_day(reader, wanted)
    where = "" if day is None else f" The nearest are of {day}."
    return Report(title=drawn.title, notes=(f"No sessions in this time.{where}" if day else "No sessions.",))


class Tab(NamedTuple):
    """A report. ``period``: that of its command, unless a person chooses another one."""

    name: str
    period: int
    read: Callable[[Reader, SessionFilter, Tell], Report]


TABS = (
    Tab("Stand-up", DAY, _standup),
    Tab("Costs", MONTH, _costs),
    Tab("Activity", MONTH, _activity),
    Tab("Tips", MONTH, _tips),
)
