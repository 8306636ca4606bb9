"""A command in a terminal of its own: when something is seen after a key, and what the command has used by then."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from bench.watch import cpu_s, memory_mb

if TYPE_CHECKING:
    from typing import Self

    from bench.measuring import Command

COLUMNS, LINES = 160, 50
LIMIT_S = 20.0
QUIET_S = 0.15
"""Nothing more follows what came so long ago."""
AT_ONCE = 1 << 16


class NotSeen(Exception):
    """What was waited for did not come; the end of what came instead."""


class Terminal:
    """A command while it runs in a terminal, which reads all that it writes."""

    def __init__(self, command: Command) -> None:
        self._began = time.perf_counter()
        self.pid, self._fd = pty.fork()
        if not self.pid:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
            os.chdir(command.cwd)
            named = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
            os.execve(command.words[0], list(command.words), dict(command.env) | named)
        self._seen = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._fd)

    def ms_until(self, seen: str) -> float:
        """The ms from the last key, or the start, until the text matches what came since. Raises NotSeen."""
        wanted = re.compile(seen.encode())
        while not wanted.search(self._seen):
            self._take(LIMIT_S, seen)
        return (time.perf_counter() - self._began) * 1000

    def press(self, keys: str, seen: str = "") -> float:
        """The ms from these keys until the text is seen; without one until anything is. Raises NotSeen."""
        while select.select([self._fd], [], [], QUIET_S)[0]:
            self._take(LIMIT_S, "anything")
        self._seen = b""
        self._began = time.perf_counter()
        self.write(keys)
        if seen:
            return self.ms_until(seen)
        self._take(LIMIT_S, "anything")
        return (time.perf_counter() - self._began) * 1000

    def seen_ms(self, key: str, seen: str) -> float:
        """The ms until a text is seen that a key completes, whatever else is written meanwhile. Raises NotSeen."""
        self._seen, self._began = b"", time.perf_counter()
        self.write(key)
        return self.ms_until(seen)

    def write(self, keys: str) -> None:
        """Give the command keys, reading what it writes meanwhile."""
        left = keys.encode()
        while left:
            reads, writes, _ = select.select([self._fd], [self._fd], [], LIMIT_S)
            if reads:
                self._seen += os.read(self._fd, AT_ONCE)
            if writes:
                left = left[os.write(self._fd, left[:1024]) :]

    def rest(self, seconds: float) -> None:
        """Read what comes for a while."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            if select.select([self._fd], [], [], left)[0]:
                self._seen += os.read(self._fd, AT_ONCE)

    def cpu_ticks(self, seconds: float) -> int:
        """The ticks of a processor, 10 ms each, that the command uses in a while."""
        before = cpu_s(self.pid)
        self.rest(seconds)
        return round((cpu_s(self.pid) - before) * os.sysconf("SC_CLK_TCK"))

    def memory_mb(self) -> float:
        """What the command has in memory."""
        return memory_mb(self.pid)[0]

    def _take(self, limit_s: float, what: str) -> None:
        if not select.select([self._fd], [], [], limit_s)[0]:
            raise NotSeen(f"{what} was not seen: {self._seen[-500:]!r}")
        try:
            self._seen += os.read(self._fd, AT_ONCE)
        except OSError as ended:
            raise NotSeen(f"{what} was not seen before the end: {self._seen[-500:]!r}") from ended
