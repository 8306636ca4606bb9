"""What a runner notes while it watches an output: how far it had come, and when. See ``store.arrivals``.

The notes lie beside the output in the spool. They are worth less than what they are about: a note that cannot be
written, or that a crash tears, costs times and never the run.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from backstory.store import arrivals

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WATCH_GAP_MS = 5_000
"""What came while nobody looked for longer than this has no time; a time is never later than the truth by more."""


def notes_of(output: Path) -> Path:
    """Where the notes about an output lie."""
    return output.with_name(output.name + arrivals.SUFFIX)


def read_notes(output: Path) -> tuple[bytes, int]:
    """The notes about an output, and the mtime (ns) of their file; nothing where there are none."""
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
        """Note that somebody looked, and that ``length`` bytes had come since the last time."""
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
        # Each note is told from the one before it, so that none can follow one that is missing.
        self._is_over = not is_whole

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
