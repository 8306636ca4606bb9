"""A process beside a server that derives what came, so that no answer waits for it. It ends when the server does.

What it was at when it was killed is done by the next one: see ``server.jobs``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from backstory.errors import DatabaseUnusable
from backstory.server.database import TeamDatabase
from backstory.server.deriving import Deriving
from backstory.server.live_runs import LiveRuns

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = (sys.executable, "-P", "-c", "from backstory.server.working import serve; serve()")
ASKED_EVERY_S = 1.0
NICE = 10
ENDS_IN_S = 5


@contextmanager
def working(address: str, folder: Path) -> Iterator[None]:
    """Have what comes derived while this lasts. ``address``: of the database; ``folder``: for files of the work."""
    over = threading.Event()
    keeper = threading.Thread(target=_keep, args=(address, folder, over), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join(2 * ENDS_IN_S)


def _keep(address: str, folder: Path, over: threading.Event) -> None:
    """Begin the process, and another one where it ends before its time."""
    while not over.is_set():
        process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            # Not in its arguments, which others on the machine can read: it may hold a password.
            process.stdin.write(msgspec.json.encode([address, str(folder)]) + b"\n")
            process.stdin.flush()
        while process.poll() is None and not over.wait(ASKED_EVERY_S):
            pass
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(ENDS_IN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def serve() -> None:
    """Work for the server that stdin tells of, until that is closed."""
    address, folder = msgspec.json.decode(sys.stdin.buffer.readline(), type=tuple[str, str])
    threading.Thread(target=_end_with_server, daemon=True).start()
    os.nice(NICE)
    with TeamDatabase(address) as database:
        deriving, live, has_begun = Deriving(database, Path(folder)), LiveRuns(database), False
        while True:
            with suppress(DatabaseUnusable):
                if not has_begun:
                    deriving.begin()
                    has_begun = True
                deriving.work()
                live.erase_old()
            time.sleep(ASKED_EVERY_S)


def _end_with_server() -> None:
    sys.stdin.buffer.read()
    # What is half done is not kept, and free again after a while.
    os._exit(0)
