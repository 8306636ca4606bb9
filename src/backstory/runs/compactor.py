"""The process that summarises the beginning of a session, one for each beside its runs; turns that are stopped for it.

It holds a lock of its own while it works, so that prompts may run meanwhile; the kernel frees the lock when the process
ends, however that comes. What keeps it from making a summary is noted in a file for the next command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory import ids
from backstory.errors import BackstoryError
from backstory.lazy import lazy_regex
from backstory.runs.lock import LOCKS, SessionLock
from backstory.runs.process import MARKER, birth
from backstory.store.private import make_private_folder, write_private
from backstory.store.tables.queue import Options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from backstory.runs.spool import Run


SUFFIX = ".compaction"
TROUBLES = "compactions"
"""The folder below BACKSTORY_HOME with why summaries could not be made."""
STOP_S = 10.0
POLL_S = 0.05
_PID = lazy_regex(r"process (\d+) on ")
_BEGUN = lazy_regex(r"The summary was not finished \(process (\d{1,9})\)\.$")


def lock_of(home: Path, session_uid: str) -> SessionLock:
    """The right to summarise a session."""
    return SessionLock(home / LOCKS, session_uid + SUFFIX)


def is_under_way(home: Path, session_uid: str) -> bool:
    """Return True if a process summarises a session now."""
    return lock_of(home, session_uid).is_held


def under_way(home: Path) -> dict[str, int]:
    """The sessions that are summarised now, with the process of each."""
    found = {}
    with suppress(OSError):
        for file in sorted((home / LOCKS).iterdir()):
            if file.name.endswith(SUFFIX):
                uid = file.name.removesuffix(SUFFIX)
                if (pid := _pid_of(home, uid)) is not None:
                    found[uid] = pid
    return found


def _pid_of(home: Path, session_uid: str) -> int | None:
    lock = lock_of(home, session_uid)
    holder = _PID.match(lock.holder) if lock.is_held else None
    return int(holder[1]) if holder else None


def begin(home: Path, store: Path, session_uid: str, cwd: Path, environ: Mapping[str, str]) -> None:
    """Begin to summarise a session in a process of its own, which outlives this one; raises OSError."""
    # Noted before it is started: where both are killed, the next command begins it again.
    note_trouble(home, session_uid, _unfinished(os.getpid()))
    pid = start(store, session_uid, cwd, environ)
    # Unless the new process has noted a result meanwhile.
    if trouble(home, session_uid) == _unfinished(os.getpid()):
        note_trouble(home, session_uid, _unfinished(pid))


def start(store: Path, session_uid: str, cwd: Path, environ: Mapping[str, str], *, is_continuing: bool = False) -> int:
    """Start the process that summarises a session; returns its pid. Raises OSError.

    ``is_continuing``: then it continues the turn that was stopped for the summary. It belongs to no run, also where a
    run's agent began it: who stops that run does not stop it.
    """
    # -P: what the project's folder holds is no module of ours.
    command = [sys.executable, "-P", "-m", "backstory", "compact", session_uid, "--store", str(store)]
    command += ["--continue"] if is_continuing else []
    return subprocess.Popen(
        command, cwd=cwd, env={**environ, MARKER: ""},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ).pid  # fmt: skip


def stop(home: Path, session_uid: str) -> bool:
    """End the process that summarises a session, with its agent; returns whether there was one."""
    pid = _pid_of(home, session_uid)
    if pid is None:
        return False
    with suppress(OSError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while is_under_way(home, session_uid) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    # Before its agent is asked the process does not hear the signal, and what it noted would have it begun again.
    if trouble(home, session_uid) == _unfinished(pid):
        note_trouble(home, session_uid, "")
    return True


def note_trouble(home: Path, session_uid: str, why: str) -> None:
    """Note why a summary could not be made; '': nothing is in the way any more. A full disk keeps it from nothing."""
    file = home / TROUBLES / session_uid
    with suppress(OSError, BackstoryError):
        if not why:
            file.unlink(missing_ok=True)
            return
        make_private_folder(file.parent)
        with os.fdopen(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="utf-8") as opened:
            opened.write(why)


def note_begun(home: Path, session_uid: str) -> None:
    """Note that this process makes a summary: the note stays where it is killed."""
    note_trouble(home, session_uid, _unfinished(os.getpid()))


def is_unfinished(home: Path, session_uid: str) -> bool:
    """Return True if the process that was to summarise a session was killed."""
    found = _BEGUN.match(trouble(home, session_uid))
    return found is not None and not birth(int(found[1])) and not is_under_way(home, session_uid)


def unfinished(home: Path) -> list[str]:
    """The sessions of which that is so."""
    try:
        names = sorted(file.name for file in (home / TROUBLES).iterdir())
    except OSError:
        return []
    return [name for name in names if is_unfinished(home, name)]


def _unfinished(pid: int) -> str:
    return f"The summary was not finished (process {pid})."


def trouble(home: Path, session_uid: str) -> str:
    """Return the reason why the last summary of a session could not be made; '' if nothing was in the way."""
    try:
        return (home / TROUBLES / session_uid).read_text("utf-8")
    except OSError:
        return ""


# turns stopped for a summary ------------------------------------------------------------------------------------------


STOPPED_SUFFIX = ".continue"


class StoppedTurn(Struct, frozen=True, kw_only=True):
    """A turn that was stopped for a summary, and what continues it."""

    store: str
    session_uid: str
    turn_uid: str
    next_uid: str
    """The turn that continues it gets this uid: where that is there, nothing is left to do."""
    options: Options
    pid: int = 0
    """The process that continues it, since its runner was killed; 0: none was begun."""


def stopped_turn(run: Run, now: int) -> StoppedTurn:
    """Return the note about a run that is about to be stopped."""
    options = Options(agent=run.agent, model=run.model, permissions=run.permissions, cwd=run.cwd)
    return StoppedTurn(
        store=run.store, session_uid=run.session_uid, turn_uid=run.turn_uid, options=options,
        next_uid=ids.new_uid(now, os.urandom(10)),
    )  # fmt: skip


def note_stopped(home: Path, stopped: StoppedTurn) -> None:
    """Note a turn that is about to be stopped. A full disk keeps it from nothing."""
    file = _file(home, stopped.session_uid)
    whole = file.with_suffix(".new")
    with suppress(OSError, BackstoryError):
        make_private_folder(file.parent)
        write_private(whole, msgspec.json.encode(stopped))
        # Renamed when it is whole: who reads it finds all of it, or the one before.
        whole.replace(file)


def stopped_of(home: Path, session_uid: str) -> StoppedTurn | None:
    """Return the note about a session; None if nothing is to be continued."""
    try:
        return msgspec.json.decode(_file(home, session_uid).read_bytes(), type=StoppedTurn)
    except (OSError, msgspec.MsgspecError):
        return None


def all_stopped(home: Path) -> Iterator[StoppedTurn]:
    """Every turn that is to be continued."""
    with suppress(OSError):
        for name in sorted(file.name for file in (home / TROUBLES).iterdir()):
            if (
                name.endswith(STOPPED_SUFFIX)
                and (found := stopped_of(home, name.removesuffix(STOPPED_SUFFIX))) is not None
            ):
                yield found


def forget_stopped(home: Path, session_uid: str) -> None:
    """Nothing of a session is to be continued any more."""
    with suppress(OSError):
        _file(home, session_uid).unlink(missing_ok=True)


def _file(home: Path, session_uid: str) -> Path:
    return home / TROUBLES / f"{session_uid}{STOPPED_SUFFIX}"
