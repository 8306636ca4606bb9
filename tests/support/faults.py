"""A disk that fails when told to: a layer between SQLite and the file system."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from tests.support.counts import IS_LONG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NAME = "backstory-faults"
WAL_PAGE_HEAD = 24


def kinds_of_steps(passed: Sequence[str], *, every: int = 1, first: int = 0) -> Iterable[int]:
    """Those steps, counted from 1, that stand for all: the first, the middle and the last of each row of a kind.

    ``every``: how many tests share them, each of which begins at another ``first``. In ``make long`` it is each step.
    The last is behind all, where nothing fails.
    """
    if IS_LONG:
        return count(1)
    chosen, end = list[int](), 0
    for _, row in groupby(passed):
        begin, end = end + 1, end + len(list(row))
        chosen += sorted({begin, (begin + end) // 2, end})
    return [*chosen[first::every], end + 1]


class Disk:
    """Counts what changes the disk, and makes the n-th step fail; ``for_good``, all that follow too."""

    def __init__(self) -> None:
        self.steps = 0
        self.passed: list[str] = []
        """Of what kind each step was that passed since ``fail`` or ``heal`` was last said."""
        self.failed: list[str] = []
        self._fail_at = 0
        self._for_good = False
        self._error: type[Exception] = apsw.IOError

    def fail(self, at: int, error: type[Exception], *, for_good: bool) -> None:
        """Fail at the ``at``-th step from now."""
        self.steps, self.passed, self.failed = 0, [], []
        self._fail_at, self._error, self._for_good = at, error, for_good

    def heal(self) -> None:
        """Fail no more."""
        self._fail_at, self.passed = 0, []

    def step(self, what: str) -> None:
        """Something is about to change the disk."""
        self.steps += 1
        if self._fail_at and (self.steps == self._fail_at or (self._for_good and self.steps > self._fail_at)):
            self.failed.append(what)
            raise self._error(f"{what} failed at step {self.steps}, as it was told to")
        self.passed.append(what)


def _suffix(name: str | None) -> str:
    return Path(name).suffix if name else "no name"


class FaultFile(apsw.VFSFile):
    """A file of a disk that fails."""

    def __init__(self, base: str, name: str | apsw.URIFilename | None, flags: list[int], disk: Disk) -> None:
        super().__init__(base, name, flags)
        self._disk = disk
        # Of the store itself, its journal, its log, or a file without a name.
        self._kind = f" of {_suffix(name.filename() if isinstance(name, apsw.URIFilename) else name)}"

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        # In a log of writes only the head of its last page says that a transaction is whole.
        ends = self._kind.endswith("-wal") and len(data) == WAL_PAGE_HEAD and any(data[4:8])
        self._disk.step(("end" if ends else "write") + self._kind)
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.step("truncate" + self._kind)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        # Power is never lost here, so a sync that is told to work has nothing to wait for.
        self._disk.step("sync" + self._kind)


class FaultVFS(apsw.VFS):
    """A file system on a disk that fails."""

    def __init__(self, disk: Disk) -> None:
        self._base = apsw.vfs_names()[0]
        self._disk = disk
        super().__init__(NAME, self._base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return FaultFile(self._base, name, flags, self._disk)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self._disk.step(f"delete of {_suffix(filename)}")
        super().xDelete(filename, syncdir)


@contextmanager
def failing_disk() -> Iterator[Disk]:
    """Every store that is opened inside lies on this disk."""
    disk = Disk()
    vfs = FaultVFS(disk)
    try:
        yield disk
    finally:
        vfs.unregister()
