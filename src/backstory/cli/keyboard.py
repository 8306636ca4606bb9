"""The keyboard of a terminal while a run is shown: keys typed meanwhile are neither echoed nor run by the shell.

Keys that send signals work as always. Other input until the end of the run is discarded: the shell would execute it
unseen. The terminal's modes are restored at the end, before a stop (Ctrl-Z), and before a signal ends us.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

LEAVING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
"""Signals that end us or stop us."""
LOCAL_MODES = 3
"""The index of the modes with ECHO in what ``tcgetattr`` returns."""


@contextmanager
def quiet_keyboard() -> Iterator[None]:
    """Echo nothing within the block, if stdin is a terminal and we are in its foreground."""
    terminal = _terminal()
    if terminal is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    quiet = _Quiet(terminal)
    quiet.start()
    try:
        yield
    finally:
        quiet.end()


class _Quiet:
    """One terminal without echo."""

    def __init__(self, terminal: int) -> None:
        import termios

        self._terminal, self._termios = terminal, termios
        self._modes: list[Any] = termios.tcgetattr(terminal)
        """The modes to restore."""
        self._before: dict[int, Any] = {}

    def start(self) -> None:
        """Turn echo off, and handle the signals that would leave it off."""
        for number in LEAVING:
            # An ignored signal (nohup, a shell without jobs) stays ignored.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, self._leave)
        self._before[signal.SIGCONT] = signal.signal(signal.SIGCONT, self._come_back)
        self._echo_off()

    def end(self) -> None:
        """Restore the terminal, and discard input typed meanwhile."""
        self._restore()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _leave(self, number: int, _frame: FrameType | None) -> None:
        """Restore the terminal, then let the signal act."""
        self._restore()
        signal.signal(number, self._before[number])
        os.kill(os.getpid(), number)
        # A stopped process continues here when another signal arrives.
        signal.signal(number, self._leave)
        self._echo_off()

    def _come_back(self, _number: int, _frame: FrameType | None) -> None:
        self._echo_off()

    def _echo_off(self) -> None:
        if _is_ours(self._terminal):
            modes = list(self._modes)
            modes[LOCAL_MODES] &= ~(self._termios.ECHO | self._termios.ECHONL)
            self._set(self._termios.TCSANOW, modes)

    def _restore(self) -> None:
        # A background process that changes the terminal is stopped by the system.
        if _is_ours(self._terminal):
            self._set(self._termios.TCSAFLUSH, self._modes)

    def _set(self, when: int, modes: list[Any]) -> None:
        # A terminal that is gone needs no change.
        with suppress(self._termios.error):
            self._termios.tcsetattr(self._terminal, when, modes)


def _terminal() -> int | None:
    """The file of stdin, where that is a terminal in whose foreground we are."""
    try:
        terminal = sys.stdin.fileno()
    except (ValueError, OSError):
        return None
    return terminal if os.isatty(terminal) and _is_ours(terminal) else None


def _is_ours(terminal: int) -> bool:
    """Whether we are in the foreground of a terminal."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
