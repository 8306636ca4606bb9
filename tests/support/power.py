"""A disk that loses power: a layer between SQLite and the file system that knows what would be left."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "backstory-power"
Image = dict[str, bytes]
"""The files that are left, by their names."""


class Power:
    """Notes at every step on the disk what a power cut just then would leave.

    What was synced stays. Of the rest nothing is sure: ``cuts`` holds, for each step, what is left if all of it is
    lost, and what is left if the pages of the database itself came to the disk and nothing else did. A file that was
    deleted comes back unless its folder was synced.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._synced: Image = {}
        self.cuts: list[tuple[int, Image]] = []
        """How many changes were acknowledged so far, and what is left then."""
        self.acknowledged = 0

    def acknowledge(self) -> None:
        """The program was told that one more change is kept."""
        self.acknowledged += 1
        self.step()

    def sync(self, path: Path) -> None:
        """A file was synced, and with it that it is in its folder."""
        self._synced[path.name] = path.read_bytes()

    def delete(self, path: Path, *, is_synced: bool) -> None:
        """A file was removed from its folder."""
        if is_synced:
            self._synced.pop(path.name, None)

    def synced(self) -> Image:
        """What a power cut leaves now if nothing survives that was not synced."""
        # The wal-index is in memory, whatever its file says.
        return {name: data for name, data in self._synced.items() if not name.endswith("-shm")}

    def step(self) -> None:
        """Something has changed the disk."""
        current = self._database.read_bytes() if self._database.exists() else b""
        for image in (self.synced(), {**self.synced(), self._database.name: current}):
            if (self.acknowledged, image) not in self.cuts[-2:]:
                self.cuts.append((self.acknowledged, image))


class PowerFile(apsw.VFSFile):
    """A file on a disk that loses power."""

    def __init__(self, base: str, name: str | apsw.URIFilename | None, flags: list[int], power: Power) -> None:
        super().__init__(base, name, flags)
        told = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._path = None if told is None else Path(told)
        self._power = power

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._power.step()

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._power.step()

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._path is not None:
            self._power.sync(self._path)
        self._power.step()


class PowerVFS(apsw.VFS):
    """A file system on a disk that loses power."""

    def __init__(self, power: Power) -> None:
        self._base = apsw.vfs_names()[0]
        self._power = power
        super().__init__(NAME, self._base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return PowerFile(self._base, name, flags, self._power)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self._power.delete(Path(filename), is_synced=syncdir)
        self._power.step()


@contextmanager
def losing_power(database: Path) -> Iterator[Power]:
    """Every store that is opened inside lies on this disk; only ``database`` is watched."""
    power = Power(database)
    vfs = PowerVFS(power)
    try:
        yield power
    finally:
        vfs.unregister()


def laid_out(image: Image, folder: Path) -> None:
    """The files that a power cut leaves, in a folder of their own."""
    folder.mkdir()
    for name, data in image.items():
        (folder / name).write_bytes(data)
