"""The real clients followed while they write: each entry once, with the number and the words that the store has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.real_clients import shell

if TYPE_CHECKING:
    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow
FIRST = {
    "claude": "echo 'First kestrel.' | claude -p --permission-mode bypassPermissions",
    "codex": "echo 'First kestrel.' | codex exec --skip-git-repo-check -",
}
SECOND = {
    "claude": "echo 'Second kestrel.' | claude -p --resume {} --permission-mode bypassPermissions",
    "codex": "echo 'Second kestrel.' | codex exec resume {} --skip-git-repo-check -",
}
FOLLOWED = """
    {environ} $B show -f --json {uid} >followed 2>said & follower=$!
    for n in $(seq 300); do grep -q Following said && break; sleep 0.1; done
    {second} >/dev/null 2>&1 || exit 4
    for n in $(seq 300); do tail -n 1 followed | grep -q '"turn":2.*"outcome":"completed"' && break; sleep 0.1; done
    kill $follower; wait $follower || exit 5
"""


@pytest.mark.parametrize(("agent", "environ"), [("claude", ""), ("codex", "BACKSTORY_INGEST_AUTO=0")])
def test_a_real_client_is_followed(machine: Machine, agent: str, environ: str) -> None:
    usage = {"input": 1200, "output": 17}
    steps = [
        {"text": f"Step-{n}.", "tools": [shell(agent, f"echo heron-{n}; sleep 0.3")], "usage": usage} for n in "ab"
    ]
    last = {"text": "Step-last.", "usage": usage}
    machine.do(f"{FIRST[agent]} >/dev/null 2>&1", {"text": "Step-first.", "usage": usage})
    machine.ask("ingest")
    (session,) = machine.home_store.sessions()
    second = SECOND[agent].format(session.native_id)
    machine.do(FOLLOWED.format(second=second, uid=session.uid, environ=environ), *steps, last)
    machine.ask("ingest")
    shown = json.loads(machine.ask(f"show --json {session.uid}"))
    lines = [json.loads(line) for line in (machine.work / "followed").read_text("utf-8").splitlines()]
    events: list[dict[str, Any]] = [each["events"][0] for each in lines[1:] if "events" in each]
    assert events == shown["events"]
    assert [each for each in lines if "remark" in each] == []
    turns = [each["turns"][0]["turn"] for each in lines[1:] if "turns" in each]
    assert turns == [2, 2], "one line where it begins, one where its end is known"
