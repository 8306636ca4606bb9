"""Databases of agents: what stands in them of sessions whose logs are gone. They are copied aside, never opened.

Even to read a database in place can leave files beside it or change them, so it is copied with its journal, and the
copy counts only if nothing was written meanwhile. A database that is as it was is not copied again. Whatever goes wrong
with one, or with a session in it, is reported, and the others are read.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.agents.contract import UnreadableDatabase, UnreadRows
from backstory.errors import in_words
from backstory.projects import git
from backstory.store import FileStamp
from backstory.store.intake.append import DATABASE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from backstory.agents.contract import Agent, DatabasePart

DATABASE_BYTES_MAX = 2 * 1024 * 1024 * 1024
COPY_BYTES = 1024 * 1024
COPIES_MAX = 5
"""The most copies of a database that is written meanwhile."""
JOURNALS = ("-wal", "-journal")
_FICLONE = 0x40049409
_BINARY = getattr(os, "O_BINARY", 0)
_FROM = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY
_TO = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
ROWS_OF = "#"
"""The separator between a database's name and its session's id in the name of a log of rows."""
NAME_BYTES_MAX = 200
"""A longer name of a log of rows is shortened, because a file that it is restored to must be possible."""


class DatabaseRows(Struct, frozen=True, kw_only=True):
    """A session out of a database, to be read like a log of that path."""

    agent: Agent
    native_id: str
    path: str
    relpath: str
    mtime_ns: int
    content: bytes
    mark: int = 0
    """A number that changes with its rows."""
    is_live: bool = False
    """True if its rows may change after they were read."""


class Unread(Struct, frozen=True, kw_only=True):
    """A database that could not be read, and why."""

    path: str
    reason: str
    is_final: bool = False
    """True if the database says no more until it changes."""


class Done(Struct, frozen=True, kw_only=True):
    """A database that was read to its end, with its files as they were."""

    places: list[FileStamp]


class _TooLargeToCopy(Exception):
    """A large file whose blocks a copy cannot share."""


class WrittenMeanwhile(Exception):
    """A file was written while it was copied."""


def sessions_without_logs(
    chosen: Iterable[Agent], environ: Mapping[str, str], home: Path, seen: Mapping[str, FileStamp],
    places: Iterable[Path] = (),
) -> Iterator[DatabaseRows | Unread | Done]:  # fmt: skip
    """The sessions that only the databases of these agents still hold. ``seen``: files as they were the last time.

    ``places``: folders of projects, and files, where databases may lie, beside the current folder's and those of
    databases that were seen before.
    """
    in_projects = list(places)
    for agent in chosen:
        keeper = agent.database
        if keeper is not None:
            found = [*keeper.databases(environ, home), *_in_projects(agent.name, keeper, environ, seen, in_projects)]
            for database in dict.fromkeys(map(itself, found)):
                yield from _sessions_of(agent, database, seen)


def itself(database: Path) -> Path:
    """A file where it lies: its journals are beside itself, not beside a link to it."""
    # Where links lead in a circle, which `Path.resolve` takes for our mistake, opening it says so.
    return Path(os.path.realpath(database))


def _in_projects(
    name: str, keeper: DatabasePart, environ: Mapping[str, str], seen: Mapping[str, FileStamp], places: Iterable[Path]
) -> Iterator[Path]:
    """The databases of an agent that keeps them in projects."""
    here = environ.get("PWD")
    known = [Path(each.path).parent for each in seen.values() if each.agent == name and each.reason == DATABASE]
    around = _up_to_the_root(Path(here)) if here else []
    repositories = {git.shared_root(Path(here)) if here else None}
    for place in dict.fromkeys((*around, *places, *known)):
        found = keeper.databases_in(place)
        yield from found
        if found:
            repositories.add(git.shared_root(place))
    # Where an agent was used in one worktree, it may have been in the others.
    linked = (each for root in repositories if root is not None for each in git.worktrees(root))
    for worktree in dict.fromkeys(linked):
        yield from keeper.databases_in(worktree)


def _up_to_the_root(folder: Path) -> list[Path]:
    """A folder and those above it in its repository, and the root that all of that one's worktrees share."""
    root = git.repository_root(folder)
    if root is None:
        return [folder]
    between = [each for each in folder.parents if each.is_relative_to(root)]
    return [folder, *between, git.shared_root(folder) or root]


def _sessions_of(agent: Agent, database: Path, seen: Mapping[str, FileStamp]) -> Iterator[DatabaseRows | Unread | Done]:
    if (unnamed := not_text(database)) is not None:
        yield unnamed
        return
    try:
        before = files_of(agent, database)
        if not before or all(seen.get(each.path) == each for each in before):
            return
        with tempfile.TemporaryDirectory(prefix="backstory-") as folder:
            before = copied(agent, database, Path(folder))
            yield from _sessions_in(agent, database, Path(folder, database.name), before)
    except WrittenMeanwhile:
        yield Unread(path=str(database), reason="it was written all the time; it is read the next time")
    except UnreadableDatabase as refused:
        yield Unread(path=str(database), reason=str(refused))
    except Exception as unforeseen:
        # Values of any type may stand in any column, and what one database holds must not cost the others.
        yield Unread(path=str(database), reason=in_words(unforeseen))


def not_text(database: Path) -> Unread | None:
    """The reason why a database is not read whose name is no text: what the store notes of a file is text."""
    named = os.fsencode(database).decode("utf-8", "replace")
    return Unread(path=named, reason="its name is not UTF-8 text") if named != str(database) else None


def _sessions_in(
    agent: Agent, database: Path, copy: Path, files: list[FileStamp]
) -> Iterator[DatabaseRows | Unread | Done]:
    """The sessions of a copy; ``files`` are what was copied. Only what was read whole counts as done."""
    keeper = agent.database
    assert keeper is not None
    mtime_ns = max(each.mtime_ns for each in files)
    is_whole = True
    for found in keeper.sessions_without_logs(database, copy):
        name = row_log_name(database.name, found.native_id) if found.native_id is not None else database.name
        path = f"{database.parent}{os.sep}{name}"
        if isinstance(found, UnreadRows):
            is_whole &= found.is_final
            yield Unread(path=path, reason=found.reason)
        else:
            yield DatabaseRows(
                agent=agent, native_id=found.native_id, path=path, relpath=_relpath(agent, Path(path)),
                mtime_ns=mtime_ns, content=found.content,
            )  # fmt: skip
    # Without this note the database is read again, so what failed now is tried again.
    if is_whole:
        yield Done(places=files)


def is_part(agent: Agent, path: PurePath) -> bool:
    """Return True if a log is not of rows, but a part of a file as it stands there."""
    return agent.documents is not None and agent.documents.is_document(path) and ROWS_OF in path.name


def _relpath(agent: Agent, path: Path) -> str:
    """The name of a log of rows. Files of many sessions are all called alike, so their folders belong to it."""
    return path.relative_to(path.anchor).as_posix() if is_part(agent, path) else path.name


def row_log_name(database: str, native_id: str) -> str:
    """Return the name of the log of a session's rows: a name for a file, whatever the session's id is."""
    safe = "".join(letter if _is_plain(letter) else _escaped(letter) for letter in native_id)
    name = f"{database}{ROWS_OF}{safe}"
    if len(os.fsencode(name)) <= NAME_BYTES_MAX:
        return name
    # The hash keeps two long names apart whose beginnings are alike.
    room = NAME_BYTES_MAX // 2 - 16
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    return f"{_beginning(database, room)}{ROWS_OF}{_beginning(safe, room)}~{digest}"


def _is_plain(letter: str) -> bool:
    return letter.isprintable() and letter not in "/\\%"


def _escaped(letter: str) -> str:
    return "".join(f"%{byte:02X}" for byte in letter.encode("utf-8", "surrogatepass"))


def _beginning(text: str, size: int) -> str:
    """As much of a text as fits into so many bytes."""
    return os.fsencode(text)[:size].decode("utf-8", "ignore")


def files_of(agent: Agent, database: Path) -> list[FileStamp]:
    """A database and its journals as stat returns them; nothing when it is not there."""
    found = []
    whole = [database, *(agent.database.beside(database) if agent.database is not None else ())]
    for path in (each.with_name(f"{each.name}{ending}") for each in whole for ending in ("", *JOURNALS)):
        try:
            status = path.stat()
        except FileNotFoundError:
            if path == database:
                return []
            continue
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no regular file")
        found.append(
            FileStamp(
                path=str(path), agent=agent.name, log_id=None, device=status.st_dev, inode=status.st_ino,
                size=status.st_size, mtime_ns=status.st_mtime_ns, reason=DATABASE,
            )
        )  # fmt: skip
    return found


def copied(agent: Agent, database: Path, folder: Path) -> list[FileStamp]:
    """Copy a database with its journals as they are at one moment; returns what stat said of them then."""
    for _ in range(COPIES_MAX):
        before = files_of(agent, database)
        copy = _copy if sum(each.size for each in before) <= DATABASE_BYTES_MAX else _share
        # A journal of an earlier try that is not there any more must not be applied to this copy.
        for old in folder.iterdir():
            old.unlink()
        try:
            for each in before:
                copy(Path(each.path), folder / Path(each.path).name, each.size)
        except FileNotFoundError:
            continue
        if before and files_of(agent, database) == before:
            return before
    raise WrittenMeanwhile


def _share(source: Path, target: Path, size: int) -> None:
    """Copy a file that is too large to be copied unless the copy shares its blocks; raises OSError."""
    _copy(source, target, size, may_write=False)


def _copy(source: Path, target: Path, size: int, *, may_write: bool = True) -> None:
    """Copy the first ``size`` bytes of a file, for us alone; raises OSError."""
    # What was a file a moment ago may be a pipe by now, which would be waited for.
    with os.fdopen(os.open(source, _FROM), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is no regular file")
        try:
            with os.fdopen(os.open(target, _TO, 0o600), "wb") as copy:
                if _shares_blocks(copy.fileno(), file.fileno()):
                    return
                if not may_write:
                    raise _TooLargeToCopy
                while size > 0 and (data := file.read(min(size, COPY_BYTES))):
                    copy.write(data)
                    size -= len(data)
        except _TooLargeToCopy:
            raise OSError(f"it is larger than {DATABASE_BYTES_MAX >> 30} GB") from None
        except OSError as refused:
            raise OSError(f"it could not be copied aside: {refused.strerror}") from refused


def _shares_blocks(target: int, source: int) -> bool:
    """Have a new file share the blocks of another; returns False where the file system has no such copies."""
    try:
        # Other systems than Linux have neither.
        import fcntl

        fcntl.ioctl(target, _FICLONE, source)
    except (ImportError, OSError):
        return False
    return True
