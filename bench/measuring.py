"""What a command costs: time, processor time of all its processes, memory.

This module and those that run commands import nothing of backstory: the system counts the memory of who starts a
process as the process's own, so the one that measures is small.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.figures import QUIET_LOAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ROOT = Path(__file__).parent.parent
MB = 1e6
LOOK_S = 0.01
"""How often the memory of processes is looked at."""
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "SYSTEMROOT")
"""What a measured command sees of our environment."""
OFFLINE = ("unshare", "-rn", "--", "sh", "-c", 'ip link set lo up; exec "$@"', "sh")


class Failed(Exception):
    """A command that was to be measured failed; its last output."""


class Spent(NamedTuple):
    """What a command cost."""

    wall_s: float
    cpu_s: float
    """User and system time of the process and all that it waited for."""
    peak_mb: float
    """Memory of the largest process."""


@dataclass(frozen=True)
class Command:
    """A command to be measured, again and again."""

    words: Sequence[str]
    env: Mapping[str, str]
    cwd: Path = Path("/")
    before: Callable[[], None] = field(default=lambda: None)
    """Done before each run, and not measured."""
    codes: tuple[int, ...] = (0,)
    """The exit codes of a run that did what it should."""


def backstory(*words: str) -> list[str]:
    """A command of ours as a process: as people start it, where it is installed beside Python."""
    installed = Path(sys.executable).with_name("backstory")
    return [sys.executable, *([str(installed)] if installed.exists() else ["-m", "backstory"]), *words]


def environment(home: Path, store: Path, **more: str) -> dict[str, str]:
    """A machine with its logs in one folder and its store in another."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {**kept, "HOME": str(home), "BACKSTORY_HOME": str(store), **more}


@cache
def offline() -> tuple[str, ...]:
    """What leaves a process nothing but loopback, where the system allows that."""
    if shutil.which("unshare") is None:
        return ()
    return () if subprocess.run([*OFFLINE, "true"], capture_output=True, check=False).returncode else OFFLINE


def spend(command: Command) -> Spent:
    """Run a command to its end; raises Failed."""
    command.before()
    with tempfile.TemporaryFile() as said:
        started = time.perf_counter()
        process = subprocess.Popen(
            command.words, env=dict(command.env), cwd=command.cwd, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        _check(command, process.returncode, said)
    return Spent(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20))


def answer(command: Command) -> str:
    """What a command prints to stdout; raises Failed."""
    command.before()
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            command.words, env=dict(command.env), cwd=command.cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=said, text=True, check=False,
        )  # fmt: skip
        _check(command, done.returncode, said)
    return done.stdout


def _check(command: Command, code: int, said: object) -> None:
    if code not in command.codes:
        said.seek(0)  # type: ignore[attr-defined]
        last = said.read()[-1000:].decode("utf-8", "replace").strip()  # type: ignore[attr-defined]
        raise Failed(f"{' '.join(command.words[:6])} ended with {code}: {last}")


def peak_mb(command: Command) -> float:
    """The peaks of all processes of a command, added up: Linux; elsewhere that of the largest."""
    if not Path("/proc/self/status").exists():
        return spend(command).peak_mb
    command.before()
    peaks: dict[int, float] = {}
    with tempfile.TemporaryFile() as said, subprocess.Popen(
        command.words, env=dict(command.env), cwd=command.cwd, stdin=subprocess.DEVNULL, stdout=said, stderr=said
    ) as process:  # fmt: skip
        while process.poll() is None:
            for pid in _tree(process.pid):
                peaks[pid] = max(peaks.get(pid, 0), _peak_of(pid))
            time.sleep(LOOK_S)
        _check(command, process.returncode, said)
    return sum(peaks.values())


def _tree(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        try:
            threads = list(Path(f"/proc/{each}/task").iterdir())
            found += [int(child) for thread in threads for child in (thread / "children").read_text().split()]
        except OSError:
            continue
    return found


def _peak_of(pid: int) -> float:
    try:
        _, _, told = Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")
        return int(told.split()[0]) / 1024 if told else 0
    except OSError:
        return 0


class Quiet:
    """Waits until the machine is quiet; gives up for good where it does not become so."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s

    def load(self) -> float:
        """The load of the last minute, low if that could be waited for."""
        until = time.monotonic() + self._wait_s
        while os.getloadavg()[0] >= QUIET_LOAD and time.monotonic() < until:
            time.sleep(1)
        if os.getloadavg()[0] >= QUIET_LOAD:
            self._wait_s = 0
        return os.getloadavg()[0]


class Turns(NamedTuple):
    """Commands that were run in turn."""

    spent: dict[str, list[Spent]]
    loads: tuple[float, ...]
    """Before each turn."""

    def median(self, name: str, what: str = "cpu_s") -> float:
        """Of one command."""
        return statistics.median(self._each(name, what))

    def ratio(self, above: str, below: str, what: str = "cpu_s") -> float:
        """The median of what two commands cost in the same turn, one over the other."""
        pairs = zip(self._each(above, what), self._each(below, what), strict=True)
        return statistics.median(one / other for one, other in pairs)

    def over(self, name: str, bare: str, what: str = "cpu_s") -> float:
        """The median of what one command costs more than another in the same turn."""
        pairs = zip(self._each(name, what), self._each(bare, what), strict=True)
        return statistics.median(one - other for one, other in pairs)

    def _each(self, name: str, what: str) -> list[float]:
        return [getattr(each, what) for each in self.spent[name]]


def in_turn(commands: Mapping[str, Command], runs: int, quiet: Quiet | None = None) -> Turns:
    """Run commands one after the other, again and again: what else the machine does meets all of them alike."""
    spent: dict[str, list[Spent]] = {name: [] for name in commands}
    loads = []
    for _ in range(runs):
        loads.append(quiet.load() if quiet else os.getloadavg()[0])
        for name, command in commands.items():
            spent[name].append(spend(command))
    return Turns(spent, tuple(loads))


def empty(*folders: Path) -> Callable[[], None]:
    """Removes folders."""

    def remove() -> None:
        for each in folders:
            shutil.rmtree(each, ignore_errors=True)

    return remove


def bytes_below(folder: Path, names: Iterable[str] = (".",)) -> int:
    """Bytes of all files in some folders of a folder."""
    every = (path for name in names for path in (folder / name).rglob("*"))
    return sum(each.stat().st_size for each in every if each.is_file() and not each.is_symlink())
