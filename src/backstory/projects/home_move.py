"""Moves a home, with all that is ours in it, to another folder, also of another disk.

The new folder gets all of it first, on the disk and checked; then the mark in the old one says so, and only then is
anything removed there. So a move that is killed leaves the old home whole until that mark, and the new one whole from
then on; the next move to the same folder finishes it. On one disk files get a second name, and nothing is copied.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from backstory.errors import BackstoryError, CannotWrite, DiskFull, HomeCopyDiffers, HomeInUse, HomeOfOther, StoreBusy
from backstory.projects.home_files import (
    COPYING,
    DATABASES,
    LOCKS,
    HomeFile,
    entries_of,
    files_of,
    names_store,
    with_new_home,
)  # fmt: skip
from backstory.store import moves
from backstory.store.file import backup, verify
from backstory.store.moves import STORE
from backstory.store.private import MODE, as_ours, make_private_folder, sync, write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

COPY_BYTES = 1024 * 1024
SPACE_LEFT_BYTES = 16 * 1024 * 1024
"""Bytes of a disk that stay free."""


class HomeMove(Struct, kw_only=True):
    """One move. ``source`` and ``to`` are real paths; ``kept``: units that were in ``to`` before."""

    source: Path
    to: Path
    source_names: Sequence[Path]
    """The paths by which the old home may be named in files."""
    to_name: Path
    """The new home as it will be named."""
    kept: frozenset[str] = frozenset()
    made_target: bool = False
    moved: list[str] = field(default_factory=list)
    stayed: list[str] = field(default_factory=list)
    """Units that stay in the old folder, because the new one has others of these names."""
    bytes: int = 0


@contextmanager
def folder_held(home: Path) -> Iterator[None]:
    """Nobody ingests into a home, or moves it, meanwhile. Raises HomeInUse, CannotWrite."""
    try:
        folder = os.open(home, os.O_RDONLY)
    except OSError as refused:
        raise CannotWrite(home, refused.strerror or str(refused)) from refused
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as refused:
            raise HomeInUse(home, "A process imports logs into it, or moves it") from refused
        except OSError as refused:
            # Some file systems know no lock on a folder.
            if refused.errno in (errno.EACCES, errno.EAGAIN):
                raise
        yield
    finally:
        os.close(folder)


# to the new folder ----------------------------------------------------------------------------------------------


def check_owner(folder: Path) -> None:
    """Raise HomeOfOther for a folder of another user, who could read what is written there."""
    if folder.stat().st_uid != os.geteuid():
        raise HomeOfOther(folder)


def differing(move: HomeMove) -> list[str]:
    """The units that stay in the old folder, because the new one had others of these names."""
    units = [unit for unit in files_of(move.source).units if unit in move.kept and not unit.startswith(f"{LOCKS}/")]
    return [unit for unit in units if not all(_is_same(move, each) for each in entries_of(move.source, unit))]


def check_space(move: HomeMove) -> None:
    """Raise DiskFull where what has to be copied to another disk does not fit there."""
    if move.source.stat().st_dev == move.to.stat().st_dev:
        return
    missing = 0
    for entry in _entries(move):
        if not (entry.is_folder or entry.is_link):
            needed = (move.source / entry.path).stat().st_size
            with suppress(OSError):
                needed -= (move.to / entry.path).stat().st_size
            missing += max(needed, 0)
    free = os.statvfs(move.to)
    if missing + SPACE_LEFT_BYTES > free.f_bavail * free.f_frsize:
        raise DiskFull(move.to)


def settle_databases(home: Path) -> None:
    """Make each database of a home one file that nobody has open. Raises StoreBusy and errors of opening."""
    for name in DATABASES:
        if (home / name).exists() and (home / name).stat().st_size:
            backup.settle(home / name)


def copy_all(move: HomeMove, progress: Callable[[int, int], None]) -> None:
    """Copy all that is to be moved into the new folder, on the disk. Copies from an earlier try are used."""
    _drop_outdated(move)
    found = files_of(move.source)
    for name in found.folders:
        make_private_folder(move.to / name)
    entries = _entries(move)
    for number, entry in enumerate(entries, 1):
        _copy(move, entry)
        progress(number, len(entries))
    for folder in {(move.to / each.path).parent for each in entries} | {move.to / name for name in found.folders}:
        sync(folder)
    sync(move.to)


def check_all(move: HomeMove, progress: Callable[[int, int], None]) -> None:
    """Raise HomeCopyDiffers unless the new folder holds what the old one does, and its store is whole."""
    entries = _entries(move)
    for number, entry in enumerate(entries, 1):
        if not _is_same(move, entry):
            raise HomeCopyDiffers(move.to / entry.path, f"it is not as {move.source / entry.path} is")
        progress(number, len(entries))
    if STORE not in move.kept and (move.to / STORE).exists() and (wrong := verify.damage(move.to / STORE)):
        raise HomeCopyDiffers(move.to / STORE, wrong[0])


def take_back(move: HomeMove) -> None:
    """Remove what was copied, as far as it goes: the old home stays the home."""
    with suppress(OSError, BackstoryError):
        for unit in files_of(move.to).units:
            if unit not in move.kept:
                _remove_unit(move.to, unit)
        _remove_rest(move.to)
        (move.to / moves.MOVED_FROM).unlink(missing_ok=True)
        if move.made_target:
            move.to.rmdir()


# out of the old one ---------------------------------------------------------------------------------------------


def clear_source(move: HomeMove) -> None:
    """Remove from the old folder what the new one has, byte for byte; the rest stays there, and is noted.

    What somebody still wrote to the old folder is copied first.
    """
    for unit in files_of(move.source).units:
        entries = list(entries_of(move.source, unit))
        if unit not in move.kept and not os.path.lexists(move.to / unit):
            for entry in entries:
                _copy(move, entry)
            sync((move.to / unit).parent)
        is_there = all(_is_same(move, each) for each in entries)
        if is_there or (unit in move.kept and unit.startswith(f"{LOCKS}/")):
            move.bytes += _size(move.source, entries)
            _remove_unit(move.source, unit)
            move.moved.append(unit)
        else:
            move.stayed.append(unit)
    _remove_rest(move.source)
    sync(move.source)


def finish(move: HomeMove) -> None:
    """The new folder is a home like any other from now on."""
    # It may have been moved away from there before.
    for mark in (moves.MOVED_TO, moves.MOVED_FROM):
        (move.to / mark).unlink(missing_ok=True)
    sync(move.to)


# one file -------------------------------------------------------------------------------------------------------


def remove_home(home: Path) -> list[str]:
    """Remove all that is ours in a home, and the folder if nothing else is in it; return what else is.

    Raises HomeInUse, CannotWrite.
    """
    with folder_held(home):
        try:
            settle_databases(home)
        except StoreBusy as refused:
            raise HomeInUse(home, "Another process has its store open", done="removed") from refused
        except BackstoryError:
            pass  # One that cannot be read can be removed all the same.
        for unit in files_of(home).units:
            _remove_unit(home, unit)
        _remove_rest(home)
        for name in (moves.MOVED_FROM,):
            (home / name).unlink(missing_ok=True)
    with suppress(OSError):
        home.rmdir()
    return files_of(home).strangers


def _entries(move: HomeMove) -> list[HomeFile]:
    units = [unit for unit in files_of(move.source).units if unit not in move.kept]
    return [entry for unit in units for entry in entries_of(move.source, unit)]


def _drop_outdated(move: HomeMove) -> None:
    """Remove what an earlier try copied, and the old home, which was in use since, no longer has."""
    current = {entry.path for entry in _entries(move)}
    for unit in files_of(move.to).units:
        if unit in move.kept:
            continue
        for entry in reversed(list(entries_of(move.to, unit))):
            if entry.path not in current:
                _remove_entry(move.to, entry)


def _copy(move: HomeMove, entry: HomeFile) -> None:
    """Copy a file, link or folder into the new folder. Raises DiskFull, CannotWrite."""
    source, target = move.source / entry.path, move.to / entry.path
    try:
        if entry.is_folder:
            if not target.is_dir():
                target.mkdir(mode=MODE)
            target.chmod(source.stat().st_mode & 0o777)
        elif not _is_same(move, entry):
            beside = target.with_name(f".{target.name}{COPYING}")
            beside.unlink(missing_ok=True)
            _write_beside(move, entry, beside)
            beside.replace(target)
    except OSError as refused:
        raise as_ours(target, refused) from refused


def _write_beside(move: HomeMove, entry: HomeFile, beside: Path) -> None:
    source = move.source / entry.path
    status = source.lstat()
    if entry.is_link:
        beside.symlink_to(_link_of(source))
        return
    if names_store(entry.path) and (data := _wanted(move, entry)) != source.read_bytes():
        write_private(beside, data, sync=True)
    else:
        try:
            beside.hardlink_to(source)
        except OSError:
            # Another disk, or one whose files have one name only.
            _write_copy(source, beside)
        else:
            return
    beside.chmod(status.st_mode & 0o777)
    # A note of a project's store has the time at which that was read.
    os.utime(beside, ns=(status.st_atime_ns, status.st_mtime_ns))


def _write_copy(source: Path, target: Path) -> None:
    with source.open("rb") as file, os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as to:
        shutil.copyfileobj(file, to, COPY_BYTES)
        to.flush()
        os.fsync(to.fileno())


def _is_same(move: HomeMove, entry: HomeFile) -> bool:
    """Return True if the new folder has this entry as the old one has it."""
    source, target = move.source / entry.path, move.to / entry.path
    try:
        if entry.is_folder:
            return target.is_dir() and not target.is_symlink()
        if entry.is_link:
            return target.is_symlink() and str(target.readlink()) == _link_of(source)
        if target.is_symlink() or not target.is_file():
            return False
        if names_store(entry.path):
            return target.read_bytes() == _wanted(move, entry)
        if source.samefile(target):
            return True
        return source.stat().st_size == target.stat().st_size and _sha256(source) == _sha256(target)
    except FileNotFoundError:
        return False


def _wanted(move: HomeMove, entry: HomeFile) -> bytes:
    return with_new_home(entry.path, (move.source / entry.path).read_bytes(), move.source_names, move.to_name)


def _link_of(source: Path) -> str:
    """To where a link leads, from everywhere."""
    return os.path.normpath(source.parent / source.readlink())


def _sha256(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _size(home: Path, entries: Sequence[HomeFile]) -> int:
    return sum((home / each.path).lstat().st_size for each in entries if not each.is_folder)


def _remove_unit(home: Path, unit: str) -> None:
    for entry in reversed(list(entries_of(home, unit))):
        _remove_entry(home, entry)


def _remove_entry(home: Path, entry: HomeFile) -> None:
    if not entry.is_folder:
        (home / entry.path).unlink()
        return
    # A folder that holds something else, such as a pipe, stays.
    with suppress(OSError):
        (home / entry.path).rmdir()


def _remove_rest(home: Path) -> None:
    """Remove our folders in which nothing is left, and what no process finished."""
    found = files_of(home)
    for name in found.folders:
        with suppress(OSError):
            (home / name).rmdir()
    for name in found.unfinished:
        with suppress(OSError):
            (home / name).unlink()
