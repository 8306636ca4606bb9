"""Where agents' logs lie on this machine. Looks at folders and names, opens nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from backstory.agents import Agent, Place


class Candidate(Struct, frozen=True, kw_only=True):
    """A file that is meant to be a log, as stat tells it."""

    agent: Agent
    path: str
    relpath: str
    device: int
    inode: int
    size: int
    mtime_ns: int


class Looked(Struct, kw_only=True):
    """A folder that was looked at, and what came of it."""

    agent: str
    folder: str
    found: int = 0
    note: str = ""
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    """Things in it that are named like logs and are none, each with the reason."""


def discover(agents: Iterable[Agent], environ: Mapping[str, str], home: Path) -> tuple[list[Candidate], list[Looked]]:
    """All logs of these agents, and every folder that was looked at."""
    candidates: list[Candidate] = []
    looked: list[Looked] = []
    for agent in agents:
        for place in agent.places(environ, home):
            report = Looked(agent=agent.name, folder=shown(str(place.folder)))
            looked.append(report)
            found = list(_logs_below(agent, place, report))
            report.found = len(found)
            candidates += found
            if not found and not report.note:
                report.note = "it holds no logs"
    return candidates, looked


def _logs_below(agent: Agent, place: Place, report: Looked) -> Iterator[Candidate]:
    if not place.folder.exists():
        report.note = "it does not exist"
        return
    seen: set[tuple[int, int]] = set()
    todo = [str(place.folder)]
    while todo:
        folder = todo.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as refused:
            report.passed_over.append((shown(folder), refused.strerror or str(refused)))
            continue
        for entry in entries:
            named_like_one = agent.is_log(Path(entry.path))
            try:
                is_folder = entry.is_dir()
                if not is_folder and not named_like_one:
                    continue
                told = entry.stat()
            except OSError as refused:
                report.passed_over.append((shown(entry.path), refused.strerror or str(refused)))
                continue
            # Folders and files may be reached twice through links.
            if (told.st_dev, told.st_ino) in seen:
                continue
            seen.add((told.st_dev, told.st_ino))
            if is_folder:
                if named_like_one:
                    report.passed_over.append((shown(entry.path), "it is a folder, not a file"))
                todo.append(entry.path)
            elif not _is_text(entry.path):
                report.passed_over.append((shown(entry.path), "its name is not UTF-8; rename it to have it read"))
            elif not stat.S_ISREG(told.st_mode):
                report.passed_over.append((shown(entry.path), "it is no regular file"))
            else:
                yield Candidate(
                    agent=agent,
                    path=entry.path,
                    relpath=os.path.relpath(entry.path, place.root),
                    device=told.st_dev,
                    inode=told.st_ino,
                    size=told.st_size,
                    mtime_ns=told.st_mtime_ns,
                )


def shown(path: str) -> str:
    """A path that can be printed and stored, whatever bytes the file system has in it."""
    return os.fsencode(path).decode("utf-8", "replace")


def _is_text(path: str) -> bool:
    return shown(path) == path
