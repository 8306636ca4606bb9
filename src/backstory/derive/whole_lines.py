"""Whole lines of edits that have only a part of a line: which lines the part can have been in. Pure.

An edit may say no more than "count * 3 becomes count * 4". The line that it changed is one that an edit before it put
there, or one that the next commit took away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backstory.derive.written_lines import WrittenLines

RESULTS_MAX = 200
"""A part that fits more lines than this says nothing of any of them."""


class Gone(NamedTuple):
    """Lines that a commit took away, and until when an edit may have changed them, in ms since 1970."""

    until: int
    texts: frozenset[str]


def completed(edits: Sequence[tuple[int, WrittenLines]], gone: Iterable[Gone]) -> list[list[tuple[str, str]]]:
    """Of each edit (its time, what it wrote) the whole lines that its parts changed: a sign and a text each.

    ``edits`` are in the order of their times.
    """
    gone = list(gone)
    known: set[str] = set()
    found = []
    for at, written in edits:
        lines = [line for part in written.parts for line in _changed(part.applied, part.new, at, known, gone)]
        if written.is_whole:
            known.clear()
        known.difference_update(text for sign, text in (*written.lines, *lines) if sign == "-")
        known.update(text for sign, text in (*written.lines, *lines) if sign == "+")
        found.append(lines)
    return found


def _changed(
    applied: Applied, new: str, at: int, known: set[str], gone: Iterable[Gone]
) -> list[tuple[str, str]]:  # fmt: skip
    texts = known.union(*(each.texts for each in gone if each.until > at))
    pairs = [(text, result) for text in texts if (result := applied(text)) is not None and result != new]
    if len(pairs) > RESULTS_MAX:
        return []
    return [line for text, result in sorted(pairs) for line in (("-", text), ("+", result))]


if TYPE_CHECKING:
    from collections.abc import Callable

    Applied = Callable[[str], str | None]
