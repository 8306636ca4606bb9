"""One session over several real agents: each is told all of it, once, and their own logs change nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

from backstory.conversation.context import CLOSE, OPEN
from tests.support.real_clients import AGENTS, HELLO, said_to, shell
from tests.support.running import until

if TYPE_CHECKING:
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
    report = json.loads(machine.ask("ingest --json"))
    assert report["logs_read"] >= 2
    assert report["errors"] == []
    assert report["unknown_records"] == {}
    listed = json.loads(machine.ask("list --all --json"))["sessions"]
    assert [each["number"] for each in listed] == ["S1"]


class Looked(Struct):
    """What is seen of a run in the middle of it, and when it is over, the logs having been read each time."""

    during: dict[str, Any]
    listed: dict[str, Any]
    found: dict[str, Any]
    running: list[Any]
    after: dict[str, Any]
    listed_after: dict[str, Any]
    found_after: dict[str, Any]


def looked(machine: Machine, agent: str) -> Looked:
    """Run, and look as soon as the agent's own log has the prompt."""

    def look() -> list[Any]:
        lines = ("ingest --json", "list --all --json", "search --json heron")
        # A search without hits is a 1.
        return [json.loads(machine.ask(line, code=None)) for line in lines]

    answer = {"text": "word " * 400, "chunk": 10, "chunk_delay": 0.02}
    process = machine.start(f'$B run -a {agent} "{PROMPTS["claude"]}" > /dev/null', [answer])
    logs = [machine.root / "home/.claude/projects", machine.root / "home/.codex/sessions"]
    until(lambda: any(b"heron" in path.read_bytes() for each in logs for path in each.rglob("*.jsonl")))
    during = [*look(), json.loads(machine.ask("ps --json"))["runs"]]
    machine.end(process)
    return Looked(*during, *look())


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agents_log_that_is_read_during_its_run_and_afterwards_is_no_second_session(
    machine: Machine, agent: str
) -> None:
    seen = looked(machine, agent)
    assert [each["state"] for each in seen.running] == ["running"]
    assert seen.during["logs_seen"] >= 1
    assert seen.during["errors"] == []
    assert [each["number"] for each in seen.listed["sessions"]] == ["S1"]
    assert all(hit["number"] == "S1" for hit in seen.found["hits"])
    assert seen.found["total"] <= 1
    assert seen.after["errors"] == []
    assert [each["number"] for each in seen.listed_after["sessions"]] == ["S1"]
    assert [hit["number"] for hit in seen.found_after["hits"]] == ["S1"]
    assert seen.found_after["total"] == 1
    (turn,) = machine.store.turns(1)
    assert (turn.prompt, turn.outcome) == (PROMPTS["claude"], "completed")
    machine.check()


def test_reading_the_logs_between_runs_changes_nothing_of_what_the_next_is_told(machine: Machine) -> None:
    machine.run("claude", PROMPTS["claude"], {"text": ANSWERS["claude"]})
    machine.ask("ingest")
    machine.run("codex", PROMPTS["codex"], {"text": ANSWERS["codex"]})
    machine.ask("ingest")
    machine.run("claude", PROMPTS["again"], HELLO)
    last = all_said(machine.asked()[-1])
    for text in (*list(PROMPTS.values()), ANSWERS["claude"], ANSWERS["codex"]):
        assert last.count(text) == 1
    machine.check()


@pytest.mark.parametrize("agent", AGENTS)
def test_the_model_is_asked_the_prompt_and_what_is_piped_in(machine: Machine, agent: str) -> None:
    machine.do(
        "echo heron > nest; git add nest; git -c user.name=x -c user.email=x@x commit -qm one; echo otter > nest; "
        f'git diff | $B run -n -a {agent} "Explain this diff"'
    )
    (body,) = machine.asked()
    (sent,) = [text for text in said_to(body) if "Explain this diff" in text]
    assert sent.startswith("Explain this diff\n\ndiff --git a/nest b/nest\n")
    assert sent.rstrip().endswith("-heron\n+otter")
    (turn,) = machine.store.turns(1)
    assert turn.prompt == sent
    machine.check()


def test_runs_of_both_clients_are_counted_with_their_models_before_any_ingest(machine: Machine) -> None:
    turns = [
        {"text": "One.", "usage": {"input": 1200, "output": 17}},
        {"text": "Two.", "usage": {"input": 1300, "output": 18}},
    ]
    machine.do_ours("run -a claude Hello", turns[0])
    machine.do_ours("run -a codex --new Hi", turns[1])
    before = json.loads(machine.ask("stats --by model --json"))
    assert (before["sums"]["tokens"]["input"], before["sums"]["tokens"]["output"]) == (2500, 35)
    assert all(group["model"] and group["low_usd"] for group in before["groups"])
    machine.ask("ingest")
    assert json.loads(machine.ask("stats --by model --json")) == before
