"""An agent's stdin that stays open while the agent runs, so that messages can be sent to it."""

from __future__ import annotations

import fcntl
import os
import select
import sys
import termios
from contextlib import suppress

PIPE_BYTES_MAX = 1024 * 1024
"""The largest size of a pipe in the system's default configuration."""


class StdinPipe:
    """An agent's stdin that stays open: a pipe whose other end only we have, so that it is closed when we die.

    The prompt is written before the agent starts, and a message only if there is room for all of it: whenever we die,
    the agent reads whole lines and then the end.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self._is_ours = True
        self._writing: int | None = writing

    @classmethod
    def holding(cls, prompt: bytes) -> StdinPipe | None:
        """Create a pipe with a prompt in it; None if a pipe cannot hold it."""
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
        """Whether messages may still be sent."""
        return self._writing is not None

    def has_room(self, line: bytes) -> bool:
        """Whether a whole line can be sent now."""
        return self._writing is not None and self.is_read and len(line) <= self.line_bytes_max

    @property
    def is_read(self) -> bool:
        """Whether the agent has read everything."""
        if self._writing is None:
            return False
        return int.from_bytes(fcntl.ioctl(self._writing, termios.FIONREAD, b"\0" * 4), sys.byteorder) == 0

    @property
    def line_bytes_max(self) -> int:
        """The longest line that is ever sent."""
        if self._writing is None:
            return 0
        try:
            return fcntl.fcntl(self._writing, fcntl.F_GETPIPE_SZ)
        except (AttributeError, OSError):
            return select.PIPE_BUF

    def give(self, line: bytes) -> bool:
        """Send a line; False if the agent no longer reads."""
        return self._writing is not None and self._is_written(line)

    def _is_written(self, data: bytes) -> bool:
        assert self._writing is not None
        try:
            return os.write(self._writing, data) == len(data)
        except OSError:
            return False

    def close_reading(self) -> None:
        """Close our copy of the agent's end."""
        if self._is_ours:
            os.close(self.reading)
        self._is_ours = False

    def close(self) -> None:
        """Close the pipe: no more messages follow."""
        self.close_reading()
        if self._writing is not None:
            os.close(self._writing)
            self._writing = None
