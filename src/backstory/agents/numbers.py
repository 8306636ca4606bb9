"""Numbers and times of every agent go through here: what cannot be kept becomes None, and is counted by its name.

Adapters read them with ``count``, ``amount``, ``time_ms`` and ``Counts``. ``bounded`` has what is put around every
reader, so that a sum that has grown too large, or what an adapter from elsewhere returns, is checked, too.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import astuple

from backstory import bounds, ids

if TYPE_CHECKING:
    from backstory.model import Tokens

TIME = "time"
Count = Any
"""The type of a field of ``Counts`` as the agent writes it; read, it is an int or None."""

met: ContextVar[list[str] | None] = ContextVar("met", default=None)
"""The names of what the reader that is at work could not keep."""


class Counts(Struct):
    """A part of a record of which every field is a count."""

    def __post_init__(self) -> None:
        for value in astuple(self):
            if value is not None and not (type(value) is int and 0 <= value <= bounds.INTEGER_MAX):
                self._keep_what_can_be()
                return

    def _keep_what_can_be(self) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, tokens(getattr(self, name), name))


def count(value: object, name: str) -> int | None:
    """A count as an agent writes it, called ``name``."""
    found = bounds.count(value)
    if found is None and value is not None:
        _note(name)
    return found


def tokens(value: object, name: str) -> int | None:
    """A part of a sum as an agent writes it: ``bounds.LOST`` where it is there and cannot be kept, None without one."""
    if value is None:
        return None
    if value == bounds.LOST:
        return bounds.LOST
    is_whole = not isinstance(value, float) or value.is_integer()
    found = bounds.count(value) if is_whole and not isinstance(value, str) else None
    if found is None:
        _note(name)
    return bounds.LOST if found is None else found


def amount(value: object, name: str) -> float | None:
    """A cost as an agent writes it."""
    found = bounds.amount(value)
    if found is None and value is not None:
        _note(name)
    return found


def time_ms(value: Any) -> int | None:
    """A time as an agent writes it, in ms since 1970."""
    at = ids.parse_time_ms(value if isinstance(value, (str, int, float)) else None)
    if at is None and ids.is_out_of_range(value):
        _note(TIME)
    return at


def largest_input(tokens: Tokens, request: int | None) -> int | None:
    """The input of a turn's largest request after one more; None as soon as a request's is missing or lost.

    ``tokens``: what the turn used before; ``request``: the input of this one, caches included.
    """
    known = 0 if tokens.input is None else tokens.largest_input
    if known is None or request is None or request >= bounds.LOST:
        return None
    return max(known, request)


def _note(name: str) -> None:
    names = met.get()
    if names is not None:
        names.append(name)
