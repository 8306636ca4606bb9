"""The folder of a running import. Only one import runs at a time; the next one removes the files of a killed one."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.errors import ImportRunning
from backstory.exchange.imported import Staging
from backstory.store.private import as_ours, make_private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER = "import"
"""Below BACKSTORY_HOME."""
STORE = "staged.db"
TRIES = 10


@contextmanager
def staging(home: Path, now: Callable[[], int]) -> Iterator[Staging]:
    """Give an empty store for an import while the block runs. Raises ImportRunning, DiskFull, CannotWrite."""
    folder = home / FOLDER
    lock = _locked(folder)
    try:
        _empty(folder)
        with Staging(folder / STORE, now=now) as store:
            yield store
    finally:
        _empty(folder)
        with suppress(OSError):
            folder.rmdir()
        os.close(lock)


def _locked(folder: Path) -> int:
    """Return the open, locked folder. The lock ends with the process. Raises ImportRunning, DiskFull, CannotWrite."""
    for _ in range(TRIES):
        make_private_folder(folder)
        try:
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        except OSError as refused:
            raise as_ours(folder, refused) from refused
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as refused:
            os.close(lock)
            raise ImportRunning from refused
        # Whoever had it before may have removed it since it was opened.
        with suppress(OSError):
            if os.path.samestat(os.fstat(lock), folder.stat()):
                return lock
        os.close(lock)
    raise ImportRunning


def _empty(folder: Path) -> None:
    with suppress(OSError):
        for each in Path(folder).iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)
