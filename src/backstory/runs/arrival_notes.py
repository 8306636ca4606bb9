"""The notes of a runner that watches an output: its length at each time. See ``store.arrivals``.

The notes are beside the output in the spool. They matter less than the output: a note that cannot be written, or is
torn by a crash, loses times and never the run.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from backstory.store import arrivals

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WATCH_GAP_MS = 5_000
"""Output of a longer unwatched period has no time, so no time is late by more than this."""


def notes_of(output: Path) -> Path:
    """Return the path of the notes about an output."""
    return output.with_name(output.name + arrivals.SUFFIX)


def read_notes(output: Path) -> tuple[bytes, int]:
    """Return the notes about an output, and the mtime (ns) of their file; empty if there are none."""
    try:
        with notes_of(output).open("rb") as file:
            return file.read(arrivals.BYTES_MAX), os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return b"", 0


class ArrivalNotes:
    """The notes about one output, from its first byte on; ``since`` is when looking began, in ms since 1970."""

    def __init__(self, output: Path, now: Callable[[], int], since: int) -> None:
        self._path, self._now, self._looked = notes_of(output), now, since
        self._last_ms = self._written = 0
        self._file: int | None = None
        self._is_over = False

    def looked(self, length: int) -> None:
        """Record that ``length`` bytes came since the last call."""
        now = self._now()
        was_watched, self._looked = now - self._looked <= WATCH_GAP_MS, now
        if not length or self._is_over:
            return
        if was_watched:
            self._append(arrivals.seen(length, now - self._last_ms))
            self._last_ms = now
        else:
            self._append(arrivals.unwatched(length))

    def _append(self, note: bytes) -> None:
        try:
            if self._file is None:
                flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND
                self._file = os.open(self._path, flags, 0o600)
                note = bytes([arrivals.VERSION]) + note
            self._written += len(note)
            is_whole = self._written <= arrivals.BYTES_MAX and os.write(self._file, note) == len(note)
        except OSError:
            is_whole = False
        # Each note is relative to the one before, so none may follow a missing one.
        self._is_over = not is_whole

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
