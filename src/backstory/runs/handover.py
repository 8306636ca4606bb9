"""A session in the hands of the agent's own client: who has it, and the right to hand it over.

The right is a POSIX record lock: a process keeps it when it becomes another program, its children do not get it, and
the kernel releases it at its death. So whoever has become an agent's client holds it as long as that runs.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from typing import TYPE_CHECKING

from backstory.errors import ClientTooOld
from backstory.lazy import lazy_regex
from backstory.runs import process
from backstory.store.private import as_ours, make_private_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from backstory.agents.contract import InUse

WRITTEN_MS = 30_000
"""A log that was written so short a time ago may be in use."""


class HandoverLock:
    """The right to hand a session over, as long as this process lives, whatever program it becomes."""

    def __init__(self, folder: Path, session_uid: str) -> None:
        self._path = folder / f"{session_uid}.lock"
        self._file: int | None = None

    def take(self) -> bool:
        """Take the lock; False if another process has it. Raises DiskFull, CannotWrite."""
        make_private_folder(self._path.parent)
        try:
            file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as refused:
            raise as_ours(self._path, refused) from refused
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        self._file = file
        return True

    def keep(self) -> None:
        """Keep it also when this process becomes another program."""
        if self._file is not None:
            os.set_inheritable(self._file, True)

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def open_clients(folder: Path) -> list[str]:
    """The sessions that processes have in their hands, by their locks in a folder."""
    found = []
    for path in sorted(folder.glob("*.lock")):
        lock = HandoverLock(folder, path.stem)
        if not lock.take():
            found.append(path.stem)
        lock.release()
    return found


def who_uses(claims: list[InUse], logs: list[Path]) -> str | None:
    """The living process that has a session open, as a clause; None if there is none.

    ``claims``: what the agent's own files say; ``logs``: the files that it would write.
    """
    for each in claims:
        # The system gives a process id again: only with its birth it is the same process.
        birth = process.birth(each.pid)
        if birth and each.birth in (None, birth):
            return f"process {each.pid} has it open"
    for log in logs:
        if log.exists() and (writers := process.writers_of(log)):
            return f"process {writers[0]} has {log} open"
    return None


# client version -------------------------------------------------------------------------------------------------------
# Reads the version of an agent's client from the client itself.


WAIT_S = 20.0
_VERSION = lazy_regex(r"\d+(?:\.\d+){1,3}")


def check_version(agent: str, program: str, least: str, environ: Mapping[str, str]) -> None:
    """Ask a client for its version. Raises ClientTooOld if that is less than ``least``, or it says none."""
    said = version_of(program, environ)
    if said is None or _parts(said) < _parts(least):
        raise ClientTooOld(agent, said, least)


def version_of(program: str, environ: Mapping[str, str]) -> str | None:
    """Return the version that a client prints; None if it prints none within a while."""
    try:
        done = subprocess.run(
            [program, "--version"], env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stdout.decode("utf-8", "replace"))
    return found.group() if found else None


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
