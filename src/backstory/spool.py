"""The spool: where a run lives until it is stored.

A folder below ``BACKSTORY_HOME/spool``, named after the turn: ``run.json`` says what is run and for whom, and
is on the disk before the agent starts; ``stdout`` and ``stderr`` are the agent's own outputs, which it goes on
writing should backstory die; ``process.json`` says which process it is. The agent holds a lock on ``stdout``
as long as it lives, because it inherits it. ``stdin.jsonl`` holds the words that it was told while it ran, each on
the disk before it is handed over.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from backstory.errors import BackstoryError
from backstory.lines import LineReader
from backstory.store.private import as_ours, make_private_folder, write_private

SPOOLS = "spool"
"""The folder below BACKSTORY_HOME that holds every run's."""
LOCKS = "locks"
"""The folder below BACKSTORY_HOME that holds the locks on sessions."""
MARKER = "BACKSTORY_RUN"
"""In the environment of an agent and of all that it starts: the turn's uid."""
PIPE_BYTES_MAX = 1024 * 1024
"""A pipe holds so much at most, where the system is not told otherwise."""


ORPHAN_S = 60.0
"""A spool without a run in it is what a runner left that died before it began; younger ones may be beginning."""


class Run(Struct, frozen=True, kw_only=True):
    """What is run, and for whom."""

    turn_uid: str
    session_uid: str
    store: str
    agent: str
    prompt: str
    cwd: str
    started: int
    model: str | None = None
    permissions: str | None = None
    native_id: str | None = None
    prefix_chars: int = 0
    prefix_sha256: str | None = None
    parent_uid: str | None = None
    """The turn that it follows, with the record; None: the session's newest, which is nothing in a new session."""
    parent_seq: int | None = None
    store_file: tuple[int, int] | None = None
    """Device and inode of the store, by which it is known where it was moved to."""


class Word(Struct, frozen=True):
    """What was told to a running agent, by the uid it was queued under, and the line that is kept of it."""

    uid: str
    line: bytes


class _Uid(Struct):
    uid: str = ""


class Spool:
    """One run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stdout, self.stderr, self.stdin = folder / "stdout", folder / "stderr", folder / "stdin"
        self.told = folder / "stdin.jsonl"

    @classmethod
    def begin(cls, spools: Path, run: Run, sent: str) -> Spool:
        """Make the folder of a run, with what will be sent to the agent; on the disk before this returns."""
        spool = cls(spools / run.turn_uid)
        make_private_folder(spool.folder)
        write_private(spool.stdin, sent.encode("utf-8", "surrogatepass"))
        write_private(spool.folder / "run.json", msgspec.json.encode(run), sync=True)
        _sync_folder(spool.folder)
        _sync_folder(spools)
        return spool

    @property
    def run(self) -> Run | None:
        """What is run here; None for a folder that was never finished."""
        try:
            return msgspec.json.decode((self.folder / "run.json").read_bytes(), type=Run)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    @property
    def is_unreadable(self) -> bool:
        """Whether an agent's output is here, and nothing says whose it is."""
        # One that is being removed may have lost its run.json already, for a moment.
        is_lost = (self.folder / "run.json").exists() or self.age_s() > ORPHAN_S
        return self.stdout.exists() and self.run is None and is_lost and self.folder.exists()

    @property
    def pid(self) -> int | None:
        """The agent's process, if it was started and still lives."""
        try:
            pid, born = msgspec.json.decode((self.folder / "process.json").read_bytes(), type=tuple[int, str])
        except (OSError, msgspec.DecodeError):
            return None
        return pid if _birth(pid) == born != "" else None

    def note_process(self, pid: int) -> None:
        """Say which process the agent is."""
        write_private(self.folder / "process.json", msgspec.json.encode((pid, _birth(pid))))

    def note_exit(self, code: int | None, number: int | None) -> None:
        """Say how the agent ended: its exit code, or the signal."""
        with suppress(BackstoryError):
            # On a full disk what was said matters more.
            write_private(self.folder / "exit.json", msgspec.json.encode((code, number)))

    @property
    def exit(self) -> tuple[int | None, int | None] | None:
        """How the agent ended: its exit code and its signal; None when nobody saw it."""
        try:
            data = (self.folder / "exit.json").read_bytes()
            return msgspec.json.decode(data, type=tuple[int | None, int | None])
        except (OSError, msgspec.DecodeError):
            return None

    @property
    def was_started(self) -> bool:
        """Whether the agent was started: it was noted, or it said something before it could be."""
        said = any(each.exists() and each.stat().st_size for each in (self.stdout, self.stderr))
        return said or (self.folder / "process.json").exists()

    def note_word(self, line: bytes) -> None:
        """Keep what the agent is about to be told, a line of JSON with its ``uid``; on the disk when this returns."""
        try:
            is_first = not self.told.exists()
            file = os.open(self.told, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            try:
                _append_whole(file, line + b"\n")
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as refused:
            raise as_ours(self.told, refused) from refused
        if is_first:
            _sync_folder(self.folder)

    def words(self) -> list[Word]:
        """What the agent was told while it ran, in order; a line that was cut off was never handed over."""
        try:
            data = self.told.read_bytes()
        except OSError:
            return []
        found = []
        for _, _, line in LineReader().lines(data):
            with suppress(msgspec.DecodeError):
                found.append(Word(msgspec.json.decode(line or b"", type=_Uid).uid, line or b""))
        return found

    def open_output(self) -> tuple[int, int]:
        """File descriptors for the agent's stdout (locked) and stderr."""
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
        stdout = os.open(self.stdout, flags, 0o600)
        # Somebody may be looking whether it is held, for a moment.
        fcntl.flock(stdout, fcntl.LOCK_EX)
        return stdout, os.open(self.stderr, flags, 0o600)

    @property
    def is_alive(self) -> bool:
        """Whether the agent, or something that it started and that holds its output, still lives."""
        return self._is_held or self.pid is not None

    @property
    def _is_held(self) -> bool:
        try:
            stdout = os.open(self.stdout, os.O_RDONLY)
        except OSError:
            return False
        try:
            # Shared, so that two who look do not take each other for the agent.
            fcntl.flock(stdout, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(stdout)
        return False

    def kill(self) -> None:
        """End every process that this run started, wherever it went."""
        for pid in self.family():
            _signal(pid, signal.SIGKILL)
        if self._is_held:
            for pid in self._holders():
                _signal(pid, signal.SIGKILL)

    def interrupt(self) -> None:
        """Ask the agent to stop."""
        if (pid := self.pid) is not None:
            _signal(pid, signal.SIGINT)

    def family(self) -> list[int]:
        """The processes of this run. Agents start tools in sessions of their own: it is the environment that tells."""
        wanted = f"{MARKER}={self.folder.name}".encode()
        found, own = [], _ancestors()
        for entry in Path("/proc").glob("[0-9]*") if Path("/proc").is_dir() else []:
            try:
                if int(entry.name) not in own and wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        pid = self.pid
        return [*found, *([pid] if pid is not None and pid not in found else [])]

    def signs_of_work(self) -> object:
        """Something that is never the same twice while a process of this run works, or waits for the processor or disk.

        Where the system tells nothing of processes, only what the agent wrote is a sign.
        """
        found: list[object] = [each.stat().st_size for each in (self.stdout, self.stderr) if each.exists()]
        for pid in self.family():
            with suppress(OSError, IndexError, ValueError):
                state, *fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
                found.append((pid, int(fields[10]) + int(fields[11]), time.monotonic() if state in "RD" else 0.0))
        return found

    def _holders(self) -> list[int]:
        """Other processes that have the agent's output open for writing: it gave it to them, without our mark."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/fd/*") if Path("/proc").is_dir() else []:
            pid = int(entry.parts[2])
            with suppress(OSError, ValueError, IndexError):
                if pid != os.getpid() and entry.samefile(self.stdout) and _may_write(entry):
                    found.append(pid)
        return found

    def cancel(self, why: str = "") -> None:
        """Ask the agent to stop, and note why; '' is a person's wish."""
        with suppress(BackstoryError):
            write_private(self.folder / "cancelled", why.encode())
        self.interrupt()

    @property
    def why_cancelled(self) -> str:
        """Why it was stopped, where that was no person's wish."""
        try:
            return (self.folder / "cancelled").read_text("utf-8")
        except OSError:
            return ""

    @property
    def was_cancelled(self) -> bool:
        """Whether a person stopped it."""
        return (self.folder / "cancelled").exists()

    def note_trouble(self, why: str) -> None:
        """Keep why the run could not be stored, for those who ask what waits."""
        with suppress(BackstoryError):
            write_private(self.folder / "trouble", why.encode("utf-8", "replace"))

    @property
    def trouble(self) -> str:
        """Why the run could not be stored the last time; '' where nobody tried, or only the store was busy."""
        try:
            return (self.folder / "trouble").read_text("utf-8", "replace")
        except OSError:
            return ""

    def last_word_ms(self) -> int:
        """When the agent last wrote something, in ms since 1970; when it was begun, if it wrote nothing."""
        written = [each for each in (self.stdout, self.stderr, self.folder / "run.json") if each.exists()]
        return max((each.stat().st_mtime_ns // 1_000_000 for each in written), default=0)

    def age_s(self) -> float:
        """How long ago something was last made or removed in it."""
        try:
            return max(time.time() - self.folder.stat().st_mtime, 0.0)
        except OSError:
            return 0.0

    def remove(self) -> None:
        """Remove the folder: what was in it is stored."""
        shutil.rmtree(self.folder, ignore_errors=True)


class SessionLock:
    """The right to write a session: the kernel takes it back at once when its holder dies."""

    def __init__(self, locks: Path, session_uid: str) -> None:
        self._path = locks / session_uid
        self._file: int | None = None

    def take(self) -> bool:
        """Take the lock; False if somebody else has it."""
        make_private_folder(self._path.parent)
        try:
            file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as refused:
            raise as_ours(self._path, refused) from refused
        if not _is_taken_for_us(file):
            os.close(file)
            return False
        holder = f"process {os.getpid()} on {os.uname().nodename}".encode()
        # A file that is emptied and written again is flushed by some file systems, which takes as long as a sync.
        os.pwrite(file, holder, 0)
        os.ftruncate(file, len(holder))
        self._file = file
        return True

    @property
    def is_held(self) -> bool:
        """Whether somebody has the lock just now."""
        try:
            file = os.open(self._path, os.O_RDONLY)
        except OSError:
            return False
        try:
            return not _may_share(file)
        finally:
            os.close(file)

    @property
    def holder(self) -> str:
        """Who has the lock, as they wrote it."""
        try:
            return self._path.read_text("utf-8") or "another process"
        except OSError:
            return "another process"

    def release(self) -> None:
        """Give the lock back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class Feed:
    """An agent's stdin that stays open: a pipe whose other end only we have, so that it ends when we do.

    The prompt is in it before the agent begins, and a word only if there is room for all of it: whenever we die, what
    the agent reads is whole lines and an end.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self._is_ours = True
        self._writing: int | None = writing

    @classmethod
    def holding(cls, prompt: bytes) -> Feed | None:
        """A feed with a prompt in it; None where no pipe holds so much."""
        if len(prompt) > PIPE_BYTES_MAX:
            return None
        reading, writing = os.pipe()
        feed = cls(reading, writing)
        if len(prompt) > feed.line_bytes_max:
            with suppress(AttributeError, OSError):
                fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, len(prompt))
        os.set_blocking(writing, False)
        if not feed._is_written(prompt):
            feed.close()
            return None
        return feed

    @property
    def is_open(self) -> bool:
        """Whether the agent may still be told something."""
        return self._writing is not None

    def has_room(self, line: bytes) -> bool:
        """Whether a line can be handed over now, whole."""
        return self._writing is not None and self.is_read and len(line) <= self.line_bytes_max

    @property
    def is_read(self) -> bool:
        """Whether the agent has read all that it was told."""
        if self._writing is None:
            return False
        return int.from_bytes(fcntl.ioctl(self._writing, termios.FIONREAD, b"\0" * 4), sys.byteorder) == 0

    @property
    def line_bytes_max(self) -> int:
        """A longer line is never handed over."""
        if self._writing is None:
            return 0
        try:
            return fcntl.fcntl(self._writing, fcntl.F_GETPIPE_SZ)
        except (AttributeError, OSError):
            return select.PIPE_BUF

    def give(self, line: bytes) -> bool:
        """Hand a line over; False if the agent listens no more."""
        return self._writing is not None and self._is_written(line)

    def _is_written(self, data: bytes) -> bool:
        assert self._writing is not None
        try:
            return os.write(self._writing, data) == len(data)
        except OSError:
            return False

    def close_reading(self) -> None:
        """Leave the agent's end to the agent."""
        if self._is_ours:
            os.close(self.reading)
        self._is_ours = False

    def close(self) -> None:
        """Say that nothing more is to come."""
        self.close_reading()
        if self._writing is not None:
            os.close(self._writing)
            self._writing = None


def waiting(spools: Path) -> list[Spool]:
    """Every run in the spool, the oldest first."""
    if not spools.is_dir():
        return []
    return [Spool(folder) for folder in sorted(spools.iterdir()) if folder.is_dir()]


def _append_whole(file: int, data: bytes) -> None:
    """Add all of it or nothing: a disk that fills up takes a part without a word."""
    size = os.fstat(file).st_size
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
    except OSError:
        os.ftruncate(file, size)
        raise


def _is_taken_for_us(file: int) -> bool:
    """Take a lock for ourselves. Somebody who only looks at it has it for an instant, and does not count."""
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if not _may_share(file):
                return False
            fcntl.flock(file, fcntl.LOCK_UN)
        else:
            return True


def _may_share(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _birth(pid: int) -> str:
    """When a living process began, in the system's own words; '' for one that is over. Numbers are given again."""
    if not Path("/proc/self/stat").exists():
        return _birth_told(pid)
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


def _birth_told(pid: int) -> str:
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


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        return
