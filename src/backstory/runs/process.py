"""Processes of this machine: starting an agent, which belong to it, when one started, whether it works, signals to it.

psutil knows them on every system. Importing it takes longer than the queries of a plain run, so these (the start of
its agent, and the child processes still running) read ``/proc`` where it exists.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
    import subprocess
    from collections.abc import Mapping, Sequence
    from typing import IO

MARKER = "BACKSTORY_RUN"
"""The environment variable of an agent and its child processes: a run's is the turn's uid; '' is of no run."""
PROC = Path("/proc")
"""The folder in which Linux has files about processes."""


def start(
    command: Sequence[str],
    run: str,
    cwd: Path,
    environ: Mapping[str, str],
    *,
    stdin: IO[bytes] | int,
    stdout: IO[bytes] | int,
    stderr: IO[bytes] | int,
) -> subprocess.Popen[bytes]:
    """Start an agent in a session of its own; ``of_run`` finds it and whatever it starts. Raises OSError."""
    from subprocess import Popen

    return Popen(
        command, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, env={**environ, MARKER: run},
        start_new_session=True,
    )  # fmt: skip


def of_run(run: str) -> list[int]:
    """Return the processes of a run, also those in sessions of their own, except this one and its ancestors."""
    mark = f"{MARKER}={run}".encode()
    found = _marked_in_files(mark) if _has_files() else _marked_elsewhere(mark)
    # A command started by an agent's tool must not kill itself.
    own = _ancestors() if found else set[int]()
    return [pid for pid in found if pid not in own]


def _stat_of(pid: int) -> tuple[str, int, int, int]:
    """Return a process's state, parent, session and start; zeros if it is gone."""
    try:
        # A program's name may hold spaces, brackets and half a letter, so the fields begin behind the last bracket.
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19])
    except (OSError, IndexError, ValueError):
        return "", 0, 0, 0


def working_in(folder: Path) -> list[int]:
    """Return the living processes whose current folder this is, as far as the system tells."""
    import psutil

    return [pid for pid in psutil.pids() if works_in(pid, folder)]


def works_in(pid: int, folder: Path) -> bool:
    """Return True if a process lives and this is its current folder, as far as the system tells."""
    import psutil

    with suppress(psutil.Error, OSError):
        each = psutil.Process(pid)
        return each.status() != psutil.STATUS_ZOMBIE and each.cwd() == str(folder)
    return False


def writers_of(path: Path) -> list[int]:
    """Return the other processes that have a file open for writing, if the system reports modes."""
    import psutil

    found = []
    for each in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            # Not every system has a mode.
            files = [file.path for file in each.open_files() if getattr(file, "mode", "r") != "r"]
            if each.pid != os.getpid() and any(path.samefile(file) for file in files):
                found.append(each.pid)
    return found


def sign_of_work(pid: int) -> tuple[int, float, float] | None:
    """Return a value that changes while a process works, or waits for the processor or the disk.

    None if nothing is known about the process.
    """
    import psutil

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times, state = process.cpu_times(), process.status()
    except psutil.Error:
        return None
    is_at_work = state in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
    return pid, times.user + times.system, time.monotonic() if is_at_work else 0.0


def birth(pid: int) -> str:
    """Return when a running process started, in the system's format, or ''. Process ids are reused."""
    if not _has_files():
        return _birth_elsewhere(pid)
    state, *_, began = _stat_of(pid)
    # A zombie has ended; its parent has not asked for that yet.
    return str(began) if state and state not in "ZX" else ""


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal; ignored if the process is over or another person's."""
    try:
        os.kill(pid, number)
    except OSError:
        return


def _has_files() -> bool:
    return (PROC / "self" / "stat").exists()


def _marked_in_files(mark: bytes) -> list[int]:
    found = []
    for entry in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def _marked_elsewhere(mark: bytes) -> list[int]:
    import psutil

    name, _, value = os.fsdecode(mark).partition("=")
    found = []
    for each in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if each.environ().get(name) == value:
                found.append(each.pid)
    return found


def _birth_elsewhere(pid: int) -> str:
    import psutil

    try:
        process = psutil.Process(pid)
        return repr(process.create_time()) if process.status() != psutil.STATUS_ZOMBIE else ""
    except psutil.Error:
        return ""


def above() -> list[tuple[int, str]]:
    """Return the processes above this one, the nearest first, each with its birth."""
    import psutil

    with suppress(psutil.Error):
        return [(each.pid, birth(each.pid)) for each in psutil.Process().parents()]
    return []


def variable_above(name: str) -> str | None:
    """Return a variable of the nearest process above this one that has it, where the system lets it be seen."""
    import psutil

    with suppress(psutil.Error):
        for each in psutil.Process().parents():
            with suppress(psutil.Error, OSError):
                if value := each.environ().get(name):
                    return value
    return None


def _ancestors() -> set[int]:
    """Return this process and its ancestors."""
    import psutil

    return {os.getpid(), *(each.pid for each in psutil.Process().parents())}
