"""One session over several real agents: each is told all of it, once, and their own logs change nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

from backstory.conversation.context import CLOSE, OPEN
from backstory.derive.essence import changed_lines
from backstory.model import AssistantText, ToolCall
from backstory.store import open_store
from tests.support.real_clients import AGENTS, HELLO, said_to, shell

if TYPE_CHECKING:
    from backstory.store import Store
    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow

PROMPTS = {"claude": "Where does the heron nest?", "codex": "Say it again, otter.", "again": "And again, badger."}
ANSWERS = {"claude": "In-the-reeds-1181.", "codex": "By-the-river-2292.", "again": "On-the-hill-3303."}
OUTPUTS = {"claude": "alpha-5521", "codex": "beta-6632"}


def working(agent: str, name: str) -> list[dict[str, Any]]:
    """A model that has the shell say this agent's word, in two halves so that only the output has it whole."""
    word, number = OUTPUTS[name].split("-")
    tool = shell(agent, f"printf '%s-%s' {word} {number}")
    usage = {"input": 1200, "output": 17}
    return [{"text": f"Looking-{name}.", "tools": [tool], "usage": usage}, {"text": ANSWERS[name], "usage": usage}]


def all_said(body: dict[str, Any]) -> str:
    """A whole request, whoever's words they are."""
    return json.dumps(body, ensure_ascii=False)


def test_one_session_goes_from_claude_to_codex_and_back_and_nothing_is_told_twice(machine: Machine) -> None:
    machine.run("claude", PROMPTS["claude"], *working("claude", "claude"))
    machine.run("codex", PROMPTS["codex"], *working("codex", "codex"))
    machine.run("claude", PROMPTS["again"], {"text": ANSWERS["again"], "usage": {"input": 1200, "output": 34}})

    (session,) = machine.store.sessions()
    turns = machine.store.turns(session)
    assert [(turn.prompt, turn.agent, turn.outcome) for turn in turns] == [
        (PROMPTS["claude"], "claude", "completed"), (PROMPTS["codex"], "codex", "completed"),
        (PROMPTS["again"], "claude", "completed"),
    ]  # fmt: skip
    assert [turn.tokens.output for turn in turns] == [34, 34, 34]

    first, _, second, _, third = map(all_said, machine.asked())
    assert CLOSE not in first
    of_claude = [PROMPTS["claude"], "Looking-claude.", OUTPUTS["claude"], ANSWERS["claude"]]
    of_codex = [PROMPTS["codex"], "Looking-codex.", OUTPUTS["codex"], ANSWERS["codex"]]
    assert {text: second.count(text) for text in (*of_claude, PROMPTS["codex"])} == dict.fromkeys(
        (*of_claude, PROMPTS["codex"]), 1
    )
    everything = (*of_claude, *of_codex, PROMPTS["again"])
    assert {text: third.count(text) for text in everything} == dict.fromkeys(everything, 1)
    assert [third.index(text) for text in everything] == sorted(third.index(text) for text in everything)
    for body, prompt in ((machine.asked()[2], PROMPTS["codex"]), (machine.asked()[4], PROMPTS["again"])):
        (sent,) = [text for text in said_to(body) if OPEN in text]
        assert sent.count(OPEN) == sent.count(CLOSE) == 1
        assert sent.rstrip().endswith(f"{CLOSE}\n\n{prompt}")
    machine.check()


def test_the_agents_own_logs_of_runs_make_no_second_session(machine: Machine) -> None:
    machine.run("claude", PROMPTS["claude"])
    machine.run("codex", PROMPTS["codex"])
    report = json.loads(machine.do("$B ingest --json"))
    assert report["logs_read"] >= 2
    assert report["errors"] == []
    assert report["unknown_records"] == {}
    listed = json.loads(machine.do("$B list --all --json"))
    assert [each["number"] for each in listed] == ["S1"]


class Looked(Struct):
    """What is seen of a run in the middle of it, and when it is over, the logs having been read each time."""

    during: dict[str, Any]
    listed: list[Any]
    found: dict[str, Any]
    running: list[Any]
    after: dict[str, Any]
    listed_after: list[Any]
    found_after: dict[str, Any]


def looked(machine: Machine, agent: str) -> Looked:
    """Run, and look as soon as the agent's own log has the prompt."""
    look = "$B ingest --json; $B list --all --json; $B search --json heron"
    out = machine.do(
        f"""
        $B run -a {agent} "{PROMPTS["claude"]}" > /dev/null & run=$!
        until grep -rqs heron $CLAUDE_CONFIG_DIR/projects $CODEX_HOME/sessions; do sleep 0.02; done
        {look}; $B ps --json; wait $run; {look}
        """,
        {"text": "word " * 400, "chunk": 10, "chunk_delay": 0.02},
    )
    return Looked(*decoded(out))


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agents_log_that_is_read_during_its_run_is_no_second_session(machine: Machine, agent: str) -> None:
    seen = looked(machine, agent)
    assert [each["state"] for each in seen.running] == ["running"]
    assert seen.during["logs_seen"] >= 1
    assert seen.during["errors"] == []
    assert [each["number"] for each in seen.listed] == ["S1"]
    assert all(hit["session"] == "S1" for hit in seen.found["hits"])
    assert seen.found["total"] <= 1


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agents_log_that_was_read_during_its_run_is_no_second_session_afterwards(
    machine: Machine, agent: str
) -> None:
    seen = looked(machine, agent)
    assert seen.after["errors"] == []
    assert [each["number"] for each in seen.listed_after] == ["S1"]
    assert [hit["session"] for hit in seen.found_after["hits"]] == ["S1"]
    assert seen.found_after["total"] == 1
    (turn,) = machine.store.turns(1)
    assert (turn.prompt, turn.outcome) == (PROMPTS["claude"], "completed")
    machine.check()


def test_reading_the_logs_between_runs_changes_nothing_of_what_the_next_is_told(machine: Machine) -> None:
    machine.run("claude", PROMPTS["claude"], {"text": ANSWERS["claude"]})
    machine.do("$B ingest")
    machine.run("codex", PROMPTS["codex"], {"text": ANSWERS["codex"]})
    machine.do("$B ingest")
    machine.run("claude", PROMPTS["again"], HELLO)
    last = all_said(machine.asked()[-1])
    for text in (*list(PROMPTS.values()), ANSWERS["claude"], ANSWERS["codex"]):
        assert last.count(text) == 1
    machine.check()


def decoded(printed: str) -> list[Any]:
    """Several JSON values, one behind the other."""
    decoder, values, rest = json.JSONDecoder(), [], printed.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        values.append(value)
        rest = rest[end:].lstrip()
    return values


# what the agents' own logs tell of runs ---------------------------------------------------------------------------


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
    return [*steps, {"text": ANSWERS[agent], "usage": usage}]


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
def test_a_run_has_what_the_agents_own_log_tells(machine: Machine, agent: str) -> None:
    machine.run(agent, PROMPTS[agent], *editing(agent, machine))
    machine.do("$B ingest")
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
        assert list(times) == ["Step-0.", "Step-1.", ANSWERS[agent]]
    assert told(machine.store) == told(machine.home_store)
    (listed,) = json.loads(machine.do("$B list --json"))
    assert (listed["cost_usd"] or 0) > 0
    assert listed["cost_kind"] == ("computed" if agent == "codex" else "exact")
    machine.check()


@pytest.mark.parametrize("agent", AGENTS)
def test_what_the_own_log_tells_is_the_same_after_reindex(machine: Machine, agent: str) -> None:
    machine.run(agent, PROMPTS[agent], *editing(agent, machine))
    machine.do("$B ingest")
    before = told(machine.store), told(machine.home_store)
    machine.do("$B reindex --force; $B --store .backstory/sessions.bks reindex --force")
    assert (told(machine.store), told(machine.home_store)) == before
    machine.check()


@pytest.mark.parametrize("agent", AGENTS)
def test_a_log_that_was_read_before_its_run_was_stored_tells_the_run_the_same(machine: Machine, agent: str) -> None:
    machine.run(agent, PROMPTS[agent], *editing(agent, machine))
    machine.do("$B ingest")
    logs_only = machine.root / "logs.db"
    machine.do(f"$B --store {logs_only} ingest")
    with open_store(logs_only, shared=True) as store:
        store.take_session(machine.store, machine.store.session("S1").uid)
        before = told(store)
    machine.do(f"$B --store {logs_only} ingest")
    with open_store(logs_only, shared=True) as store:
        assert told(store) == told(machine.home_store)
        assert before[1] == told(store)[1]


RESUMED = {
    "claude": "echo 'Native kestrel.' | claude -p --resume {} --permission-mode bypassPermissions",
    "codex": "echo 'Native kestrel.' | codex exec resume {} --skip-git-repo-check -",
}


@pytest.mark.parametrize("agent", AGENTS)
def test_after_a_native_resume_nothing_is_shown_twice(machine: Machine, agent: str) -> None:
    machine.run(agent, PROMPTS[agent], *editing(agent, machine))
    machine.do("$B ingest")
    (turn,) = machine.store.turns(1)
    machine.do(f"{RESUMED[agent].format(turn.native_id)} > /dev/null 2>&1; $B ingest", {"text": "Marten-4404."})
    newer, ours = json.loads(machine.do("$B list --all --json"))
    assert (ours["number"], ours["turns"], newer["turns"]) == ("S1", 1, 1)
    assert newer["parent"] == ours["uid"]
    for text, session in ((ANSWERS[agent], ours), ("kestrel", newer), ("Marten-4404", newer)):
        hits = json.loads(machine.do(f"$B search --json {text}"))
        assert (hits["total"], [hit["uid"] for hit in hits["hits"]]) == (1, [session["uid"]])
    shown = machine.do(f"$B show {newer['uid']}")
    assert "follows a run: backstory show S1 @1" in shown
    assert ANSWERS[agent] not in shown
    assert "Marten-4404." in shown
    head = json.loads(machine.do(f"$B show --json {newer['uid']}"))
    assert [each["shown_in"] for each in head["turns"]] == [ours["uid"], None]
    assert {each["turn"] for each in head["events"]} <= {None, 2}
    assert head["turns"][1]["parent"] == turn.uid
    machine.check()
