"""Stopping an agent: interrupted first, killed if it continues. Causes: a person, Ctrl-C, silence and a full disk."""

from __future__ import annotations

import os
import select
import shutil
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from backstory.runs.lock import LOCK_S, POLL_S, is_held
from backstory.runs.spool import running_runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backstory.runs.spool import Spool


LOOK_S = 1.0
DISK_BYTES_LEAST = 64 * 1024 * 1024
"""With less free space on the disk an agent is stopped, so that its output can still be stored."""
INTERRUPTS_MAX = 2
INTERRUPT_S = 5.0
"""The time in which an agent must stop; then it is killed with all its child processes."""


class Terminated(KeyboardInterrupt):
    """This process was told to end while an agent answered, by a signal that is no Ctrl-C."""


class EndOf:
    """Waits, but no longer than a process lives, if the system reports its end."""

    def __init__(self, pid: int) -> None:
        self._files: list[int] = []
        with suppress(AttributeError, OSError):
            self._files = [os.pidfd_open(pid)]

    def __enter__(self) -> EndOf:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            os.close(file)

    def wait(self, seconds: float) -> None:
        """Wait for this time, or until the process ends."""
        select.select(self._files, [], [], seconds)


class Stopping:
    """Decides when an agent is interrupted, and when it is killed."""

    def __init__(self, spool: Spool, silence_s: float) -> None:
        self._spool, self._silence_s = spool, silence_s
        self._last_word = self._last_look = time.monotonic()
        self._asked: float | None = None
        self._interrupts = 0
        self._is_stopping = self._is_killed = False
        self._before: Any = None

    def __enter__(self) -> Stopping:
        if threading.current_thread() is threading.main_thread():
            # Python sets handlers in its main thread only; in another one a run is stopped by cancelling it.
            self._before = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _interrupted(self, _number: int, _frame: object) -> None:
        # The handler acts at once, also if nobody reads our output; it raises only after the agent was killed, because
        # the exception could occur anywhere.
        self._interrupts += 1
        if self._is_stopping:
            # The previous signal is still being handled: killing an agent must not be interrupted.
            return
        # Those that came while the first was handled are counted, and have killed nothing.
        if self._interrupts > INTERRUPTS_MAX and self._is_killed:
            raise KeyboardInterrupt
        self._is_stopping = True
        try:
            self._stop(time.monotonic())
        finally:
            self._is_stopping = False

    @property
    def was_asked(self) -> bool:
        """True if the agent was asked to stop."""
        return self._asked is not None

    @property
    def was_interrupted(self) -> bool:
        """True if it was asked by an interrupt of this process."""
        return self._interrupts > 0

    def look(self, *, came: bool) -> None:
        """Record whether output came; act on silence, on a full disk, and on an agent that does not stop."""
        now = time.monotonic()
        self._last_word = now if came else self._last_word
        if self._asked is not None and now - self._asked > INTERRUPT_S:
            self._spool.kill()
        elif self._asked is None and 0 < self._silence_s < now - self._last_word:
            self._stop(now, f"Stopped: no output for {self._silence_s:.0f} s (the setting run.silence_s).")
        elif self._asked is None and now - self._last_look > LOOK_S:
            self._last_look = now
            if shutil.disk_usage(self._spool.folder).free < DISK_BYTES_LEAST:
                self._stop(now, "Stopped: the disk is nearly full.")

    def _stop(self, now: float, why: str = "") -> None:
        """Interrupt it; the second time, kill it."""
        if self._asked is not None:
            self._spool.kill()
            self._is_killed = True
            return
        self._asked = now
        self._spool.cancel(why)


# stopping what runs a session -----------------------------------------------------------------------------------------


def running(home: Path, session_uid: str) -> list[Spool]:
    """The runs of a session whose agent is alive."""
    return [spool for spool, run in running_runs(home) if run.session_uid == session_uid]


def running_soon(home: Path, session_uid: str) -> list[Spool]:
    """The same; where somebody holds the session for a run that is about to begin, that is waited for."""
    deadline = time.monotonic() + LOCK_S
    while not (found := running(home, session_uid)) and is_held(home, session_uid) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return found


def stop(spools: Sequence[Spool]) -> None:
    """Ask agents to stop; one that does not listen is killed with all that it started."""
    for spool in spools:
        was_asked = spool.pid is not None
        spool.cancel()
        deadline = time.monotonic() + INTERRUPT_S
        while spool.is_alive and time.monotonic() < deadline:
            if not was_asked and spool.pid is not None:
                # It was only about to begin.
                spool.interrupt()
                was_asked = True
            time.sleep(POLL_S)
        spool.kill()
