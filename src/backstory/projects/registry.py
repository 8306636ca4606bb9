"""The project stores of a machine: the path of each, and who owns it, so that none is lost and the home store has all.

A note is a file ``BACKSTORY_HOME/projects/<store id>``, for further places of a store ``<store id>.1``, ``.2``, …: the
store's path, a NUL, its device and inode. Notes of earlier versions hold the path alone. Its mtime is that of the
store when it was last read. A noted store is ours: it is noted when we create it or a person trusts it, and never
because it was read.
"""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import suppress
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory.errors import BackstoryError, CopiesBehind, SessionsNotCopied, StoreNotFound, in_words
from backstory.lazy import lazy_module
from backstory.projects import git
from backstory.store import open_store
from backstory.store.moves import Move, root_of, with_move
from backstory.store.private import make_private_folder, write_private
from backstory.store.tables import sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from backstory.exchange import replication
    from backstory.store import Store
    from backstory.store.intake import run_facts
else:
    replication = lazy_module("backstory.exchange.replication")
    run_facts = lazy_module("backstory.store.intake.run_facts")


POINTERS = "projects"


class KnownProjects:
    """The stores created on this machine or trusted by a person."""

    def __init__(self, home: Path, home_store: Store, now: Callable[[], int]) -> None:
        self._folder, self._home_store, self._now = home / POINTERS, home_store, now

    def whose(self, store: Store, *, is_named: bool = False) -> Verdict:
        """Return the owner of a store. ``is_named``: a person named this file. Raises errors of reading the store."""
        return whose(self._seen(store, is_named=is_named), [place for _, place in self._pointers()])

    def _seen(self, store: Store, *, is_named: bool) -> Seen:
        path = store.path
        is_machine = file_at(path) is not None and file_at(path) == file_at(self._home_store.path)
        seen = Seen(
            path=str(path),
            is_named=is_named,
            is_link=path.is_symlink() or path.parent.is_symlink(),
            is_machine=is_machine or path == self._home_store.path,
        )
        if seen.is_machine or not store.exists:
            return seen
        device, inode = file_at(path) or (None, None)
        return msgspec.structs.replace(seen, store_id=store.id, device=device, inode=inode)

    def begin(self, store: Store) -> None:
        """Note a store before it is created, so that it counts as ours also after a crash in between."""
        if not store.exists:
            store.begin_as(store_id := store.new_uid())
            self._note(NotedStore(store_id=store_id, path=str(store.path)))

    def remember(self, store: Store) -> None:
        """Note the path of a store of ours, with its device and inode, by which a moved store is recognised.

        The store notes where its project's root is; the home store, that the project is not where it was.
        """
        device, inode = file_at(store.path) or (None, None)
        moved = self._note(NotedStore(store_id=store.id, path=str(store.path), device=device, inode=inode))
        # What cannot be noted now is read as it was recorded, or is noted the next time.
        with suppress(BackstoryError):
            store.settle()
        if moved is not None:
            with suppress(BackstoryError):
                self._note_move(moved.store_id, Path(moved.path), store.path)

    def _note_move(self, store_id: str, old: Path, new: Path) -> None:
        """Tell the home store that sessions of a project's old folder are now in its new one."""
        old_root, new_root = old.parent.parent, root_of(new)
        if root_of(old) is None or new_root is None or not self._home_store.exists:
            return
        move = Move(old=str(old_root), new=new_root, at=self._now())
        if os.path.lexists(old_root):
            # Only its store was moved: what agents logged in the folder stays there.
            self._home_store.change(sessions.follow, store_id, move)
        else:
            self._home_store.change_moves(lambda known: with_move(known, move))

    def _note(self, place: NotedStore) -> NotedStore | None:
        """Note a place; returns the earlier one of a store that was moved."""
        noted = [(file, known) for file, known in self._pointers() if known.store_id == place.store_id]
        here = next((each for each in noted if each[1].path == place.path), None)
        if here is not None and (here[1] == place or place.inode is None):
            return None
        moved = next(((file, known) for file, known in noted if _is_moved(known, place)), None)
        target = here[0] if here is not None else moved[0] if moved is not None else self._free(place.store_id)
        read = target.stat().st_mtime_ns if here is not None else 0
        make_private_folder(self._folder)
        self._write(target, place, read)
        return moved[1] if moved is not None and here is None else None

    def _write(self, target: Path, place: NotedStore, read: int) -> None:
        """Write a note whole. ``read``: the mtime in ns of the store when it was last read."""
        whole = target.with_name(f".{target.name}.{os.getpid()}")
        numbers = (place.device, place.inode, place.merged)
        file = "" if place.inode is None else "\0" + " ".join(str(each) for each in numbers if each is not None)
        write_private(whole, os.fsencode(place.path) + file.encode(), sync=True)
        os.utime(whole, ns=(read, read))
        whole.replace(target)

    def _free(self, store_id: str) -> Path:
        names = (self._folder / (f"{store_id}.{number}" if number else store_id) for number in count())
        return next(each for each in names if not each.exists())

    def store_owning(self, uid: str) -> Store | None:
        """Return the project's store that owns a session of the home store, if it is where it was last seen."""
        owner, other = self._home_store.ask_or(None, sessions.owner, uid), None
        for path in self.places_of(owner) if owner is not None else ():
            with suppress(StoreNotFound):
                store = self.opened(owner or "", path)
                if store.has(uid):
                    # Of two copies of a store one may lack it.
                    return store
                other = other or store
        return other

    def places_of(self, store_id: str) -> list[Path]:
        """Return the current and earlier paths of the store with this id; those that were merged come last."""
        found = [place for _, place in self._pointers() if place.store_id == store_id]
        return [Path(place.path) for place in sorted(found, key=lambda place: place.merged is not None)]

    def opened(self, store_id: str, path: Path) -> Store:
        """Open the store with this id at a path; raises StoreNotFound for another store, and what reading it raises."""
        store = open_store(path, now=self._now)
        if not store.exists or store.id != store_id:
            raise StoreNotFound(path)
        return store

    def look_again(self, store_id: str) -> None:
        """Make the next ``replicate`` read a store although it is unchanged: its decisions changed elsewhere."""
        for pointer, place in self._pointers():
            if place.store_id == store_id:
                os.utime(pointer, ns=(0, 0))

    def at(self, file: tuple[int, int]) -> Path | None:
        """Return the noted path of the store with this device and inode."""
        found = (Path(place.path) for _, place in self._pointers() if (place.device, place.inode) == file)
        return next((path for path in found if file_at(path) == file), None)

    def is_ours(self, path: Path, store_id: str) -> bool:
        """Return True if the store with this id at a path is ours; the file itself is not opened."""
        device, inode = file_at(path) or (None, None)
        is_link = path.is_symlink() or path.parent.is_symlink()
        seen = Seen(path=str(path), store_id=store_id, device=device, inode=inode, is_link=is_link)
        return whose(seen, [place for _, place in self._pointers()]) == Verdict.OURS

    def note_merged(self, path: Path, store_id: str) -> None:
        """Note that all of a store is in another one of ours: it is not read again until somebody acts in it."""
        for file, place in self._pointers():
            if place.store_id == store_id and Path(place.path) == path:
                self._write(file, msgspec.structs.replace(place, merged=path.stat().st_mtime_ns), 0)

    def has_copies(self, store_id: str) -> bool:
        """Return True if several stores of ours have this id, none of which was merged into another."""
        files = {file_at(path) for path in self._places_alone(store_id)} - {None}
        return len(files) > 1

    def _places_alone(self, store_id: str) -> list[Path]:
        return [
            Path(place.path) for _, place in self._pointers() if place.store_id == store_id and place.merged is None
        ]

    def is_noted(self, path: Path) -> bool:
        """Return True if a store of ours is, or was, at a path."""
        return any(place.path == str(path) for _, place in self._pointers())

    def has_id(self, store: Store) -> bool:
        """Return True if a store of ours has this id, or the owner of sessions in the home store."""
        return any(place.store_id == store.id for _, place in self._pointers()) or bool(
            self._home_store.ask_or([], sessions.owned_by, store.id)
        )

    def stores(self) -> list[Store]:
        """Return the project stores that are where they were last seen, and can be read."""
        found = []
        for _, place in self._pointers():
            with suppress(OSError, ValueError, BackstoryError):
                store = open_store(place.path, now=self._now)
                if store.exists and store.id == place.store_id:
                    found.append(store)
        return found

    def folders(self) -> list[Path]:
        """Return the folders of projects whose stores lie where they were last seen. None is opened."""
        places = (Path(place.path) for _, place in self._pointers())
        return [each.parent.parent for each in places if git.store_path(each.parent.parent) == each and each.is_file()]

    def ahead(self) -> list[Store]:
        """Return the readable project stores that changed since they were replicated into the home store."""
        found = []
        for pointer, place in self._pointers():
            with suppress(OSError, ValueError, BackstoryError):
                if Path(place.path).stat().st_mtime_ns != pointer.stat().st_mtime_ns:
                    store = open_store(place.path, now=self._now)
                    if store.id == place.store_id:
                        found.append(store)
        return found

    def restore_store(self, store: Store) -> int:
        """Rebuild a project's store that was here and is gone; returns the number of restored sessions."""
        if store.exists and store.ask(sessions.count):
            return 0
        for _, place in self._pointers():
            if place.path == str(store.path) and (
                back := replication.rebuild_from(store, self._home_store, place.store_id)
            ):
                return back
        return 0

    def give(self, store: Store) -> None:
        """Copy to a project's store what agents' logs add to its runs, such as a model that a stream does not name."""
        logged = self._home_store.ask_or([], run_facts.of_owner, store.id)
        if not replication.was_given(self._home_store, store.id, logged):
            replication.take_logged(store, self._home_store, logged)
            replication.note_given(self._home_store, store.id, logged)

    def replicate(self, report: Callable[[str], None] = lambda problem: None) -> int:
        """Replicate project stores into the home store, and copy to them what agents' logs add to their runs.

        A missing or unchanged store is not opened. Returns the number of copied sessions; ``report`` is called for
        each store that cannot be read now, and the others are read nevertheless.
        """
        copied = 0
        for pointer, place in self._pointers():
            logged = self._home_store.ask_or([], run_facts.of_owner, place.store_id)
            try:
                path = Path(place.path)
                changed = path.stat().st_mtime_ns
                if place.merged is not None:
                    continue
                is_known = (
                    bool(self._home_store.ask_or([], sessions.owned_by, place.store_id)) and place.inode is not None
                )
                is_given = replication.was_given(self._home_store, place.store_id, logged)
                if changed == pointer.stat().st_mtime_ns and is_known and is_given:
                    continue
                with open_store(path, now=self._now) as store:
                    if store.id == place.store_id:
                        self.remember(store)
                        replication.take_logged(store, self._home_store, logged)
                        several = self.has_copies(store.id)
                        copied += replication.pull_sessions(self._home_store, store, is_one_of_several=several)
                        replication.note_given(self._home_store, place.store_id, logged)
                os.utime(pointer, ns=(changed, changed))
            except FileNotFoundError:
                continue
            except (SessionsNotCopied, CopiesBehind) as refused:
                report(str(refused))
            except Exception as refused:
                report(f"A project's store was not read: {in_words(refused)}")
        return copied

    def _pointers(self) -> list[tuple[Path, NotedStore]]:
        return noted(self._folder)


def noted(folder: Path) -> list[tuple[Path, NotedStore]]:
    """Return every note in a folder with its file; other files are skipped."""
    if not folder.is_dir():
        return []
    found = []
    for each in sorted(folder.iterdir()):
        if not each.name.startswith("."):
            with suppress(OSError, ValueError):
                found.append((each, _place(each.name.partition(".")[0], each.read_bytes())))
    return found


def _place(store_id: str, note: bytes) -> NotedStore:
    path, _, file = note.partition(b"\0")
    device, inode, *merged = (int(each) for each in file.split()) if file else (None, None)
    return NotedStore(
        store_id=store_id, path=os.fsdecode(path), device=device, inode=inode, merged=merged[0] if merged else None
    )


def _is_moved(known: NotedStore, place: NotedStore) -> bool:
    """Return True if a store that was noted at one path is now at another."""
    is_same = known.inode is not None and (known.device, known.inode) == (place.device, place.inode)
    return is_same and file_at(Path(known.path)) != (place.device, place.inode)


# a store that is moved while a run goes on ----------------------------------------------------------------------------


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


# who owns a project's store -------------------------------------------------------------------------------------------


class Verdict(StrEnum):
    """The ownership of a store."""

    OURS = "ours"
    ABSENT = "absent"
    """There is none: the first session creates one, which is ours."""
    ELSEWHERE = "elsewhere"
    MACHINE = "machine"
    """It is the home store, at the path of a project's."""


class NotedStore(Struct, frozen=True, kw_only=True):
    """The noted path of a store of ours. Notes of earlier versions lack the device and inode."""

    store_id: str
    path: str
    device: int | None = None
    inode: int | None = None
    merged: int | None = None
    """It was merged into another store of ours when its mtime was this, ns, and holds nothing more since."""


class Seen(Struct, frozen=True, kw_only=True):
    """The file at a path. ``store_id`` is None if it is no store."""

    path: str
    store_id: str | None = None
    device: int | None = None
    inode: int | None = None
    is_named: bool = False
    """A person named this very file, so following a link was their choice."""
    is_link: bool = False
    """The file, or the folder that holds it, is a symbolic link."""
    is_machine: bool = False
    """It is the file of the home store."""


def whose(seen: Seen, noted: Iterable[NotedStore]) -> Verdict:
    """Decide whose a store is. A link that is not noted under its own path may lead anywhere, so it is never ours."""
    if seen.is_machine:
        return Verdict.OURS if seen.is_named else Verdict.MACHINE
    may_lead_anywhere = seen.is_link and not seen.is_named
    for place in noted:
        is_there = place.path == seen.path
        if seen.store_id is None and is_there:
            return Verdict.ABSENT
        is_moved = not may_lead_anywhere and place.inode is not None and _file(place) == _file(seen)
        if place.store_id == seen.store_id and (is_there or is_moved):
            return Verdict.OURS
    return Verdict.ABSENT if seen.store_id is None and not may_lead_anywhere else Verdict.ELSEWHERE


def in_conflict(
    identities: Iterable[str], known: Mapping[str, str | None], place: str, *, is_id_known: bool
) -> set[str]:
    """Return the sessions of a store from elsewhere that the home store knows from another place.

    ``known``: the origin of each session of the home store; None for its own.
    ``is_id_known``: the store has the id of one of ours, so all its sessions claim to be ours.
    """
    return {each for each in identities if is_id_known or (each in known and known[each] != place)}


def _file(place: NotedStore | Seen) -> tuple[int | None, int | None]:
    return place.device, place.inode
