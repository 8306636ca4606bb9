"""Words that occur nowhere, and what may have been meant by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.ask.query import term_of
from backstory.derive import word_forms
from backstory.lazy_regex import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.ask.query import Term

LETTERS_LEAST = 3
"""A shorter beginning may begin anything."""
EDITED_LEAST = 4
"""A shorter word with one letter changed is any other word."""
BEGUN_AND_EDITED_LEAST = 6
"""A shorter beginning with one letter changed may begin anything."""
_WORD = lazy_regex(r"[A-Za-z]+")
_PARTS = lazy_regex(r"[A-Za-z0-9]+")


def meant(count: Callable[[str], int], asked: list[Term]) -> tuple[list[Term], tuple[tuple[str, str], ...]]:
    """The terms, each that occurs nowhere exchanged for the nearest that does; and what was exchanged.

    ``count`` returns how many events hold an expression.
    """
    terms: list[Term] = []
    instead: list[tuple[str, str]] = []
    for term in asked:
        nearest = [] if count(term.any) else _nearest(count, term.typed)
        terms += nearest or [term]
        if nearest:
            instead.append((term.typed, " ".join(each.typed for each in nearest)))
    return terms, tuple(instead)


def _nearest(count: Callable[[str], int], typed: str) -> list[Term]:
    """The words of a name by themselves; what a word is the beginning of, or would be but for a slip of a finger."""
    words = _PARTS.findall(typed)
    if len(words) > 1:
        if " " in typed:
            # Who puts words together in quotes means them together.
            return []
        alone = [term_of(word) for word in dict.fromkeys(words)]
        return alone if all(count(term.any) for term in alone) else []
    word = words[0] if words else ""
    if len(word) < LETTERS_LEAST or not _WORD.fullmatch(word):
        return []
    begun = term_of(f"{word}*")
    if count(begun.any):
        return [begun]
    found = _edited(count, word, "") if len(word) >= EDITED_LEAST else None
    if found is None and len(word) >= BEGUN_AND_EDITED_LEAST:
        found = _edited(count, word, "*")
    return [] if found is None else [found]


def _edited(count: Callable[[str], int], word: str, ending: str) -> Term | None:
    """The most frequent word that one slip of a finger makes of this one; with "*" as its ending, that begins so."""
    hits, best = max((count(f'"{each}"{ending}'), each) for each in word_forms.edited(word) or [word])
    return term_of(f"{best}{ending}") if hits else None
