"""Runs ``backstory`` and counts its work: ``python -m tests.support.counted FILE [WORDS...]``, counts to FILE as JSON.

Counted is what the same command on the same files always does, however busy the machine is: statements and steps of
SQLite, transactions that change something, syncs and bytes of SQLite's files, syncs of Python, files below HOME
that Python opens or asks for their status. Work in a second process is not seen, nor the status of a file that came
with the list of its folder. ``synced`` names the files that were synced, in their order.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "backstory-counted"
STATEMENT = 1
"""SQLITE_TRACE_STMT."""
DONE = 2
"""SQLITE_TRACE_PROFILE."""

JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_SUPER_JOURNAL

work = Counter[str]()
synced: list[str] = []
"""The files that were synced, in their order."""


def _synced(name: str) -> None:
    work["syncs"] += 1
    synced.append(name)


class CountedFile(apsw.VFSFile):
    """Counts what reaches the disk."""

    def __init__(self, base: str, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(base, name, flags)
        self._name = str(name.filename() if isinstance(name, apsw.URIFilename) else name)
        # SQLite syncs the folder of a new journal with the journal's first sync.
        self._is_new = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & JOURNALS)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        work["bytes_written"] += len(data)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        _synced(self._name)
        if self._is_new:
            _synced(f"the folder of {self._name}")
            self._is_new = False
        super().xSync(flags)


class CountedVFS(apsw.VFS):
    """A file system whose files count."""

    def __init__(self) -> None:
        self._base = apsw.vfs_names()[0]
        super().__init__(NAME, self._base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return CountedFile(self._base, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        if syncdir:
            # Its folder is synced with it, unless there was no such file: that raises.
            _synced(f"the folder of {filename}")


def count_statements(db: apsw.Connection) -> None:
    """Every connection that is opened counts, and what its triggers do."""
    so_far: dict[str, int] = {}

    def noted(event: Any) -> None:
        if event["code"] == STATEMENT:
            work["statements"] += 1
            return
        status = event["stmt_status"]
        steps = status["SQLITE_STMTSTATUS_VM_STEP"]
        # A statement that is kept and run again tells the steps of all its runs.
        work["sqlite_steps"] += steps - (so_far.get(event["sql"], 0) if status["SQLITE_STMTSTATUS_RUN"] > 1 else 0)
        so_far[event["sql"]] = steps

    def committed() -> bool:
        work["transactions"] += 1
        return False

    db.trace_v2(STATEMENT | DONE, noted, id=NAME)
    db.set_commit_hook(committed, id=NAME)


def count_files(home: str) -> None:
    """Everything below ``home`` that Python asks the system for."""

    def heard(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and is_below(args[0]):
            work["files_opened"] += 1

    def is_below(path: object) -> bool:
        return isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(home)

    def counting(asked: Callable[..., Any]) -> Callable[..., Any]:
        def status(path: Any, *words: Any, **how: Any) -> Any:
            work["files_asked"] += is_below(path)
            return asked(path, *words, **how)

        return status

    sys.addaudithook(heard)
    os.stat, os.lstat = counting(os.stat), counting(os.lstat)


def count_syncs() -> None:
    """What Python syncs itself."""
    real = os.fsync

    def counting(fd: Any) -> None:
        number = fd if isinstance(fd, int) else fd.fileno()
        link = Path(f"/proc/self/fd/{number}")
        _synced(str(link.readlink()) if link.is_symlink() else "a file of Python's")
        real(fd)

    os.fsync = counting


def main() -> None:
    """Count, run, write."""
    out, *words = sys.argv[1:]
    sys.argv = ["backstory", *words]
    # Connections hold on to it for as long as they are open.
    vfs = CountedVFS()
    apsw.connection_hooks.append(count_statements)
    count_syncs()
    count_files(os.environ["HOME"] + os.sep)
    from backstory.__main__ import main as backstory

    try:
        backstory()
    finally:
        Path(out).write_text(json.dumps({"work": dict(work), "synced": synced}), "utf-8")
        apsw.connection_hooks.remove(count_statements)
        del vfs


if __name__ == "__main__":
    main()
