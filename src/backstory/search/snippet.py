"""Excerpts that show why a text was found, every match marked. Words are separated as in the index."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from backstory.ask.query import HASH, other_forms, terms
from backstory.derive.index_text import identifier_parts, index_text
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable


AROUND_CHARS = 70
TEXT_CHARS_MAX = 2_000_000
MARKED_TERMS_MAX = 16
"""The most words of a query that are looked for in a text to choose its excerpt,"""
PLACES_MAX = 200
"""and the most places of each."""


def snippet(text: str, query: str, around: int = AROUND_CHARS) -> tuple[str, list[tuple[int, int]]]:
    """An excerpt of one line, and the (start, end) of every match in it, in characters.

    The excerpt stands where most of the query's words come together; it begins and ends at words.
    """
    text = readable_text(text[:TEXT_CHARS_MAX])
    if not text.isascii() and _COMBINING.search(text):
        text = unicodedata.normalize("NFC", text)
    return excerpt_of(text, _places(text, query), around)


def places_of(text: str, query: str) -> tuple[list[tuple[int, int]], int]:
    """The (start, end) of every match of a query's terms in a text, none inside another; where most come together."""
    ordered, found = sorted(_places(text, query)), list[tuple[int, int]]()
    for start, end, _ in ordered:
        if not found or start >= found[-1][1]:
            found.append((start, end))
    return found, ordered[_best_place(ordered, AROUND_CHARS)][0] if ordered else 0


def _places(text: str, query: str) -> list[tuple[int, int, int]]:
    folded = fold(text)
    return [(*place, number) for number, look in enumerate(looks_of(query)) for place in look.places(text, folded)]


def readable_text(text: str) -> str:
    """A text whose lines of JSON are read as JSON's readers do: without the escapes in its strings.

    >>> readable_text(r'{"text": "one\\ntwo", "say": "\\"no\\""}')
    '{"text": "one\\ntwo", "say": ""no""}'
    """
    if "\\n" not in text and '\\"' not in text:
        return text
    lines = (
        _ESCAPE.sub(_unescaped, line) if "\\" in line and _MEMBER.search(line) else line for line in text.split("\n")
    )
    return "\n".join(lines)


_MEMBER = lazy_regex(r'"[^"\\]{1,200}"\s{0,9}:\s{0,9}(?:["\[{]|true|false|null|-?\d)')
_ESCAPE = lazy_regex(r'\\(?:[\\"/nrtbf]|u[0-9a-fA-F]{4})')
_ESCAPED = {"n": "\n", "r": "\n", "t": "\t", "b": " ", "f": " "}


def _unescaped(found: re.Match[str]) -> str:
    sign = found.group()[1:]
    if len(sign) == 1:
        return _ESCAPED.get(sign, sign)
    letter = chr(int(sign[1:], 16))
    # Half of a pair is no letter.
    return letter if letter.isprintable() else found.group()


_COMBINING = lazy_regex(r"[\u0300-\u036f]")
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_TOKEN = lazy_regex(r"[^\W_]+")
_BLANKS = lazy_regex(r"\s+")
_CJK_RANGES = [each.split("-") for each in re.findall(".-.", _CJK)]
_PLAIN_WORD = r"[^\W_]"
# Where no spaces part the words, each character is a word of its own.
_WORD = rf"[^\W_{_CJK}]"


@cache
def _query_token() -> re.Pattern[str]:
    return re.compile(rf"[{_CJK}]|{_WORD}+")


@lru_cache(maxsize=2)
def _has_cjk(text: str) -> bool:
    return not text.isascii() and any(
        first <= letter <= last for letter in set(text) if letter >= "\u3040" for first, last in _CJK_RANGES
    )


@lru_cache(maxsize=2)
def _without_cjk(text: str) -> str:
    """The text with a sign for each letter that is a word of its own; places stay what they are."""
    return text.translate(_CJK_AS_SIGNS)


class _AsSigns(dict[int, int]):
    def __missing__(self, code: int) -> int:
        self[code] = found = 0 if code >= 0x3040 and _has_cjk(chr(code)) else code
        return found


_CJK_AS_SIGNS = _AsSigns()


class _Look:
    """One term of a query, to be looked for in texts."""

    def __init__(self, term: str) -> None:
        folded = fold(term)
        self._is_prefix = (term.endswith("*") and term[:-1].isalnum()) or HASH.fullmatch(term) is not None
        self._tokens = (_TOKEN if term.isascii() else _query_token()).findall(folded)
        self._parts = [fold(part) for part in identifier_parts(term)] if term.isalnum() else []
        self._is_plain_word = len(self._tokens) == 1 and not self._parts and not _has_cjk(folded)
        has_signs = not self._is_prefix and not (term[:1].isalnum() and term[-1:].isalnum())
        self._typed = [re.compile(re.escape(folded))] if has_signs else []
        single = self._tokens[0] if len(self._tokens) == 1 and self._tokens[0].isascii() else None
        self._part = re.compile(re.escape(single)) if single else None
        self._forms = [_TOKEN.findall(form) for form in other_forms(term)] if not has_signs else []
        self._known: dict[str, tuple[list[re.Pattern[str]], list[re.Pattern[str]]]] = {}

    def places(self, text: str, folded: str) -> list[tuple[int, int]]:
        """Return the places of the term: as typed if it is so anywhere, else its words, else as part of identifiers."""
        word = _PLAIN_WORD
        if _has_cjk(text):
            # The wider class takes milliseconds to compile; a plain word is as well found without such letters.
            word, folded = (_PLAIN_WORD, _without_cjk(folded)) if self._is_plain_word else (_WORD, folded)
        together, apart = self._ways(word)
        for way in (*self._typed, *together):
            if found := _spans(way, folded):
                return found
        found = [span for way in apart for span in _spans(way, folded)]
        if found or self._part is None:
            return sorted(found)
        within = (each.span() for each in islice(self._part.finditer(folded), 20 * PLACES_MAX))
        return list(islice((span for span in within if _is_part(text, *span)), PLACES_MAX))

    def _ways(self, word: str) -> tuple[list[re.Pattern[str]], list[re.Pattern[str]]]:
        """Patterns for the term in one piece, and for its words, which show a phrase that is nowhere in one piece."""
        if word not in self._known:
            together = [_together(self._tokens, word, is_prefix=self._is_prefix)] if self._tokens else []
            if self._parts:
                together.append(_together(self._parts, word, is_prefix=False))
            together += [_together(form, word, is_prefix=False) for form in self._forms]
            tokens = self._tokens if len(self._tokens) > 1 else []
            self._known[word] = together, [_together([token], word, is_prefix=False) for token in tokens]
        return self._known[word]


@lru_cache(maxsize=32)
def looks_of(query: str) -> tuple[_Look, ...]:
    return tuple(_Look(term) for term in islice(dict.fromkeys(terms(query)), MARKED_TERMS_MAX))


def words_in(text: str, query: str) -> tuple[str, ...]:
    """Return those of a query's terms that a text has, in any form that counts; none if it has them all."""
    text = readable_text(text[:TEXT_CHARS_MAX])
    folded, wanted = fold(text), list(islice(dict.fromkeys(terms(query)), MARKED_TERMS_MAX))
    found = [term for term, look in zip(wanted, looks_of(query), strict=True) if look.places(text, folded)]
    return tuple(found) if len(found) < len(wanted) else ()


def _together(tokens: list[str], word: str, *, is_prefix: bool) -> re.Pattern[str]:
    """A pattern for words that follow one another, whatever signs stand between."""
    pieces = [re.escape(tokens[0])]
    if not _is_cjk(tokens[0]):
        # Looked at behind the word, so that the search for its letters is a fast one.
        pieces.append(rf"(?<!{word}{re.escape(tokens[0])})")
    for last, token in pairwise(tokens):
        pieces += [r"[\W_]*" if _is_cjk(last) or _is_cjk(token) else r"[\W_]+", re.escape(token)]
    if is_prefix:
        pieces.append(f"{word}*")
    elif not _is_cjk(tokens[-1]):
        pieces.append(f"(?!{word})")
    return re.compile("".join(pieces))


def _is_cjk(token: str) -> bool:
    return len(token) == 1 and not token.isascii() and index_text(token) != token


def _spans(way: re.Pattern[str], folded: str) -> list[tuple[int, int]]:
    return [found.span() for found in islice(way.finditer(folded), PLACES_MAX)]


def _is_part(text: str, start: int, end: int) -> bool:
    """Return True if a part of an identifier begins and ends here, as its case shows."""
    begin, stop = start, end
    while begin > 0 and text[begin - 1].isascii() and text[begin - 1].isalnum():
        begin -= 1
    while stop < len(text) and text[stop].isascii() and text[stop].isalnum():
        stop += 1
    at = begin
    for part in identifier_parts(text[begin:stop]) if stop - begin < 200 else ():
        if (at, at + len(part)) == (start, end):
            return True
        at += len(part)
    return False


def excerpt_of(text: str, places: Iterable[tuple[int, int, int]], around: int) -> tuple[str, list[tuple[int, int]]]:
    """The excerpt that has most different terms, as one line, with its marks; ``places`` are (start, end, term)."""
    ordered = sorted(places)
    if not ordered:
        return _one_line(text[: 2 * around], [])
    start, end = _best_window(text, ordered, around)
    inside = [(max(a, start) - start, min(b, end) - start) for a, b, _ in ordered if a < end and b > start]
    line, marks = _one_line(text[start:end], inside)
    head, tail = "…" if start > 0 else "", "…" if end < len(text) else ""
    return f"{head}{line}{tail}", [(a + len(head), b + len(head)) for a, b in marks]


def _best_window(text: str, places: list[tuple[int, int, int]], around: int) -> tuple[int, int]:
    first_start, first_end, _ = places[_best_place(places, around)]
    start, end = max(first_start - around, 0), min(first_start + 2 * around, len(text))
    if start > 0:
        space = text.find(" ", start, first_start)
        start = space + 1 if space >= 0 else start
    if end < len(text):
        space = text.rfind(" ", min(first_end, end), end)
        end = space if space >= 0 else end
    return start, end


def _best_place(places: list[tuple[int, int, int]], around: int) -> int:
    best, most = 0, 0
    for n, (start, _, _) in enumerate(places):
        different = {term for a, _, term in places[n : n + 12] if a < start + around}
        if len(different) > most:
            best, most = n, len(different)
    return best


def _one_line(text: str, spans: list[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """A text on one line, its blanks made one space each, and the spans in it, those that touch joined."""
    line = _BLANKS.sub(" ", text).strip(" ")
    marks: list[tuple[int, int]] = []
    for span in spans:
        first, last = (min(len(_BLANKS.sub(" ", text[:place]).lstrip(" ")), len(line)) for place in span)
        if marks and first < marks[-1][1]:
            marks[-1] = (marks[-1][0], max(last, marks[-1][1]))
        elif last > first:
            marks.append((first, last))
    return line, marks


class _Folding(dict[int, str]):
    """Letters without accents and case, each for one letter, so that places stay what they are."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        base = unicodedata.normalize("NFD", letter)
        # A syllable of Hangul is made of letters, not of a letter and its accents.
        base = base[0] if len(base) > 1 and unicodedata.combining(base[1]) else letter
        lower = base.lower()
        self[code] = folded = lower[0] if lower else base
        return folded


_FOLDING = _Folding()


def fold(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_FOLDING)
