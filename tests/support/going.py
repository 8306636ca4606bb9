"""A run that goes on while it is shown."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

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


class Going:
    """A run that has said what its script says and waits to be told to go on."""

    def __init__(self, bench: Bench, *script: dict[str, Any], then: tuple[dict[str, Any], ...] = (GOOD,)) -> None:
        self.bench, self.go = bench, bench.root / "go"
        said = bench.root / "said"
        steps = [*script, {"touch": str(said)}, {"wait_for": str(self.go)}, *then]
        self.process: subprocess.Popen[str] = bench.start("run", "-a", "claude", "Where now?", script=steps)
        until(said.exists)

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
        self.process.communicate(timeout=DEADLINE_S)


def states(bench: Bench) -> list[str]:
    return [each["state"] for each in json.loads(bench.backstory("ps", "--json").stdout)]
