"""Commands that last until they are stopped, or wait for git: every usual way to stop one acts like Ctrl-C."""

from __future__ import annotations

import signal


def stop_on_signals() -> None:
    """SIGTERM, and a terminal that is closed, act like Ctrl-C."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
