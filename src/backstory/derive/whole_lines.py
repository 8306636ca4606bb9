"""Whole lines of edits that have only a part of a line: which lines the part can have been in. Pure.

An edit may say no more than "count * 3 becomes count * 4". The line that it changed is one that an edit before it put
there, or one that the next commit took away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from backstory.derive.written_lines import LinePart, WrittenLines

RESULTS_MAX = 200
"""A part that fits more lines than this says nothing of any of them."""


class Gone(NamedTuple):
    """Lines that a commit took away, and until when an edit may have changed them, in ms since 1970."""

    until: int
    texts: frozenset[str]


def completed(
    edits: Sequence[tuple[int, WrittenLines]], gone: Iterable[Gone], times: Mapping[str, int]
) -> list[list[tuple[str, str]]]:
    """Return, for each edit (its time, its texts), the whole lines that its parts changed: a sign and a text each.

    ``edits`` are in the order of their times. ``times``: how often a line stands in the file: what an edit changed
    wherever it stood, it put there as often.
    """
    gone = list(gone)
    known: set[str] = set()
    found = []
    for at, written in edits:
        lines: list[tuple[str, str]] = []
        for part in written.parts:
            texts = known.union(*(each.texts for each in gone if each.until > at))
            for old, new in _changed(part, texts):
                count = times.get(new.rstrip(), 1) if part.everywhere else 1
                lines += [("-", old), ("+", new)] * count
        if written.is_whole:
            known.clear()
        known.difference_update(text for sign, text in (*written.lines, *lines) if sign == "-")
        known.update(text for sign, text in (*written.lines, *lines) if sign == "+")
        found.append(lines)
    return found


def _changed(part: LinePart, texts: Iterable[str]) -> list[tuple[str, str]]:
    """The lines that a part may have been in, each with what became of it."""
    results = ((text, part.applied(text)) for text in texts)
    pairs = [(text, result) for text, result in results if result is not None and result != part.new]
    return sorted(pairs) if len(pairs) <= RESULTS_MAX else []
