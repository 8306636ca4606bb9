"""What is kept of a log that goes on: small, and read by later versions."""

from __future__ import annotations

import json
from pathlib import Path

from backstory.agents.claude import AGENT
from backstory.agents.claude.reader import Reader
from backstory.model import LogIdentity
from tests.support.claude_records import SESSION, answer, assistant, user


def test_the_state_stays_small_however_long_the_log() -> None:
    lines = []
    for number in range(3_000):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {}}
        lines += [user(f"prompt {number}", f"p{number}"), answer("x" * 100, f"a{number}"), assistant(call)]
    identity = AGENT.log.identify(Path(f"{SESSION}.jsonl"), lines[0])
    assert identity is not None
    reader = AGENT.log.reader(identity, None, lambda: ())
    for seq, line in enumerate(lines, start=1):
        reader.read(line, seq)
    assert len(reader.state()) < 500_000


def test_a_state_of_a_version_that_knew_less_is_read() -> None:
    state = b'{"usage": {"m/": [10, 1, 0, 4]}}'
    reader = Reader(LogIdentity(native_id="s"), state, lambda: ())
    assert reader._state.usage == {"m/": (10, 1, 0, 4)}


def test_the_state_has_the_names_that_stores_hold() -> None:
    state = json.loads(Reader(LogIdentity(native_id=SESSION), None, lambda: ()).state())
    assert set(state) == {
        "session", "title_rank", "turn", "turns_seen", "usage", "unfinished", "finished", "calls", "last_anchor",
        "recent", "heads", "cost_seen", "turn_without_base", "latency", "plans", "queued", "told", "absorbed",
        "command",
    }  # fmt: skip
