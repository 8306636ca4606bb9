"""True if there are new logs, found out at little cost: no agent is imported, no log opened, nothing written.

Looked at are the logs that were written last, and the folders whose mtime changed. An older log that grows again is
found when its folder changes, and by a whole ingest.
"""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory.store.private import write_private
from backstory.store.tables import logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from backstory.store import FileStamp, Store


RECENT_LOGS = 200
"""The most logs that are looked at, those that were written last."""
FOLDERS_MAX = 5_000
"""The most folders that are looked at, those that changed last."""
FILES_MAX = 2_000
"""The most new files that are looked at more closely."""
STATTED_MAX = 1_000
"""The number of files in a folder above which only their names are compared with the known ones."""
ENTRIES_BETWEEN_LOOKS = 256
"""Between so many files of a folder it may be time to end."""


class TimeBudget:
    """Processor time that may be used, from now on. ``wall_s``: how long that may last on a clock."""

    def __init__(self, cpu_s: float, wall_s: float = math.inf) -> None:
        self._until, self._end = time.process_time() + cpu_s, time.monotonic() + wall_s

    def is_over(self) -> bool:
        """Return True if all of it is used."""
        return self.remaining_s() <= 0 or time.monotonic() > self._end

    def remaining_s(self) -> float:
        """The time that is left."""
        return self._until - time.process_time()


class News(Struct, kw_only=True):
    """Logs that may be new."""

    files: dict[str, str] = field(default_factory=dict)
    """Files that the store does not know, or knows otherwise, each with the agent whose folder it is in."""
    databases: dict[str, str] = field(default_factory=dict)
    """Databases whose files changed, each with its agent."""
    folders: Folders = field(default_factory=dict)
    """The folders that were looked through, with their mtimes, and the files of these databases."""
    is_whole: bool = True
    """True if there was time to look at everything."""


def look(store: Store, folders: Folders, is_wanted: Callable[[str, str], bool], budget: TimeBudget) -> News:
    """Find logs that may be new. ``folders``: as last seen; ``is_wanted``: True for an agent's file that is read."""
    news = News()
    # A log that grows does not change its folder's time, so the last written ones are looked at themselves.
    for stamp in store.ask_or([], logs.recent_stamps, RECENT_LOGS):
        if is_wanted(stamp.agent, stamp.path) and _is_changed(stamp):
            news.files[stamp.path] = stamp.agent
    looking = _Looking(store, folders, is_wanted, news)
    for agent, path, mtime_ns in _latest(folders):
        if budget.is_over() or len(news.files) >= FILES_MAX:
            news.is_whole = False
            break
        if mtime_ns == OF_SESSION:
            continue
        now_ns = mtime_of(path)
        if now_ns not in (mtime_ns, MISSING):
            looking.through(agent, path, now_ns, budget)
    return news


def differs(stamp: FileStamp, found: os.stat_result) -> bool:
    """Return True if a file is not as it was when it was last looked at."""
    return (stamp.size, stamp.mtime_ns, stamp.inode, stamp.device, stamp.ctime_ns) != (
        found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev,
        stamp.ctime_ns if stamp.ctime_ns is None else found.st_ctime_ns,
    )  # fmt: skip


def _is_changed(stamp: FileStamp) -> bool:
    try:
        return differs(stamp, os.stat(stamp.path))  # noqa: PTH116 - many at once
    except (OSError, ValueError):
        # What is kept of a file that is gone stays.
        return False


def _latest(folders: Mapping[str, Mapping[str, int]]) -> list[tuple[str, str, int]]:
    """The folders to look at (agent, path, mtime), the last changed of all agents first; those of each are in order."""
    several = ([(agent, *each) for each in islice(of_one.items(), FOLDERS_MAX)] for agent, of_one in folders.items())
    return sorted(chain.from_iterable(several), key=lambda each: rank(each[2]), reverse=True)[:FOLDERS_MAX]


class _Looking:
    """Looks through folders that changed, and through those in them that are new."""

    def __init__(self, store: Store, known: Folders, is_wanted: Callable[[str, str], bool], news: News) -> None:
        self._store, self._known, self._is_wanted, self._news = store, known, is_wanted, news
        self._met: set[tuple[int, int]] = set()

    def through(self, agent: str, folder: str, mtime_ns: int, budget: TimeBudget) -> None:
        """Find the files in a folder that the store does not know as they are."""
        todo, done = [(folder, mtime_ns)], dict[str, int]()
        while todo:
            path, before = todo.pop()
            try:
                new = self._one(agent, path, budget)
            except NotADirectoryError:
                # Files of databases are noted among the folders.
                if self._is_wanted(agent, database := path.removesuffix("-wal")):
                    self._news.databases[database] = agent
                    done[path] = before
                continue
            except OSError:
                continue
            if new is None:
                # A folder above one that was not looked through is looked through again, too.
                self._news.is_whole = False
                return
            todo += new
            done[path] = before
        self._news.folders.setdefault(agent, {}).update(done)

    def _one(self, agent: str, folder: str, budget: TimeBudget) -> list[tuple[str, int]] | None:
        """Look through one folder; returns the new ones in it with their mtimes, None where not all is."""
        files: list[os.DirEntry[str]] = []
        new: list[tuple[str, int]] = []
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number % ENTRIES_BETWEEN_LOOKS == 0 and budget.is_over():
                    return None
                if entry.is_dir():
                    if entry.path not in self._known.get(agent, {}):
                        new += self._once(entry)
                elif is_text(entry.path) and self._is_wanted(agent, entry.path):
                    files.append(entry)
        return new if self._compare(agent, files) else None

    def _once(self, entry: os.DirEntry[str]) -> list[tuple[str, int]]:
        """A new folder, unless links lead to it a second time."""
        status = entry.stat()
        identity = (status.st_dev, status.st_ino)
        if identity in self._met:
            return []
        self._met.add(identity)
        return [(entry.path, status.st_mtime_ns)]

    def _compare(self, agent: str, files: list[os.DirEntry[str]]) -> bool:
        """Take note of the files that may be new; returns whether there was room for all."""
        if len(files) > STATTED_MAX:
            known = self._store.ask_or(set(), logs.known_paths, [each.path for each in files])
            new = [each.path for each in files if each.path not in known]
        else:
            stamps = self._store.ask_or({}, logs.stamps_of, [each.path for each in files]) if files else {}
            new = [each.path for each in files if _is_new(each, stamps.get(each.path))]
        room = FILES_MAX - len(self._news.files)
        self._news.files |= dict.fromkeys(new[:room], agent)
        return len(new) <= room


def _is_new(entry: os.DirEntry[str], stamp: FileStamp | None) -> bool:
    try:
        return stamp is None or differs(stamp, entry.stat())
    except OSError:
        return False


def is_text(path: str) -> bool:
    """Return True if a path can be stored: its name is UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


# the folders that hold no others --------------------------------------------------------------------------------------


FILE_NAME = "folders.seen"
"""Its name in the home folder."""
VERSION = 1
MISSING = -1
"""In place of the mtime of a folder that is not there, where one would hold logs."""
UNSURE = -2
"""The same of one that changed a moment ago: what comes to it within one tick of the file system's clock changes no
time."""
OF_SESSION = -3
"""The same of a folder that reads as one log: that log is looked at, and nothing else in it."""
RENEW_S = 43_200.0
"""The least seconds between two updates of the file if nothing is new: half a day, as agents keep logs for days."""
TICK_NS = 2_000_000_000

Folders = dict[str, dict[str, int]]
"""The mtime (ns) of each folder, by agent and path, in the order of ``rank``."""


class SeenFolders(Struct, kw_only=True):
    """The content of the file. ``store_id``, ``newest_log``: the store that knew all logs in these folders."""

    version: int = VERSION
    store_id: str = ""
    newest_log: int = 0
    folders: Folders = field(default_factory=dict)


def rank(mtime_ns: int) -> int:
    """The order in which folders are looked at, the greatest first: the missing and unsure, then the last changed.

    Those of sessions come last: they are only known.
    """
    return mtime_ns if mtime_ns > 0 or mtime_ns == OF_SESSION else 1 << 63


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
    """Return the last time when all logs in these folders were known, in seconds since 1970; None if unknown."""
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
    """Note the folders that were looked through. Files that are still ``unread``, and theirs, are looked at again."""
    latest = time.time_ns() - TICK_NS
    again = {each for path in unread for each in (os.path.dirname(path), path, f"{path}-wal")}  # noqa: PTH120
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
