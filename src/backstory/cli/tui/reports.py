"""The reports of the screen: lines of a width, and the lists that they open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from backstory.chronicle import cost
from backstory.chronicle.report import OfGroup, OfSessions
from backstory.chronicle.tabs import PERIODS
from backstory.cli import output
from backstory.cli.picker.picking import Asked, begun
from backstory.cli.views.report_view import ReportLine, report_lines
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.history.stats import StatsQuery

if TYPE_CHECKING:
    from backstory.chronicle.report import Report
    from backstory.chronicle.tabs import TabQuestion, Tell
    from backstory.cli.app import App
    from backstory.cli.picker.state import State
    from backstory.derive.tally import Figures

LINES_MOST = 20_000
"""The most lines of a report that are held."""
WORDS_COLUMNS = 48
"""The columns of a row's name above the list that it opens."""
LINES_AT_ONCE = 200
"""Drawing is ended at most so many lines after nobody wants it any more."""


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
