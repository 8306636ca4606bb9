"""Answers that are given again while nothing changed."""

from __future__ import annotations

import time
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

T = TypeVar("T")
SETTLED_NS = 100_000_000
"""A file that was written within this time may be written again without another time of its own."""


class KeptAnswers(Generic[T]):
    """The last answers, as many as ``most``. Threads may share it."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._answers: OrderedDict[Hashable, tuple[object, T]] = OrderedDict()

    def get(self, key: Hashable, stores: Iterable[Path], make: Callable[[], T]) -> T:
        """Return the answer of a key; it is made anew when a store was written since."""
        stamp, is_settled = stamp_of(stores)
        with self._lock:
            known = self._answers.get(key)
        if known is not None and known[0] == stamp:
            return known[1]
        made = make()
        if is_settled:
            with self._lock:
                self._answers[key] = (stamp, made)
                self._answers.move_to_end(key)
                while len(self._answers) > self._most:
                    self._answers.popitem(last=False)
        return made


def stamp_of(stores: Iterable[Path]) -> tuple[tuple[object, ...], bool]:
    """A value that differs after each commit to stores, and False while one of them may be in the midst of several."""
    found, newest = list[object](), 0
    for path in stores:
        for each in (path, Path(f"{path}-wal")):
            try:
                state = each.stat()
            except OSError:
                continue
            # Each who opens a store where nobody is makes an empty one.
            if not state.st_size:
                continue
            found.append((state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns))
            newest = max(newest, state.st_mtime_ns)
    return tuple(found), time.time_ns() - newest > SETTLED_NS
