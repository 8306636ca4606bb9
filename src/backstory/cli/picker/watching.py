"""Folders whose changes the system tells of, so that nobody has to look: by inotify, where it knows of all of them."""

from __future__ import annotations

import ctypes
import os
import selectors
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

CHANGES = 0x2 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""A file is written, moved away or here, made, or removed; the folder itself is removed, or moved."""
CLOSED_ON_EXEC = 0o2000000
LOCAL = {0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x2FC12FC1, 0xF2F52010, 0x794C7630, 0x858458F6}
"""ext, XFS, Btrfs, tmpfs, ZFS, F2FS, overlay, ramfs. In others another machine may write, of which nobody is told."""
STATFS_BYTES, AT_ONCE = 256, 1 << 16


class FolderWatch:
    """Calls ``changed`` in a thread of its own after a change in a watched folder, at most once in ``rest_s``."""

    def __init__(self, changed: Callable[[], object], rest_s: float) -> None:
        self._changed, self._rest_s = changed, rest_s
        self._watched: dict[int, Path] = {}
        self._fd, self._libc = -1, _libc()
        self._over, self._end = threading.Event(), -1
        self._thread: threading.Thread | None = None

    def watch(self, folders: Collection[Path]) -> bool:
        """Watch these folders and no others; False where changes of one may stay unknown to all who do not look."""
        if self._libc is None or not all(_is_local(self._libc, each) for each in folders):
            return False
        if self._fd < 0:
            self._fd = self._libc.inotify_init1(CLOSED_ON_EXEC)
        # A folder that is watched keeps its number, and one that took its place has another.
        now = {self._libc.inotify_add_watch(self._fd, os.fsencode(each), CHANGES): each for each in folders}
        for number in self._watched.keys() - now.keys():
            self._libc.inotify_rm_watch(self._fd, number)
        self._watched = now
        if self._fd < 0 or -1 in now:
            return False
        if self._thread is None:
            seen_end, self._end = os.pipe()
            self._thread = threading.Thread(target=self._wait, args=(self._fd, seen_end), daemon=True)
            self._thread.start()
        return True

    def close(self) -> None:
        """Watch nothing any more."""
        self._over.set()
        if self._thread is not None:
            os.close(self._end)
            self._thread.join()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _wait(self, fd: int, seen_end: int) -> None:
        with selectors.DefaultSelector() as selector:
            for each in (fd, seen_end):
                selector.register(each, selectors.EVENT_READ)
            while not self._over.is_set():
                ready = {key.fd for key, _ in selector.select()}
                if fd in ready:
                    # What happened is not asked, only that something did.
                    os.read(fd, AT_ONCE)
                    self._changed()
                    self._over.wait(self._rest_s)
        os.close(seen_end)


def _libc() -> Any:
    """The functions of the system; None where it has no inotify."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        if libc.inotify_init1 and libc.statfs:
            return libc
    return None


def _is_local(libc: Any, folder: Path) -> bool:
    told = ctypes.create_string_buffer(STATFS_BYTES)
    return libc.statfs(os.fsencode(folder), told) == 0 and struct.unpack_from("l", told)[0] in LOCAL
