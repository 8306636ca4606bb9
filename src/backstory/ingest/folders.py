"""Folders that read as one log, where they lie: which are sessions, what lies in them, and their log as a file."""

from __future__ import annotations

import os
import re
import stat
from io import BytesIO
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from backstory import ids
from backstory.ingest.news import is_text
from backstory.lazy import lazy_module, lazy_regex
from backstory.store import FileStamp
from backstory.store.tables import logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backstory.agents.contract import Agent, LogRoot
    from backstory.ingest import folder_log
    from backstory.ingest.folder_log import FileMark
    from backstory.store import Log, Store
else:
    # An ingest with nothing new reads no folder.
    folder_log = lazy_module("backstory.ingest.folder_log")

NEVER_KEPT = lazy_regex(
    r"\.(?:lock|lck|tmp|part|pem|key|p12|pfx|jks|kdbx)$|\.(?:db|sqlite3?)(?:-\w+)?$|^\.(?:env|netrc|npmrc|pypirc)\b"
    r"|^id_(?:rsa|dsa|ecdsa|ed25519)|^(?:hosts|credentials?|secrets?|auth|tokens?)(?:\.(?:json|ya?ml|toml|ini|txt))?$",
    re.IGNORECASE,
)
"""Names of locks, databases, unfinished files and secrets: never taken for a sidecar."""
FILE_BYTES_MAX = 64 * 1024 * 1024
"""A larger file of a folder is not read."""
READS_MAX = 3
"""The most readings of a folder that is written meanwhile."""


class FolderContent(BytesIO):
    """A folder's log, as a file of what is kept and what is new."""

    missing: str | None = None
    """The reason why not all of it could be read; it is looked at again then."""


def session_folder(agent: Agent, place: LogRoot, path: str) -> str | None:
    """The session's folder that a path is or lies in; None for one of an agent without such, or outside of all."""
    below = f"{place.folder}{os.sep}"
    if agent.folders is None or not path.startswith(below):
        return None
    found = agent.folders.folder_of(PurePath(path.removeprefix(below)))
    return None if found is None else f"{below}{found}"


def folder_relpath(head: str) -> str:
    """The path of a folder's log below its agent's own folder; the slash at its end says that it is no file's."""
    return f"{PurePath(head).parent.as_posix()}/"


def is_of_folder(log: Log) -> bool:
    """Return True if a log is a folder that reads as one."""
    return log.source_kind == logs.FILE and log.relpath.endswith("/")


def watched_of(agent: Agent, folder: str) -> tuple[FileStamp, ...]:
    """The further files of a session's folder whose change means that there is something new."""
    assert agent.folders is not None
    found = []
    for name in agent.folders.watched:
        path = f"{folder}{os.sep}{name}"
        try:
            every = _marks_in(path) if name.endswith("/") else [os.lstat(path)]
        except OSError:
            continue
        # Of the files in a folder one stamp is noted: their number, all their bytes, and when the last one changed.
        found.append(
            FileStamp(
                path=path, agent=agent.name, log_id=None, device=len(every),
                inode=max((each.st_ino for each in every), default=0), size=sum(each.st_size for each in every),
                mtime_ns=max((each.st_mtime_ns for each in every), default=0), reason=WATCHED,
            )
        )  # fmt: skip
    return tuple(found)


def _marks_in(folder: str) -> list[os.stat_result]:
    with os.scandir(folder) as entries:
        return [entry.stat(follow_symlinks=False) for entry in entries]


WATCHED = "watched"
"""The reason why a file of a session's folder is noted by itself; see log_places."""


def are_as_noted(watched: Iterable[FileStamp], seen: Mapping[str, FileStamp]) -> bool:
    """Return True if the further files of a folder are as they were when it was last read."""
    return all(seen.get(each.path) == each for each in watched)


def files_in(folder: str) -> dict[str, FileMark]:
    """The files of a session's folder, by their paths below it. No link is followed; raises OSError."""
    found: dict[str, FileMark] = {}
    todo = [""]
    while todo:
        below = todo.pop()
        with os.scandir(f"{folder}{os.sep}{below}") as entries:
            for entry in entries:
                name = f"{below}{entry.name}"
                if not is_text(name) or entry.is_symlink():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    todo.append(f"{name}/")
                elif not NEVER_KEPT.search(entry.name):
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    if stat.S_ISREG(status.st_mode):
                        found[name] = folder_log.FileMark(status.st_size, status.st_mtime_ns)
    return found


def new_bytes(folder: str, seen: FileStamp | None) -> int:
    """About how much there is to read in a folder: the files that were written since it was last looked at."""
    try:
        marks = files_in(folder).values()
    except OSError:
        return 0
    return sum(each.size for each in marks if seen is None or each.mtime_ns > seen.mtime_ns)


def opened(store: Store, agent: Agent, path: str, seen: FileStamp | None) -> FolderContent:
    """The log of the session's folder with the head ``path``: what is kept of it, with what is new. Raises OSError."""
    log = store.log(seen.log_id) if seen is not None and seen.log_id is not None else None
    if log is not None:
        return _read(agent, path, b"".join(store.stream_log(log.id)))
    content = _read(agent, path, b"")
    # A folder that was moved goes on from what is kept of it.
    kept = _kept_of(store, agent, path, content.getvalue())
    return content if kept is None else _read(agent, path, b"".join(store.stream_log(kept.id)))


def _kept_of(store: Store, agent: Agent, path: str, content: bytes) -> Log | None:
    identity = agent.log.identify(Path(path), content[: ids.HEAD_BYTES])
    known = store.ask_or([], logs.of_native_id, agent.name, identity.native_id) if identity is not None else []
    # A copy that lies elsewhere has a log of its own: what one of them has last is not what the other one has.
    kept = (log for log in known if log.path == path or not Path(log.path).exists())
    return max(kept, key=lambda log: (log.path == path, log.id), default=None)


def _read(agent: Agent, path: str, kept: bytes) -> FolderContent:
    assert agent.folders is not None
    log, folder = folder_log.FolderLog(kept), str(Path(path).parent)
    for _ in range(READS_MAX):
        before = _mark_of(path)
        now = folder_log.grown(agent.folders, log, files_in(folder), lambda name: _bytes_of(f"{folder}{os.sep}{name}"))
        if _mark_of(path) == before:
            break
    content = FolderContent(now.content)
    content.missing = now.missing
    return content


def _mark_of(path: str) -> tuple[int, int]:
    status = os.stat(path)  # noqa: PTH116 - as elsewhere where files are looked at
    return status.st_size, status.st_mtime_ns


def _bytes_of(path: str) -> bytes:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:  # noqa: PTH123 - closed here
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise OSError(f"it is larger than {FILE_BYTES_MAX >> 20} MB")
    return content
