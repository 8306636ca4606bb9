"""Processes of this machine: which are a run's, when one began, whether it works, and signals to it.

Where the system has no files about processes (``/proc``), only what ``ps`` tells is known.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal


def marked(mark: bytes) -> list[int]:
    """The processes whose environment holds a mark (``NAME=value``), but not this one and those it comes from."""
    found, own = [], _ancestors()
    for entry in Path("/proc").glob("[0-9]*") if Path("/proc").is_dir() else []:
        try:
            if int(entry.name) not in own and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def writers_of(path: Path) -> list[int]:
    """The other processes that have a file open for writing."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/fd/*") if Path("/proc").is_dir() else []:
        pid = int(entry.parts[2])
        with suppress(OSError, ValueError, IndexError):
            if pid != os.getpid() and entry.samefile(path) and _may_write(entry):
                found.append(pid)
    return found


def sign_of_work(pid: int) -> tuple[int, int, float]:
    """A value that is never the same twice while a process works, or waits for the processor or the disk.

    Raises OSError, IndexError or ValueError where nothing is told of it.
    """
    state, *fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return pid, int(fields[10]) + int(fields[11]), time.monotonic() if state in "RD" else 0.0


def birth(pid: int) -> str:
    """When a living process began, in the system's own words; '' for one that is over. Numbers are given again."""
    if not Path("/proc/self/stat").exists():
        return _birth_from_ps(pid)
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return fields[18] if state not in "ZX" else ""
    except (OSError, IndexError, ValueError):
        return ""


def _ancestors() -> set[int]:
    """This process and those that it comes from: a command that an agent's tool started does not end itself."""
    pid, found = os.getpid(), set[int]()
    while pid > 1 and pid not in found:
        found.add(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            break
    return found


def _birth_from_ps(pid: int) -> str:
    """The same where the system has no files about processes."""
    import subprocess  # only there

    asked = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return asked[1].strip() if len(asked) > 1 and not asked[0].startswith("Z") else ""


def _may_write(entry: Path) -> bool:
    """Whether /proc/PID/fd/N is open for writing."""
    told = (entry.parent.parent / "fdinfo" / entry.name).read_text("utf-8")
    flags = int(told.split("flags:")[1].split()[0], 8)
    return flags & os.O_ACCMODE != os.O_RDONLY


def send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        return
