"""The memory that SQLite may use: to answer one question, and for pages. Both are limits of the whole process."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Heap:
    """Questions that run at once share the limit of the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._before = (0, 0)

    @contextmanager
    def bounded(self, heap_bytes: int) -> Iterator[None]:
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._before = (apsw.hard_heap_limit(-1), apsw.soft_heap_limit(-1))
                apsw.hard_heap_limit(apsw.memory_used() + heap_bytes)
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    apsw.hard_heap_limit(self._before[0])
                    apsw.soft_heap_limit(self._before[1])


_HEAP = _Heap()
bounded = _HEAP.bounded
"""A ``with`` in which SQLite may use this number of bytes in addition to its earlier use."""


def share_pages(total_bytes: int) -> None:
    """Let all connections together keep about so many bytes of pages: each thread that asks a store has its own."""
    apsw.soft_heap_limit(total_bytes)
