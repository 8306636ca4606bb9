"""Reports as a page has them: the same values as everywhere, each row with the address of the sessions behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backstory.chronicle import tabs
from backstory.chronicle.report import OfGroup, OfSession, Tone, text_of
from backstory.chronicle.tabs import PERIODS, TABS, TabQuestion
from backstory.web.listing import address
from backstory.web.markup import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backstory.chronicle.report import About, Cell, Count, Report, ReportRow, ReportTable
    from backstory.workspace.reader import Reader

PERIOD = "period"
SINCE = ("24h", "7 days", "30 days", "")
"""The periods of the reports, as the filter of the list takes them."""
FIELDS = {"agent": "agent", "model": "model", "repository": "repo", "project": "project", "branch": "branch"}
"""The fields of the filter that choose the sessions of a group; those of other groups have no address."""


class PageLink(NamedTuple):
    """A word that leads to another page; ``is_here``: it is this one."""

    words: str
    where: str
    is_here: bool


class TableRow(NamedTuple):
    """A row of a table: its cells, the share of the largest measure in percent, and the address behind it."""

    cells: list[str]
    percent: int | None
    where: str


class ReportPage(NamedTuple):
    """A report, and the ways to others."""

    report: Report
    tabs: list[PageLink]
    periods: list[PageLink]
    period: int

    def behind(self, about: About | None) -> str:
        """The address of the sessions that a row is about; '' where there is none."""
        asked = {"since": SINCE[self.period]} if SINCE[self.period] else {}
        match about:
            case OfSession(uid=uid, seq=None):
                return f"/s/{uid}"
            case OfSession(uid=uid, seq=seq):
                return f"/s/{uid}/{seq}"
            case OfGroup(by=None):
                return address("/sessions", asked)
            case OfGroup(by="day", key=key) if key is not None and key.value:
                return address("/sessions", {"since": key.value, "until": key.value})
            case OfGroup(by=by, key=key) if by in FIELDS and key is not None and key.value:
                return address("/sessions", {**asked, FIELDS[by]: key.value})
        return ""

    def rows(self, table: ReportTable) -> list[TableRow]:
        """The rows of a table."""
        most = max(table.measure, default=0)
        found = []
        for n, cells in enumerate(table.rows):
            percent = round(100 * table.measure[n] / most) if n < len(table.measure) and most else None
            about = table.about[n] if n < len(table.about) else None
            found.append(TableRow([plain(text_of(each)) for each in cells], percent, self.behind(about)))
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


def read(reader: Reader, now: int, name: str, typed: Mapping[str, str]) -> ReportPage | None:
    """Compute a report; None if there is none of this name."""
    number = next((n for n, each in enumerate(TABS) if slug(each.name) == name), None)
    if number is None:
        return None
    wanted = typed.get(PERIOD, "")
    period = int(wanted) if wanted in {str(n) for n in range(len(PERIODS))} else TABS[number].period
    _, report = tabs.read(reader, now, TabQuestion(tab=number, period=period, everywhere=True), lambda *_: None)
    here = f"/reports/{name}"
    return ReportPage(
        report,
        [PageLink(each.name, f"/reports/{slug(each.name)}", n == number) for n, each in enumerate(TABS)],
        [PageLink(each.words, address(here, {PERIOD: str(n)}), n == period) for n, each in enumerate(PERIODS)],
        period,
    )
