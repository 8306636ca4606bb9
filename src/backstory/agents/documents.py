"""A document that its agent writes anew at each change, kept as a log that only grows.

Its bytes are cut into pieces: what stands before its list, each element with the comma before it, what stands behind.
The kept form has each piece on a line of its own, once. A line of ours comes before the pieces of each version that
was seen, and says how the order of pieces changed against the version before. So a change costs what is new in it,
nothing that was seen is lost, and the newest version can be put together again, byte for byte.

In a line's JSON a line end is a vertical tab, which no JSON holds; the form feed marks what is not as it was.
"""

from __future__ import annotations

import json
from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct, field

from backstory.lazy import lazy_regex
from backstory.model import DOCUMENT_LINE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NEWLINE, _MARK = b"\v", b"\f"
_SPACE = lazy_regex(r"[ \t\r\n]*")
_scan = json.JSONDecoder(strict=False, parse_int=str, parse_float=str, parse_constant=str).raw_decode

Run = tuple[int, int]
"""Pieces by their numbers among all: the first, and how many."""
Change = tuple[int, int, list[Run]]
"""A part of the version before, from one place in its order to another, and the pieces in its stead."""


class _Version(Struct):
    changes: list[Change] = field(name="backstory-document")


_version = msgspec.json.Decoder(_Version)

# cutting ----------------------------------------------------------------------------------------------------------


def pieces(document: bytes, list_name: str) -> list[bytes]:
    """Cut a document at the elements of a list of its object; together the pieces are the document.

    Of one that is damaged or was cut off, what cannot be read is one piece.
    """
    cuts, at = [0], 0
    for stop in _ends(document.decode("latin-1"), list_name):
        if stop > at:
            cuts.append(stop)
            at = stop
    if at < len(document):
        cuts.append(len(document))
    return [document[start:stop] for start, stop in pairwise(cuts)]


def _ends(text: str, list_name: str) -> Iterator[int]:
    """The end of what stands before the list, and of each of its elements."""
    try:
        at = _list_in(text, list_name)
        if at is None:
            return
        yield at
        while True:
            at = _after(text, at, "")
            if text.startswith("]", at):
                return
            _, at = _scan(text, _after(text, at, ",") if text.startswith(",", at) else at)
            yield at
    except (ValueError, RecursionError):
        return


def _list_in(text: str, list_name: str) -> int | None:
    """The place behind the bracket that opens the list; None if there is none. Raises ValueError."""
    at = _after(text, _after(text, 3 if text.startswith("\xef\xbb\xbf") else 0, ""), "{")
    while not text.startswith("}", at):
        name, at = _scan(text, at)
        at = _after(text, _after(text, at, ""), ":")
        if name == list_name and text.startswith("[", at):
            return at + 1
        _, at = _scan(text, at)
        at = _after(text, at, "")
        if text.startswith(",", at):
            at = _after(text, at, ",")
    return None


def _after(text: str, at: int, sign: str) -> int:
    """The place behind a sign and the blanks that follow it; raises ValueError where it does not stand."""
    if not text.startswith(sign, at):
        raise ValueError(at)
    found = _SPACE.match(text, at + len(sign))
    return found.end() if found is not None else at


# keeping ----------------------------------------------------------------------------------------------------------


class _Kept(Struct):
    """A kept form, read."""

    lines: list[bytes] = field(default_factory=list)
    """All pieces, in the order in which they came."""
    order: list[int] = field(default_factory=list)
    """The newest whole version, by the numbers of its pieces."""
    whole_to: int = 0
    """The end of the lines of that version."""
    has_rest: bool = False
    """True if lines follow it: those of a version that was not kept whole."""
    torn: bytes = b""
    """The beginning of a line."""


def grown(kept: bytes, parts: Sequence[bytes]) -> bytes:
    """The kept form with another version behind it, given in pieces; ``kept`` itself where that is the newest."""
    found, wanted = _read(kept), [_line_of(piece) for piece in parts]
    if [found.lines[number] for number in found.order] == wanted and not found.has_rest:
        return kept
    if found.has_rest:
        # The same version as far as it came: mostly the one that is read now.
        whole = kept[: found.whole_to]
        if (again := whole + _version_lines(_read(whole), wanted)).startswith(kept):
            return again
    if found.torn:
        kept += _MARK + b"\n"
        found = _read(kept)
    return kept + _version_lines(found, wanted)


def newest(kept: bytes) -> bytes:
    """The newest version that was kept whole; of one that is not whole yet, and the first, as much as there is."""
    found = _read(kept)
    lines = [found.lines[number] for number in found.order] if found.whole_to else [*found.lines, found.torn]
    return b"".join(map(_piece_of, lines))


def _read(kept: bytes) -> _Kept:
    *lines, torn = kept.split(b"\n")
    found, at, order = _Kept(torn=torn), 0, list[int]()

    def take() -> None:
        if order and max(order) < len(found.lines):
            found.order, found.whole_to = order, at

    for line in lines:
        if line.startswith(DOCUMENT_LINE) and not line.endswith(_MARK):
            take()
            order = _changed(found.order, _version.decode(line).changes, len(lines))
        else:
            found.lines.append(line)
        at += len(line) + 1
    take()
    found.has_rest = found.whole_to < len(kept)
    return found


def _changed(order: Sequence[int], changes: Sequence[Change], limit: int) -> list[int]:
    """The order of a version; none if it names more than its kept form can hold."""
    made, at = list[int](), 0
    for start, stop, runs in changes:
        made += order[at:start]
        for first, count in runs:
            if not 0 <= first <= first + count <= limit or len(made) > limit:
                return []
            made += range(first, first + count)
        at = stop
    return [*made, *order[at:]]


def _version_lines(found: _Kept, wanted: Sequence[bytes]) -> bytes:
    """The line of ours for a version, and its new pieces."""
    before = [found.lines[number] for number in found.order]
    spans = [span for span in _spans(before, wanted) if before[span[0] : span[1]] != wanted[span[2] : span[3]]]
    kept_places = set(range(len(before))).difference(*(range(start, stop) for start, stop, _, _ in spans))
    in_use = {found.order[place] for place in kept_places}
    free: dict[bytes, deque[int]] = {}
    # A piece that was dropped may come back; the same words said twice are two pieces.
    for number in [*found.order, *range(len(found.lines))]:
        if number not in in_use:
            in_use.add(number)
            free.setdefault(found.lines[number], deque()).append(number)
    changes, new = list[Change](), list[bytes]()
    for start, stop, begin, end in spans:
        numbers = list[int]()
        for line in wanted[begin:end]:
            if known := free.get(line):
                numbers.append(known.popleft())
            else:
                numbers.append(len(found.lines) + len(new))
                new.append(line)
        changes.append((start, stop, _runs(numbers)))
    return b"".join(each + b"\n" for each in (msgspec.json.encode(_Version(changes)), *new))


def _spans(before: Sequence[bytes], after: Sequence[bytes]) -> Iterator[tuple[int, int, int, int]]:
    """The parts in which two versions may differ: the first piece, and what is between equal beginnings and ends."""
    shorter = min(len(before), len(after))
    if shorter:
        yield 0, 1, 0, 1
    first = next((at for at in range(min(1, shorter), shorter) if before[at] != after[at]), shorter)
    last = next((at for at in range(shorter - first) if before[-1 - at] != after[-1 - at]), shorter - first)
    yield first, len(before) - last, first, len(after) - last


def _runs(numbers: Sequence[int]) -> list[Run]:
    runs = list[Run]()
    for number in numbers:
        if runs and number == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((number, 1))
    return runs


def _line_of(piece: bytes) -> bytes:
    if _MARK in piece or _NEWLINE in piece:
        piece = piece.replace(_MARK, _MARK + b"f").replace(_NEWLINE, _MARK + b"v")
    line = piece.replace(b"\n", _NEWLINE)
    return _MARK + b"p" + line if line.startswith(DOCUMENT_LINE) else line


def _piece_of(line: bytes) -> bytes:
    piece = line.replace(_NEWLINE, b"\n")
    if _MARK in piece:
        piece = piece.removeprefix(_MARK + b"p").replace(_MARK + b"v", _NEWLINE).replace(_MARK + b"f", _MARK)
    return piece


# reading ----------------------------------------------------------------------------------------------------------


class KeptLine(NamedTuple):
    """A line of the kept form, for a reader of it."""

    content: bytes = b""
    """An element as its agent wrote it, or what stands around the list, as an object; empty for a line of ours."""
    is_element: bool = False
    changes: Sequence[Change] = ()
    """The changes that a line of ours names; the lines of new pieces follow it."""
    begins: bool = False
    """True for what stands before the list, which is its last value, empty."""

    @property
    def repeats(self) -> bool:
        """Return True if elements that stood there before are told again, or are gone, in the pieces that follow."""
        return any(start < stop and start > 0 for start, stop, _ in self.changes)


NOTHING = KeptLine()


def record(line: bytes) -> KeptLine:
    """Return what a line of the kept form holds. The content of one that was cut off is no JSON."""
    if line.endswith(_MARK):
        return NOTHING
    if line.startswith(DOCUMENT_LINE):
        return KeptLine(changes=_version.decode(line).changes)
    text = _piece_of(line).strip()
    if text.startswith(b","):
        return KeptLine(text[1:].lstrip(), is_element=True)
    if text.startswith(b"]"):
        return KeptLine(b"{" + text[1:].lstrip().removeprefix(b",").lstrip())
    if text.endswith(b"["):
        return KeptLine(text + b"]}", begins=True)
    return KeptLine(text, is_element=True)
