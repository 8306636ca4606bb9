"""Folders and files that only their owner may enter or read, and names that are given in one step."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

from backstory.errors import CannotWrite, DiskFull

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.errors import BackstoryError

MODE = 0o700
AT_FDCWD = -100
EXCHANGE, IF_NEW = 2, 4 if sys.platform == "darwin" else 1
"""Ways to rename, as the system numbers them: two paths change places; nothing is replaced."""


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
                # The system may take a part of it, as on a disk that is nearly full.
                view = view[os.write(file, view) :]
            if sync:
                os.fsync(file)
        finally:
            os.close(file)
    except OSError as refused:
        raise as_ours(path, refused) from refused


def sync(path: Path) -> None:
    """Put a file's bytes, or the names in a folder, on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def publish(part: Path, target: Path) -> None:
    """Give a whole file its name, unless another has it. The name of the part may stay. Raises OSError."""
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links. To take the name with an empty file first would leave that after a kill.
        if renamed(part, target, IF_NEW):
            return
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        part.rename(target)


def renamed(one: Path, other: Path, way: int) -> bool:
    """Rename in one step, ``EXCHANGE`` or ``IF_NEW``; return False if the system, or the file system, cannot.

    Raises FileExistsError.
    """
    import ctypes

    try:
        system = ctypes.CDLL(None, use_errno=True)
        first, second = os.fsencode(one), os.fsencode(other)
        if sys.platform == "darwin":
            # Python has no call for either.
            failed = system.renamex_np(first, second, way)
        else:
            failed = system.renameat2(AT_FDCWD, first, AT_FDCWD, second, way)
    except (OSError, AttributeError):
        return False
    if failed and ctypes.get_errno() == errno.EEXIST:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(other))
    # Any other refusal is answered by the plain way, whose error says more.
    return not failed


def as_ours(path: Path, refused: OSError) -> BackstoryError:
    """Return the system's refusal of a file as an error of ours."""
    if refused.errno == errno.ENOSPC:
        return DiskFull(path)
    return CannotWrite(path, refused.strerror or str(refused))
