"""A sync that goes on: what is new is sent a moment after it came, and while nothing changes nothing is asked.

Where the server does not answer, what is new waits, and it is asked again less and less often.
"""

from __future__ import annotations

import math
import random
import time
from typing import TYPE_CHECKING

from backstory.errors import ServerBusy, ServerUnreachable
from backstory.sync.remote import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from backstory.sync.uploading import Sent

FLUSH_S = 2.0
"""The longest that something new waits while the server answers …"""
FLUSH_BYTES = 64 * 1024
"""… and the bytes of logs for which it is not waited."""
AWAY_S_MAX = 60.0
"""The longest time between two tries while it does not."""

SIDES = "", "-wal"
"""The endings of the files that change with what a store has."""


class SteadySync:
    """Sends what is new. ``files``: of the stores; ``send`` does one sync, or gives None where it cannot yet.

    ``say`` receives troubles, each once.
    """

    def __init__(
        self, files: Callable[[], Iterable[Path]], send: Callable[[], Sent | None], say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._files, self._send, self._say, self._clock = files, send, say, clock
        self._seen: list[tuple[int, int]] | None = None
        self._since, self._bytes = math.inf, 0
        """The time since which something waits, and the bytes of logs that came since."""
        self._wait = self._retry_at = 0.0

    def came(self, size: int) -> None:
        """Count bytes of logs that were read into the store."""
        self._bytes += size

    def tick(self) -> Sent | None:
        """Send if it is time to; None if it is not. Raises ServerRefused, LoginRefused."""
        now, seen = self._clock(), [file_state(each) for each in self._files()]
        if seen != self._seen:
            self._since = min(self._since, -math.inf if self._seen is None else now)
            self._seen = seen
        if self._since == math.inf or now < self._retry_at:
            return None
        if now - self._since < FLUSH_S and self._bytes < FLUSH_BYTES:
            return None
        since, size = self._since, self._bytes
        self._since, self._bytes = math.inf, 0
        try:
            done = self._send()
        except (ServerUnreachable, ServerBusy) as refused:
            self._since, self._bytes = since, size
            self._rest(refused)
            return None
        if done is None:
            self._since, self._bytes = since, size
            return None
        if self._wait:
            self._say("The team server answers again.")
        self._wait = self._retry_at = 0.0
        return done

    def _rest(self, refused: ServerUnreachable | ServerBusy) -> None:
        if not self._wait:
            self._say(f"{refused} What is new waits here until it does.")
        self._wait = min(max(self._wait * 2, WAIT_S), AWAY_S_MAX)
        asked = refused.retry_s if isinstance(refused, ServerBusy) else 0.0
        self._retry_at = self._clock() + max(self._wait * random.uniform(0.5, 1.0), asked)


def file_state(path: Path) -> tuple[int, int]:
    """A value that changes when a file does; of one that is not there, or has nothing, it is the same."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return (found.st_mtime_ns, found.st_size) if found.st_size else (0, 0)
