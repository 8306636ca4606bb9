"""Files of other programs, rewritten whole or not at all, and only if nobody changed them meanwhile.

A link stays one: what it leads to is rewritten. A file keeps its mode and owner. The new bytes are on the disk under
another name before they take the file's place.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.errors import SettingsChanged, SettingsReadOnly, SettingsUnusable
from backstory.export.files import kind_of
from backstory.store.private import as_ours, make_folder, publish

if TYPE_CHECKING:
    from typing import IO

BYTES_MAX = 64 * 1024 * 1024
RANDOM_BYTES = 6
WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class FoundFile(Struct, frozen=True):
    """A file as it was read: what its path leads to, and its bytes, None where nothing is there."""

    path: Path
    data: bytes | None


def found_file(path: Path, within: Path | None = None) -> FoundFile:
    """Read a file, or see that there is none. Raises SettingsUnusable, also where links lead out of ``within``."""
    real = Path(os.path.realpath(path))
    if within is not None and not real.is_relative_to(os.path.realpath(within)):
        raise SettingsUnusable(path, "is a link that leads out of the project")
    try:
        with open(os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:  # noqa: PTH123
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SettingsUnusable(path, "is no regular file")
            data = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return FoundFile(real, None)
    except OSError as refused:
        why = f"cannot be read: {refused.strerror or refused}"
        raise SettingsUnusable(path, why) from refused
    if len(data) > BYTES_MAX:
        raise SettingsUnusable(path, f"is larger than {BYTES_MAX >> 20} MB")
    return FoundFile(real, data)


def check_writable(found: FoundFile) -> None:
    """Raise SettingsReadOnly where a file may not be written, also by one who may write any."""
    if found.data is not None and not (
        os.access(found.path, os.W_OK) and os.stat(found.path).st_mode & WRITABLE  # noqa: PTH116
    ):
        raise SettingsReadOnly(found.path)


def missing_folders(path: Path) -> list[str]:
    """The folders above a file that are not there, the outermost first."""
    return [str(each) for each in reversed(path.parents) if kind_of(each) is None]


def rewrite(found: FoundFile, data: bytes, *, is_private: bool = True) -> None:
    """Give a file new bytes, or make it. ``is_private``: a new one, and its folders, are for their owner alone.

    Raises SettingsChanged where the file is not as it was found, SettingsReadOnly, CannotWrite, DiskFull.
    """
    check_writable(found)
    beside = found.path.with_name(f".backstory-{secrets.token_hex(RANDOM_BYTES)}.part")
    try:
        if is_private:
            make_folder(found.path.parent)
        else:
            found.path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left(found.path.parent)
        like = None if found.data is None else found.path.stat()
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if is_private else 0o666), "wb") as file:  # noqa: PTH123
            # Held until the file has its name: what is left of a kill is nobody's. Some file systems have no locks.
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            _write(file, data, like)
            if found_file(found.path) != found:
                raise SettingsChanged(found.path)
            _show(beside, found)
    except OSError as refused:
        raise as_ours(found.path, refused) from refused
    finally:
        with suppress(OSError):
            beside.unlink()


def remove(found: FoundFile, folders: list[str]) -> None:
    """Remove a file, and those of its folders that are empty then. Raises SettingsChanged, CannotWrite."""
    check_writable(found)
    if found_file(found.path) != found:
        raise SettingsChanged(found.path)
    try:
        found.path.unlink(missing_ok=True)
    except OSError as refused:
        raise as_ours(found.path, refused) from refused
    for each in sorted(folders, key=len, reverse=True):
        with suppress(OSError):
            Path(each).rmdir()


def _remove_left(folder: Path) -> None:
    """Remove what programs that were killed while they rewrote a file here have left."""
    for left in folder.glob(".backstory-*.part"):
        with suppress(OSError), open(os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid():
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()


def _write(file: IO[bytes], data: bytes, like: os.stat_result | None) -> None:
    """Write a file to the disk, with the mode and the owner of another one."""
    file.write(data)
    file.flush()
    if like is not None:
        with suppress(OSError):
            os.fchown(file.fileno(), like.st_uid, like.st_gid)
        os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
    os.fsync(file.fileno())


def _show(beside: Path, found: FoundFile) -> None:
    """Give new bytes the file's name; where there was no file, only if there is none now."""
    if found.data is not None:
        beside.replace(found.path)
        return
    try:
        publish(beside, found.path)
    except FileExistsError as there:
        raise SettingsChanged(found.path) from there
