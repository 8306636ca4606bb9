"""Text on a page: broken between words on a terminal, as long as it is in a pipe.

A page is no wider than a person reads with ease, however wide the terminal is. A word that is wider than a line is
broken inside.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from backstory.cli.output import clean, columns, width
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGE_COLUMNS_MAX = 120
TEXT_COLUMNS_LEAST = 12
"""The fewest columns for text beside its label, however narrow the terminal is."""
GUTTER = " " * 7
"""As wide as a record's number and the blank behind it."""
MARGIN = GUTTER + "  "
"""The beginning of each line of a text below its first."""
UNLIMITED = sys.maxsize
_START = lazy_regex(r"\s*(?:(?:[-*•]|\d{1,3}[.)])\s+)?", re.ASCII)
"""The indentation of a line, and the sign of a list's item."""
JOINER = "\u200d"
"""Joins the emoji beside it to one."""


def page_columns() -> int:
    """Return how wide the page is; in a pipe a line is never too long."""
    return min(width(), PAGE_COLUMNS_MAX) if sys.stdout.isatty() else UNLIMITED


def room_beside(taken: int) -> int:
    """Return the columns that are left on a line beside so many."""
    return max(page_columns() - taken, TEXT_COLUMNS_LEAST)


def parts(line: str, room: int) -> Iterator[tuple[int, int, int]]:
    """Yield (indentation, start, end) of each part of a line that was made harmless.

    The parts below the first are indented as far as the line's first word is.
    """
    if len(line) <= room and (line.isascii() or columns(line) <= room):
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
    """Return a text's lines for the room that ``taken`` columns leave; in a pipe they are as they were."""
    room = room_beside(taken)
    if room >= UNLIMITED - taken:
        return text.split("\n")
    lines = clean(text.expandtabs(4)).split("\n")
    return [" " * indent + line[start:end] for line in lines for indent, start, end in parts(line, room)]


def flowing_facts(facts: Iterable[str], taken: int = 0) -> list[str]:
    """Return facts with `` · `` between them, on as many lines as needed in the room that ``taken`` columns leave."""
    return [part for line in fact_lines(facts, room_beside(taken)) for part in flowing(line, taken)]


def wrapped(text: str, width: int) -> list[str]:
    """Break a text's lines to at most ``width`` columns; the indentation of a line is kept for its first part.

    An empty line stays one. The text is made harmless first, since escapes take columns too.
    """
    lines = clean(text.expandtabs(4)).split("\n")
    return [line[start:end] for line in lines for start, end in spans(line, width)]


def spans(line: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each part of a line that was made harmless; blanks where it is broken are in no part."""
    start, width, is_plain = 0, max(width, 2), line.isascii()
    while True:
        most = start + width if is_plain else _fitting(line, start, width)
        if most >= len(line):
            yield start, len(line)
            return
        end = _last_break(line, start, most)
        yield start, start + len(line[start:end].rstrip(" "))
        start = end
        while line[start : start + 1] == " ":
            start += 1
        if start == len(line):
            return


def _fitting(line: str, start: int, width: int) -> int:
    """Return the place where a line from ``start`` is full: between whole letters, with accents and joined emoji."""
    used, end = 0, start + 1
    for n in range(start, len(line)):
        used += columns(line[n])
        if used > width:
            return end
        if n + 1 < len(line) and columns(line[n + 1]) and line[n] != JOINER:
            end = n + 1
    return len(line)


def _last_break(line: str, start: int, most: int) -> int:
    """Return a break at ``most`` or before: at the last blank, after the last wide letter, else inside the word."""
    if line[most] == " ":
        return most
    blank = line.rfind(" ", start, most)
    if blank >= 0 and not line[start:blank].strip(" "):
        # Nothing but the line's indentation is before it.
        blank = -1
    # Chinese and Japanese have no blanks: a line is not left half empty for them.
    wide = (
        0 if line.isascii() else next((n for n in range(most, max(blank, start), -1) if columns(line[n - 1]) == 2), 0)
    )
    return wide or (blank if blank >= 0 else most)


def fact_lines(facts: Iterable[str], width: int) -> Iterator[str]:
    """Yield short texts joined by dots, in lines of at most ``width`` columns that break between them; '' is left out.

    A text that is wider than a line is broken between words.
    """
    line = ""
    for fact in facts:
        if not fact:
            continue
        joined = f"{line} · {fact}" if line else fact
        if columns(joined) <= width:
            line = joined
            continue
        if line:
            yield line
        *whole, line = wrapped(fact, width)
        yield from whole
    if line:
        yield line
