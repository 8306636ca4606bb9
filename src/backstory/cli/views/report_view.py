"""A report on a terminal or in a pipe."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from backstory.chronicle.report import Cell, Tone, text_of
from backstory.cli import output
from backstory.cli.output import flowing, room_beside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backstory.chronicle.report import About, Count, Report, ReportRow, ReportTable, Section

STYLES: dict[Tone, dict[str, Any]] = {
    Tone.REF: {"bold": True},
    Tone.GOOD: {"fg": "green"},
    Tone.OPEN: {"fg": "yellow"},
    Tone.BAD: {"fg": "red"},
    Tone.NOTE: {"dim": True},
}
INDENT = 2
BELOW = 4
LAYOUTS = (tuple(range(9)), (0, 1, 2, 3, 4, 7, 8), (0, 1, 2, 7, 8), (0, 2, 8))
"""Sets of columns: the first that leaves room for names and bars is shown."""
NAME_COLUMNS_LEAST, NAME_COLUMNS_WANTED, NAME_COLUMNS_MOST = 8, 20, 40
BAR_COLUMNS_LEAST, BAR_COLUMNS_MOST = 8, 30
EIGHTHS = " ▏▎▍▌▋▊▉"


class ReportLine(NamedTuple):
    """A line of a report. ``about``: what it is about, one object for all lines of a row."""

    text: str
    about: About | None = None


def text_lines(report: Report) -> Iterator[str]:
    """Yield the lines of a report."""
    return (each.text for each in report_lines(report))


def section_lines(section: Section) -> Iterator[str]:
    """Yield the lines of a part of a report."""
    return (each.text for each in _section_lines(section))


def report_lines(report: Report) -> Iterator[ReportLine]:
    """Yield the lines of a report, each with what it is about."""
    yield from (ReportLine(output.style(each, bold=True)) for each in flowing(report.title, 0))
    if report.lead:
        yield from (ReportLine(output.style(each, dim=True)) for each in flowing(report.lead, 0))
    for n, section in enumerate(report.sections):
        yield from [ReportLine("")] if n or section.title else []
        yield from _section_lines(section)
    for note in report.notes:
        yield from map(ReportLine, ("", *flowing(note, 0)))


def _section_lines(section: Section) -> Iterator[ReportLine]:
    head = "" if section.number is None else f"{section.number}. "
    indent = len(head) or INDENT
    # The first head of a table says the same.
    if section.title and section.table is None:
        first, *more = flowing(section.title, len(head))
        for each in (head + first, *(" " * len(head) + each for each in more)):
            yield ReportLine(output.style(each, bold=True), section.about)
    widest = max((len(name) for name, _ in section.sums), default=0)
    for name, cells in section.sums:
        first, *more = flowing(" ".join(map(_fitting, cells)), widest + 2)
        yield ReportLine(f"{output.style(name.ljust(widest), dim=True)}  {first}", section.about)
        yield from (ReportLine(" " * (widest + 2) + each, section.about) for each in more)
    for each_row in _aligned(section.rows) if section.is_aligned else section.rows:
        yield from _row_lines(each_row, indent)
    if section.table is not None:
        yield from _table_lines(section.table)
    for note in section.notes:
        yield from (ReportLine(output.style(line, dim=True)) for line in flowing(note, 0))
    if section.diff:
        yield from map(ReportLine, ["", *_diff_lines(section.diff)] if section.notes else _diff_lines(section.diff))
    for part in section.parts:
        for each_row in part.rows:
            yield from _row_lines(each_row, indent, part.mark)


def _aligned(each_row: Iterable[ReportRow]) -> Iterator[ReportRow]:
    """Yield rows whose cells with a tone are as wide as the widest of their column."""
    rows = list(each_row)
    toned = [[each for each in row.cells if isinstance(each, Cell)] for row in rows]
    widths = [max(len(each.text) for each in column) for column in zip(*toned, strict=True)]
    for row, cells in zip(rows, toned, strict=True):
        padded = [Cell(each.text.ljust(width), each.tone) for each, width in zip(cells, widths, strict=True)]
        yield replace(row, cells=(*padded, *row.cells[len(cells) :]))


def _row_lines(
    row: ReportRow, indent: int, mark: Cell | None = None, about: About | None = None
) -> Iterator[ReportLine]:
    """Yield a row and those below it. Where it names a thing it is one line, cut where the page ends.

    ``about``: what the row that it is below of is about.
    """
    about = row.about or about
    cells = row.cells if mark is None else (mark, *row.cells)
    styled = [each for each in takewhile(_is_styled, cells) if isinstance(each, Cell)]
    whole = " ".join(map(text_of, cells)).rstrip()
    is_named = any(isinstance(each, Cell) and each.tone is Tone.NAME for each in cells)
    first, *more = [output.one_line(whole, room_beside(indent))] if is_named else flowing(whole, indent)
    if styled and first.startswith(head := " ".join(map(text_of, styled))):
        first = " ".join(output.style(each.text, **STYLES[each.tone]) for each in styled) + first[len(head) :]
    yield ReportLine(" " * indent + first, about)
    yield from (ReportLine(" " * indent + each, about) for each in more)
    for each_row in row.below:
        yield from _row_lines(each_row, indent + BELOW, about=about)


def _is_styled(cell: str | Cell) -> bool:
    return isinstance(cell, Cell) and cell.tone in STYLES


def _diff_lines(diff: str) -> Iterator[str]:
    """The lines of a diff, coloured as git does."""
    for line in diff.splitlines():
        is_added = line.startswith("+") and not line.startswith("+++")
        yield output.style(output.clean(line), fg="green") if is_added else output.clean(line)


# a table --------------------------------------------------------------------------------------------------------------


def _table_lines(table: ReportTable) -> Iterator[ReportLine]:
    """A table with numbers to the right; on a page with bars of a measure, which the last rows may not have."""
    everything = [table.heads, *(tuple(map(_fitting, each)) for each in table.rows)]
    widths = [max(output.columns(output.clean(each[n])) for each in everything) for n in range(len(table.heads))]
    if _is_page():
        widths[0] = min(widths[0], NAME_COLUMNS_MOST)
    shown = _layout(widths)
    room = output.whole_columns() - sum(widths[n] + 2 for n in shown) if _is_page() else 0
    bar = min(room, BAR_COLUMNS_MOST)
    most = max(table.measure, default=0)
    for number, each in enumerate(everything):
        name = output.one_line(each[0], widths[0])
        cells = [name + " " * (widths[0] - output.columns(name)), *(each[n].rjust(widths[n]) for n in shown[1:])]
        line = "  ".join(cells)
        about = table.about[number - 1] if 0 < number <= len(table.about) else None
        if number == 0:
            measured = f"  {table.measured}" if table.measured and bar >= BAR_COLUMNS_LEAST else ""
            yield ReportLine(output.style(line.rstrip() + measured, dim=True))
        elif bar >= BAR_COLUMNS_LEAST and number <= len(table.measure) and most:
            drawn = output.style(_bar(table.measure[number - 1] / most, bar), fg="cyan")
            yield ReportLine(f"{line}  {drawn}".rstrip(), about)
        else:
            yield ReportLine(line.rstrip(), about)


def _fitting(cell: str | Count) -> str:
    return text_of(cell, is_short=_is_page())


def _is_page() -> bool:
    """Return True if lines are drawn for a width: that of a window or of the terminal."""
    return output.page_columns() < output.UNLIMITED


def _layout(widths: list[int]) -> Sequence[int]:
    """The columns that a terminal has room for; where even the fewest need more, the name is cut."""
    whole = range(len(widths))
    if not _is_page():
        return whole
    layouts = LAYOUTS if len(widths) == len(LAYOUTS[0]) else (whole,)
    beside = BAR_COLUMNS_LEAST + 2
    least = min(widths[0], NAME_COLUMNS_WANTED) + beside
    room = {each: output.whole_columns() - sum(widths[n] + 2 for n in each[1:]) for each in layouts}
    shown = next((each for each in layouts if room[each] >= least), layouts[-1])
    widths[0] = min(widths[0], max(room[shown] - beside, NAME_COLUMNS_LEAST))
    return shown


def _bar(part: float, columns: int) -> str:
    """A bar that long, to an eighth of a column; what is more than nothing is seen.

    >>> _bar(0.5, 3), _bar(0.001, 3), _bar(0, 3)
    ('█▌', '▏', '')
    """
    eighths = max(round(part * columns * 8), 1 if part > 0 else 0)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
