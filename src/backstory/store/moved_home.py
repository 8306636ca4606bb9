"""Marks of a home that is moved, so that no command begins an empty store where the store was.

``moved-to`` in the old folder: the new one, a NUL, and ``moving`` or ``moved``. While it is moving the mark counts only
as long as the process that moves it lives, which holds a lock on the mark: a move that was killed leaves the old home
in use, and whole. ``moved-from`` in the new folder: the old one, and what was there before; until the move is finished.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.errors import HomeIsMoving, HomeNotAFolder, HomeNotWhole, HomeWasMoved
from backstory.store.private import write_private

if TYPE_CHECKING:
    from collections.abc import Iterable

MOVED_TO, MOVED_FROM = "moved-to", "moved-from"
STORE = "store.db"
"""What the home store is called, in its folder."""
_MOVING, _MOVED = b"moving", b"moved"


class MovedTo(Struct, frozen=True, kw_only=True):
    """What the old folder says. ``is_over``: the new one has all of it."""

    to: Path
    is_over: bool
    is_held: bool = False
    """The process that moves it lives."""


class MovedFrom(Struct, frozen=True, kw_only=True):
    """What the new folder says until a move is finished. ``kept``: what was there before, as paths below it."""

    source: Path
    kept: frozenset[str]


def check_home(home: Path) -> None:
    """Raise HomeNotAFolder, HomeWasMoved, HomeIsMoving or HomeNotWhole unless a folder may be used as the home."""
    if home.is_file():
        raise HomeNotAFolder(home)
    refuse_if_moved(home)
    if (unfinished := moved_from(home)) is not None:
        raise HomeNotWhole(home, unfinished.source, home / MOVED_FROM)


def refuse_if_moved(home: Path) -> None:
    """Raise HomeWasMoved or HomeIsMoving where the home was."""
    found = moved_to(home)
    if found is not None and found.is_over:
        raise HomeWasMoved(home, found.to)
    if found is not None and found.is_held:
        raise HomeIsMoving(home, found.to)


def moved_to(home: Path) -> MovedTo | None:
    """What a folder says of where it was moved; None if it says nothing."""
    try:
        file = os.open(home / MOVED_TO, os.O_RDONLY)
    except OSError:
        return None
    try:
        to, _, state = os.read(file, os.fstat(file).st_size).partition(b"\0")
        return MovedTo(to=Path(os.fsdecode(to)), is_over=state == _MOVED, is_held=_is_locked(file))
    finally:
        os.close(file)


def moved_from(home: Path) -> MovedFrom | None:
    """What a folder says of a home that is being moved into it; None if it says nothing."""
    try:
        source, *kept = (home / MOVED_FROM).read_bytes().split(b"\0")
    except OSError:
        return None
    return MovedFrom(source=Path(os.fsdecode(source)), kept=frozenset(os.fsdecode(each) for each in kept if each))


def mark_target(home: Path, source: Path, kept: Iterable[str]) -> None:
    """Say in the new folder what is moved there. Raises DiskFull, CannotWrite."""
    _write(home / MOVED_FROM, b"\0".join([os.fsencode(source), *map(os.fsencode, sorted(kept))]))


class Moving:
    """The mark in the old folder, while it is moved: ``begin``, then ``commit``. ``close`` lets go of it."""

    def __init__(self, home: Path, to: Path) -> None:
        self._home, self._to = home, to
        self._file: int | None = None

    def begin(self) -> None:
        """Have every command refuse to act in the old folder as long as this process lives."""
        path = self._home / MOVED_TO
        _write(path, os.fsencode(self._to) + b"\0" + _MOVING)
        self._file = os.open(path, os.O_RDONLY)
        # A file system without locks is no reason not to move. Who only looks has this one for an instant.
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def commit(self) -> None:
        """From now on the new folder is the home, whatever happens."""
        _write(self._home / MOVED_TO, os.fsencode(self._to) + b"\0" + _MOVED)

    def take_back(self) -> None:
        """The old folder is the home as before."""
        with suppress(OSError):
            (self._home / MOVED_TO).unlink()

    def close(self) -> None:
        """Let go of the mark, which stays."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def sync_folder(folder: Path) -> None:
    """Have the names in a folder be on the disk."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _write(path: Path, data: bytes) -> None:
    """Write a mark, whole and on the disk."""
    whole = path.with_name(f".{path.name}.{os.getpid()}")
    write_private(whole, data, sync=True)
    whole.replace(path)
    sync_folder(path.parent)


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
