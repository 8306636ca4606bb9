"""Bytes to lines, once for all: fed in blocks of any size, however long a line is.

A line over 64 MB is kept like any other by those who keep bytes, and never held whole here: its content is None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

BLANK = b"\0 \t\r"
"""A line of these alone holds nothing, and is no record."""
LINE_BYTES_MAX = 64 * 1024 * 1024
"""A longer line is kept like any other, and parsed as one Unknown event."""
Line = tuple[int, int, bytes | None]
"""Where a line begins, where the next one does, and what it holds without its end; None: it is too long."""


class LineReader:
    """Cuts the bytes it is fed into lines. ``at``: where the line begins that ``carry`` is the beginning of.

    ``record_end``: what the last line of every record matches, in a document whose records are several lines each;
    such a record counts as one line. ``carried``: the length of a beginning that is too long to be given.
    """

    def __init__(
        self, at: int = 0, carry: bytes = b"", *, carried: int = 0, record_end: re.Pattern[bytes] | None = None
    ) -> None:
        self.start = at
        """Where the line begins that has not ended."""
        self._record_end = record_end
        self._pieces = [carry] if carry else []
        self._held = carried or len(carry)
        self._last = carry.rpartition(b"\n")[2] if record_end is not None else b""
        """As much as there is of the last line of a record of several."""

    @property
    def read_to(self) -> int:
        """Where what it was fed ends."""
        return self.start + self._held

    @property
    def unfinished(self) -> bytes | None:
        """The line that has not ended, as far as it came; None when it is too long."""
        return b"".join(self._pieces) if self._held <= LINE_BYTES_MAX else None

    def lines(self, block: bytes) -> Iterator[Line]:
        """The lines that the next bytes finish."""
        *pieces, rest = block.split(b"\n")
        for piece in pieces:
            if self._record_end is not None:
                last, self._last = self._last + piece, b""
                if self._record_end.match(last) is None:
                    self._hold(piece + b"\n")
                    continue
            line = piece if len(piece) <= LINE_BYTES_MAX else None
            if self._held:
                self._hold(piece)
                line = self.unfinished
                self._pieces.clear()
            else:
                self._held = len(piece)
            start = self.start
            self.start, self._held = start + self._held + 1, 0
            yield start, self.start, line
        if rest:
            self._hold(rest)
            if self._record_end is not None and len(self._last) <= LINE_BYTES_MAX:
                self._last += rest

    def _hold(self, piece: bytes) -> None:
        self._held += len(piece)
        if self._held > LINE_BYTES_MAX:
            self._pieces.clear()
        else:
            self._pieces.append(piece)


def lines_of(blocks: Iterable[bytes]) -> Iterator[Line]:
    """All lines of these bytes, also a last one that has no end; that of an empty rest is none."""
    reader = LineReader()
    for block in blocks:
        yield from reader.lines(block)
    if reader.read_to > reader.start:
        yield reader.start, reader.read_to, reader.unfinished
