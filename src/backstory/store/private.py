"""Folders that only their owner may enter."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MODE = 0o700


def make_folder(folder: Path) -> None:
    """Make a folder, with all that is missing above it, for its owner alone. One that is there stays as it is.

    Raises OSError. (``mkdir(parents=True)`` gives its mode to the last one only; the umask says who enters the rest.)
    """
    missing = []
    for each in (folder, *folder.parents):
        if each.is_dir():
            break
        missing.append(each)
    for each in reversed(missing):
        # Another process may make it at the same moment; then it has made it like this.
        try:
            each.mkdir(mode=MODE)
        except FileExistsError:
            if not each.is_dir():
                raise
