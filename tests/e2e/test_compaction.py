"""Long sessions with the real clients: a summary appears by itself, the next context is short, and nothing is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backstory.conversation.context import AUTO_CONTINUE, SUMMARY_HEADER
from backstory.model import AssistantText, ToolCall, ToolResult, UserMessage
from backstory.store.tables import compactions
from tests.support.real_clients import AGENTS, shell
from tests.support.running import until

if TYPE_CHECKING:
    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow

SUMMARY = "The heron nests in the reeds, and the parser was rewritten because it lost escapes. " * 8
NO_HITS = 1
USAGE = {"input": 1200, "output": 17}


def answer(n: int, words: int) -> str:
    return f"Answer {n}: " + f"word-{n} " * words


def with_history(machine: Machine, words: int) -> None:
    """A session with two turns, each with an answer of so many words."""
    with machine.store as store:
        session = store.create_session("long", machine.work)
        for n in (1, 2):
            store.append_events(session, [UserMessage(content=f"Prompt {n}"), AssistantText(text=answer(n, words))])
            store.mark_completed(session, 1, None)
    machine.ask("rename --trust S1 long")


@pytest.mark.long
@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_that_grows_too_long_is_summarised_by_itself(machine: Machine, agent: str) -> None:
    with_history(machine, 20_000)
    rules: list[dict[str, Any]] = [
        {"when": "older part of a coding session", "without_tools": True, "turns": [{"text": SUMMARY, "usage": USAGE}]},
        {"when": "Prompt 4", "turns": [{"text": "Short.", "usage": USAGE}]},
    ]
    given = machine.root / "prompt"
    script = f"""
        $B run -a {agent} "Prompt 3" >/dev/null || exit 1
        until [ -e {given} ]; do read -rt 0.05 -u $nobody; done
        $B run -a {agent} "Prompt 4" >/dev/null || exit 1
    """
    process = machine.start(f"exec {{nobody}}<> <(:); {script}", [{"text": answer(3, 20_000), "usage": USAGE}], rules)
    (session,) = machine.store.sessions()
    until(lambda: machine.store.ask(compactions.in_force, session.id) is not None or process.poll() is not None)
    given.touch()
    _, err, code = machine.end(process)
    assert code == 0, err
    assert "is being summarised in the background" in err

    (session,) = machine.store.sessions()
    summary = machine.store.ask(compactions.in_force, session.id)
    assert summary is not None
    assert summary.summary == SUMMARY.strip()
    assert [turn.outcome for turn in machine.store.turns(session)] == ["completed"] * 4
    requests = [json.loads(line)["body"] for line in machine.requests.read_text().splitlines() if '"body"' in line]
    (fourth,) = [text for body in requests if "Prompt 4" in (text := json.dumps(body))]
    assert SUMMARY_HEADER in fourth
    assert "word-1" not in fourth
    assert "word-3" in fourth
    shown = machine.ask("show --full")
    assert all(shown.count(f"word-{n} ") + shown.count(f"word-{n}\n") == 20_000 for n in (1, 2, 3))
    machine.ask("ingest")
    assert len(json.loads(machine.ask("list --all --json"))["sessions"]) == 1
    machine.ask("search 'older part of a coding session'", code=NO_HITS)
    assert not list((machine.root / "home").rglob("*answer*"))
    machine.check()


@pytest.mark.parametrize("agent", AGENTS)
def test_a_turn_that_outgrows_its_context_is_stopped_summarised_and_continued(machine: Machine, agent: str) -> None:
    machine.ask("config set compaction.chars 6000")
    with_history(machine, 200)
    machine.do_ours(f"run -a {agent} --permissions all 'Prompt 3'", {"text": answer(3, 200), "usage": USAGE})
    partial = {"text": "much " * 500, "tools": [shell(agent, "echo heron-behind-the-stop")], "usage": USAGE}
    rules: list[dict[str, Any]] = [
        {"when": "older part of a coding session", "without_tools": True, "turns": [{"text": SUMMARY, "usage": USAGE}]},
        {"when": AUTO_CONTINUE, "turns": [{"text": "All done.", "usage": USAGE}]},
        # Stopped behind the tool's result: what the model says to that takes too long to be heard.
        {"when": "Prompt 4", "turns": [partial, {"text": "Never heard.", "delay": 30, "usage": USAGE}]},
    ]
    out = machine.do_ours(f"run -a {agent} --permissions all --json 'Prompt 4'", rules=rules)
    kinds = [json.loads(line)["kind"] for line in out.splitlines()]
    ours = [kind for kind in kinds if kind in ("Compacting", "Compacted", "Continued")]
    assert list(dict.fromkeys(ours)) == ["Compacting", "Compacted", "Continued"]

    def holds_each_once() -> None:
        (session,) = machine.store.sessions()
        *_, stopped, continued = turns = machine.store.turns(session)
        assert len(turns) == 5
        assert (stopped.prompt, stopped.outcome, stopped.stop_reason) == ("Prompt 4", "cancelled", "compaction")
        assert (continued.prompt, continued.outcome) == ("", "completed")
        events = [each.event for each in machine.store.events(session)]
        assert sum(isinstance(each, ToolCall) for each in events) == 1
        results = [each.content for each in events if isinstance(each, ToolResult)]
        assert len(results) == 1
        assert "heron-behind-the-stop" in results[0]
        said = [each.text for each in events if isinstance(each, AssistantText)]
        assert said.count("All done.") == 1
        assert "Never heard." not in said

    holds_each_once()
    machine.ask("ingest")
    holds_each_once()
    assert len(json.loads(machine.ask("list --all --json"))["sessions"]) == 1
    machine.check()
