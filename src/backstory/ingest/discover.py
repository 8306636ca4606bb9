"""Finds agents' logs on this machine, and the files beside them. Looks at folders and names, opens nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory.ingest.folders import NEVER_KEPT, folder_relpath, session_folder, watched_of
from backstory.ingest.news import OF_SESSION, is_text, mtime_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from backstory.agents.contract import Agent, LogRoot
    from backstory.store import FileStamp

ENTRIES_BETWEEN_LOOKS = 256
"""Between so many files of a folder it may be time to end."""
SIDECARS_MAX = 1_000
"""The most files beside one log that are kept; those nearest to it come first."""


class SidecarFile(Struct, frozen=True, kw_only=True):
    """A file beside a log or below its folder, as stat returns it. ``name``: its path below the log's folder."""

    path: str
    name: str
    size: int
    mtime_ns: int


class Candidate(Struct, frozen=True, kw_only=True):
    """A file that is meant to be a log, as stat returns it, and what lies beside it."""

    agent: Agent
    path: str
    relpath: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int | None = None
    sidecars: tuple[SidecarFile, ...] = ()
    folder: str = ""
    """The folder that reads as this log; '' for a log that is a file."""
    watched: tuple[FileStamp, ...] = ()
    """Further files of that folder that may have changed."""


class Looked(Struct, kw_only=True):
    """A folder that was looked at, and what came of it."""

    agent: str
    folder: str
    found: int = 0
    note: str = ""
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    """Things in it that are named like logs or sidecars and are none, each with the reason."""
    folders: dict[str, int] = field(default_factory=dict)
    """The folders that were looked through, itself included, with their mtimes (ns) before that."""
    is_whole: bool = True
    """True if there was time to look at everything."""


def discover(agents: Iterable[Agent], environ: Mapping[str, str], home: Path) -> tuple[list[Candidate], list[Looked]]:
    """All logs of these agents, and every folder that was looked at."""
    looked: list[Looked] = []
    return list(stream_logs(agents, environ, home, looked)), looked


def stream_logs(
    agents: Iterable[Agent], environ: Mapping[str, str], home: Path, looked: list[Looked],
    is_over: Callable[[], bool] = lambda: False,
) -> Iterator[Candidate]:  # fmt: skip
    """All logs of these agents, some folders' at a time; ``looked`` receives every folder that is looked at.

    Once ``is_over`` returns true, no more are looked for.
    """
    for agent in agents:
        for place in agent.log.roots(environ, home):
            report = Looked(agent=agent.name, folder=shown(str(place.folder)))
            looked.append(report)
            # Its time before it is looked through: what is added meanwhile changes it once more.
            report.folders[str(place.folder)] = mtime_of(str(place.folder))
            if not place.folder.exists():
                report.note = "it does not exist"
                continue
            walk = _Walk(agent, place, report, is_over)
            for each in walk.logs():
                report.found += 1
                yield each
            if not report.found:
                report.note = "it holds files, but no logs" if walk.has_files else "it holds no logs"


class _Walk:
    """A way through all folders of a root, which holds no more of them in memory than it must."""

    def __init__(self, agent: Agent, place: LogRoot, report: Looked, is_over: Callable[[], bool]) -> None:
        self._agent, self._place, self._report, self._is_over = agent, place, report, is_over
        self._reads_folders = agent.folders is not None
        self._root, self._below_root = place.root, f"{place.root}{os.sep}"
        self._beside = _Beside(agent, place, report)
        self._seen: dict[int, set[int]] = {}
        """The inodes that were met, by their device: folders and files may be reached twice through links."""
        # Each folder with the nearest one, itself or above, that is a link; None: what is held is complete.
        self._todo: list[tuple[str, str] | None] = [(str(place.folder), "")]
        self._held: list[Candidate] = []
        self.has_files = False
        """True if there is a file that is no log by its name."""

    def logs(self) -> Iterator[Candidate]:
        """The logs, each with what lies beside it."""
        while self._todo:
            folder = self._todo.pop()
            if folder is None:
                yield from self._beside.added_to(self._held)
                self._held = []
                continue
            holds, behind = bool(self._held), len(self._todo)
            self._look_into(*folder)
            if not self._report.is_whole:
                yield from self._beside.added_to(self._held)
                return
            if self._held and not holds:
                # What lies beside a log lies somewhere below its folder, so all of that is looked at first.
                self._todo.insert(behind, None)

    def _look_into(self, folder: str, link: str) -> None:
        try:
            with os.scandir(folder) as found:
                entries = sorted(self._in_time(found), key=lambda entry: entry.name)
        except OSError as refused:
            self._pass_over(folder, refused.strerror or str(refused))
            return
        for entry in self._in_time(entries):
            named_like_one = self._agent.log.is_log(Path(entry.path))
            try:
                is_folder = entry.is_dir()
                if not is_folder and not named_like_one:
                    self.has_files = True
                    self._beside.look(entry, link)
                    continue
                status = entry.stat()
            except OSError as refused:
                self._pass_over(entry.path, refused.strerror or str(refused))
                continue
            if self._was_met(status):
                continue
            if is_folder and self._reads_folders and session_folder(self._agent, self._place, entry.path) == entry.path:
                self._take_session(entry.path)
            elif is_folder:
                if named_like_one:
                    self._pass_over(entry.path, "it is a folder, not a file")
                self._todo.append((entry.path, entry.path if entry.is_symlink() else link))
                self._report.folders[entry.path] = status.st_mtime_ns
            else:
                self._take(entry.path, status)

    def _in_time(self, entries: Iterable[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        for number, entry in enumerate(entries):
            if number % ENTRIES_BETWEEN_LOOKS == 0 and self._is_over():
                self._report.is_whole = False
                return
            yield entry

    def _was_met(self, status: os.stat_result) -> bool:
        inodes = self._seen.setdefault(status.st_dev, set())
        before = len(inodes)
        inodes.add(status.st_ino)
        return len(inodes) == before

    def _take(self, path: str, status: os.stat_result) -> None:
        if not is_text(path):
            self._pass_over(path, "its name is not UTF-8; rename it to have it read")
        elif not stat.S_ISREG(status.st_mode):
            self._pass_over(path, "it is no regular file")
        else:
            self._held.append(self._candidate(path, status))

    def _take_session(self, folder: str) -> None:
        """Take a folder that reads as one log; what lies in it is looked at when it is read."""
        assert self._agent.folders is not None
        head = f"{folder}{os.sep}{self._agent.folders.head}"
        self._report.folders[folder] = OF_SESSION
        if not self._agent.log.is_log(Path(head)):
            return
        try:
            status = os.stat(head)  # noqa: PTH116 - many at once
        except OSError as refused:
            self._pass_over(head, refused.strerror or str(refused))
            return
        if not is_text(head):
            self._pass_over(head, "its name is not UTF-8; rename it to have it read")
            return
        each = self._candidate(head, status)
        watched = watched_of(self._agent, folder)
        relpath = folder_relpath(each.relpath)
        self._held.append(msgspec.structs.replace(each, relpath=relpath, folder=folder, watched=watched))

    def _pass_over(self, path: str, reason: str) -> None:
        self._report.passed_over.append((shown(path), reason))

    def _candidate(self, path: str, status: os.stat_result) -> Candidate:
        is_below = path.startswith(self._below_root)
        return Candidate(
            agent=self._agent, path=path, device=status.st_dev, inode=status.st_ino, size=status.st_size,
            relpath=path[len(self._below_root) :] if is_below else os.path.relpath(path, self._root),
            mtime_ns=status.st_mtime_ns, ctime_ns=status.st_ctime_ns,
        )  # fmt: skip


class _Beside:
    """Gathers, while a place is walked, the files that belong to its logs; looks closer only at those it keeps."""

    def __init__(self, agent: Agent, place: LogRoot, report: Looked) -> None:
        self._kept = agent.sidecars
        self._folder = f"{place.folder}{os.sep}"
        self._report = report
        self._entries: dict[str, list[tuple[str, os.DirEntry[str], str]]] = {}

    def look(self, entry: os.DirEntry[str], link: str) -> None:
        """Take note of a file that is no log. ``link``: the nearest folder above it that is a link, if one is."""
        if self._kept is None or NEVER_KEPT.search(entry.name):
            return
        below = PurePath(entry.path.removeprefix(self._folder))
        log = self._kept.log_of(below)
        if log is not None:
            name = name_beside(below, log)
            self._entries.setdefault(f"{self._folder}{log}", []).append((name, entry, link))

    def added_to(self, found: list[Candidate]) -> list[Candidate]:
        """The logs that were found, with their sidecars; what was noted until now is of no other log."""
        if not self._entries:
            return found
        complete = [self._with_sidecars(each) for each in sorted(found, key=lambda each: each.path)]
        self._entries.clear()
        return complete

    def _with_sidecars(self, each: Candidate) -> Candidate:
        assert self._kept is not None
        own = each.path.removesuffix(".zst")
        key = f"{self._folder}{self._kept.name_of(PurePath(own.removeprefix(self._folder)))}"
        # Of several files of a session the first one has them.
        entries = self._entries.get(key) if key == own else self._entries.pop(key, None)
        if entries is None:
            return each
        entries.sort(key=lambda found: (found[0].count("/"), found[0]))
        if len(entries) > SIDECARS_MAX:
            reason = f"{len(entries)} files beside it, of which the first {SIDECARS_MAX} are kept"
            self._report.passed_over.append((each.path, reason))
        sidecars = (self._sidecar(*found) for found in entries[:SIDECARS_MAX])
        return msgspec.structs.replace(each, sidecars=tuple(found for found in sidecars if found is not None))

    def _sidecar(self, name: str, entry: os.DirEntry[str], link: str) -> SidecarFile | None:
        # A link above the log's own folder is the way to both of them.
        if entry.is_symlink() or len(link) > len(entry.path) - len(name.removeprefix("../")) - 1:
            reason = "it is reached by a link, which is not followed"
        elif not is_text(entry.path):
            reason = "its name is not UTF-8; rename it to have it read"
        else:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                return None
            except OSError as refused:
                reason = refused.strerror or str(refused)
            else:
                if stat.S_ISREG(status.st_mode):
                    return SidecarFile(path=entry.path, name=name, size=status.st_size, mtime_ns=status.st_mtime_ns)
                reason = "it is no regular file"
        self._report.passed_over.append((shown(entry.path), reason))
        return None


def name_beside(below: PurePath, log: PurePath) -> str:
    """Return the path of a sidecar from its log's folder; it may lie in the folder above that."""
    above = log.parent.parent
    is_above = not below.is_relative_to(log.parent)
    return f"../{below.relative_to(above).as_posix()}" if is_above else below.relative_to(log.parent).as_posix()


def shown(path: str) -> str:
    """A path that can be printed and stored, whatever bytes the file system has in it."""
    return os.fsencode(path).decode("utf-8", "replace")
