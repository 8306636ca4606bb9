"""A text as it was before a terminal coloured it and cut its lines, and the places of its letters in it. Pure.

A colour between a name and its value, or a line's end in the middle of a token, hides a secret from its shape.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.derive.secret_kinds import Finding
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

COLUMN_MIN = 60
"""A line that ends earlier was not cut by the width of a terminal."""
COLUMNS = 80
"""The usual width; another one is believed where two lines have it, and none is longer."""
_COLOUR = lazy_regex(r"(?:\x1b|\\{1,4}(?:u001[bB]|x1[bB]|033|e))\[[0-9;:]{0,40}[mK]")
"""A terminal's colours, as they are or as a program writes them."""


class Pieces(Struct, frozen=True):
    """Pieces of a text put together, with the place of each in the whole and in the text."""

    text: str
    starts: list[int]
    places: list[int]

    @classmethod
    def joined(cls, text: str, pieces: Iterable[tuple[int, int]]) -> Pieces:
        starts, places, parts, at = list[int](), list[int](), list[str](), 0
        for start, end in pieces:
            if start < end:
                starts.append(at)
                places.append(start)
                parts.append(text[start:end])
                at += end - start
        return cls("".join(parts), starts, places)

    @classmethod
    def uncoloured(cls, text: str) -> Pieces | None:
        """A text without its colours; None where it has none."""
        if not any(sign in text for sign in ("\x1b", "1b[", "1B[", "033[", "\\e[")):
            return None
        colours = [found.span() for found in _COLOUR.finditer(text)]
        if not colours:
            return None
        edges = [0, *(edge for colour in colours for edge in colour), len(text)]
        return cls.joined(text, zip(edges[::2], edges[1::2], strict=True))

    @classmethod
    def of_cut_lines(cls, text: str) -> Iterator[Pieces]:
        """The lines that a terminal's width cut, each put together again."""
        if len(text) <= COLUMN_MIN or "\n" not in text:
            return
        lines = _lines(text)
        widths = [end - start for start, end in lines]
        most = max(widths)
        if most < COLUMN_MIN:
            return
        cut = {COLUMNS, most} if widths.count(most) > 1 else {COLUMNS}
        first = 0
        for number in range(len(lines)):
            if (
                widths[number] in cut
                and number + 1 < len(lines)
                and _may_go_on(text, lines[number][1], lines[number + 1])
            ):
                continue
            if number > first:
                yield cls.joined(text, lines[first : number + 1])
            first = number + 1

    def place(self, found: Finding) -> Finding:
        """A finding in this, at its place in the text that this was made of."""
        return Finding(found.name, self._place(found.start), self._place(found.end - 1) + 1, found.secret)

    def crossing(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Those findings that go over a line's end, and go on in the next line's first word."""
        for found in findings:
            piece = self._piece(found.end - 1)
            if self._piece(found.start) < piece and self._goes_on(self.starts[piece], found.end):
                yield self.place(found)

    def _goes_on(self, start: int, end: int) -> bool:
        """Tell the rest of a secret from the next line's own word, or the name of a setting."""
        rest = self.text[start:end]
        if self.text[end : end + 1] in ("=", ":", "("):
            return False
        return not (rest.isalpha() and (rest.islower() or rest.istitle()))

    def _piece(self, at: int) -> int:
        return bisect_right(self.starts, at) - 1

    def _place(self, at: int) -> int:
        piece = self._piece(at)
        return self.places[piece] + at - self.starts[piece]


def _may_go_on(text: str, end: int, following: tuple[int, int]) -> bool:
    """Tell a line that was cut in a word from one that ended there."""
    start, stop = following
    return start < stop and not text[start].isspace() and text[start] not in "{}#" and text[end - 1] not in " ,;{})>."


def _lines(text: str) -> list[tuple[int, int]]:
    """The beginning and the end of each line, without what ends it."""
    lines, at = list[tuple[int, int]](), 0
    for line in text.split("\n"):
        lines.append((at, at + len(line) - line.endswith("\r")))
        at += len(line) + 1
    return lines
