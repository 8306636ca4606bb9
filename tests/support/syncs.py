"""What is told to the disk, and what is begun or removed after it, in the order in which it happened."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
