"""Folders that only their owner may enter, and files that only their owner may read."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from backstory.errors import CannotWrite, DiskFull

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.errors import BackstoryError

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


def make_private_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter. Raises DiskFull, CannotWrite."""
    try:
        make_folder(folder)
    except OSError as refused:
        raise as_ours(folder, refused) from refused


def write_private(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Write a file that only its owner may read; with ``sync`` it is on the disk afterwards.

    Raises DiskFull, CannotWrite.
    """
    try:
        file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
            if sync:
                os.fsync(file)
        finally:
            os.close(file)
    except OSError as refused:
        raise as_ours(path, refused) from refused


def as_ours(path: Path, refused: OSError) -> BackstoryError:
    """Return the system's refusal of a file as an error of ours."""
    if refused.errno == errno.ENOSPC:
        return DiskFull(path)
    return CannotWrite(path, refused.strerror or str(refused))
