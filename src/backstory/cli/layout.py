"""Text on a page: broken between words on a terminal, as long as it is in a pipe.

A page is no wider than a person reads with ease, however wide the terminal is.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.wrapping import fact_lines, spans
from backstory.lazy_regex import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGE_COLUMNS_MAX = 120
TEXT_COLUMNS_LEAST = 12
"""So many columns text has beside what stands before it, however narrow the terminal is."""
GUTTER = " " * 7
"""As wide as a record's number and the blank behind it."""
MARGIN = GUTTER + "  "
"""What stands before the lines of a text below its first."""
UNLIMITED = sys.maxsize
_START = lazy_regex(r"\s*(?:(?:[-*•]|\d{1,3}[.)])\s+)?", re.ASCII)
"""The indentation of a line, and the sign of a list's item."""


def page_columns() -> int:
    """Return how wide the page is; in a pipe a line is never too long."""
    return min(output.width(), PAGE_COLUMNS_MAX) if sys.stdout.isatty() else UNLIMITED


def room_beside(taken: int) -> int:
    """Return the columns that are left on a line beside so many."""
    return max(page_columns() - taken, TEXT_COLUMNS_LEAST)


def parts(line: str, room: int) -> Iterator[tuple[int, int, int]]:
    """Yield (indentation, start, end) of each part of a line that was made harmless.

    The parts below the first are indented as far as the line's first word is.
    """
    if len(line) <= room and (line.isascii() or output.columns(line) <= room):
        yield 0, 0, len(line)
        return
    start, end = next(spans(line, room))
    yield 0, start, end
    found = _START.match(line)
    indent = found.end() if found else 0
    indent = indent if indent <= room // 2 else 0
    below = len(line) - len(line[end:].lstrip(" "))
    if below < len(line):
        rest = line[below:]
        yield from ((indent, below + start, below + end) for start, end in spans(rest, room - indent))


def flowing(text: str, taken: int = len(MARGIN)) -> list[str]:
    """Return a text's lines for the room beside so many columns; in a pipe they are as they were."""
    room = room_beside(taken)
    if room >= UNLIMITED - taken:
        return text.split("\n")
    lines = output.clean(text.expandtabs(4)).split("\n")
    return [" " * indent + line[start:end] for line in lines for indent, start, end in parts(line, room)]


def flowing_facts(facts: Iterable[str], taken: int = 0) -> list[str]:
    """Return facts with `` · `` between them, on as many lines as they need beside so many columns."""
    return [part for line in fact_lines(facts, room_beside(taken)) for part in flowing(line, taken)]
