"""Files that are written where a store says: their places, which are not believed, and their bytes.

Nothing is written outside a folder, and no link below it is followed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from backstory.errors import FileInTheWay, LogPruned, NoFileToReplace, NotAPlace, StoreDamaged
from backstory.ingest.rewritten import as_file
from backstory.lazy import lazy_module
from backstory.store.private import MODE, as_ours, make_folder, publish

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.store import Log, Store
    from backstory.store.tables import pruned
else:
    pruned = lazy_module("backstory.store.tables.pruned")


NOT_FOLLOWED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
FILE, FOLDER = "a file", "a folder"
KINDS = (
    (stat.S_ISREG, FILE), (stat.S_ISDIR, FOLDER), (stat.S_ISLNK, "a link"), (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)  # fmt: skip

Parts = tuple[str, ...]
"""A path below the folder that is written in."""


def inside(name: str) -> Parts:
    """The parts of a path from a store, which is not trusted to stay below its folder; raises NotAPlace."""
    parts = Path(f"./{name}").parts
    if ".." in parts or "\0" in name:
        raise NotAPlace(name)
    return parts


def beside(above: Parts, name: str) -> Parts:
    """The place of a sidecar, from the folder of its log: below it, or below the one that this is in.

    Raises NotAPlace.
    """
    if name.startswith("../") and len(above) > 1:
        above, name = above[:-1], name.removeprefix("../")
    below = inside(name)
    if not below:
        raise NotAPlace(name)
    return (*above, *below)


def whole_log(store: Store, log: Log, *, partial: bool = False) -> Iterator[bytes]:
    """A log's file as it was last; raises StoreDamaged also where bytes are missing at the end of what is kept.

    Raises LogPruned where bytes of it were pruned, unless what is left is wanted (``partial``).
    """
    if not partial and store.ask(pruned.is_overwritten, log.id):
        raise LogPruned(partial=False)
    return as_file(log, _whole_kept(store, log))


def _whole_kept(store: Store, log: Log) -> Iterator[bytes]:
    length = 0
    for piece in store.stream_log(log.id):
        length += len(piece)
        yield piece
    if length != log.read_to:
        raise StoreDamaged(store.path, f"of {log.read_to} bytes of log {log.id} it has {length}")


def enter(folder: Path, parts: Parts) -> None:
    """Make the folders of a path below ``folder``, for their owner alone; raises NoFileToReplace at a link."""
    make_folder(folder)
    for part in parts:
        folder /= part
        try:
            folder.mkdir(mode=MODE)
        except FileExistsError:
            kind = kind_of(folder) or "gone"
            if kind != FOLDER:
                raise NoFileToReplace(folder, kind) from None


def kind_of(path: Path) -> str | None:
    """Return the kind of file at a path, without following a link; None if there is nothing."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    return next((kind for fits, kind in KINDS if fits(mode)), "a device")


def measured(pieces: Iterable[bytes]) -> tuple[int, str]:
    """Return the length of bytes, and their SHA-256."""
    digest, length = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        length += len(piece)
    return length, digest.hexdigest()


def written_to(file: BinaryIO, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Write bytes to a file as they are passed on."""
    for piece in pieces:
        file.write(piece)
        yield piece


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file that is no link. Raises OSError."""
    with open(os.open(path, os.O_RDONLY | NOT_FOLLOWED), "rb") as file:  # noqa: PTH123
        return hashlib.file_digest(file, "sha256").hexdigest()


# whole file -----------------------------------------------------------------------------------------------------------
# A new file that appears when it is whole: what fails before that leaves nothing.


BUFFER_BYTES = 1024 * 1024
RANDOM_BYTES = 8


@contextmanager
def whole_file(target: Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """A file to write, for its owner alone; it gets its name, and is on the disk, when the block ends well.

    Raises FileInTheWay for one that is there, unless ``force``, DiskFull and CannotWrite.
    """
    if os.path.lexists(target) and not force:
        raise FileInTheWay(target)
    part = target.with_name(f".backstory-{secrets.token_hex(RANDOM_BYTES)}.part")
    try:
        make_folder(target.parent)
        file = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as refused:
        raise as_ours(target, refused) from refused
    try:
        try:
            with open(file, "wb", BUFFER_BYTES) as opened:  # noqa: PTH123
                yield opened
                opened.flush()
                os.fsync(opened.fileno())
            part.replace(target) if force else publish(part, target)
        except FileExistsError as refused:
            raise FileInTheWay(target) from refused
        except OSError as refused:
            raise as_ours(target, refused) from refused
    finally:
        with suppress(OSError):
            part.unlink()
