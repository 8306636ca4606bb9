"""Long sessions with the real clients: a summary appears by itself, the next context is short, and nothing is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backstory.conversation.context import SUMMARY_HEADER
from tests.support.real_clients import AGENTS

if TYPE_CHECKING:
    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow

SUMMARY = "The heron nests in the reeds, and the parser was rewritten because it lost escapes. " * 8
USAGE = {"input": 1200, "output": 17}
WAITED = "for i in $(seq 200); do $B compact --show 2>/dev/null | grep -q heron && break; sleep 0.1; done"
"""Until the summary that nobody asked for is there, 20 s at most."""


def answers(n: int) -> dict[str, Any]:
    return {"text": f"Answer {n}: " + f"word-{n} " * 20_000, "usage": USAGE}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_that_grows_too_long_is_summarised_by_itself(machine: Machine, agent: str) -> None:
    script = f"""
        for n in 1 2 3; do $B run -a {agent} "Prompt $n" >/dev/null || exit 1; done
        {WAITED}
        $B run -a {agent} "Prompt 4" >/dev/null || exit 1
    """
    rules: list[dict[str, Any]] = [
        {"when": "older part of a coding session", "without_tools": True, "turns": [{"text": SUMMARY, "usage": USAGE}]},
        {"when": "Prompt 4", "turns": [{"text": "Short.", "usage": USAGE}]},
    ]
    _, err, code = machine.end(machine.start(script, [answers(n) for n in (1, 2, 3)], rules))
    assert code == 0, err
    assert "is being summarised in the background" in err

    (session,) = machine.store.sessions()
    summary = machine.store.compaction_in_force(session)
    assert summary is not None
    assert summary.summary == SUMMARY.strip()
    assert [turn.outcome for turn in machine.store.turns(session)] == ["completed"] * 4
    requests = [json.loads(line)["body"] for line in machine.requests.read_text().splitlines() if '"body"' in line]
    (fourth,) = [text for body in requests if "Prompt 4" in (text := json.dumps(body))]
    assert SUMMARY_HEADER in fourth
    assert "word-1" not in fourth
    assert "word-3" in fourth
    shown = machine.do("$B show --full")
    assert all(shown.count(f"word-{n} ") + shown.count(f"word-{n}\n") == 20_000 for n in (1, 2, 3))
    listed = json.loads(machine.do("$B ingest >/dev/null 2>&1; $B list --all --json"))
    assert len(listed) == 1
    assert machine.do("$B search 'older part of a coding session' || true") == ""
    machine.check()
