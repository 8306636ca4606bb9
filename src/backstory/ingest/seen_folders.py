"""The folders that were looked through for logs, each with its mtime then: one that is as it was holds no new log.

They are kept in a file beside the home store. It only says where to look: whether a log is new is asked of the store.
So one that is missing, or that is of another state of the store, costs time and never a log.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory.store import logs
from backstory.store.private import write_private

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from backstory.store import Store

FILE_NAME = "folders.seen"
"""Its name in the home folder."""
VERSION = 1
MISSING = -1
"""In place of the mtime of a folder that is not there, where one would hold logs."""
UNSURE = -2
"""The same of one that changed a moment ago: what comes to it within one tick of the file system's clock changes no
time."""
RENEW_S = 43_200.0
"""Where nothing is new the file is touched only after so many seconds: half a day, as agents keep logs for days."""
TICK_NS = 2_000_000_000

Folders = dict[str, dict[str, int]]
"""The mtime (ns) of each folder, by agent and path, in the order of ``rank``."""


class SeenFolders(Struct, kw_only=True):
    """What the file holds. ``store_id``, ``newest_log``: the store that knew all logs in these folders."""

    version: int = VERSION
    store_id: str = ""
    newest_log: int = 0
    folders: Folders = field(default_factory=dict)


def rank(mtime_ns: int) -> int:
    """The order in which folders are looked at, the greatest first: the missing and unsure, then the last changed."""
    return mtime_ns if mtime_ns > 0 else 1 << 63


def mtime_of(path: str) -> int:
    """A folder's mtime (ns), or MISSING."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - many at once
    except OSError:
        return MISSING


def read(home: Path, store: Store) -> Folders | None:
    """The folders whose logs this store knows; None where that is not known."""
    try:
        seen = msgspec.msgpack.decode((home / FILE_NAME).read_bytes(), type=SeenFolders)
    except (OSError, msgspec.DecodeError):
        return None
    # A store that was put back from a copy knows fewer logs than the one of which this was noted.
    is_of_it = (seen.version, seen.store_id) == (VERSION, store.id) and seen.newest_log <= store.ask_or(0, logs.newest)
    return seen.folders if is_of_it else None


def noted_s(home: Path) -> float | None:
    """When all logs in these folders were last known, in seconds since 1970; None where it is not known."""
    try:
        return (home / FILE_NAME).stat().st_mtime
    except OSError:
        return None


def renew(home: Path) -> None:
    """Note that all logs in these folders are known now. The file's content stays."""
    noted = noted_s(home)
    if noted is not None and time.time() - noted > RENEW_S:
        with suppress(OSError):
            os.utime(home / FILE_NAME)


def note(home: Path, store: Store, folders: Mapping[str, Mapping[str, int]], unread: Iterable[str] = ()) -> None:
    """Note the folders that were looked through. Those of files that are still ``unread`` are looked through again."""
    latest = time.time_ns() - TICK_NS
    again = {os.path.dirname(path) for path in unread}  # noqa: PTH120
    noted: Folders = {}
    for agent, each in folders.items():
        now = {path: UNSURE if path in again or mtime > latest else mtime for path, mtime in each.items()}
        # Who looks at some takes the first of them.
        noted[agent] = dict(sorted(now.items(), key=lambda folder: rank(folder[1]), reverse=True))
    seen = SeenFolders(store_id=store.id, newest_log=store.ask_or(0, logs.newest), folders=noted)
    encoded = msgspec.msgpack.encode(seen)
    path = home / FILE_NAME
    with suppress(OSError):
        if path.read_bytes() == encoded:
            renew(home)
            return
    # Another process reads the one or the other, never half of one.
    unfinished = path.with_name(f"{FILE_NAME}.{os.getpid()}")
    write_private(unfinished, encoded)
    unfinished.replace(path)
