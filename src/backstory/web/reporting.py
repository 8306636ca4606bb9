"""Reports as a page has them: the same values as everywhere, each number with the address of what is behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from backstory.chronicle import charts
from backstory.chronicle.report import OfGroup, OfSession, OfTool, Tone, text_of
from backstory.chronicle.tabs import BEHIND_TITLE, ON_PAGES, PERIODS, Drawn
from backstory.derive.tally import GroupKey
from backstory.web import listing
from backstory.web.charting import Layout, drawing
from backstory.web.listing import address
from backstory.web.markup import plain
from backstory.workspace import questions
from backstory.workspace.history.sessions import SessionFilter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from backstory.chronicle.report import Cell, Count, OfSessions, Report, ReportRow, ReportTable, Section
    from backstory.chronicle.tabs import Tab
    from backstory.web.listing import FormField
    from backstory.workspace.reader import Reader

PERIOD, STACK, MEASURE = "period", "stack", "measure"
BEHIND = "/reports/behind"
TOOL, BY, VALUE, OF, NAMED, WITHIN, FROM, TO = "calls", "by", "value", "of", "named", "within", "from", "to"
"""The names in an address of the sessions behind a number: a tool, or a group with its value, the key and the name of
its project, and the day or weekday that it is of; and its time, in ms since 1970.
"""


class PageLink(NamedTuple):
    """A word that leads to another page; ``is_here``: it is this one."""

    words: str
    where: str
    is_here: bool


class TableRow(NamedTuple):
    """A row of a table: its cells, the share of the largest measure in percent, where its name and its numbers lead."""

    cells: list[str]
    percent: int | None
    where: str
    behind: str


class ReportPage(NamedTuple):
    """A report, and the ways to others. ``asked``: the fields of the filter that were typed, without a time."""

    report: Report
    wanted: SessionFilter
    asked: Mapping[str, str]
    tabs: list[PageLink]
    periods: list[PageLink]
    stacks: list[PageLink]
    measures: list[PageLink]
    form: list[FormField]
    chips: list[tuple[str, str]]
    kept: list[tuple[str, str]]
    here: str
    has_behind: bool = True
    """False where numbers lead nowhere but to sessions."""

    def behind(self, about: OfSession | OfSessions | OfGroup | OfTool | None) -> str:
        """The address of the sessions that a number is of; '' where there is none."""
        match about:
            case OfSession(uid=uid, seq=seq):
                return f"/s/{uid}" if seq is None else f"/s/{uid}/{seq}"
            case _ if not self.has_behind:
                return ""
            case OfTool(tool=tool):
                return address(BEHIND, {**self._time(None, None), TOOL: tool})
            case OfGroup(by=by, key=key, since=since, until=until):
                asked = self._time(since, until)
                named = () if by is None or key is None else (
                    (BY, by), (VALUE, key.value), (OF, key.project), (NAMED, key.project_name), (WITHIN, key.within)
                )  # fmt: skip
                return address(BEHIND, asked | {name: value for name, value in named if value is not None})
        return ""

    def of_row(self, about: OfSession | OfGroup | OfTool | None) -> str:
        """The address behind the numbers of a row: also of a session it has the queries."""
        if isinstance(about, OfSession) and self.has_behind:
            about = OfGroup("session", GroupKey(value=about.uid))
        return self.behind(about)

    def _time(self, since: int | None, until: int | None) -> dict[str, str]:
        """The fields that were typed, with the time of a number: that of the report, or a part of it."""
        begins = max((each for each in (since, self.wanted.since) if each is not None), default=None)
        ends = min((each for each in (until, self.wanted.until) if each is not None), default=None)
        times = ((FROM, begins), (TO, ends))
        return {**self.asked, **{name: str(ms) for name, ms in times if ms is not None}}

    def drawn(self, section: Section) -> Layout | None:
        """The chart of a section; None without one."""
        return None if section.chart is None else drawing(section.chart, self.behind)

    def rows(self, table: ReportTable) -> list[TableRow]:
        """The rows of a table."""
        most = max(table.measure, default=0)
        found = []
        for n, cells in enumerate(table.rows):
            percent = round(100 * table.measure[n] / most) if n < len(table.measure) and most else None
            about = table.about[n] if n < len(table.about) else None
            cells_shown = [plain(text_of(each)) for each in cells]
            found.append(TableRow(cells_shown, percent, self.behind(about), self.of_row(about)))
        return found

    def text(self, cell: str | Cell | Count) -> str:
        """The text of a cell."""
        return plain(text_of(cell))

    def tone(self, cell: str | Cell) -> str:
        """The part that a text has in its row; '' for plain words."""
        return "" if isinstance(cell, str) else str(cell.tone)

    def names(self, row: ReportRow) -> bool:
        """True if a row names the session that it is about."""
        return any(self.tone(each) == Tone.REF for each in row.cells)


def slug(name: str) -> str:
    """The name of a report in addresses."""
    return name.lower().replace("-", "")


def read(
    reader: Reader, now: int, name: str, typed: Mapping[str, str], home: Path, today: datetime
) -> ReportPage | None:
    """Compute a report; None if there is none of this name. Raises BadTime, UnknownValue."""
    asked = asked_report(name, typed, now, home, today)
    return None if asked is None else drawn(reader, asked, listing.form(typed))


class AskedReport(NamedTuple):
    """A report that is asked for. ``has_time``: a time was typed; ``tabs``: the reports beside it."""

    tab: Tab
    wanted: SessionFilter
    period: str
    has_time: bool
    typed: Mapping[str, str]
    tabs: Sequence[Tab]


def asked_report(
    name: str, typed: Mapping[str, str], now: int, home: Path, today: datetime, tabs: Sequence[Tab] = ON_PAGES
) -> AskedReport | None:
    """Read what was typed for a report; None if there is none of this name. Raises BadTime, UnknownValue."""
    tab = next((each for each in tabs if slug(each.name) == name), None)
    if tab is None:
        return None
    chosen = questions.read(typed, home=home, now=today)
    has_time = not chosen.keys().isdisjoint(("since", "until"))
    period = _one_of(typed.get(PERIOD, ""), [str(n) for n in range(len(PERIODS))], str(tab.period))
    span = None if has_time else PERIODS[int(period)].span_ms
    if span is not None:
        chosen["since"] = now - span
    return AskedReport(tab, SessionFilter(**chosen, everywhere=True), period, has_time, typed, tabs)


def drawn(reader: Reader, of: AskedReport, form: list[FormField], *, has_behind: bool = True) -> ReportPage:
    """Compute a report. ``has_behind``: its numbers lead to the sessions and the queries behind them."""
    tab, wanted, period, has_time, typed, tabs = of
    page = Drawn(
        stack=_one_of(typed.get(STACK, ""), charts.STACKS, charts.STACKS[0]),
        measure=_one_of(typed.get(MEASURE, ""), [*charts.MEASURES], "cost"),
    )
    report, here = tab.read(reader, wanted, lambda *_: None, page), f"/reports/{slug(tab.name)}"
    if not has_behind:
        sections = tuple(replace(each, sql={}) for each in report.sections if each.title != BEHIND_TITLE)
        report = replace(report, sections=sections)
    asked = {each: text for each, text in typed.items() if text}
    of_filter, ways = {each.name for each in form} - {"since", "until"}, _Ways(here, asked)
    has_bars = tab.name == "Costs" and any(each.chart for each in report.sections)
    return ReportPage(
        report=report, wanted=wanted, asked={each: text for each, text in asked.items() if each in of_filter},
        tabs=[PageLink(each.name, address(f"/reports/{slug(each.name)}", asked), each is tab) for each in tabs],
        periods=[
            ways.to(each.words, PERIOD, str(n), is_here=not has_time and str(n) == period, but=("since", "until"))
            for n, each in enumerate(PERIODS)
        ],
        stacks=[ways.to(each, STACK, each, is_here=each == page.stack) for each in charts.STACKS if has_bars],
        measures=[
            ways.to(each.words, MEASURE, key, is_here=key == page.measure)
            for key, each in charts.MEASURES.items() if has_bars
        ],
        form=form, chips=listing.chips(typed, here, form),
        kept=[(each, asked[each]) for each in (PERIOD, STACK, MEASURE) if each in asked], here=here,
        has_behind=has_behind,
    )  # fmt: skip


class _Ways(NamedTuple):
    """Links to the same report in other forms."""

    here: str
    asked: Mapping[str, str]

    def to(self, words: str, name: str, value: str, *, is_here: bool, but: tuple[str, ...] = ()) -> PageLink:
        """The link with another value of a field, ``but`` without some."""
        asked = {each: text for each, text in self.asked.items() if each not in but} | {name: value}
        return PageLink(words, address(self.here, asked), is_here)


def _one_of(text: str, known: Sequence[str], default: str) -> str:
    return text if text in known else default
