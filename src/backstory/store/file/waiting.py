"""SQLite's lock on a file that many processes write: held for a transaction, waited for with nothing in hand.

A process that is stopped in the middle of a transaction keeps the lock for as long as it sleeps. Ctrl-Z is therefore
put off until the transaction is over. SIGSTOP cannot be put off, so whoever waits names the process that holds the lock
and gives up in the end.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
from msgspec import Struct

from backstory.errors import QueueBusy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


BRIEF_MS = 50
"""A transaction waits for so long at most while it holds something itself; then it lets go and is tried again."""
PATIENCE_S = 60.0
TOLD_S = 3.0
"""After so long a wait the holder is named."""
RETRY_S = 0.02
LOCK_BYTES = (0x40000000, 512)
"""The bytes that SQLite locks in a file: the pending byte, the reserved byte and those that readers share."""
PROGRAM_CHARS_MAX = 40
_ours = threading.RLock()
"""Held while a thread of this process may hold a lock of SQLite: a file that is closed loses those of all threads.

Its thread may take it again: Ctrl-C at the door of a block leaves it taken while what was interrupted is cleared up.
"""


class LockHolder(Struct, frozen=True, kw_only=True):
    """The process that holds a lock; its program as far as the system names it."""

    pid: int
    program: str = ""
    is_stopped: bool = False

    def __str__(self) -> str:
        named = f"process {self.pid}" + (f" ({self.program})" if self.program else "")
        return f"{named}, which is stopped" if self.is_stopped else named


@contextmanager
def unstopped() -> Iterator[None]:
    """No key stops this thread, and no other thread of this process holds a lock of SQLite, until the block ends."""
    with _ours, put_off():
        yield


class WaitStopped(KeyboardInterrupt):
    """A person would not wait for a lock: nothing was written."""


class Patience:
    """The longest wait for a file: ``seconds``, else a minute. ``report`` receives once for whom."""

    def __init__(self, path: Path, report: Callable[[str], None], seconds: float | None = None) -> None:
        self._path, self._report = path, report
        self._seconds = PATIENCE_S if seconds is None else seconds
        self._began = time.monotonic()
        self._is_told = False

    def wait(self) -> None:
        """Wait for a moment. Raises QueueBusy when that was long enough, WaitStopped."""
        try:
            self._wait()
        except KeyboardInterrupt as stopped:
            raise WaitStopped from stopped

    def _wait(self) -> None:
        waited = time.monotonic() - self._began
        if waited >= self._seconds:
            raise QueueBusy(self._path, self._seconds, self._holder())
        # Most waits are over by then; a line for each of them would be noise.
        if waited >= TOLD_S and not self._is_told:
            self._is_told = True
            self._report(
                f"{self._path} is locked by {self._holder()}. Waiting for up to {self._seconds:.0f} s; "
                "Ctrl-C stops the wait."
            )
        import random  # few ever wait

        # Not all who wait come back at the same moment.
        time.sleep(random.uniform(RETRY_S / 4, RETRY_S))

    def _holder(self) -> str:
        return str(holder_of(self._path) or "another process")


def holder_of(path: Path, lock: tuple[int, int] = LOCK_BYTES) -> LockHolder | None:
    """Another process of this machine that holds one of SQLite's locks on a file; None where the system names none.

    ``lock``: the bytes that are asked about, the first and how many.
    """
    # To close any descriptor of a file drops the locks that this process has on it, also SQLite's.
    with _ours:
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            pid = _unpacked(fcntl.fcntl(file, fcntl.F_GETLK, _packed(*lock)))
        except OSError:
            return None
        finally:
            os.close(file)
    return LockHolder(pid=pid, program=_program(pid), is_stopped=_is_stopped(pid)) if pid > 0 else None


def _packed(start: int, length: int) -> bytes:
    """``struct flock`` that asks who keeps us from writing these bytes."""
    import struct

    if sys.platform == "darwin":
        return struct.pack("qqihh", start, length, 0, fcntl.F_WRLCK, os.SEEK_SET)
    return struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)


def _unpacked(lock: bytes) -> int:
    """The process that ``struct flock`` names; 0 for none."""
    import struct

    if sys.platform == "darwin":
        _, _, pid, kind, _ = struct.unpack("qqihh", lock)
    else:
        kind, _, _, _, pid = struct.unpack("hhqqi4x", lock)
    return 0 if kind == fcntl.F_UNLCK else int(pid)


def _program(pid: int) -> str:
    """Return a process's program: its name, for Python that of the module or script, and the first word behind."""
    import psutil  # few ever wait

    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        return ""
    names = [Path(word).name for word in words if not word.startswith("-")]
    # The interpreter says nothing about what waits for whom.
    if len(names) > 1 and names[0].startswith("python"):
        del names[0]
    program = " ".join(names[:2])[:PROGRAM_CHARS_MAX]
    # A process names itself, so the words may hold anything that a terminal obeys.
    return "".join(each if each.isprintable() else "?" for each in program)


def _is_stopped(pid: int) -> bool:
    import psutil

    try:
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return False


# a small database read without a lock, so that a reader who is stopped keeps nobody from writing ----------------------


HEADER_BYTES = 100
READ_BYTES_MAX = 64 * 1024 * 1024
_FORMATS_AT, _COUNTER_AT = slice(18, 20), slice(24, 28)
_ROLLBACK_FORMATS = b"\x01\x01"
"""The header of a file whose journal is a rollback journal."""

Stamp = tuple[int, int, int, bytes]


def stamp(db: apsw.Connection, path: Path) -> Stamp | None:
    """Return a value that changes with each transaction; None if the file does not have one. Takes no lock."""
    try:
        status = path.stat()
    except OSError:
        return None
    if status.st_size < HEADER_BYTES:
        return None
    # Through SQLite's own descriptor: closing another one would take the locks of this process away.
    _, header = db.read("main", 0, 0, HEADER_BYTES)
    # The change counter says nothing about a file with a WAL.
    if header[_FORMATS_AT] != _ROLLBACK_FORMATS:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, header[_COUNTER_AT]


def copy_of(db: apsw.Connection, path: Path) -> apsw.Connection | None:
    """A copy in memory of a connection's file; None while it is written, where only a lock gives an answer."""
    before = stamp(db, path)
    # A journal may also be left by a crash, and only SQLite, with a lock, can play it back.
    if before is None or before[1] > READ_BYTES_MAX or _has_journal(path):
        return None
    is_whole, content = db.read("main", 0, 0, before[1])
    # Looked at on both sides: a transaction that began and ended meanwhile has left no journal but another counter.
    if not is_whole or _has_journal(path) or stamp(db, path) != before:
        return None
    copy = apsw.Connection(":memory:")
    copy.deserialize("main", content)
    return copy


def _has_journal(path: Path) -> bool:
    return path.with_name(path.name + "-journal").exists()


# a transaction is not stopped by a key: whoever stopped there would keep the lock until he is waked -------------------


@contextmanager
def put_off() -> Iterator[None]:
    """Delay signals that would stop this thread until the block ends."""
    if sys.platform == "win32":
        yield
        return
    import signal  # a reader needs none; a stand-in would be asked six times for each transaction

    stops = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
