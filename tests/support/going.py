"""A run that goes on while it is shown."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.store.file.waiting import holder_of
from backstory.store.tables.queue import path_beside
from tests.support.bench import Bench

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

GOOD = {"result": True}
DEADLINE_S = 120


def until(condition: Callable[[], object]) -> None:
    """Poll; a test that waits too long fails here."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def delta(text: str) -> dict[str, str]:
    """A step of the scripted agent: a piece of an answer, as it is streamed."""
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return {"raw": json.dumps({"type": "stream_event", "event": event}) + "\n"}


def stop_without_locks(bench: Bench, process: subprocess.Popen[str]) -> None:
    """Stop a process where nobody holds a lock for which others would wait in vain; nothing if it has ended."""
    store = bench.project / ".backstory" / "sessions.bks"
    while process.poll() is None:
        process.send_signal(signal.SIGSTOP)
        until(lambda: state(process.pid) in "TZ")
        if not any(map(holder_of, (path_beside(store), store))):
            return
        process.send_signal(signal.SIGCONT)


class Going:
    """A run that has said what its script says and waits to be told to go on."""

    def __init__(self, bench: Bench, *script: dict[str, Any], then: tuple[dict[str, Any], ...] = (GOOD,)) -> None:
        self.bench, self.go = bench, bench.root / "go"
        said = bench.root / "said"
        steps = [*script, {"touch": str(said)}, {"wait_for": str(self.go)}, *then]
        self.process: subprocess.Popen[str] = bench.start("run", "-a", "claude", "Where now?", script=steps)
        until(said.exists)

    def stop_backstory(self) -> None:
        """Stop it; it goes on when it is killed, or at the end."""
        stop_without_locks(self.bench, self.process)

    def kill_backstory(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end_agent(self) -> None:
        self.go.touch()
        until(lambda: states(self.bench) in ([], ["waiting"]))

    def __enter__(self) -> Going:
        return self

    def __exit__(self, *_: object) -> None:
        self.go.touch()
        # One that a test left stopped, because it failed, would never end.
        self.process.send_signal(signal.SIGCONT)
        self.process.communicate(timeout=DEADLINE_S)


def states(bench: Bench) -> list[str]:
    return [each["state"] for each in json.loads(bench.backstory("ps", "--json").stdout)["runs"]]


def state(pid: int) -> str:
    """The state of a process, as the system names it: "T" for one that is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
