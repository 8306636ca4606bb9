"""What is told to the disk, and what is begun or removed after it, in the order in which it happened."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

Step = tuple[str, str]
"""``sync``, ``start`` or ``remove``, and of which file below the folder."""


class _Heard:
    """What Python itself says of files that are removed and programs that are started."""

    def __init__(self) -> None:
        self.told: Callable[[str, Any], None] | None = None
        sys.addaudithook(self._heard)

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if self.told is None:
            return
        if event in ("os.remove", "os.rmdir", "shutil.rmtree"):
            self.told("remove", args[0])
        elif event == "subprocess.Popen":
            self.told("start", args[0])


_heard: _Heard | None = None
"""A hook cannot be taken away again, so there is one."""


class Order:
    """The steps below a folder, with what each file that was synced held then."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.steps: list[Step] = []
        self.synced: dict[str, bytes] = {}
        self.at_removal: Callable[[], None] | None = None
        """Called when the first file is about to be removed."""

    def sync(self, descriptor: int) -> None:
        """What a descriptor stands for is on the disk."""
        status = os.fstat(descriptor)
        for path in (self._folder, *self._folder.rglob("*")):
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), status):
                    name = str(path.relative_to(self._folder))
                    self.steps.append(("sync", name))
                    if path.is_file():
                        self.synced[name] = path.read_bytes()

    def note(self, what: str, of: Any) -> None:
        """A program is started, or a file below the folder removed."""
        if what == "start":
            self.steps.append((what, os.fsdecode(of)))
        elif (path := Path(os.fsdecode(of))).is_relative_to(self._folder):
            if self.at_removal is not None and not any(each == "remove" for each, _ in self.steps):
                self.at_removal()
            self.steps.append((what, str(path.relative_to(self._folder))))


@contextmanager
def in_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Order]:
    """Notes the order of what happens below ``folder``, which is there, and of programs that are started."""
    global _heard
    _heard = _heard or _Heard()
    order, fsync = Order(folder), os.fsync

    def synced(file: int) -> None:
        fsync(file)
        order.sync(file)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", synced)
        _heard.told = order.note
        try:
            yield order
        finally:
            _heard.told = None


class Syncs(apsw.VFS):
    """A file system that notes what SQLite syncs; with what Python syncs, ``names`` has all of it, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.base = apsw.vfs_names()[0]
        super().__init__("backstory-syncs", self.base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _Synced(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        if syncdir:
            self.names.append(f"{Path(filename).parent.name}/")


class _Synced(apsw.VFSFile):
    """A file; with the first sync of a journal the system's own layer syncs the folder that names it."""

    def __init__(self, syncs: Syncs, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(syncs.base, name, flags)
        self._names = syncs.names
        self._path = Path((name.filename() if isinstance(name, apsw.URIFilename) else name) or "")
        is_journal = flags[0] & (apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL)
        self._is_unnamed = bool(is_journal and flags[0] & apsw.SQLITE_OPEN_CREATE)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._names.append(self._path.name)
        if self._is_unnamed:
            self._names.append(f"{self._path.parent.name}/")
            self._is_unnamed = False


@contextmanager
def noted_syncs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of what is synced, in order: files, and folders with a slash behind them; those of this process."""
    syncs, fsync = Syncs(), os.fsync

    def synced(file: int) -> None:
        fsync(file)
        path = Path(f"/proc/self/fd/{file}").readlink()
        syncs.names.append(f"{path.name}/" if path.is_dir() else path.name)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", synced)
        try:
            yield syncs.names
        finally:
            syncs.unregister()
