"""A report as one value, which each face draws, and its Markdown. It knows no colour and no width."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from backstory.bounds import short
from backstory.export.safe_markdown import code, fenced, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from backstory.ask.stats import By
    from backstory.derive.secrets import Redactor
    from backstory.derive.tally import GroupKey


T = TypeVar("T")


class Tone(StrEnum):
    """The part that a text has in its row."""

    NAME = "name"
    REF = "ref"
    """A session, or a record of one."""
    GOOD = "good"
    OPEN = "open"
    BAD = "bad"
    CODE = "code"
    """Text that a person may type, or a line of a file."""
    NOTE = "note"


class Cell(Struct, frozen=True):
    """A text with its tone."""

    text: str
    tone: Tone


class OfSession(Struct, frozen=True):
    """A session that a row is about, and its record."""

    uid: str
    seq: int | None = None


class OfSessions(Struct, frozen=True):
    """The sessions that a part of a report is about, by their uids."""

    uids: Iterable[str]
    """May be read more than once."""


class OfGroup(Struct, frozen=True):
    """Turns that a number sums up: those of a group of a grouping; None: all of them.

    ``since`` and ``until``: those of this part of the report's time.
    """

    by: By | None = None
    key: GroupKey | None = None
    since: int | None = None
    until: int | None = None


class OfTool(Struct, frozen=True):
    """The calls of a tool, by its agent's name for it."""

    tool: str


About: TypeAlias = "OfSession | OfSessions | OfGroup | OfTool"
"""The subject of a row, which a face may open."""


class ReportRow(Struct, frozen=True):
    """A line: cells in order, those with a tone first; and the rows that belong to it."""

    cells: tuple[str | Cell, ...]
    below: tuple[ReportRow, ...] = ()
    about: OfSession | None = None


class Count(Struct, frozen=True):
    """A large number, which is shortened where there is no room for it. ``is_least``: it may be more."""

    number: int
    is_least: bool = False


class ReportTable(Struct, frozen=True):
    """Columns, the first with names. ``measure``: a number for each of the first rows, for a bar.

    ``measured``: the head of the bars, where these are not of the last column. ``about``: what the rows sum up, in
    their order; None for one of which no turn is.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str | Count, ...], ...]
    measure: tuple[float, ...] = ()
    measured: str = ""
    about: tuple[OfSession | OfGroup | OfTool | None, ...] = ()


class Amount(NamedTuple):
    """A number of a chart with its text, and the turns that it sums up; None: of none."""

    number: float
    text: str
    about: OfGroup | None


class BarPart(Struct, frozen=True):
    """A part of each bar, or a row of a field, from the first to the last."""

    name: str
    amounts: tuple[Amount, ...]


class Chart(Struct, frozen=True, kw_only=True):
    """A chart. ``heads``: the names of its bars or columns; ``sums``: whole bars. ``ticks``: the heights with a line.

    ``is_field``: every part is a row of squares, which are the darker the larger their number is.
    """

    title: str
    heads: tuple[str, ...]
    parts: tuple[BarPart, ...]
    sums: tuple[Amount, ...]
    ticks: tuple[tuple[float, str], ...] = ()
    is_field: bool = False


class Section(Struct, frozen=True, kw_only=True):
    """A part of a report, drawn in the order of its fields. One without a title goes on with what is above it.

    ``number``: its place among others that are counted. ``mark``: what each of its rows begins with where the title of
    a part of a section is not shown. ``is_aligned``: its rows have the same cells. ``about``: the sessions of it all.
    ``chart``: its amounts as a page draws them. ``sql``: queries that return its numbers, by name.
    """

    title: str = ""
    number: int | None = None
    mark: Cell | None = None
    sums: tuple[tuple[str, tuple[str | Count, ...]], ...] = ()
    rows: Iterable[ReportRow] = ()
    """May be read more than once."""
    is_aligned: bool = False
    table: ReportTable | None = None
    notes: tuple[str, ...] = ()
    diff: str = ""
    parts: tuple[Section, ...] = ()
    about: About | None = None
    chart: Chart | None = None
    sql: Mapping[str, str] = {}


class Report(Struct, frozen=True, kw_only=True):
    """A report. ``lead``: sentences about all of it; ``notes``: sentences behind everything."""

    title: str
    lead: str = ""
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()


def text_of(cell: str | Cell | Count, *, is_short: bool = False) -> str:
    """Return a cell's text."""
    if isinstance(cell, Count):
        return f"{'≥ ' if cell.is_least else ''}{short(cell.number) if is_short else f'{cell.number:,}'}"
    return cell if isinstance(cell, str) else cell.text


def row(*cells: str | Cell, below: Iterable[ReportRow] = (), about: OfSession | None = None) -> ReportRow:
    """Return a row of cells, without those that are empty."""
    return ReportRow(tuple(each for each in cells if each), tuple(below), about)


def rows(lines: Iterable[str]) -> tuple[ReportRow, ...]:
    """Return a row for each line."""
    return tuple(ReportRow((each,)) for each in lines)


def facts(each: Iterable[str | None]) -> str:
    """Join facts by dots, without those that are not known."""
    return " · ".join(filter(None, each))


def masked(found: T, masks: Callable[..., Redactor], tell: Callable[[int], None], home: str = "") -> T:
    """A report, or what it is made of, without secrets. ``tell`` receives how many texts were looked at.

    ``masks`` makes a redactor. ``home``: the person's home folder in a form for other people, which is then also
    without people's names in paths.
    """
    redactor = masks(home, people=bool(home), report=tell)
    without: T = redactor.value(found) if redactor.learn(found) else found
    return without


# a report as Markdown -------------------------------------------------------------------------------------------------


def markdown_lines(report: Report) -> Iterator[str]:
    """Yield a report as Markdown that cannot act on the page that it is put on."""
    return _Drawing(plain, code).lines(report)


def outline_lines(report: Report) -> Iterator[str]:
    """Yield the same with its texts as they are, for who reads them as text."""
    return _Drawing(str, str).lines(report)


class _Drawing(Struct, frozen=True):
    """Draws a report. ``plain`` and ``code`` return a text as it may stand in a line."""

    plain: Callable[[str], str]
    code: Callable[[str], str]

    def lines(self, report: Report) -> Iterator[str]:
        yield f"# {self.plain(report.title)}"
        yield from ("", self.plain(report.lead)) if report.lead else ()
        for section in report.sections:
            yield from self._section(section, "##")
        for note in report.notes:
            yield from ("", self.plain(note))

    def _section(self, section: Section, level: str) -> Iterator[str]:
        number = "" if section.number is None else f"{section.number}. "
        if section.title:
            yield from ("", f"{level} {number}{self.plain(section.title)}")
        if section.sums or section.rows:
            yield ""
            yield from (f"- {name}: {self.plain(' '.join(map(text_of, cells)))}" for name, cells in section.sums)
            yield from self._rows(section.rows, "")
        if section.table is not None:
            yield from ("", *self._table(section.table))
        for note in section.notes:
            yield from ("", self.plain(note))
        if section.diff:
            yield from ("", *fenced(section.diff, "diff"))
        for part in section.parts:
            yield from self._section(part, f"{level}#")

    def _table(self, table: ReportTable) -> Iterator[str]:
        """The first column, which has names, is to the left, the others are to the right."""
        yield f"| {' | '.join(table.heads)} |"
        yield "|:--|" + "--:|" * (len(table.heads) - 1)
        yield from (f"| {' | '.join(self.plain(text_of(cell)) for cell in each)} |" for each in table.rows)

    def _rows(self, shown: Iterable[ReportRow], indent: str) -> Iterator[str]:
        for each in shown:
            yield f"{indent}- {' '.join(map(self._cell, each.cells))}"
            yield from self._rows(each.below, f"{indent}  ")

    def _cell(self, cell: str | Cell) -> str:
        if isinstance(cell, str):
            return self.plain(cell)
        match cell.tone:
            case Tone.REF | Tone.CODE:
                return self.code(cell.text)
            case Tone.NAME | Tone.GOOD | Tone.OPEN | Tone.BAD:
                return f"**{self.plain(cell.text)}**"
            case Tone.NOTE:
                return self.plain(cell.text)
