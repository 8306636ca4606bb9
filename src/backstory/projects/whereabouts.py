"""The path of a store that is moved during a run: its folder is kept open, and the system knows its path.

The file itself is not held: closing it would take away SQLite's locks on it.
"""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import suppress
from pathlib import Path

F_GETPATH = 50
"""The macOS command for the path of an open file; Python defines it only there."""
PATH_BYTES_MAX = 1024


class Whereabouts:
    """Finds a store's file also after the folders above it were moved. Close it when the run is over."""

    def __init__(self, store: Path) -> None:
        self._name, self.file = store.name, file_at(store)
        self._folder: int | None = None
        with suppress(OSError):
            self._folder = os.open(store.parent, os.O_RDONLY | os.O_DIRECTORY)

    def __enter__(self) -> Whereabouts:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            os.close(self._folder)
        self._folder = None

    def now(self) -> Path | None:
        """Return the path of the file; None if it is gone or cannot be found."""
        if self._folder is None or self.file is None:
            return None
        try:
            path = _path_of(self._folder) / self._name
        except OSError:
            return None
        return path if file_at(path) == self.file else None


def file_at(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the file at a path."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _path_of(folder: int) -> Path:
    if sys.platform == "darwin":
        return Path(os.fsdecode(fcntl.fcntl(folder, F_GETPATH, bytes(PATH_BYTES_MAX)).rstrip(b"\0")))
    return Path(f"/proc/self/fd/{folder}").readlink()
