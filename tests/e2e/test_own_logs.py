"""What the agents' own logs say of runs of the real agents: the run has it, once, in either order of reading."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backstory.derive.essence import changed_lines
from backstory.exchange import replication
from backstory.model import AssistantText, ToolCall
from backstory.store import open_store
from tests.support.real_clients import AGENTS, shell

if TYPE_CHECKING:
    from backstory.store import Store
    from tests.support.real_clients import DoneOnce, Machine

pytestmark = pytest.mark.slow

PROMPT = "Where does the heron nest?"
ANSWER = "In-the-reeds-1181."


def editing(agent: str, machine: Machine) -> list[dict[str, Any]]:
    """A model that has a file written and changed, by the agent's own means."""
    path, usage = str(machine.work / f"{agent}.txt"), {"input": 1200, "output": 17}
    calls = [
        {"name": "Write", "input": {"file_path": path, "content": "heron\notter\n"}},
        {"name": "Edit", "input": {"file_path": path, "old_string": "otter", "new_string": "badger"}},
    ]
    if agent == "codex":
        patches = (f"*** Add File: {path}\n+heron\n+otter", f"*** Update File: {path}\n@@\n heron\n-otter\n+badger")
        calls = [shell(agent, f"apply_patch <<'E'\n*** Begin Patch\n{each}\n*** End Patch\nE\n") for each in patches]
    steps = [{"text": f"Step-{n}.", "tools": [call], "usage": usage} for n, call in enumerate(calls)]
    return [*steps, {"text": ANSWER, "usage": usage}]


def edited(machine: Machine, agent: str) -> None:
    """A run in which a file is written and changed, and its own log read."""
    machine.run(agent, PROMPT, *editing(agent, machine))
    machine.ask("ingest")


def told(store: Store) -> list[Any]:
    """All that a store says of its first session of ours, but for where its records lie."""
    session = store.session("S1")
    return [
        [(each.seq, each.part, each.at, each.kind, each.char_len, each.event) for each in store.events(session)],
        store.turns(session),
        store.execute_read_only("select file_path, first_seen_at from session_files order by 1").rows,
    ]


def logged_times(machine: Machine, turn_uid: str) -> list[int | None]:
    """When the texts of a run were written, as the agent's own log says."""
    home = machine.home_store
    (own,) = (home.session(log.session_id) for log in home.logs() if log.kind == "file")
    assert [turn.uid for turn in home.turns(own)] == [turn_uid]
    return [each.at for each in home.events(own) if isinstance(each.event, AssistantText)]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_run_has_what_the_agents_own_log_tells(done_once: DoneOnce, agent: str) -> None:
    machine = done_once(edited, agent)
    for store in (machine.store, machine.home_store):
        session = store.session("S1")
        (turn,) = store.turns(session)
        assert turn.model is not None
        assert (turn.tokens.input, turn.tokens.output, turn.tokens.largest_input) == (3600, 51, 1200)
        events = store.events(session)
        _, edit = (each.event for each in events if isinstance(each.event, ToolCall))
        assert list(changed_lines(edit)) == [("-", "otter"), ("+", "badger")]
        times = {each.event.text: each.at for each in events if isinstance(each.event, AssistantText)}
        assert list(times.values()) == logged_times(machine, turn.uid)
        assert list(times) == ["Step-0.", "Step-1.", ANSWER]
    assert told(machine.store) == told(machine.home_store)
    (listed,) = json.loads(machine.ask("list --json"))["sessions"]
    assert (listed["cost_usd"] or 0) > 0
    assert listed["cost_kind"] == ("computed" if agent == "codex" else "exact")
    machine.check()


@pytest.mark.parametrize("agent", AGENTS)
def test_what_the_own_log_tells_is_the_same_after_reindex(done_once: DoneOnce, agent: str) -> None:
    machine = done_once(edited, agent)
    before = told(machine.store), told(machine.home_store)
    machine.ask("reindex --force")
    machine.ask("--store .backstory/sessions.bks reindex --force")
    assert (told(machine.store), told(machine.home_store)) == before
    machine.check()


@pytest.mark.parametrize("agent", AGENTS)
def test_a_log_that_was_read_before_its_run_was_stored_tells_the_run_the_same(done_once: DoneOnce, agent: str) -> None:
    machine = done_once(edited, agent)
    logs_only = machine.root / "logs.db"
    machine.ask(f"--store {logs_only} ingest")
    with open_store(logs_only, shared=True) as store:
        replication.copy_session(store, machine.store, machine.store.session("S1").uid)
        before = told(store)
    machine.ask(f"--store {logs_only} ingest")
    with open_store(logs_only, shared=True) as store:
        assert told(store) == told(machine.home_store)
        assert before[1] == told(store)[1]


RESUMED = {
    "claude": "echo 'Native kestrel.' | claude -p --resume {} --permission-mode bypassPermissions",
    "codex": "echo 'Native kestrel.' | codex exec resume {} --skip-git-repo-check -",
}


@pytest.mark.parametrize("agent", AGENTS)
def test_after_a_native_resume_nothing_is_shown_twice(done_once: DoneOnce, agent: str) -> None:
    machine = done_once(edited, agent)
    (turn,) = machine.store.turns(1)
    machine.do(f"{RESUMED[agent].format(turn.native_id)} > /dev/null 2>&1", {"text": "Marten-4404."})
    machine.ask("ingest")
    newer, ours = json.loads(machine.ask("list --all --json"))["sessions"]
    assert (ours["number"], ours["turn_count"], newer["turn_count"]) == ("S1", 1, 1)
    assert newer["parent_uid"] == ours["uid"]
    for text, session in ((ANSWER, ours), ("kestrel", newer), ("Marten-4404", newer)):
        hits = json.loads(machine.ask(f"search --json {text}"))
        assert (hits["total"], [hit["uid"] for hit in hits["hits"]]) == (1, [session["uid"]])
    shown = machine.ask(f"show {newer['uid']}")
    assert "follows a run: backstory show S1 @1" in shown
    assert ANSWER not in shown
    assert "Marten-4404." in shown
    head = json.loads(machine.ask(f"show --json {newer['uid']}"))
    assert [each["shown_in"] for each in head["turns"]] == [ours["uid"], None]
    assert {each["turn"] for each in head["events"]} <= {None, 2}
    assert head["turns"][1]["parent_turn_uid"] == turn.uid
    machine.check()
