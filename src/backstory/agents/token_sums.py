"""Arithmetic with the tokens of a turn, each kind for itself.

None is a kind that was not counted, as an agent does that knows none of it; what was counted and lost is
``bounds.LOST``, and makes what it is a part of lost, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from backstory.bounds import LOST, added
from backstory.model import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable


def each(how: Callable[[int | None, int | None], int | None], one: Tokens, other: Tokens) -> Tokens:
    """Every kind of ``one`` with that of ``other``."""
    return Tokens(**{name: how(getattr(one, name), getattr(other, name)) for name in Tokens.__struct_fields__})


def sum_of(one: Tokens, other: Tokens) -> Tokens:
    """Both together."""
    return each(lambda this, that: that if this is None else added(this, that), one, other)


def difference(one: Tokens, other: Tokens) -> Tokens:
    """Return the part by which ``one`` is larger, which may be below zero."""
    return each(_less, one, other)


def _less(this: int | None, that: int | None) -> int | None:
    if this is None:
        return None
    return LOST if LOST in (this, that) else this - (that or 0)


def above_zero(tokens: Tokens) -> Tokens:
    """The same without what is below zero."""
    return each(lambda this, _: None if this is None else max(this, 0), tokens, tokens)


def since(total: Tokens, before: Tokens, counted: Tokens) -> Tokens:
    """By how much a process's total grew; ``total`` itself where it was counted anew.

    It starts again at zero where a session is not resumed but read anew, as after a rewind: then it has shrunk, or it
    is nearer to what was counted since than its growth is.
    """
    grown = difference(total, before)
    output = counted.output or 0
    has_shrunk = any(each is not None and each < 0 for each in structs.astuple(grown))
    is_anew = abs((total.output or 0) - output) < abs((grown.output or 0) - output)
    return total if has_shrunk or is_anew else grown
