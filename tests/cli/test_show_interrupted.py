"""A call that was cut off by a stop is said to be interrupted, one that a person declined to be refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support import claude_records as records

if TYPE_CHECKING:
    from tests.support.shell import Shell

REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected"


def shown(shell: Shell, *then: bytes) -> str:
    path = shell.home / ".claude" / "projects" / "p" / f"{records.SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "sleep 300"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": REFUSED, "is_error": True}
    path.write_bytes(b"\n".join([records.user("go"), records.assistant(call), records.user([result]), *then, b""]))
    assert shell("ingest").code == 0
    (session,) = shell("list", "--all", "--json").json()["sessions"]
    return shell("show", session["uid"]).out


def test_a_call_that_a_stop_cut_off_is_interrupted(bare: Shell) -> None:
    text = shown(bare, records.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}]))
    assert "sleep 300  interrupted" in text
    assert "refused" not in text


def test_a_call_that_a_person_declined_is_refused(bare: Shell) -> None:
    assert "sleep 300  refused" in shown(bare, records.user("use a shorter time"))
