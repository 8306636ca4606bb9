"""Words that occur nowhere, and what may have been meant by them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory import wordforms
from backstory.store.query import term_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.store.query import Term

LETTERS_LEAST = 3
"""A shorter beginning may begin anything."""
EDITED_LEAST = 4
"""A shorter word with one letter changed is any other word."""
_WORD = re.compile(r"[A-Za-z]+")


def meant(count: Callable[[str], int], asked: list[Term]) -> tuple[list[Term], tuple[tuple[str, str], ...]]:
    """The terms, each that occurs nowhere exchanged for the nearest that does; and what was exchanged.

    ``count`` tells how many events hold an expression.
    """
    terms: list[Term] = []
    instead: list[tuple[str, str]] = []
    for term in asked:
        nearest = None if count(term.any) else _nearest(count, term.typed)
        terms.append(nearest or term)
        if nearest is not None:
            instead.append((term.typed, nearest.typed))
    return terms, tuple(instead)


def _nearest(count: Callable[[str], int], typed: str) -> Term | None:
    """What a word is the beginning of, else the most frequent word that one slip of a finger makes of it."""
    word = typed.strip(".,;:!?()'")
    if not _WORD.fullmatch(word) or len(word) < LETTERS_LEAST:
        return None
    begun = term_of(f"{word}*")
    if count(begun.any):
        return begun
    if len(word) < EDITED_LEAST:
        return None
    hits, best = max((count(f'"{each}"'), each) for each in wordforms.edited(word) or [word])
    return term_of(best) if hits else None
