"""Lines of text as strips of a screen. Every text that is painted passes here, where it is made harmless."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from backstory.cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence

ATTRIBUTES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse"}
"""The codes that ``output.style`` writes for what is no colour."""
FOREGROUND, COLOURS = 30, 8
MARKED = Style(reverse=True, dim=False)
NOTE_LINES = 4
"""The most lines of a sentence for the person."""


def strip_of(line: str, columns: int) -> Strip:
    """A line with the marks of ``output.style`` as a strip of exactly so many columns."""
    segments = [Segment(text, _style(codes)) for text, codes in output.pieces(line)]
    return Strip(segments).adjust_cell_length(columns)


def strips_of(lines: Sequence[str], columns: int) -> list[Strip]:
    """The same of several lines."""
    return [strip_of(line, columns) for line in lines]


def marked(strip: Strip, start: int, end: int) -> Strip:
    """The same with these columns in reverse, such as a cursor."""
    parts = strip.divide([start, end, strip.cell_length])
    return Strip.join([*parts[:-2], Strip(Segment.apply_style(parts[-2], post_style=MARKED)), parts[-1]])


def note_lines(note: str, columns: int) -> list[str]:
    """A sentence on as few lines as it needs; where there is no end to it its beginning."""
    lines = output.wrapped(output.one_liner(note), columns)
    return [output.style(each, bold=True) for each in lines[:NOTE_LINES]]


@lru_cache(maxsize=64)
def _style(codes: tuple[int, ...]) -> Style:
    style = Style.parse(" ".join(ATTRIBUTES[code] for code in codes if code in ATTRIBUTES))
    for code in codes:
        if FOREGROUND <= code < FOREGROUND + COLOURS:
            style += Style(color=Color.from_ansi(code - FOREGROUND))
    return style
