"""A terminal's keyboard while a run is shown: what is typed meanwhile is neither echoed nor run by the shell.

Keys that send signals work as always. What was typed until the run ends is discarded: the shell would run it without
a look. The terminal is given back as it was at the end, before a stop (Ctrl-Z), and before a signal ends us.
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
"""Where the modes that hold ECHO are in what termios gives."""


@contextmanager
def quiet_keyboard() -> Iterator[None]:
    """Echo nothing within the block, where stdin is a terminal and ours at this moment."""
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
        """As they were, and will be again."""
        self._before: dict[int, Any] = {}

    def start(self) -> None:
        """Turn echo off, and see to the signals that would leave it so."""
        for number in LEAVING:
            # What is ignored (nohup, a shell without jobs) stays so.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, self._leave)
        self._before[signal.SIGCONT] = signal.signal(signal.SIGCONT, self._come_back)
        self._echo_off()

    def end(self) -> None:
        """Give the terminal back as it was, without what was typed meanwhile."""
        self._restore()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _leave(self, number: int, _frame: FrameType | None) -> None:
        """Do as the signal says, once the terminal is given back."""
        self._restore()
        signal.signal(number, self._before[number])
        os.kill(os.getpid(), number)
        # Who was only stopped is here again when another signal has continued it.
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
        # In the background the terminal is another's, and whoever changes it there is stopped.
        if _is_ours(self._terminal):
            self._set(self._termios.TCSAFLUSH, self._modes)

    def _set(self, when: int, modes: list[Any]) -> None:
        # A terminal that is gone needs nothing.
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
