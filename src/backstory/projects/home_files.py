"""Contents of a home: our files and folders by name, those that refer to the home itself, and files not ours.

A unit is what is moved, or stays, as a whole: a file, or an entry of one of our folders, such as the spool of a run.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory.lazy import lazy_regex
from backstory.projects.mask_key import MASK_KEY
from backstory.store.moves import MOVED_FROM, MOVED_TO, STORE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

QUEUE = f"{STORE}.queue.db"
DATABASES = (STORE, QUEUE)
FILES = (*(name + side for name in DATABASES for side in ("", "-journal", "-wal", "-shm")), "config.toml",
         "prices.toml", "folders.seen", "listeners.json", "web.json",
         MASK_KEY, "server.json", "server.joining", "secrets.scanned", "secrets.accepted")  # fmt: skip
"""Our files in a home."""
LOCKS = "locks"
FOLDERS = (
    "projects", "spool", LOCKS, "compactions", "resumed", "installed", "unsent", "drafts", "import", "merging",
    "sync",
)  # fmt: skip
"""Our folders in a home."""
COPYING = ".moving"
"""Behind the name of a file, with a dot before it, while it is copied."""
_UNFINISHED = lazy_regex(
    rf"(?:folders\.seen|secrets\.scanned|secrets\.accepted|listeners\.json|server\.json|{re.escape(MASK_KEY)})\.\d+|\.(?:{MOVED_TO}|{MOVED_FROM})\.\d+"
    rf"|\.(?:{'|'.join(map(re.escape, (*FILES, *FOLDERS)))}){re.escape(COPYING)}"
)
_NAMES_STORE = lazy_regex(r"spool/[^/]+/run\.json|compactions/[^/]+\.continue")
"""Files that say which store they are about."""


class HomeFiles(Struct, frozen=True, kw_only=True):
    """Contents of a home, as paths below it."""

    units: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    """Files that are not ours."""
    unfinished: list[str] = field(default_factory=list)
    """Incomplete files that a killed process left while writing one of ours."""


class HomeFile(Struct, frozen=True):
    """A file, link or folder of a unit, as a path below the home."""

    path: str
    is_link: bool = False
    is_folder: bool = False


def files_of(home: Path) -> HomeFiles:
    """Return the contents of a home, sorted. A missing folder holds nothing."""
    found = HomeFiles()
    for each in _sorted(home):
        if each.name in FOLDERS and each.is_dir(follow_symlinks=False):
            found.folders.append(each.name)
            found.units.extend(f"{each.name}/{entry.name}" for entry in _sorted(home / each.name))
        elif each.name in (*FILES, *FOLDERS) and (each.is_symlink() or each.is_file()):
            found.units.append(each.name)
        elif _UNFINISHED.fullmatch(each.name):
            found.unfinished.append(each.name)
        elif each.name not in (MOVED_TO, MOVED_FROM):
            found.strangers.append(each.name)
    return found


def entries_of(home: Path, unit: str) -> Iterator[HomeFile]:
    """Yield the entries of a unit, folders before their contents. Pipes and devices are no part of it."""
    status = (home / unit).lstat()
    if stat.S_ISLNK(status.st_mode):
        yield HomeFile(unit, is_link=True)
    elif stat.S_ISREG(status.st_mode):
        yield HomeFile(unit)
    elif stat.S_ISDIR(status.st_mode):
        yield HomeFile(unit, is_folder=True)
        for each in _sorted(home / unit):
            yield from entries_of(home, f"{unit}/{each.name}")


def with_new_home(path: str, data: bytes, old: Sequence[Path], new: Path) -> bytes:
    """The content of a file in the new home. One that names the home store names it where it is then.

    ``old``: the paths by which the old home is known.
    """
    if not _NAMES_STORE.fullmatch(path):
        return data
    try:
        said = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return data
    if not isinstance(said, dict) or said.get("store") not in [str(each / STORE) for each in old]:
        return data
    moved: dict[str, Any] = {**said, "store": str(new / STORE)}
    if moved.get("store_file") is not None:
        # It is found by its path: its device and inode are others on another disk.
        moved["store_file"] = None
    return msgspec.json.encode(moved)


def names_store(path: str) -> bool:
    """Return True if a file may name the store that it is about."""
    return _NAMES_STORE.fullmatch(path) is not None


def _sorted(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda each: each.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
