"""What a person typed, as the index is asked for it: never FTS5 syntax by accident. Pure functions.

A term has one spelling that was typed, and others that may have been meant: word forms, parts of identifiers.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.derive import word_forms
from backstory.derive.index_text import as_parts, identifier_parts, index_text, signed_words
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable

TERMS_MAX = 64
"""The most words of a query that count: an event that has them is the one that was meant."""
FORMS_TERMS_MAX = 8
"""Of a longer query no other word forms are looked for: it was pasted."""
PHRASE_CHARS_MAX = 2_000
PARTS_MAX = 8
"""The most words of a phrase that may be the parts of an identifier."""
PARTS_WEIGHT = 0.3
"""What a term counts in a text that has it in another way only: in the parts of an identifier, say."""
FORM_WEIGHT = 0.7
"""What it counts where another form of the word stands."""
LETTER_WEIGHT = 0.1
"""What C++ counts in a text that has only the C."""

_WORDS = lazy_regex(r'"([^"]*)"|([^\s"]+)')
_LETTERS = lazy_regex(r"[^\W_]", re.UNICODE)
_ASCII_WORD = lazy_regex(r"[A-Za-z0-9]+")
_LIKE_PARTS = lazy_regex(r"[A-Za-z0-9]+(?:[ _-]+[A-Za-z0-9]+)*")
HASH = lazy_regex(r"(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{7,40}")
_NUMBER = lazy_regex(r"(?:[\w.-]+/[\w.-]+)?[#!][1-9][0-9]{0,8}|[A-Za-z][A-Za-z0-9]{1,9}-[1-9][0-9]{0,5}")


class Term(Struct, frozen=True):
    """One thing to look for: what was typed, the FTS5 phrase for it, phrases for other ways to write it."""

    typed: str
    literal: str
    others: tuple[tuple[str, float], ...] = ()
    """Each with what it counts beside one as it was typed."""

    @property
    def any(self) -> str:
        """An expression for it in whatever way it is written."""
        return f"({' OR '.join((self.literal, *(other for other, _ in self.others)))})" if self.others else self.literal

    @property
    def is_telling(self) -> bool:
        """True if it says what is looked for, and not only that something is."""
        return self.typed.lower().replace("'", "").replace("\u2019", "") not in word_forms.FUNCTION_WORDS

    @property
    def is_number(self) -> bool:
        """True if it is written as pull requests and issues are."""
        return _NUMBER.fullmatch(self.typed) is not None


class Expression(Struct, frozen=True):
    """An FTS5 expression; ``phrases``: of each the number of its term, and what it counts."""

    text: str
    phrases: list[tuple[int, float]]


def terms(query: str) -> list[str]:
    """The words and quoted phrases of a query that have letters or digits to look for; an open quote is no sign."""
    # What is no text, such as half a surrogate pair, is nothing to look for.
    readable = query.encode("utf-8", "replace").decode().replace("\0", " ")
    found = (phrase or word for phrase, word in _WORDS.findall(readable))
    return [term for term in found if _LETTERS.search(term)]


def match_expression(query: str) -> str | None:
    """The FTS5 expression for what was typed: every term as a phrase, all of them wanted; None for no term.

    >>> match_expression('C++ "rate limit" log* userName')
    '"Cplusplus" AND "rate limit" AND "log"* AND "userName"'
    """
    return " AND ".join(term.literal for term in asked(query)) or None


def asked(query: str) -> list[Term]:
    """The different terms of a query."""
    different = list(islice(dict.fromkeys(map(_cut, terms(query))), TERMS_MAX))
    return [term_of(term, with_forms=len(different) <= FORMS_TERMS_MAX) for term in different]


def term_of(typed: str, *, with_forms: bool = True) -> Term:
    """What a word or phrase is looked for as."""
    text = index_text(typed).replace('"', '""')
    if typed.endswith("*") and typed[:-1].isalnum():
        begin = text.removesuffix("*")
        parts = ((f'"{as_parts([begin])}"*', PARTS_WEIGHT),) if begin.isascii() else ()
        return Term(typed, f'"{begin}"*', parts)
    words = _ASCII_WORD.findall(typed)
    if len(words) == 1 and (signed := signed_words(typed)):
        # The letter alone is what an older index has of it.
        return Term(typed, f'"{signed[0]}"', ((f'"{text}"', LETTER_WEIGHT),))
    if HASH.fullmatch(typed):
        # Git and people print as much of a hash as they like. A number may be a hash, but mostly is a number.
        beginning = f'"{text}"*'
        return Term(typed, f'"{text}"', ((beginning, 1.0),)) if typed.isdigit() else Term(typed, beginning)
    others = [(f'"{other}"', FORM_WEIGHT) for other in other_forms(typed)] if with_forms else []
    if parts_of_one := identifier_parts(typed) if typed.isalnum() else []:
        # An identifier is also meant where it is written with other signs between its parts.
        others += [(f'"{" ".join(parts_of_one)}"', PARTS_WEIGHT), (f'"{as_parts(parts_of_one)}"', PARTS_WEIGHT)]
    elif len(words) <= PARTS_MAX and _LIKE_PARTS.fullmatch(typed):
        others.append((f'"{as_parts(words)}"', PARTS_WEIGHT))
    return Term(typed, f'"{text}"', tuple(others))


def _cut(term: str) -> str:
    """The beginning of a long term, without a word that would be cut in two."""
    if len(term) <= PHRASE_CHARS_MAX:
        return term
    return re.sub(r"[^\W_]+$", "", term[:PHRASE_CHARS_MAX]) or term


def other_forms(typed: str) -> list[str]:
    """A word in its other forms; of a phrase its last word."""
    if (other := word_forms.respelt(typed)) is not None:
        return [other]
    head, space, last = typed.rpartition(" ")
    if space and not all(word.isalnum() for word in head.split()):
        return []
    return [f"{head}{space}{form}" for form in word_forms.forms(last)]


def expression(wanted: list[Term], joined: str = " AND ", *, in_any_way: bool = False) -> Expression:
    """Terms as one expression, as they were typed or in any way."""
    if not in_any_way:
        return Expression(joined.join(term.literal for term in wanted), [(n, 1.0) for n in range(len(wanted))])
    weights = [(1.0, *(weight for _, weight in term.others)) for term in wanted]
    phrases = [(n, weight) for n, each in enumerate(weights) for weight in each]
    return Expression(joined.join(term.any for term in wanted), phrases)


def otherwise(wanted: Term, count: Callable[[str, int], int]) -> Expression:
    """A term in any way but as it was typed, which may be everywhere; ways that no text has are left out.

    ``count`` returns how many events hold an expression, up to so many.
    """
    others = [(other, weight) for other, weight in wanted.others if count(other, 1)]
    return Expression(" OR ".join(other for other, _ in others), [(0, weight) for _, weight in others])
