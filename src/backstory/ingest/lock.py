"""The lock of an ingest into the home store: a sign for those who would ingest only where nobody else does.

It is a lock on the home folder itself, so that no file is left behind, and the kernel releases it when its holder dies.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def ingest_lock(home: Path) -> Iterator[bool]:
    """Hold the lock while the block runs, if it is free; gives whether it was. Nobody waits for it."""
    try:
        folder = os.open(home, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        is_ours = False
        # Some file systems know no lock on a folder.
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = True
        yield is_ours
    finally:
        os.close(folder)
