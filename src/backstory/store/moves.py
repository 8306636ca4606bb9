"""Folders that were moved: a path recorded below an old one is read as below the new one; marks of a home on its way.

Rows keep the path that was recorded. Two rows of ``meta`` say how it is read: ``root``, the root of the project as the
store's new rows have it, and ``moves``, the paths that are not valid any more. In a project's store those stand for
its root, wherever that lies now; in the home store each has its new path.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory.bounds import iso
from backstory.errors import FileUnreadable, HomeIsMoving, HomeNotAFolder, HomeNotWhole, HomeWasMoved
from backstory.store.private import sync, write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import apsw


ROOT, MOVES = "root", "moves"
"""Keys in ``meta``; the values are JSON."""
STORE_FOLDERS = (".backstory", "backstory")
"""The folder of a project's store at its root; the second one in a bare repository."""
STORE_NAME = "sessions.bks"
MOVES_MAX = 1_000
VALUE_CHARS_MAX = 5_000_000
"""The most moves of a store that are read, and the longest row: a store from elsewhere may hold anything."""


class Move(Struct, frozen=True, kw_only=True, rename={"old": "from", "new": "to"}, omit_defaults=True):
    """A folder that was moved. ``new`` is '' for the root of the project whose store says so."""

    old: str
    new: str = ""
    at: int | None = None
    """The time (ms) before which things must have begun to be meant; None: whatever was recorded."""
    owner: str | None = None
    """Only sessions that the store with this id owns, whose rows already say where they are: files they touched."""

    def of(self, path: str) -> str | None:
        """Return the present place of a recorded path; None if it does not lie in the folder."""
        return rebased(path, self.old, self.new)

    def before(self, path: str) -> str | None:
        """The path that something here, or the folder that holds it, was recorded with; None if it was never there."""
        return rebased(path, self.new, self.old) or (self.old if rebased(self.new, path, path) else None)


class Moves:
    """The moves that a store knows of, as its paths are to be read."""

    def __init__(self, moves: Iterable[Move] = ()) -> None:
        # The innermost folder decides.
        self._moves = sorted((each for each in moves if each.old != each.new), key=lambda each: -len(each.old))

    def __bool__(self) -> bool:
        return bool(self._moves)

    def __iter__(self) -> Iterator[Move]:
        return iter(self._moves)

    def here(self, path: str, began: str | None = None) -> str:
        """Return the present place of a recorded path. ``began``: when what names it began, ISO 8601; None: before."""
        for move in self._moves:
            is_meant = move.owner is None and (began is None or move.at is None or began < str(iso(move.at)))
            if is_meant and (now := move.of(path)) is not None:
                return now
        return path

    def of_project(self, store_id: str, root: str | None) -> list[Move]:
        """The moves that a project's store is to have, of those that the home store knows. ``root``: the project's."""
        found = [each for each in self._moves if each.new == root and each.owner in (None, store_id)]
        return [Move(old=each.old, at=each.at) for each in found]

    def earlier(self, path: str) -> list[str]:
        """The paths that a file or folder was recorded with before it was moved here."""
        found = (rebased(path, move.new, move.old) for move in self._moves)
        return list(dict.fromkeys(each for each in found if each is not None and each != path))


def rebased(path: str, old: str, new: str) -> str | None:
    """A path at or below ``old`` as it is at or below ``new``; None for any other.

    >>> rebased("/a/b/c", "/a", "/new"), rebased("/a", "/a", "/new"), rebased("/ab", "/a", "/new")
    ('/new/b/c', '/new', None)
    """
    if path == old:
        return new
    below = f"{old.rstrip('/')}/"
    return f"{new.rstrip('/')}/{path[len(below) :]}" if path.startswith(below) else None


def root_of(store: Path) -> str | None:
    """The root of the project whose store lies at a path; None for a store that lies anywhere else."""
    if store.name != STORE_NAME or store.parent.name not in STORE_FOLDERS:
        return None
    # Sessions record real paths, however a person came to the folder.
    return os.path.realpath(store.parent.parent)


def load(db: apsw.Connection, store: Path) -> Moves:
    """Return the way the paths of a store are to be read where it lies now."""
    root, noted = root_of(store), stored(db)
    if root is None:
        # A store without a project, such as the home store or a backup, has no root that paths could be below.
        # A move without a new path is about a root, and this store has none.
        return Moves(each for each in noted if each.new)
    recorded = recorded_root(db)
    now = [msgspec.structs.replace(each, new=root) for each in noted if not each.new and each.old != recorded]
    return Moves([*now, Move(old=recorded, new=root)] if recorded is not None else now)


def stored(db: apsw.Connection) -> list[Move]:
    """The moves that a store has, as they are written."""
    written = _read(db, MOVES)
    try:
        return [] if written is None else msgspec.json.decode(written, type=list[Move])[:MOVES_MAX]
    except msgspec.DecodeError:
        return []


def recorded_root(db: apsw.Connection) -> str | None:
    """The root of the project as the newest rows of its store have it; None where that cannot be said."""
    written = _read(db, ROOT)
    try:
        return _guessed_root(db) if written is None else msgspec.json.decode(written, type=str)
    except msgspec.DecodeError:
        return None


def write_root(db: apsw.Connection, root: str) -> None:
    """Note the root that rows are written with from now on."""
    _write(db, ROOT, msgspec.json.encode(root).decode())


def write(db: apsw.Connection, moves: Iterable[Move]) -> None:
    """Replace the moves that a store knows of by these."""
    _write(db, MOVES, msgspec.json.encode(list(moves)).decode())


def is_unsettled(db: apsw.Connection, root: str) -> bool:
    """Return True if a store does not say that its project's root is this one."""
    return _read(db, ROOT) is None or recorded_root(db) != root


def settle(db: apsw.Connection, root: str, at: int) -> None:
    """Note that a project's store lies below ``root`` now: what is recorded before ``at`` may name an earlier one."""
    recorded = recorded_root(db)
    if recorded is not None and recorded != root:
        # A project that was moved back and forth has one row for each place.
        kept = [each for each in stored(db) if each.old != recorded]
        # All that is here was recorded there, also by a machine whose clock is ahead.
        newest = db.execute("select coalesce(max(unixepoch(created)), 0) * 1000 + 1000 from sessions").get
        write(db, [*kept, Move(old=recorded, at=max(at, int(newest)))])
    write_root(db, root)


def with_move(moves: Iterable[Move], move: Move) -> list[Move]:
    """Moves and one more. What was moved to its old path is at its new one, and what was moved back is where it was."""
    found = []
    for each in moves:
        if each.owner != move.owner:
            found.append(each)
        elif each.old != move.old:
            new = move.of(each.new) or each.new
            # What came back to where it was recorded needs no translation any more.
            found += [msgspec.structs.replace(each, new=new)] if new != each.old else []
    return [*found, move]


def changed(db: apsw.Connection, change: Callable[[list[Move]], list[Move]]) -> None:
    """Change the moves that a store has."""
    write(db, change(stored(db)))


def _guessed_root(db: apsw.Connection) -> str | None:
    """The root of a store of an earlier version, which does not say it: the one worktree of its sessions, if gone."""
    rows = db.execute(
        "select distinct worktree from sessions where worktree <> '' "
        "and owner = (select value from meta where key = 'store_id') limit 2"
    ).fetchall()
    found = [str(worktree) for (worktree,) in rows]
    # Where the folder is still there the store is a copy, and its rows are about that folder.
    return found[0] if len(found) == 1 and found[0].startswith("/") and not os.path.lexists(found[0]) else None


def _read(db: apsw.Connection, key: str) -> str | None:
    found = db.execute("select value from meta where key = ? and length(value) <= ?", (key, VALUE_CHARS_MAX)).get
    return None if found is None else str(found)


def _write(db: apsw.Connection, key: str, value: str) -> None:
    db.execute("insert or replace into meta(key, value) values (?, ?)", (key, value))


# the home folder: marks of a move -------------------------------------------------------------------------------------


MOVED_TO, MOVED_FROM = "moved-to", "moved-from"
STORE = "store.db"
"""The name of the home store's file, in its folder."""
_MOVING, _MOVED = b"moving", b"moved"


class MovedTo(Struct, frozen=True, kw_only=True):
    """The content of the mark in the old folder. ``is_over``: the new one has all of it."""

    to: Path
    is_over: bool
    is_held: bool = False
    """The process that moves it lives."""


class MovedFrom(Struct, frozen=True, kw_only=True):
    """The mark in the new folder until a move is finished. ``kept``: what was there before, as paths below it."""

    source: Path
    kept: frozenset[str]


def check_home(home: Path) -> None:
    """Raise unless a folder may be used as the home.

    Raises HomeNotAFolder, HomeWasMoved, HomeIsMoving, HomeNotWhole, and FileUnreadable where a folder above is closed.
    """
    try:
        if home.is_file():
            raise HomeNotAFolder(home)
    except PermissionError as refused:
        raise FileUnreadable(home, refused.strerror or str(refused)) from refused
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
    """Return the place that a folder was moved to, by its mark; None without one."""
    try:
        file = os.open(home / MOVED_TO, os.O_RDONLY)
    except OSError:
        return None
    try:
        # Read and locked through one descriptor: the mark may be replaced between two looks.
        to, _, state = os.read(file, os.fstat(file).st_size).partition(b"\0")
        return MovedTo(to=Path(os.fsdecode(to)), is_over=state == _MOVED, is_held=_is_locked(file))
    finally:
        os.close(file)


def moved_from(home: Path) -> MovedFrom | None:
    """Return the home that is being moved into a folder, by its mark; None without one."""
    try:
        source, *kept = (home / MOVED_FROM).read_bytes().split(b"\0")
    except OSError:
        return None
    return MovedFrom(source=Path(os.fsdecode(source)), kept=frozenset(os.fsdecode(each) for each in kept if each))


def mark_target(home: Path, source: Path, kept: Iterable[str]) -> None:
    """Say in the new folder what is moved there. Raises DiskFull, CannotWrite."""
    _write_mark(home / MOVED_FROM, b"\0".join([os.fsencode(source), *map(os.fsencode, sorted(kept))]))


class Moving:
    """The mark in the old folder, while it is moved: ``begin``, then ``commit``. ``close`` lets go of it."""

    def __init__(self, home: Path, to: Path) -> None:
        self._home, self._to = home, to
        self._file: int | None = None

    def begin(self) -> None:
        """Make every command refuse to act in the old folder as long as this process lives."""
        path = self._home / MOVED_TO
        # Written before its lock is taken, so for an instant it counts for nothing; who moves looks for others after
        # that.
        _write_mark(path, os.fsencode(self._to) + b"\0" + _MOVING)
        self._file = os.open(path, os.O_RDONLY)
        # A file system without locks is no reason not to move. Who only looks has this one for an instant.
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def commit(self) -> None:
        """From now on the new folder is the home, whatever happens."""
        _write_mark(self._home / MOVED_TO, os.fsencode(self._to) + b"\0" + _MOVED)

    def take_back(self) -> None:
        """The old folder is the home as before."""
        with suppress(OSError):
            (self._home / MOVED_TO).unlink()

    def close(self) -> None:
        """Let go of the mark, which stays."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _write_mark(path: Path, data: bytes) -> None:
    """Write a mark, whole and on the disk."""
    whole = path.with_name(f".{path.name}.{os.getpid()}")
    write_private(whole, data, sync=True)
    whole.replace(path)
    sync(path.parent)


def _is_locked(file: int) -> bool:
    try:
        # A shared lock, so that two who look do not take each other for the mover.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
