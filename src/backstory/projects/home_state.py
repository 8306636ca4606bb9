"""The state of a home folder, as its file system has it: whose it is, who may enter it, where it lies, its room."""

from __future__ import annotations

import os
import shutil
import stat
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOUNTS = Path("/proc/self/mounts")
"""The file in which Linux says what is mounted where. Elsewhere nothing is said about file systems."""
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "davfs")
"""File systems on which locks and shared memory between machines cannot be relied upon."""
WRITTEN = ("config.toml", "prices.toml")
"""The files of a home that a person writes."""
LOOKED_AT_MAX = 5_000
"""The most files of a home that are looked at."""
_ESCAPED = lazy_regex(r"\\([0-7]{3})")


class HomeState(Struct, frozen=True, kw_only=True):
    """A folder that is there. ``owner``: the account that it, or a file in it, belongs to, if that is another one.

    ``is_open``: others may enter it, or read a file in it; ``may_own``: it could be made writable by its owner.
    """

    is_writable: bool
    may_own: bool
    is_open: bool
    owner: int | None
    file_system: str
    free_bytes: int


def state_of(home: Path) -> HomeState:
    """Return the state of a folder. Raises OSError."""
    own, found = os.geteuid(), home.stat()
    others, modes = set[int](), stat.S_IMODE(found.st_mode)
    is_open = bool(modes & 0o077)
    for name, each in islice(_entries(home), LOOKED_AT_MAX):
        others |= {each.st_uid} - {own}
        # What a person writes has the mode of their editor, and nobody gets to it in a folder that is closed.
        is_open |= bool(stat.S_IMODE(each.st_mode) & 0o077) and not stat.S_ISLNK(each.st_mode) and name not in WRITTEN
    others |= {found.st_uid} - {own}
    # Root may write anything, whatever the mode says: the mode is what a person sees.
    is_writable = os.access(home, os.W_OK) and bool(found.st_mode & stat.S_IWUSR)
    return HomeState(
        is_writable=is_writable, may_own=found.st_uid == own and not found.st_mode & stat.S_IWUSR, is_open=is_open,
        owner=min(others, default=None), file_system=file_system(home), free_bytes=shutil.disk_usage(home).free,
    )  # fmt: skip


class ClosedFolder(NamedTuple):
    """A folder that this account may not enter. ``is_own``: it may change that."""

    folder: Path
    is_own: bool


def closed_above(home: Path) -> ClosedFolder | None:
    """The first folder on the way to a home, or the home itself, that may not be entered; None where all may."""
    for folder in (*reversed(home.parents), home):
        try:
            found = folder.stat()
        except OSError:
            return None
        if stat.S_ISDIR(found.st_mode) and not os.access(folder, os.X_OK | (os.R_OK if folder == home else 0)):
            return ClosedFolder(folder, found.st_uid == os.geteuid())
    return None


def is_read_only(path: Path) -> bool:
    """Return True if a file is there that may not be written, also by root where its mode says so."""
    try:
        return not (os.access(path, os.W_OK) and path.stat().st_mode & stat.S_IWUSR)
    except OSError:
        return False


def is_own(path: Path) -> bool:
    """Return True if a file belongs to this account, which may change its mode then."""
    try:
        return path.stat().st_uid == os.geteuid()
    except OSError:
        return False


def file_system(folder: Path) -> str:
    """The kind of file system that a folder lies on; '' where nobody says."""
    try:
        mounts = MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    return kind_of_mount(str(folder.resolve()), mounts)


def kind_of_mount(path: str, mounts: Iterable[str]) -> str:
    """The kind of the innermost mount above a path, of lines as Linux has them; of two in one place the later counts.

    >>> kind_of_mount("/home/ann/x", ["a / ext4 rw 0 0", "srv:/h /home nfs4 rw 0 0", "b /homes xfs rw 0 0"])
    'nfs4'
    """
    best, kind = -1, ""
    for line in mounts:
        words = line.split(" ")
        if len(words) < 3:
            continue
        at = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), words[1]).rstrip("/")
        if (path == at or path.startswith(f"{at}/")) and len(at) >= best:
            best, kind = len(at), words[2]
    return kind


def is_network(kind: str) -> bool:
    """Return True if a file system may be shared with other machines."""
    return kind in NETWORK


def _entries(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The names and states of all files and folders in a folder, as far as it may be entered."""
    try:
        with os.scandir(folder) as entries:
            for each in entries:
                yield each.name, each.stat(follow_symlinks=False)
                if each.is_dir(follow_symlinks=False):
                    yield from _entries(Path(each.path))
    except OSError:
        return
