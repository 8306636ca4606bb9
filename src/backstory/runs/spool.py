"""The spool: the files of a run until it is stored.

A folder below ``BACKSTORY_HOME/spool``, named after the turn: ``run.json`` describes the run and its session, and
is on the disk before the agent starts; ``stdout`` and ``stderr`` are the agent's outputs, which it continues to
write if backstory dies; ``process.json`` identifies its process. The agent inherits a lock on ``stdout`` and holds
it while it lives. ``stdin.jsonl`` holds the messages sent to the running agent, each on the disk before it is sent.
``order`` records the position of errors on stderr among the lines of stdout.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory.errors import BackstoryError
from backstory.lazy import lazy_module, lazy_regex
from backstory.model import OwnLine, event_from_json
from backstory.store.private import as_ours, make_private_folder, sync, write_private

if TYPE_CHECKING:
    import shutil
    import signal
    from collections.abc import Iterator

    from backstory.agents import jsonl
    from backstory.model import Event
    from backstory.runs import process
else:
    # Only runs need them; shutil knows all compressions.
    shutil, signal = lazy_module("shutil"), lazy_module("signal")
    jsonl, process = lazy_module("backstory.agents.jsonl"), lazy_module("backstory.runs.process")

SPOOLS = "spool"
"""The folder below BACKSTORY_HOME with the folders of all runs."""
RUN = "run.json"
"""The file with the prompt, the agent and the session."""
ORDER_BYTES_MAX = 16 * 1024
"""The most bytes of ``order``: of an endless stream of errors only the first keep their position."""
RUNNING, WAITING, UNREADABLE = "running", "waiting", "unreadable"
"""States of a run in the spool: its agent is at work; it is over, and to be stored; nobody knows whose it is."""
ORPHAN_S = 60.0
"""An older spool without a run belongs to a runner that died at its start; a younger one may be starting."""


_ORDER = lazy_regex(rb"(\d{1,18}) (\d{1,18})")


class Run(Struct, frozen=True, kw_only=True):
    """The prompt of a run, its agent and its session."""

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
    """The turn and record that it follows; None: the session's newest, or nothing in a new session."""
    parent_seq: int | None = None
    store_file: tuple[int, int] | None = None
    """Device and inode of the store, by which a moved store is found."""


class Word(Struct, frozen=True):
    """A message that was sent to a running agent: the uid of the queue, and the stored line."""

    uid: str
    line: bytes

    @property
    def event(self) -> Event:
        """The event that is stored of it."""
        return event_from_json(bytes(msgspec.json.decode(self.line, type=OwnLine).event))


class _Uid(Struct):
    uid: str = ""


class Spool:
    """One run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stdout, self.stderr, self.stdin = folder / "stdout", folder / "stderr", folder / "stdin"
        self.messages = folder / "stdin.jsonl"

    @classmethod
    def begin(cls, spools: Path, run: Run, sent: str) -> Spool:
        """Create the folder of a run with the agent's input; it is on the disk when this returns."""
        spool = cls(spools / run.turn_uid)
        make_private_folder(spool.folder)
        write_private(spool.stdin, sent.encode("utf-8", "surrogatepass"))
        # Last: a folder that has it has all that the agent needs.
        write_private(spool.folder / RUN, msgspec.json.encode(run), sync=True)
        sync(spool.folder)
        sync(spools)
        return spool

    @property
    def run(self) -> Run | None:
        """The run of this folder; None if the folder was never completed."""
        try:
            return msgspec.json.decode((self.folder / RUN).read_bytes(), type=Run)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    @property
    def is_unreadable(self) -> bool:
        """True if there is an agent's output whose run is unknown."""
        # A folder that is just being removed may have no run.json for a moment.
        is_lost = (self.folder / RUN).exists() or self.age_s() > ORPHAN_S
        return self.stdout.exists() and self.run is None and is_lost and self.folder.exists()

    @property
    def pid(self) -> int | None:
        """The agent's process, if it was started and is still running."""
        try:
            pid, born = msgspec.json.decode((self.folder / "process.json").read_bytes(), type=tuple[int, str])
        except (OSError, msgspec.DecodeError):
            return None
        return pid if process.birth(pid) == born != "" else None

    def note_process(self, pid: int) -> None:
        """Record the agent's process."""
        write_private(self.folder / "process.json", msgspec.json.encode((pid, process.birth(pid))))

    def note_exit(self, code: int | None, number: int | None) -> None:
        """Record the agent's exit code, or the signal."""
        with suppress(BackstoryError):
            # On a full disk the output is more important.
            write_private(self.folder / "exit.json", msgspec.json.encode((code, number)))

    @property
    def exit(self) -> tuple[int | None, int | None] | None:
        """The agent's exit code and signal; None if nobody saw its end."""
        try:
            data = (self.folder / "exit.json").read_bytes()
            return msgspec.json.decode(data, type=tuple[int | None, int | None])
        except (OSError, msgspec.DecodeError):
            return None

    @property
    def was_started(self) -> bool:
        """True if the agent was started: its process was recorded, or it wrote something before that."""
        has_output = any(each.st_size for each in _seen(self.stdout, self.stderr))
        return has_output or (self.folder / "process.json").exists()

    def note_word(self, line: bytes) -> None:
        """Store a message before it is sent, as a line of JSON with its ``uid``, synced to disk."""
        try:
            is_first = not self.messages.exists()
            file = os.open(self.messages, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            try:
                _append_whole(file, line + b"\n")
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as refused:
            raise as_ours(self.messages, refused) from refused
        if is_first:
            sync(self.folder)

    def words(self) -> list[Word]:
        """Return the messages sent to the running agent, in order; a message with a torn line was never sent."""
        try:
            data = self.messages.read_bytes()
        except OSError:
            return []
        found = []
        for _, _, line in jsonl.LineReader().lines(data):
            with suppress(msgspec.DecodeError):
                found.append(Word(msgspec.json.decode(line or b"", type=_Uid).uid, line or b""))
        return found

    def note_order(self, stdout: int, stderr: int) -> None:
        """Record the lengths of both outputs at one moment: the files alone do not show their order."""
        with suppress(OSError), (self.folder / "order").open("ab") as file:
            if file.tell() < ORDER_BYTES_MAX:
                file.write(b"%d %d\n" % (stdout, stderr))

    def order(self) -> list[tuple[int, int]]:
        """Return the recorded lengths of stdout and stderr at moments of the run."""
        try:
            # What follows the last newline was cut off when its runner was killed.
            lines = (self.folder / "order").read_bytes().split(b"\n")[:-1]
        except OSError:
            return []
        found = [_ORDER.fullmatch(line) for line in lines]
        return [(int(each[1]), int(each[2])) for each in found if each is not None]

    def open_output(self) -> tuple[int, int]:
        """Open the agent's stdout (locked) and stderr; returns the file descriptors."""
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
        stdout = os.open(self.stdout, flags, 0o600)
        # Another process may hold it for a moment, to check whether it is locked.
        fcntl.flock(stdout, fcntl.LOCK_EX)
        return stdout, os.open(self.stderr, flags, 0o600)

    @property
    def is_alive(self) -> bool:
        """True if the agent, or a child process with its output, is still running."""
        return self._is_held or self.pid is not None

    @property
    def _is_held(self) -> bool:
        try:
            stdout = os.open(self.stdout, os.O_RDONLY)
        except OSError:
            return False
        try:
            # A shared lock, so that two processes that check do not see each other as the agent.
            fcntl.flock(stdout, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(stdout)
        return False

    def kill(self) -> None:
        """Kill every process that this run started, also in other process groups."""
        for pid in self.family():
            process.send(pid, signal.SIGKILL)
        # A daemon may hide its environment, but not the output that it holds open.
        if self._is_held:
            for pid in process.writers_of(self.stdout):
                process.send(pid, signal.SIGKILL)

    def interrupt(self) -> None:
        """Ask the agent to stop."""
        if (pid := self.pid) is not None:
            process.send(pid, signal.SIGINT)

    def family(self) -> list[int]:
        """Return the processes of this run, found by their environment: agents start tools in sessions of their own."""
        found, pid = process.of_run(self.folder.name), self.pid
        return [*found, *([pid] if pid is not None and pid not in found else [])]

    def signs_of_work(self) -> object:
        """Return a value that changes while a process of this run works, or waits for the processor or the disk.

        If the system reports nothing about processes, it is the size of the outputs.
        """
        found: list[object] = [each.st_size for each in _seen(self.stdout, self.stderr)]
        return [*found, *map(process.sign_of_work, self.family())]

    def cancel(self, why: str = "") -> None:
        """Ask the agent to stop, and record why; '': a person asked for it."""
        with suppress(BackstoryError):
            write_private(self.folder / "cancelled", why.encode())
        self.interrupt()

    @property
    def why_cancelled(self) -> str:
        """The reason why it was stopped, if not by a person."""
        try:
            return (self.folder / "cancelled").read_text("utf-8")
        except OSError:
            return ""

    @property
    def was_cancelled(self) -> bool:
        """True if it was asked to stop."""
        return (self.folder / "cancelled").exists()

    def note_trouble(self, why: str) -> None:
        """Record why the run could not be stored, for lists of pending runs."""
        with suppress(BackstoryError):
            write_private(self.folder / "trouble", why.encode("utf-8", "replace"))

    @property
    def trouble(self) -> str:
        """The last reason why the run could not be stored; '' before the first try, or if the store was busy."""
        try:
            return (self.folder / "trouble").read_text("utf-8", "replace")
        except OSError:
            return ""

    def last_word_ms(self) -> int:
        """Return the time of the agent's last output, in ms since 1970; without output that of its start."""
        written = _seen(self.stdout, self.stderr, self.folder / RUN)
        return max((each.st_mtime_ns // 1_000_000 for each in written), default=0)

    def age_s(self) -> float:
        """Return the seconds since a file was last created or removed in it."""
        try:
            return max(time.time() - self.folder.stat().st_mtime, 0.0)
        except OSError:
            return 0.0

    def remove(self) -> None:
        """Remove the folder, whose run is stored."""
        # run.json is removed last: a half-removed folder is still known as a stored run.
        with suppress(OSError):
            for each in self.folder.iterdir():
                if each.name != RUN:
                    each.unlink()
        try:
            (self.folder / RUN).unlink(missing_ok=True)
            self.folder.rmdir()
        except OSError:
            shutil.rmtree(self.folder, ignore_errors=True)


def list_spools(spools: Path) -> list[Spool]:
    """Return every run in the spool, the oldest first."""
    if not spools.is_dir():
        return []
    return [Spool(folder) for folder in sorted(spools.iterdir()) if folder.is_dir()]


def file_size(path: Path) -> int | None:
    """Return the bytes of a file; None where it is not there."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def _append_whole(file: int, data: bytes) -> None:
    """Append all of it or nothing: a full disk may accept a part without an error."""
    size = os.fstat(file).st_size
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
    except OSError:
        os.ftruncate(file, size)
        raise


def _seen(*paths: Path) -> Iterator[os.stat_result]:
    """Yield what the disk says of the files that are there: another process may remove a spool at any moment."""
    for path in paths:
        with suppress(FileNotFoundError):
            yield path.stat()


def running_runs(home: Path) -> list[tuple[Spool, Run]]:
    """The runs whose agent is alive, the oldest first."""
    return [(spool, run) for spool in list_spools(home / SPOOLS) if (run := spool.run) is not None and spool.is_alive]
