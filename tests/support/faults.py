"""A disk that fails when told to: a layer between SQLite and the file system."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "backstory-faults"


class Disk:
    """Counts what changes the disk, and makes the n-th step fail; ``for_good``, all that follow too."""

    def __init__(self) -> None:
        self.steps = 0
        self.failed: list[str] = []
        self._fail_at = 0
        self._for_good = False
        self._error: type[Exception] = apsw.IOError

    def fail(self, at: int, error: type[Exception], *, for_good: bool) -> None:
        """Fail at the ``at``-th step from now."""
        self.steps, self.failed = 0, []
        self._fail_at, self._error, self._for_good = at, error, for_good

    def heal(self) -> None:
        """Fail no more."""
        self._fail_at = 0

    def step(self, what: str) -> None:
        """Something is about to change the disk."""
        self.steps += 1
        if self._fail_at and (self.steps == self._fail_at or (self._for_good and self.steps > self._fail_at)):
            self.failed.append(what)
            raise self._error(f"{what} failed at step {self.steps}, as it was told to")


class FaultFile(apsw.VFSFile):
    """A file of a disk that fails."""

    def __init__(self, base: str, name: str | apsw.URIFilename | None, flags: list[int], disk: Disk) -> None:
        super().__init__(base, name, flags)
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.step("write")
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.step("truncate")
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        # Power is never lost here, so a sync that is told to work has nothing to wait for.
        self._disk.step("sync")


class FaultVFS(apsw.VFS):
    """A file system on a disk that fails."""

    def __init__(self, disk: Disk) -> None:
        self._base = apsw.vfs_names()[0]
        self._disk = disk
        super().__init__(NAME, self._base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return FaultFile(self._base, name, flags, self._disk)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self._disk.step("delete")
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
