"""The reports of the screen: the same values that commands print, read and drawn without a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from backstory.chronicle import cost, standup, tips
from backstory.chronicle.report import OfGroup, OfSessions, Report
from backstory.chronicle.window import DAY_MS, nearest_day
from backstory.cli import output
from backstory.cli.picker.picking import Asked, begun
from backstory.cli.report_options import masked
from backstory.cli.views.report_view import ReportLine, report_lines
from backstory.cli.views.tips_report import no_tips
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.history.stats import StatsQuery

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.cli.app import App
    from backstory.cli.picker.state import State
    from backstory.derive.tally import Figures

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
LINES_MOST = 20_000
"""The most lines of a report that are held."""
WORDS_COLUMNS = 48
"""The columns of a row's name above the list that it opens."""
LINES_AT_ONCE = 200
"""Drawing is ended at most so many lines after nobody wants it any more."""
GROUPS_MOST, PLACES_MOST = 50, 10
"""The most groups of a grouping, except of days, and the most places of a tip that have lines."""


class TabQuestion(Struct, frozen=True, kw_only=True):
    """A report that is asked for: a tab, a period, and the projects."""

    tab: int
    period: int
    everywhere: bool


def read(app: App, asked: TabQuestion, tell: Tell) -> tuple[SessionFilter, Report]:
    """Compute a report. ``tell`` receives how far that is, and may raise to end it."""
    span = PERIODS[asked.period].span_ms
    wanted = SessionFilter(everywhere=asked.everywhere, since=None if span is None else app.workspace.now() - span)
    return wanted, TABS[asked.tab].read(app, wanted, tell)


def _standup(app: App, wanted: SessionFilter, tell: Tell) -> Report:
    found = masked(app, standup.standup(app.reader, wanted, tell), lambda _: tell(0, None))
    drawn = standup.report(found)
    undated = f"{output.counted(found.undated, 'turn')} without a time left out." if found.undated else ""
    return _with_notes(app, wanted, drawn, undated, is_empty=not found.places)


def _costs(app: App, wanted: SessionFilter, tell: Tell) -> Report:
    found = cost.cost_report(app.reader, StatsQuery(wanted=wanted), dearest=GROUPS_MOST, report=tell)
    found = masked(app, found, lambda _: tell(0, None))
    drawn = cost.report(found, GROUPS_MOST)
    unknown = cost.not_counted(found.total, found.summaries, found.undated)
    return _with_notes(app, wanted, drawn, unknown, is_empty=not found.total.sessions)


def _activity(app: App, wanted: SessionFilter, tell: Tell) -> Report:
    found = app.reader.stats_by(StatsQuery(wanted=wanted), ("hour", "weekday"), tell)
    first = found[0]
    unknown = cost.not_counted(first.total, first.summaries, first.undated)
    return _with_notes(app, wanted, cost.activity_report(found), unknown, is_empty=not first.total.sessions)


def _tips(app: App, wanted: SessionFilter, tell: Tell) -> Report:
    found = masked(app, tips.tips(app.reader, wanted, report=tell), lambda _: tell(0, None))
    drawn = tips.report(found, PLACES_MOST)
    none = "" if found.findings or not found.turns else no_tips(found)
    return _with_notes(app, wanted, drawn, none, is_empty=not found.turns)


def _with_notes(app: App, wanted: SessionFilter, drawn: Report, note: str, *, is_empty: bool) -> Report:
    """A report with what is not in it; of one without anything only where there is something."""
    if not is_empty:
        return replace(drawn, notes=(*drawn.notes, note)) if note else drawn
    day = nearest_day(app.reader, wanted)
    where = "" if day is None else f" The nearest are of {day}."
    return Report(title=drawn.title, notes=(f"No sessions in this time.{where}" if day else "No sessions.",))


def sessions_behind(
    app: App, wanted: SessionFilter, about: OfSessions | OfGroup, words: str, tell: Tell
) -> tuple[State, Asked] | None:
    """The list of the sessions that a row of a report is about, with their share of it; None without any.

    ``words`` say of what these are.
    """
    figures: dict[str, Figures] = {}
    if isinstance(about, OfGroup):
        only = None if about.by is None or about.key is None else (about.by, about.key)
        found = app.reader.stats(StatsQuery(wanted=wanted, by="session", only=only), tell)
        figures = {each.key.value: each.figures for each in found.groups if each.key.value is not None}
    uids = tuple(figures) if isinstance(about, OfGroup) else tuple(about.uids)
    if not uids:
        return None
    these = SessionFilter(uids=uids, everywhere=wanted.everywhere)
    asked = Asked(app, these, None, None, figures)
    return replace(begun(asked, these, None), fixed=words), asked


def words_about(about: OfSessions | OfGroup, line: str, asked: TabQuestion) -> str:
    """Say which sessions a row opens: those of a group, or of the part of a report that a line begins."""
    what = output.one_line(output.for_screen(line, is_coloured=False), WORDS_COLUMNS)
    if isinstance(about, OfGroup):
        value = None if about.key is None else about.key.value
        what = "all" if about.by is None else f"{about.by} {cost.group_name(about.by, value)}"
        what += " · turns and costs of it alone"
    return f"{what} · {PERIODS[asked.period].words} · Esc: back"


class Tab(NamedTuple):
    """A report. ``period``: that of its command, unless a person chooses another one."""

    name: str
    period: int
    read: Callable[[App, SessionFilter, Tell], Report]


TABS = (
    Tab("Stand-up", DAY, _standup),
    Tab("Costs", MONTH, _costs),
    Tab("Activity", MONTH, _activity),
    Tab("Tips", MONTH, _tips),
)


def drawn(report: Report, columns: int, tell: Tell) -> list[ReportLine]:
    """Return the lines of a report for so many columns. ``tell`` may raise to end it."""
    found: list[ReportLine] = []
    with output.window_of(columns):
        for each in report_lines(report):
            if len(found) % LINES_AT_ONCE == 0:
                tell(0, None)
            if len(found) == LINES_MOST:
                more = f"These are the first {LINES_MOST:,} lines. A shorter time has fewer; the command prints all."
                return [*found, *map(ReportLine, ("", *output.flowing(more, 0)))]
            found.append(each)
    return found
