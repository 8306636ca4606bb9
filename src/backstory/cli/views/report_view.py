"""A report on a terminal or in a pipe."""

from __future__ import annotations

import sys
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from backstory.chronicle.report import Cell, Tone, text_of
from backstory.cli import output
from backstory.cli.output import flowing, room_beside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backstory.chronicle.report import Count, Report, ReportRow, ReportTable, Section

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


def text_lines(report: Report) -> Iterator[str]:
    """Yield the lines of a report."""
    yield from (output.style(each, bold=True) for each in flowing(report.title, 0))
    if report.lead:
        yield from (output.style(each, dim=True) for each in flowing(report.lead, 0))
    for n, section in enumerate(report.sections):
        yield from [""] if n or section.title else []
        yield from section_lines(section)
    for note in report.notes:
        yield from ("", *flowing(note, 0))


def section_lines(section: Section) -> Iterator[str]:
    """Yield the lines of a part of a report."""
    head = "" if section.number is None else f"{section.number}. "
    indent = len(head) or INDENT
    # The first head of a table says the same.
    if section.title and section.table is None:
        first, *more = flowing(section.title, len(head))
        yield from (
            output.style(each, bold=True) for each in (head + first, *(" " * len(head) + each for each in more))
        )
    widest = max((len(name) for name, _ in section.sums), default=0)
    for name, cells in section.sums:
        yield f"{output.style(name.ljust(widest), dim=True)}  {' '.join(map(_fitting, cells))}"
    for each in _aligned(section.rows) if section.is_aligned else section.rows:
        yield from _row_lines(each, indent)
    if section.table is not None:
        yield from _table_lines(section.table)
    for note in section.notes:
        yield from (output.style(line, dim=True) for line in flowing(note, 0))
    if section.diff:
        yield from ["", *_diff_lines(section.diff)] if section.notes else _diff_lines(section.diff)
    for part in section.parts:
        for each in part.rows:
            yield from _row_lines(each, indent, part.mark)


def _aligned(each_row: Iterable[ReportRow]) -> Iterator[ReportRow]:
    """Yield rows whose cells with a tone are as wide as the widest of their column."""
    rows = list(each_row)
    toned = [[each for each in row.cells if isinstance(each, Cell)] for row in rows]
    widths = [max(len(each.text) for each in column) for column in zip(*toned, strict=True)]
    for row, cells in zip(rows, toned, strict=True):
        padded = [Cell(each.text.ljust(width), each.tone) for each, width in zip(cells, widths, strict=True)]
        yield replace(row, cells=(*padded, *row.cells[len(cells) :]))


def _row_lines(row: ReportRow, indent: int, mark: Cell | None = None) -> Iterator[str]:
    """Yield a row and those below it. Where it names a thing it is one line, cut where the page ends."""
    cells = row.cells if mark is None else (mark, *row.cells)
    styled = [each for each in takewhile(_is_styled, cells) if isinstance(each, Cell)]
    whole = " ".join(map(text_of, cells)).rstrip()
    is_named = any(isinstance(each, Cell) and each.tone is Tone.NAME for each in cells)
    first, *more = [output.one_line(whole, room_beside(indent))] if is_named else flowing(whole, indent)
    head = " ".join(map(text_of, styled))
    shown = " ".join(output.style(each.text, **STYLES[each.tone]) for each in styled)
    yield " " * indent + (shown + first[len(head) :] if first.startswith(head) else first)
    yield from (" " * indent + each for each in more)
    for each in row.below:
        yield from _row_lines(each, indent + BELOW)


def _is_styled(cell: str | Cell) -> bool:
    return isinstance(cell, Cell) and cell.tone in STYLES


def _diff_lines(diff: str) -> Iterator[str]:
    """The lines of a diff, coloured as git does."""
    for line in diff.splitlines():
        is_added = line.startswith("+") and not line.startswith("+++")
        yield output.style(output.clean(line), fg="green") if is_added else output.clean(line)


# a table --------------------------------------------------------------------------------------------------------------


def _table_lines(table: ReportTable) -> Iterator[str]:
    """A table with numbers to the right; on a terminal with bars of a measure, which the last rows may not have."""
    everything = [table.heads, *(tuple(map(_fitting, each)) for each in table.rows)]
    widths = [max(output.columns(output.clean(each[n])) for each in everything) for n in range(len(table.heads))]
    if sys.stdout.isatty():
        widths[0] = min(widths[0], NAME_COLUMNS_MOST)
    shown = _layout(widths)
    bar = min(output.width() - sum(widths[n] + 2 for n in shown), BAR_COLUMNS_MOST) if sys.stdout.isatty() else 0
    most = max(table.measure, default=0)
    for number, each in enumerate(everything):
        name = output.one_line(each[0], widths[0])
        cells = [name + " " * (widths[0] - output.columns(name)), *(each[n].rjust(widths[n]) for n in shown[1:])]
        line = "  ".join(cells)
        if number == 0:
            yield output.style(line.rstrip(), dim=True)
        elif bar >= BAR_COLUMNS_LEAST and number <= len(table.measure) and most:
            yield f"{line}  {output.style(_bar(table.measure[number - 1] / most, bar), fg='cyan')}".rstrip()
        else:
            yield line.rstrip()


def _fitting(cell: str | Count) -> str:
    return text_of(cell, is_short=sys.stdout.isatty())


def _layout(widths: list[int]) -> Sequence[int]:
    """The columns that a terminal has room for; where even the fewest need more, the name is cut."""
    whole = range(len(widths))
    if not sys.stdout.isatty():
        return whole
    layouts = LAYOUTS if len(widths) == len(LAYOUTS[0]) else (whole,)
    beside = BAR_COLUMNS_LEAST + 2
    least = min(widths[0], NAME_COLUMNS_WANTED) + beside
    room = {each: output.width() - sum(widths[n] + 2 for n in each[1:]) for each in layouts}
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
