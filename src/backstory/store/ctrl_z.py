"""A transaction is not stopped by a key: whoever stopped there would keep the lock until he is waked."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def put_off() -> Iterator[None]:
    """What would stop this thread from the terminal is heard when the block ends."""
    if sys.platform == "win32":
        yield
        return
    stops = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
