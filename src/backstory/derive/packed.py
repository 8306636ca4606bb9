"""Very many values, held in little memory: compressed, some at once, and unpacked while they are read. Pure."""

from __future__ import annotations

import operator
import pickle
import zlib
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

AT_ONCE = 64
"""The most values that are unpacked at once."""
LEVEL = 1
"""Higher ones take longer and save little."""


class Packed(Generic[T]):
    """Values in their order, read as often as one likes. Each time they are other objects with the same contents."""

    def __init__(self, values: Iterable[T] = ()) -> None:
        rest, self._count = iter(values), 0
        self._parts = list[bytes]()
        while some := list(islice(rest, AT_ONCE)):
            self._parts.append(_packed(some))
            self._count += len(some)

    def __len__(self) -> int:
        """Return the number of values."""
        return self._count

    def __iter__(self) -> Iterator[T]:
        """Yield the values."""
        for part in self._parts:
            yield from _unpacked(part)

    def changed(self, change: Callable[[T], T]) -> Packed[T]:
        """The same with each value as ``change`` returns it; itself where that returns what it was given."""
        made = Packed[T]()
        made._count = self._count
        for part in self._parts:
            values: list[T] = _unpacked(part)
            now = list(map(change, values))
            made._parts.append(part if all(map(operator.is_, values, now)) else _packed(now))
        return self if all(map(operator.is_, self._parts, made._parts)) else made


def _packed(values: list[T]) -> bytes:
    return zlib.compress(pickle.dumps(values, pickle.HIGHEST_PROTOCOL), LEVEL)


def _unpacked(part: bytes) -> list[T]:
    # Nobody else wrote it: it never leaves this process.
    found: list[T] = pickle.loads(zlib.decompress(part))
    return found
