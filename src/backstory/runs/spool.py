"""The spool: where a run lives until it is stored.

A folder below ``BACKSTORY_HOME/spool``, named after the turn: ``run.json`` says what is run and for whom, and
is on the disk before the agent starts; ``stdout`` and ``stderr`` are the agent's own outputs, which it goes on
writing should backstory die; ``process.json`` says which process it is. The agent holds a lock on ``stdout``
as long as it lives, because it inherits it. ``stdin.jsonl`` holds the words that it was told while it ran, each on
the disk before it is handed over. ``order`` says where errors on stderr stood among what came on stdout.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from backstory.agents.lines import LineReader
from backstory.errors import BackstoryError
from backstory.lazy_regex import lazy_regex
from backstory.runs import process
from backstory.store.private import as_ours, make_private_folder, write_private

SPOOLS = "spool"
"""The folder below BACKSTORY_HOME that holds every run's."""
RUN = "run.json"
"""The file that says what is run, and for whom."""
MARKER = "BACKSTORY_RUN"
"""In the environment of an agent and of all that it starts: the turn's uid."""
ORDER_BYTES_MAX = 16 * 1024
"""Of an agent that writes errors without an end only the first stand where they came."""
ORPHAN_S = 60.0
"""A spool without a run in it is what a runner left that died before it began; younger ones may be beginning."""


_ORDER = lazy_regex(rb"(\d{1,18}) (\d{1,18})")


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
        write_private(spool.folder / RUN, msgspec.json.encode(run), sync=True)
        _sync_folder(spool.folder)
        _sync_folder(spools)
        return spool

    @property
    def run(self) -> Run | None:
        """What is run here; None for a folder that was never finished."""
        try:
            return msgspec.json.decode((self.folder / RUN).read_bytes(), type=Run)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    @property
    def is_unreadable(self) -> bool:
        """Whether an agent's output is here, and nothing says whose it is."""
        # One that is being removed may have lost its run.json already, for a moment.
        is_lost = (self.folder / RUN).exists() or self.age_s() > ORPHAN_S
        return self.stdout.exists() and self.run is None and is_lost and self.folder.exists()

    @property
    def pid(self) -> int | None:
        """The agent's process, if it was started and still lives."""
        try:
            pid, born = msgspec.json.decode((self.folder / "process.json").read_bytes(), type=tuple[int, str])
        except (OSError, msgspec.DecodeError):
            return None
        return pid if process.birth(pid) == born != "" else None

    def note_process(self, pid: int) -> None:
        """Say which process the agent is."""
        write_private(self.folder / "process.json", msgspec.json.encode((pid, process.birth(pid))))

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

    def note_order(self, stdout: int, stderr: int) -> None:
        """Note that this much of stderr had come when so much of stdout had: two outputs do not tell their order."""
        with suppress(OSError), (self.folder / "order").open("ab") as file:
            if file.tell() < ORDER_BYTES_MAX:
                file.write(b"%d %d\n" % (stdout, stderr))

    def order(self) -> list[tuple[int, int]]:
        """How much of stdout and of stderr had come at moments of the run, as far as its runner saw it."""
        try:
            lines = (self.folder / "order").read_bytes().split(b"\n")[:-1]
        except OSError:
            return []
        found = [_ORDER.fullmatch(line) for line in lines]
        return [(int(each[1]), int(each[2])) for each in found if each is not None]

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
            process.send(pid, signal.SIGKILL)
        if self._is_held:
            for pid in process.writers_of(self.stdout):
                process.send(pid, signal.SIGKILL)

    def interrupt(self) -> None:
        """Ask the agent to stop."""
        if (pid := self.pid) is not None:
            process.send(pid, signal.SIGINT)

    def family(self) -> list[int]:
        """The processes of this run. Agents start tools in sessions of their own: it is the environment that tells."""
        wanted = f"{MARKER}={self.folder.name}".encode()
        found, pid = process.marked(wanted), self.pid
        return [*found, *([pid] if pid is not None and pid not in found else [])]

    def signs_of_work(self) -> object:
        """Something that is never the same twice while a process of this run works, or waits for the processor or disk.

        Where the system tells nothing of processes, only what the agent wrote is a sign.
        """
        found: list[object] = [each.stat().st_size for each in (self.stdout, self.stderr) if each.exists()]
        return [*found, *map(process.sign_of_work, self.family())]

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
        written = [each for each in (self.stdout, self.stderr, self.folder / RUN) if each.exists()]
        return max((each.stat().st_mtime_ns // 1_000_000 for each in written), default=0)

    def age_s(self) -> float:
        """How long ago something was last made or removed in it."""
        try:
            return max(time.time() - self.folder.stat().st_mtime, 0.0)
        except OSError:
            return 0.0

    def remove(self) -> None:
        """Remove the folder: what was in it is stored."""
        # What says which run it is goes last: removed by half, it is still known as one that is stored.
        with suppress(OSError):
            for each in self.folder.iterdir():
                if each.name != RUN:
                    each.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)


def list_spools(spools: Path) -> list[Spool]:
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


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
