"""Signals at any moment, to the real agents and to backstory: the turn is stored once, and nothing is left over.

The moments are random; the seed is printed with a failure, and BACKSTORY_SEED tries it again.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from backstory.agents.contract import CUT_OFF
from backstory.model import Error
from tests.support.counts import IS_LONG
from tests.support.real_clients import AGENTS, HELLO, OVER, WAIT_S, said_to, shell

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import Popen

    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow

SIGNALS = {"INT": signal.SIGINT, "TERM": signal.SIGTERM, "KILL": signal.SIGKILL}
ROUNDS = 4
"""Even and odd ones differ in how long a tool lasts and in which command comes next."""
MORE = [("backstory", "KILL", agent, ROUNDS) for agent in AGENTS]
ALL = [(v, s, a, n) for v in ("backstory", "agent") for s in SIGNALS for a in AGENTS for n in range(ROUNDS)] + MORE
ONCE = [(v, s, a, n) for v in ("backstory", "agent") for s in SIGNALS for n, a in enumerate(AGENTS)]
ONCE += [("backstory", "KILL", agent, n) for n, agent in enumerate(reversed(AGENTS))]
CASES = ALL if IS_LONG else ONCE
"""Fifty in ``make long``; in any other run each signal for each agent, an even and an odd round, at other moments each
time."""
RUN_S, BEGINS_S = 2.2, 0.1
"""So long a run takes here, about: moments lie within it, a third of them while it begins, when the most happens."""
GO_ON = {"when": "Go on", "turns": [HELLO]}
"""The answer to the run after."""
PROMPT = "Where does the heron nest?"
OUTCOMES = {
    ("backstory", "INT"): {"cancelled", "completed"},
    # A killed backstory does not hurt its agent, and one that is asked to end may take it along.
    ("backstory", "TERM"): {"cancelled", "completed"},
    ("backstory", "KILL"): {"completed"},
    # An agent that somebody else interrupts may end as if nothing were wrong, or say that it failed.
    ("agent", "INT"): {"cancelled", "completed", "crashed", "failed"},
    ("agent", "TERM"): {"crashed", "completed"},
    ("agent", "KILL"): {"crashed", "completed"},
}
RUN = f"""
    ( echo $BASHPID > "$TMPDIR/pid"; exec $B run -a AGENT --permissions all "{PROMPT}" )
    {OVER}
"""


def started(machine: Machine, agent: str, turns: list[dict[str, Any]]) -> Popen[str]:
    """A run that is going to be hit."""
    return machine.start(RUN.replace("AGENT", agent), turns)


def gone_on(machine: Machine, process: Popen[str], then: str = "run") -> str:
    """What a person does next, once it no longer runs; returns what the run printed on stderr."""
    _, err, _ = machine.end(process)
    until(lambda: '"running"' not in machine.ask("ps --json"))
    note_list(machine, "before")
    if then == "run":
        machine.do_ours("run -a codex --json 'Go on.'", rules=[GO_ON])
    else:
        machine.ask(then)
    note_list(machine, "after", "--all")
    return err


def note_list(machine: Machine, name: str, options: str = "") -> None:
    (machine.root / "tmp" / f"{name}.json").write_text(machine.ask(f"list --json {options}"))


def seeded() -> int:
    return int(os.environ.get("BACKSTORY_SEED") or secrets.randbits(32))


def until(condition: Callable[[], Any]) -> Any:
    """Poll; a test that waits too long fails here."""
    end = time.monotonic() + WAIT_S
    while not (value := condition()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)
    return value


def turns_for(agent: str, tool_s: float) -> list[dict[str, Any]]:
    """A run that takes its time: it talks, works, and talks again."""
    slow = {"chunk": 10, "chunk_delay": 0.05}
    return [
        {
            "text": "Let me look at it. " * 5,
            **slow,
            "tools": [shell(agent, f"touch started; echo alpha; sleep {tool_s}; echo beta")],
        },
        {"text": "It nests in the reeds. " * 5, **slow},
        HELLO,
    ]


def run_pid(machine: Machine) -> int | None:
    """The process of the run: of backstory itself, once the run has begun."""
    file = machine.root / "tmp" / "pid"
    has_begun = any(noted.stat().st_size for noted in (machine.root / "bh" / "spool").glob("*/run.json"))
    return int(file.read_text()) if has_begun else None


def agent_pid(machine: Machine) -> int | None:
    """The agent's process, from the time it was started on."""
    for noted in (machine.root / "bh" / "spool").glob("*/process.json"):
        if told := noted.read_text():
            return int(json.loads(told)[0])
    return None


def at_once(condition: Callable[[], Any]) -> Any:
    """Poll without a pause, to hit what lasts a millisecond."""
    end = time.monotonic() + WAIT_S
    while not (value := condition()):
        assert time.monotonic() < end, "it did not come about"
    return value


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone by now."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def is_stored_once(machine: Machine) -> str:
    """The outcome of the one turn that there must be, with its prompt and its end."""
    for listed in ("before", "after"):
        (shown,) = json.loads((machine.root / "tmp" / f"{listed}.json").read_text())["sessions"]
        assert shown["number"] == "S1"
    (session,) = machine.store.sessions()
    first, *more = machine.store.turns(session)
    assert [turn.prompt for turn in (first, *more)].count(PROMPT) == 1
    events = [s.event for s in machine.store.events(session) if first.first_seq <= s.seq <= first.last_seq]
    kinds = [event.kind for event in events]
    assert (kinds.count("UserMessage"), kinds.count("Complete")) == (1, 1)
    assert kinds[0] == "UserMessage"
    if first.outcome in ("failed", "crashed"):
        assert "Error" in kinds
    assert first.ended is not None
    copies = machine.home_store.turns(machine.home_store.session(session.uid))
    assert [(turn.uid, turn.outcome) for turn in copies] == [(turn.uid, turn.outcome) for turn in (first, *more)]
    return str(first.outcome)


def has_asked(machine: Machine) -> bool:
    """Whether the agent was started and got so far that it asked the model."""
    return any(text.strip() == PROMPT for body in machine.asked() for text in said_to(body))


@pytest.mark.parametrize(("victim", "name", "agent", "number"), CASES)
def test_a_signal_at_any_moment_loses_nothing_and_leaves_nothing(
    machine: Machine, victim: str, name: str, agent: str, number: int
) -> None:
    seed = seeded()
    chance = random.Random(f"{seed}/{victim}/{name}/{agent}/{number}")
    # Where the agent is to end, every other run is in the middle of a tool that takes for ever.
    goes_on = victim == "backstory" and name != "INT"
    tool_s = 0.3 if goes_on or number % 2 else 600
    moment_s = chance.uniform(0, chance.choice((BEGINS_S, RUN_S, RUN_S)))
    print(f"BACKSTORY_SEED={seed} hits after {moment_s:.3f} s")  # noqa: T201
    process = started(machine, agent, turns_for(agent, tool_s))
    pid = until(lambda: (run_pid if victim == "backstory" else agent_pid)(machine))
    time.sleep(moment_s)
    send(pid, SIGNALS[name])
    err = gone_on(machine, process, "ingest" if number % 2 else "run")
    outcome = is_stored_once(machine)
    # Killed between noting the prompt and starting the agent, a run never was more than its prompt.
    expected = {"crashed"} if goes_on and not has_asked(machine) else OUTCOMES[victim, name]
    assert outcome in expected, err
    assert outcome != "completed" or tool_s < 1
    machine.check()


@pytest.mark.parametrize(("agent", "has_begun"), [("claude", agent_pid), ("codex", run_pid)], ids=["agent", "spool"])
def test_an_interrupt_while_a_run_begins_makes_a_cancelled_turn(
    machine: Machine, agent: str, has_begun: Callable[[Machine], int | None]
) -> None:
    process = started(machine, agent, turns_for(agent, 600))
    at_once(lambda: has_begun(machine))
    send(run_pid(machine) or 0, signal.SIGINT)
    gone_on(machine, process, "ingest")
    assert is_stored_once(machine) == "cancelled"
    machine.check()


@pytest.mark.parametrize("agent", AGENTS)
def test_an_interrupt_in_mid_answer_makes_a_cancelled_turn_and_the_session_goes_on(
    machine: Machine, agent: str
) -> None:
    answer = {"text": "one two three", "hang": 60}
    process = started(machine, agent, [answer])
    pid = until(lambda: run_pid(machine))
    until(machine.asked)
    send(pid, signal.SIGINT)
    gone_on(machine, process)
    assert is_stored_once(machine) == "cancelled"
    assert machine.store.turns(1)[1].outcome == "completed"
    machine.check()


@pytest.mark.parametrize("agent", AGENTS)
def test_a_killed_backstory_leaves_the_whole_answer_to_the_next_command(machine: Machine, agent: str) -> None:
    slow = {"text": "word " * 60, "chunk": 10, "chunk_delay": 0.02}
    process = started(machine, agent, [slow])
    pid = until(lambda: run_pid(machine))
    until(machine.asked)
    send(pid, signal.SIGKILL)
    gone_on(machine, process, "ingest")
    assert is_stored_once(machine) == "completed"
    first, *_ = [s.event.text for s in machine.store.events(1) if s.kind == "AssistantText"]  # type: ignore[attr-defined]
    assert first.strip() == ("word " * 60).strip()
    machine.check()


@pytest.mark.parametrize(("agent", "is_watched"), [("claude", False), ("codex", True)], ids=["orphan", "watched"])
def test_cancel_in_mid_tool_ends_the_tool_too(machine: Machine, agent: str, is_watched: bool) -> None:
    lines = f"""
        ( echo $BASHPID > "$TMPDIR/pid"; exec $B run -a {agent} --permissions all "{PROMPT}" ) & run=$!
        until [ -e started ]; do sleep 0.05; done
        {"" if is_watched else "kill -9 $run; wait $run"}
        $B list --json > "$TMPDIR/before.json"
        $B cancel S1
        wait $run
    """
    _, err, _ = machine.end(machine.start(lines, turns_for(agent, 600)))
    note_list(machine, "after", "--all")
    assert "S1 is stopped" in err
    assert is_stored_once(machine) == "cancelled"
    machine.check()


def running_ids(machine: Machine) -> list[tuple[str, str]]:
    """What any SQLite client sees of the sessions that run."""
    with closing(sqlite3.connect(machine.work / ".backstory" / "sessions.bks")) as db:
        return db.execute("select last_claude_uuid, last_native_id from sessions").fetchall()


@pytest.mark.parametrize("agent", AGENTS)
def test_the_agents_id_is_in_the_store_until_the_run_is_and_an_end_that_nobody_saw_is_told_as_that(
    machine: Machine, agent: str
) -> None:
    process = started(machine, agent, turns_for(agent, 600))
    backstory, client = until(lambda: run_pid(machine)), until(lambda: agent_pid(machine))
    until((machine.work / "started").exists)
    during = running_ids(machine)
    send(backstory, signal.SIGKILL)
    after = running_ids(machine)
    send(client, signal.SIGKILL)
    gone_on(machine, process)
    assert is_stored_once(machine) == "crashed"
    turn = machine.store.turns(1)[0]
    assert during == after == [(turn.native_id, turn.native_id)] != [("", "")]
    assert running_ids(machine) == [("", "")]
    errors = [each.event for each in machine.store.events(1) if each.kind == "Error"]
    assert [event.message.splitlines()[0] for event in errors if isinstance(event, Error)] == [CUT_OFF]
    assert CUT_OFF in machine.requests.read_text()
    machine.check()
