"""A file system in memory for the folders of tests, where a sync waits for no disk."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

SOURCE = "backstory-tests"
"""What such a file system is called among the mounts."""
ROOM_BYTES = 4 << 30
MOUNTS = Path("/proc/self/mounts")


def mounted() -> Path | None:
    """A folder in memory until this process ends; None where nobody may mount one, or memory is short."""
    if sys.platform != "linux" or os.geteuid() != 0 or psutil.virtual_memory().available < ROOM_BYTES:
        return None
    for folder in _abandoned():
        _unmount(folder)
    folder = Path(tempfile.gettempdir(), f"m{os.getpid()}")
    folder.mkdir(mode=0o700)
    words = ["mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES},mode=0700", SOURCE, str(folder)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        folder.rmdir()
        return None
    atexit.register(_unmount, folder, by=os.getpid())
    return folder


def _abandoned() -> list[Path]:
    """Those whose process was killed: each is named after it."""
    rows = [line.split() for line in MOUNTS.read_text("utf-8").splitlines()]
    folders = [Path(row[1]) for row in rows if row[0] == SOURCE]
    return [folder for folder in folders if not psutil.pid_exists(int(folder.name[1:]))]


def _unmount(folder: Path, by: int | None = None) -> None:
    """``by``: the process that may; a fork of it would take the folder away from it."""
    if by in (None, os.getpid()):
        subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)
        folder.rmdir()
