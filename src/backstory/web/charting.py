"""The shapes of a chart: where each bar, line and square is. The template draws them as SVG, with a table beside."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from backstory.bounds import short
from backstory.web.markup import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.chronicle.report import Amount, Chart, OfGroup

WIDTH, HEIGHT = 960, 240
LEFT, TOP, BOTTOM = 64, 10, 24
"""The room for what is written beside, above and below."""
LABEL_PX = 78
"""The room of a day's name."""
BAR_PX_MOST, GAP = 40, 0.18
SQUARE_PX, ROW_LEFT = 36, 92
SHADES = 5
"""The shades of squares, the first for none."""


class Shape(NamedTuple):
    """A part of a bar, or a square. ``style``: its class; ``words``: what it is; ``number``: what is written on it."""

    x: float
    y: float
    width: float
    height: float
    style: str
    words: str
    where: str
    number: str = ""


class Label(NamedTuple):
    """A word at a place."""

    x: float
    y: float
    words: str


class TableCell(NamedTuple):
    """A number of the table beside a chart."""

    words: str
    where: str


class TableLine(NamedTuple):
    """A row of that table."""

    name: str
    cells: list[TableCell]


class Layout(NamedTuple):
    """A chart as it is drawn. ``heights``: lines with the amount that each stands for; ``keys``: classes and names."""

    title: str
    about: str
    width: float
    height: float
    shapes: list[Shape]
    heights: list[Label]
    names: list[Label]
    rows: list[Label]
    keys: list[tuple[str, str]]
    heads: list[str]
    lines: list[TableLine]


def drawing(chart: Chart, behind: Callable[[OfGroup | None], str]) -> Layout:
    """Lay a chart out. ``behind``: the address of what a number sums up."""
    return _field(chart, behind) if chart.is_field else _bars(chart, behind)


def _bars(chart: Chart, behind: Callable[[OfGroup | None], str]) -> Layout:
    most = max([each.number for each in chart.sums] + [height for height, _ in chart.ticks]) or 1
    room, floor = (WIDTH - LEFT) / len(chart.heads), HEIGHT - BOTTOM
    scale, bar = (floor - TOP) / most, min(room * (1 - GAP), BAR_PX_MOST)
    shapes: list[Shape] = []
    for place, head in enumerate(chart.heads):
        at = float(floor)
        for number, part in enumerate(chart.parts):
            each = part.amounts[place]
            if not each.number:
                continue
            height = each.number * scale
            at -= height
            x = LEFT + place * room + (room - bar) / 2
            words = f"{head} · {part.name}: {each.text}" if part.name else f"{head}: {each.text}"
            shapes.append(_shape(x, at, bar, height, f"part{number}", words, behind(each.about)))
    every = ceil(LABEL_PX / room)
    names = [
        Label(round(LEFT + (place + 0.5) * room, 1), HEIGHT - 7, chart.heads[place])
        for place in range(0, len(chart.heads), every)
        # One at the end would be cut off.
        if LEFT + (place + 0.5) * room + LABEL_PX / 2 <= WIDTH
    ]
    has_parts = any(each.name for each in chart.parts)
    columns = [*chart.parts] if has_parts else []
    lines = [
        TableLine(head, [_cell(each, behind) for each in (*(part.amounts[n] for part in columns), chart.sums[n])])
        for n, head in enumerate(chart.heads)
        if chart.sums[n].about is not None
    ]
    return Layout(
        title=chart.title, about=_about(chart), width=WIDTH, height=HEIGHT, shapes=shapes,
        heights=[Label(LEFT, round(floor - height * scale, 1), text) for height, text in chart.ticks], names=names,
        rows=[], keys=[(f"part{n}", plain(each.name)) for n, each in enumerate(chart.parts)] if has_parts else [],
        heads=[*(plain(each.name) for each in columns), "all" if has_parts else chart.title.partition(" by ")[0]],
        lines=lines,
    )  # fmt: skip


def _field(chart: Chart, behind: Callable[[OfGroup | None], str]) -> Layout:
    most = max((each.number for part in chart.parts for each in part.amounts), default=0) or 1
    shapes = []
    for row, part in enumerate(chart.parts):
        for column, each in enumerate(part.amounts):
            shade = 0 if not each.number else 1 + int((SHADES - 2) * each.number / most)
            words = f"{part.name} {chart.heads[column]}:00: {each.text or 'none'}"
            x, y = ROW_LEFT + column * SQUARE_PX, TOP + row * SQUARE_PX
            number = short(int(each.number)) if each.number else ""
            shape = _shape(x, y, SQUARE_PX - 2, SQUARE_PX - 2, f"shade{shade}", words, behind(each.about))
            shapes.append(shape._replace(number=number))
    height = TOP + len(chart.parts) * SQUARE_PX + BOTTOM
    return Layout(
        title=chart.title, about=_about(chart), width=ROW_LEFT + len(chart.heads) * SQUARE_PX, height=height,
        shapes=shapes, heights=[],
        names=[Label(ROW_LEFT + (n + 0.5) * SQUARE_PX - 1, height - 7, head) for n, head in enumerate(chart.heads)],
        rows=[Label(ROW_LEFT - 8, TOP + (n + 0.6) * SQUARE_PX, each.name) for n, each in enumerate(chart.parts)],
        keys=[], heads=[*chart.heads],
        lines=[TableLine(each.name, [_cell(amount, behind) for amount in each.amounts]) for each in chart.parts],
    )  # fmt: skip


def _shape(x: float, y: float, width: float, height: float, style: str, words: str, where: str) -> Shape:
    return Shape(round(x, 1), round(y, 1), round(width, 1), round(height, 1), style, plain(words), where)


def _cell(amount: Amount, behind: Callable[[OfGroup | None], str]) -> TableCell:
    return TableCell(plain(amount.text), behind(amount.about))


def _about(chart: Chart) -> str:
    """The chart in a sentence, for who does not see it."""
    return " ".join(_sentences(chart))


def _sentences(chart: Chart) -> Iterator[str]:
    if chart.is_field:
        rows = [(part.name, zip(part.amounts, chart.heads, strict=True)) for part in chart.parts]
        named = [(each, f"{row} {head}:00") for row, cells in rows for each, head in cells]
    else:
        named = list(zip(chart.sums, chart.heads, strict=True))
        yield f"From {chart.heads[0]} to {chart.heads[-1]}."
    most, name = max(named, key=lambda each: each[0].number)
    if most.number:
        yield f"Most: {name}, {plain(most.text)}."
    yield "The same numbers are in the table below."
