"""Runs of the real agents know when everything in them happened, also when it is all derived again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.real_clients import AGENTS, shell

if TYPE_CHECKING:
    from backstory.store import Store
    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow

TOOL_MS = 600
RUNS = "session_id = (select id from main.sessions where owner is not null)"
OF_EACH = {
    "events": f"select kind, at from main.events where {RUNS} order by seq, part",
    "refs": f"select ref_value, created_at from main.session_refs where {RUNS}",
    "files": f"select file_path, first_seen_at from main.session_files where {RUNS}",
    "calls": f"select command, at from tool_calls where {RUNS}",
    "as ah has them": f"select kind, created_at from events where {RUNS} order by seq, part",
}
"""Each row of the session that was run of the tables that tell times, with its time."""


def rows(store: Store, query: str) -> list[tuple[Any, ...]]:
    return list(store.execute_read_only(query).rows)


def times(machine: Machine) -> dict[str, list[tuple[Any, ...]]]:
    """What happened in a run, and when; the same in the project's store and in the machine's."""
    with machine.store as own, machine.home_store as home:
        found, there = ({name: rows(store, query) for name, query in OF_EACH.items()} for store in (own, home))
        assert found == there
    return found


@pytest.mark.parametrize("agent", AGENTS)
def test_everything_in_a_run_has_its_time_and_keeps_it_when_it_is_derived_again(machine: Machine, agent: str) -> None:
    (machine.work / "heron.md").write_text("It nests in the reeds.\n")
    call = shell(agent, f"cat heron.md; sleep {TOOL_MS / 1000}")
    ran = machine.run(
        agent, "Where does the heron nest?", {"text": "I look it up.", "tools": [call]}, {"text": "See ABC-12, and #7."}
    )
    machine.ask("ingest")
    found = times(machine)
    assert [name for name, told in found.items() if not told] == []
    assert [row for told in found.values() for row in told if row[-1] is None] == []
    at = [when for _, when in found["events"]]
    assert at == sorted(at)
    assert at[0] == ran.turn.started
    assert at[-1] <= ran.turn.ended
    with machine.store as store:
        ((took_ms,),) = rows(store, "select duration_ms from tool_calls")
    # Codex says that a tool runs when it has run for a while.
    assert TOOL_MS / 3 <= took_ms < TOOL_MS + 5_000
    machine.ask("reindex")
    machine.ask("reindex --store .backstory/sessions.bks")
    assert times(machine) == found
    machine.check()
