"""What the agents' own logs of recorded runs say of the runs' streams."""

from __future__ import annotations

import json
from typing import Any

from backstory import agents
from backstory.agents.jsonl import lines_of
from backstory.model import RunFacts
from tests.support.every import every
from tests.support.reading import CASES
from tests.support.streaming import STREAMS

PAIRS = [
    (agent, name)
    for agent in ("claude", "codex")
    for name in sorted(each.name for each in (CASES / agent).iterdir())
    if (STREAMS / agent / f"{name}.jsonl").exists() and next((CASES / agent / name).glob("*.jsonl"), None)
]


def recorded(agent: str, name: str) -> tuple[list[tuple[int, bytes]], list[bytes]]:
    """A recorded run's stream with its offsets, and its log."""
    data = (STREAMS / agent / f"{name}.jsonl").read_bytes()
    stream = [(start, line) for start, _, line in lines_of([data]) if line]
    log = sorted((CASES / agent / name).glob("*.jsonl"))[0].read_bytes().splitlines()
    return stream, log


def facts(agent: str, stream: list[tuple[int, bytes]], log: list[bytes]) -> RunFacts:
    own_log = agents.load(agent).own_log
    assert own_log is not None
    return own_log.run_facts(stream, log)


def items(stream: list[tuple[int, bytes]], kind: str) -> list[int]:
    """The offsets at which items of a kind were begun, or done where that is all."""
    found = [(offset, json.loads(line)) for offset, line in stream]
    return [offset for offset, each in found if each.get("item", {}).get("type") == kind]


@every(("agent", "name"), PAIRS)
def test_what_a_log_says_is_of_records_that_were_streamed(agent: str, name: str) -> None:
    stream, log = recorded(agent, name)
    found, offsets = facts(agent, stream, log), {offset for offset, _ in stream}
    assert found.times.keys() <= offsets
    assert found.inputs.keys() <= offsets


def test_there_are_recorded_pairs_of_both_agents() -> None:
    assert {agent for agent, _ in PAIRS} == {"claude", "codex"}


def test_each_text_command_and_edit_of_codex_is_found_in_its_log() -> None:
    stream, log = recorded("codex", "tools")
    found = facts("codex", stream, log)
    for kind in ("agent_message", "reasoning", "command_execution", "file_change"):
        places = items(stream, kind)
        assert places
        assert found.times.keys() >= set(places)
    begun = items(stream, "file_change")[::2]
    assert list(found.inputs) == begun
    times = [found.times[offset] for offset in sorted(found.times)]
    assert times == sorted(times)


def test_the_same_command_twice_is_found_in_order() -> None:
    stream, log = recorded("codex", "tools")
    first = facts("codex", stream, log)
    length = stream[-1][0] + len(stream[-1][1]) + 1
    again = facts("codex", stream + [(length + offset, line) for offset, line in stream], log + later(log))
    assert {offset - length: at for offset, at in again.times.items() if offset > length} == {
        offset: at + HOUR_MS for offset, at in first.times.items() if offset
    }


HOUR_MS = 3_600_000


def later(log: list[bytes]) -> list[bytes]:
    """The same records an hour later."""
    records: list[Any] = [json.loads(line) for line in log]
    for each in records:
        hour = int(each["timestamp"][11:13]) + 1
        each["timestamp"] = f"{each['timestamp'][:11]}{hour:02}{each['timestamp'][13:]}"
        if isinstance(each["payload"], dict) and "started_at_ms" in each["payload"]:
            each["payload"]["started_at_ms"] += HOUR_MS
    return [json.dumps(each).encode() for each in records]


def test_another_runs_log_says_nothing() -> None:
    (stream, log), (_, other) = recorded(*PAIRS[0]), recorded("codex", "tools")
    assert facts(PAIRS[0][0], stream, log).times
    assert facts(PAIRS[0][0], stream, other) == RunFacts()


def test_an_edit_of_other_files_is_not_taken_for_this_one() -> None:
    stream, log = recorded("codex", "tools")
    elsewhere = [line.replace(b"/work/new.md", b"/work/other.md") for line in log]
    assert facts("codex", stream, elsewhere).inputs == {}


def test_records_of_claude_are_found_by_their_uuids() -> None:
    stream = [(0, b'{"type":"assistant","uuid":"a"}'), (40, b'{"type":"user","uuid":"b"}'), (80, b'{"type":"result"}')]
    log = [b'{"uuid":"b","timestamp":"2026-01-01T00:00:01.500Z"}', b'{"uuid":"c","timestamp":"2026-01-01T00:00:02Z"}']
    assert facts("claude", stream, log) == RunFacts(times={40: 1767225601500})
