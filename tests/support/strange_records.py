"""A log whose client writes types of records, and keys, that nobody knows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

SESSION = "11111111-2222-4333-8444-555555555555"
AT = "2026-05-01T10:00:00.000Z"


def record(number: int, version: str = "2.9.0", **more: Any) -> dict[str, Any]:
    """A record of a log, as its client writes it."""
    head = {"uuid": f"00000000-0000-4000-8000-{number:012}", "parentUuid": None, "sessionId": SESSION, "cwd": "/w"}
    return head | {"timestamp": AT, "version": version, "isSidechain": False, "userType": "external"} | more


PROMPT = record(1, type="user", message={"role": "user", "content": "go"})
NEW_KEY = record(2, type="user", message={"role": "user", "content": "on", "mood": {"of": "Ann"}})
NEW_TYPE = record(3, type="telepathy", said="x")


def put(shell: Shell, *records: dict[str, Any], name: str = SESSION) -> Path:
    path = shell.home / ".claude" / "projects" / "-w" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in records), "utf-8")
    assert shell("ingest").code == 0
    return path
