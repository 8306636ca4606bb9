"""The agents that run a session, and how a person stops them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from backstory.runs.lease import is_held
from backstory.runs.runner import LOCK_S, POLL_S
from backstory.runs.stopping import INTERRUPT_S
from backstory.workspace.running import running_runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backstory.runs.spool import Spool


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
