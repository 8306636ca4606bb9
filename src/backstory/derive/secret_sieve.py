"""Tells the few records of a log that may hold a secret from all others, by the bytes that are kept. Pure.

A log repeats itself: what stands between two quotes was mostly met before, and is looked up instead of read. Of what is
new only the words are looked through that are new (``secret_anchors``), and where one may tell a secret, the shapes are
asked about what stands around it. It passes on a little more than has a secret: who reads the record decides.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, compress, filterfalse
from typing import TYPE_CHECKING

from backstory.derive.secret_anchors import LOWERED_TO_ASCII, Anchors
from backstory.derive.secret_names import kind_of_name
from backstory.derive.secret_shapes import ALL, COLUMN_MIN, Pieces, findings_in
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PART_BYTES = 256 * 1024
"""The bytes that are looked at together, about."""
LINE_BYTES_MAX = 8 * 1024 * 1024
"""A longer line is cut, and what the cut parts is not found."""
MET_BYTES_MAX = 64 * 1024 * 1024
"""Pieces that are remembered take at most so much."""
BASE64_CHARS_MIN = 512
"""Base64 from this length on is an image, a signature or the like. No token without another sign is longer."""
BEFORE, BEHIND = 3, 6
"""Pieces before and behind a telling one that are looked at with it: a value, and whose it is."""
SETTING = 7
"""A setting's value is at most so many pieces from its name."""
_PLAIN = lazy_regex(
    rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?Z?|"
    rb"(?:msg|req|toolu)_0[0-9A-Za-z]{20,40}|gAAAAA[A-Za-z0-9_-]{100,}={0,2}|[A-Za-z0-9+/]{%d,}={0,2}"
    % BASE64_CHARS_MIN
)
"""A UUID, a moment, an id of a request or message, what an agent encrypted itself, and bytes in base64."""
_ESCAPES = lazy_regex(r"\\(?:u00([0-7][0-9a-fA-F])|([\\/]))")
"""Letters of ASCII that JSON need not escape, and some of its writers do."""
NESTED_MAX = 4
"""JSON that is so often in JSON is read as if it were plain."""


class SecretSieve:
    """Finds the places of secrets in many logs, one after another: what one had is known in the next."""

    def __init__(self) -> None:
        self._anchors = Anchors(people=False)
        self._plain = set[bytes]()
        """Pieces between quotes without an anchor."""
        self._telling = dict[bytes, int]()
        """Those with one, and the kinds of what they may tell."""
        self._empty = set[int]()
        """Hashes of telling pieces, with those around them, in which there is no secret."""
        self._met = 0

    def places_in(self, pieces: Iterable[bytes]) -> Iterator[int]:
        """Yield where in these bytes, which follow one another, a secret may be: a place in its record."""
        start, held = 0, b""
        for piece in pieces:
            data, at = held + piece if held else piece, 0
            while len(data) - at > PART_BYTES:
                end = data.rfind(b"\n", at, at + PART_BYTES) + 1 or data.find(b"\n", at + PART_BYTES) + 1
                if not end and len(data) - at < LINE_BYTES_MAX:
                    break
                end = min(end or len(data), at + LINE_BYTES_MAX)
                yield from (start + at + place for place in self._places_in(data[at:end]))
                at = end
            held = data[at:]
            start += at
        yield from (start + place for place in self._places_in(held))

    def _places_in(self, part: bytes) -> Iterator[int]:
        pieces = part.split(b'"')
        new = set(pieces) - self._plain
        self._learn(new - self._telling.keys())
        met = new & self._telling.keys()
        starts: list[int] = []
        for number in compress(range(len(pieces)), map(met.__contains__, pieces)) if met else ():
            if _is_setting(pieces, number) or self._may_hold(pieces, number):
                starts = starts or [0, *accumulate(len(piece) + 1 for piece in pieces)]
                yield starts[number]

    def _learn(self, new: set[bytes]) -> None:
        """Tell new pieces that have an anchor from those that have none."""
        self._met += sum(map(len, new))
        if self._met > MET_BYTES_MAX:
            self._plain.clear()
            self._telling.clear()
            self._empty.clear()
            self._met = 0
        read = [piece.decode("utf-8", "surrogateescape") for piece in filterfalse(_PLAIN.fullmatch, new)]
        keys = read
        if plain := [(piece, each) for piece in read if _has_escapes(piece) for each in _unescaped(piece)]:
            keys, read = [*read, *(piece for piece, _ in plain)], [*read, *(each for _, each in plain)]
        # A name is known by what follows it, which was cut off. A line's end stays as long as it is.
        text = '": '.join([*read, ""]).replace("\\n", "  ").replace("\\t", "  ")
        words = self._anchors.telling(text.split())
        starts = [0, *accumulate(len(piece) + 3 for piece in read)] if words else []
        for word, kinds in words.items():
            for at in _words_at(text, word):
                key = keys[bisect_right(starts, at) - 1].encode("utf-8", "surrogateescape")
                self._telling[key] = self._telling.get(key, 0) | kinds
        if cut := _cut_pieces(read):
            known = self._anchors.telling([word for words in cut.values() for word in words]).keys()
            for number in [number for number, words in cut.items() if known and not known.isdisjoint(words)]:
                self._telling[keys[number].encode("utf-8", "surrogateescape")] = ALL
        for piece in [piece for piece in read if LOWERED_TO_ASCII in piece] if LOWERED_TO_ASCII in text else ():
            self._telling[piece.encode("utf-8", "surrogateescape")] = ALL
        self._plain |= new - self._telling.keys()

    def _may_hold(self, pieces: list[bytes], number: int) -> bool:
        piece, around = pieces[number], pieces[max(number - BEFORE, 0) : number + BEHIND]
        key = hash(tuple(around))
        if key in self._empty:
            return False
        alone, kinds = piece.decode("utf-8", "surrogateescape"), self._telling[piece]
        texts = [b'"'.join(around).decode("utf-8", "surrogateescape")]
        # Some shapes go over a line's end, and what a terminal cut is known by the width of its lines.
        texts += [alone.replace("\\n", "\n")] if "\\n" in alone else []
        if _has_escapes(texts[0]):
            plain = [*_unescaped(texts[0])]
            texts += [*plain, *(each.replace("\\n", "\n") for each in _unescaped(alone) if "\\n" in each)]
            for within in [each.encode("utf-8", "surrogateescape").split(b'"') for each in plain]:
                if any(_is_setting(within, number) for number in range(len(within))):
                    return True
        if any(next(findings_in(text, people=False, kinds=kinds), None) is not None for text in texts):
            return True
        self._empty.add(key)
        return False


def _has_escapes(text: str) -> bool:
    """Return True if JSON would write this shorter."""
    return "\\u00" in text or "\\/" in text


def _unescaped(text: str) -> Iterator[str]:
    """Yield a text as it is in JSON, and in JSON that is in JSON."""
    for _ in range(NESTED_MAX):
        text = _ESCAPES.sub(lambda found: found[2] or chr(int(found[1], 16)), text)
        yield text
        if not _has_escapes(text):
            return


def _cut_pieces(read: list[str]) -> dict[int, list[str]]:
    """Return the numbers of pieces with lines that the width of a terminal cut, and the words of these as they were."""
    with_lines = [number for number, piece in enumerate(read) if len(piece) > COLUMN_MIN and "\\n" in piece]
    found = {number: [*Pieces.of_cut_lines(read[number].replace("\\n", "\n"))] for number in with_lines}
    return {number: " ".join([each.text for each in whole]).split() for number, whole in found.items() if whole}


def _is_setting(pieces: list[bytes], number: int) -> bool:
    """Return True for the name of a secret in a list of settings, each as ``{"name": …, "value": …}``."""
    around = pieces[max(number - SETTING, 0) : number + SETTING]
    if not any(piece.rstrip(b"\\") in (b"value", b"Value") for piece in around):
        return False
    return kind_of_name(pieces[number].decode("utf-8", "surrogateescape").rstrip("\\")) is not None


def _words_at(text: str, word: str) -> Iterator[int]:
    """Yield the places of a word between blanks."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if (not at or text[at - 1].isspace()) and (end == len(text) or text[end].isspace()):
            yield at
        at = text.find(word, end)
