"""A log of Copilot that was rewound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.machines import lines

if TYPE_CHECKING:
    from tests.support.shell import Shell

SESSION = "514f3844-2975-44e4-a4d0-211fd59e36e9"
LOG = Path(".copilot/session-state") / SESSION / "events.jsonl"


def record(kind: str, number: int, **data: Any) -> bytes:
    at = f"2026-11-21T21:{number // 60:02}:{number % 60:02}.000Z"
    return json.dumps({"type": kind, "data": data, "id": f"{kind}-{number}", "timestamp": at}).encode()


def turn(number: int) -> list[bytes]:
    asked = record("user.message", 2 * number, content=f"prompt {number}")
    return [asked, record("assistant.message", 2 * number + 1, content=f"answer {number}", messageId=str(number))]


def log(*numbers: int) -> bytes:
    begun = record("session.start", 0, sessionId=SESSION, context={"cwd": "/w"})
    return lines(begun, *[line for number in numbers for line in turn(number)])


def put(shell: Shell) -> Shell:
    """Have a machine know a session with two branches."""
    path = shell.home / LOG
    path.parent.mkdir(parents=True)
    for numbers in ((1, 2, 3), (1, 2, 4, 5)):
        path.write_bytes(log(*numbers))
        assert shell("ingest").code == 0
    return shell
