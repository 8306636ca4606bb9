"""Tells the few texts that may hold a secret from those that hold none, by their words. Pure.

Whatever ``secret_shapes`` finds has an anchor: the letters that a token begins with, a secret's name, the sign of a
place. No anchor has a blank in it, so it lies in one word, or in two that the end of a line parts. Nearly all words of
a text were in others before: each is remembered with the kinds of its anchors, and only new ones are looked through.
"""

from __future__ import annotations

from itertools import chain, filterfalse
from typing import TYPE_CHECKING

from backstory.derive.secret_kinds import beginning_behind_escape, beginning_of_word, cut_beginning
from backstory.derive.secret_names import names_in
from backstory.derive.secret_places import signs_in
from backstory.derive.secret_shapes import (
    ALL,
    CUT,
    KEYS,
    NAMES,
    PLACES_FROM,
    TOKENS,
    USERS,
    Pieces,
    colours_in,
    forms_in,
    users_in,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WORDS_MAX = 300_000
"""Words that are remembered at most: 30 MB."""
WORD_CHARS_MAX = 100
"""A longer word is looked through each time: it hardly comes again."""
LOWERED_TO_ASCII = "\u212a"
"""The only letter outside ASCII whose small letter is in it."""


class Anchors:
    """Finds the kinds of anchors in texts. ``people``: also those of people's names in paths."""

    def __init__(self, *, people: bool) -> None:
        self._people = people
        self._plain: set[str] = set()
        """Words without an anchor."""
        self._telling: dict[str, int] = {}
        """Words with one, and its kinds."""

    def kinds(self, texts: list[str]) -> list[int]:
        """The kinds of secrets that may be in each text, as bits. Many texts at once are looked at faster than each."""
        is_plain = self._plain.__contains__
        met = [list(filterfalse(is_plain, text.split())) for text in texts]
        # Few texts have lines that were cut.
        cut = {
            number: list(filterfalse(is_plain, " ".join([each.text for each in pieces]).split()))
            for number, text in enumerate(texts)
            if "\n" in text and (pieces := list(Pieces.of_cut_lines(text)))
        }
        telling = self.telling(chain.from_iterable([*met, *cut.values()]))
        found, cut_token = list[int](), cut_beginning().search
        for number, (text, words) in enumerate(zip(texts, met, strict=True)):
            kinds = ALL if LOWERED_TO_ASCII in text else 0
            for word in words:
                kinds |= telling.get(word, 0)
            if "\n" in text and cut_token(text) is not None:
                kinds |= TOKENS
            found.append(kinds | CUT if number in cut and not telling.keys().isdisjoint(cut[number]) else kinds)
        return found

    def telling(self, words: Iterable[str]) -> dict[str, int]:
        """Those of these words that have an anchor, with its kinds; the others are remembered as plain."""
        words = set(words) - self._plain
        known = self._telling
        telling = {each: known[each] for each in words if each in known}
        new = list(words - telling.keys())
        if len(self._plain) + len(self._telling) > WORDS_MAX:
            self._plain.clear()
            self._telling.clear()
        odd = {each for each in new if len(each.lower()) != len(each)}
        # Where small letters are more than the letters, their places are others.
        telling |= dict.fromkeys(odd, ALL)
        joined = " ".join([each for each in new if each not in odd] if odd else new)
        start, end, word = 0, 0, ""
        for at, kind in _anchors_in(joined, people=self._people) if new else ():
            if not start <= at < end:
                start, end = joined.rfind(" ", 0, at) + 1, _end(joined, at)
                word = joined[start:end]
            telling[word] = telling.get(word, 0) | kind
        self._plain.update(each for each in new if each not in telling and len(each) <= WORD_CHARS_MAX)
        self._telling.update(each for each in telling.items() if len(each[0]) <= WORD_CHARS_MAX)
        return telling


def _anchors_in(words: str, *, people: bool) -> Iterator[tuple[int, int]]:
    """The places of all anchors in words, with their kinds."""
    for sign in ("-----", "Private-Lines:"):
        at = words.find(sign)
        while at >= 0:
            yield at, KEYS
            at = words.find(sign, _end(words, at))
    for found in chain(beginning_of_word().finditer(words), beginning_behind_escape().finditer(words)):
        yield found.start(1), TOKENS
    for each in forms_in(words):
        yield each.start, TOKENS
    for at in colours_in(words):
        yield at, ALL
    lowered = words.lower()
    for at in names_in(words, lowered):
        yield at, NAMES
    for at, place in signs_in(words, lowered):
        yield at, PLACES_FROM << place
    for each in users_in(words, lowered) if people else ():
        yield each.start, USERS


def _end(words: str, at: int) -> int:
    end = words.find(" ", at)
    return end if end >= 0 else len(words)
