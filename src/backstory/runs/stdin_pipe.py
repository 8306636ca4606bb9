"""An agent's stdin that stays open while the agent runs, so that words can be handed over to it."""

from __future__ import annotations

import fcntl
import os
import select
import sys
import termios
from contextlib import suppress

PIPE_BYTES_MAX = 1024 * 1024
"""A pipe holds so much at most, where the system is not told otherwise."""


class StdinPipe:
    """An agent's stdin that stays open: a pipe whose other end only we have, so that it ends when we do.

    The prompt is in it before the agent begins, and a word only if there is room for all of it: whenever we die, what
    the agent reads is whole lines and an end.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self._is_ours = True
        self._writing: int | None = writing

    @classmethod
    def holding(cls, prompt: bytes) -> StdinPipe | None:
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
