"""A session of one real agent goes on in the client of another, which sends its model all that was said, no more."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.machines import case, place
from tests.support.real_clients import AGENTS, FIRST, HELLO, NATIVE, RESUMED, said_to, shell
from tests.support.running import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow

OTHER = {"claude": "codex", "codex": "claude"}
NEXT = "And the otter?"
FORGET = "Forget-the-heron-99."


def uid_of(machine: Machine) -> str:
    """The uid of the only session."""
    (session,) = json.loads(machine.ask("list --json"))["sessions"]
    return str(session["uid"])


def written(machine: Machine, uid: str, agent: str, options: str = "") -> dict[str, Any]:
    """A session, written for the other agent; what the command says of it."""
    found: dict[str, Any] = json.loads(machine.ask(f"export -S {uid} --format {agent} --write --json {options}"))
    return found


def gone_on(machine: Machine, agent: str, native_id: str, prompt: str = NEXT) -> dict[str, Any]:
    """The request that the agent's client sends when it continues a log with a prompt."""
    before = len(machine.asked())
    machine.do(goes_on(agent, native_id, prompt), {"text": "In the burrow."})
    (request,) = machine.asked()[before:]
    return request


def goes_on(agent: str, native_id: str, prompt: str = NEXT) -> str:
    return NATIVE[agent].format(prompt, RESUMED[agent].format(native_id))


def typed(request: dict[str, Any], *prompts: str) -> list[str]:
    """Those of these prompts that the model is sent, in order."""
    return [each.strip() for each in said_to(request) if each.strip() in prompts]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_goes_on_in_the_other_agents_client_with_its_whole_history(
    native: Callable[[str], Machine], agent: str
) -> None:
    machine = native(agent)
    log = written(machine, uid_of(machine), OTHER[agent])
    request = gone_on(machine, OTHER[agent], log["native_id"])
    assert typed(request, FIRST, NEXT) == [FIRST, NEXT]
    sent = json.dumps(request)
    order = [sent.index(each) for each in (FIRST, "I look.", "echo nest-4711", "NEST-4711", "In-the-reeds-1181", NEXT)]
    assert order == sorted(order)
    if agent == "codex":
        a_call_of_the_shell_is_one_of_the_others_shell(request)


def a_call_of_the_shell_is_one_of_the_others_shell(request: dict[str, Any]) -> None:
    blocks = [block for each in request["messages"] if isinstance(each["content"], list) for block in each["content"]]
    (call,) = [block for block in blocks if block["type"] == "tool_use"]
    (result,) = [block for block in blocks if block["type"] == "tool_result"]
    assert (call["name"], call["input"]) == ("Bash", {"command": "echo nest-4711 | tr a-z A-Z"})
    assert result["tool_use_id"] == call["id"]
    assert "NEST-4711" in json.dumps(result["content"])


def test_a_session_goes_to_the_other_agent_and_back_with_all_that_was_said(native: Callable[[str], Machine]) -> None:
    machine = native("claude")
    there = written(machine, uid_of(machine), "codex")
    gone_on(machine, "codex", there["native_id"])
    machine.ask("ingest")
    listed = json.loads(machine.ask("list --json"))["sessions"]
    continued = max(listed, key=lambda each: each["last_active"])
    back = written(machine, continued["uid"], "claude")
    request = gone_on(machine, "claude", back["native_id"], "And the fox?")
    assert typed(request, FIRST, NEXT, "And the fox?") == [FIRST, NEXT, "And the fox?"]
    sent = json.dumps(request)
    assert sent.count("In-the-reeds-1181") == 1
    assert sent.count("In the burrow.") == 1


def test_a_log_up_to_a_record_holds_nothing_behind_it(native: Callable[[str], Machine]) -> None:
    machine = native("claude")
    uid = uid_of(machine)
    gone_on(machine, "claude", json.loads(machine.ask("list --json"))["sessions"][0]["native_id"], FORGET)
    machine.ask("ingest")
    turns = json.loads(machine.ask(f"tree {uid} --json"))["turns"]
    for target in AGENTS:
        log = written(machine, uid, target, f"--at @{turns[0]['last_seq']}")
        request = gone_on(machine, target, log["native_id"])
        assert typed(request, FIRST, NEXT, FORGET) == [FIRST, NEXT], target
        assert FORGET.removesuffix(".") not in json.dumps(request), target
        assert log["report"]["left_out"] > 0, target


def test_another_branch_is_not_in_the_log(ran: Callable[[str], Machine]) -> None:
    """Two branches of a session of our own runs."""
    agent = "codex"
    machine = ran(agent)
    machine.do_ours(f"run -a {agent} --permissions all 'Forget-the-heron-99.'", {"text": "Forgotten-77."})
    turns = json.loads(machine.ask("tree --json"))["turns"]
    machine.do_ours(f"run -a {agent} --permissions all @{turns[0]['last_seq']} 'And the fox?'", {"text": "Den."})
    log = written(machine, "S1", OTHER[agent])
    request = gone_on(machine, OTHER[agent], log["native_id"])
    assert typed(request, FIRST, "And the fox?", NEXT) == [FIRST, "And the fox?", NEXT]
    assert "Forget-the-heron-99" not in json.dumps(request)
    assert "Forgotten-77" not in json.dumps(request)
    why = {each["why"] for each in log["report"]["records"] if each["fate"] == "left_out"}
    assert "it is on another branch" in why


def resumed(machine: Machine, agent: str, options: str) -> dict[str, Any]:
    """The request after `resume` on a terminal. Codex resumes on a screen only: its log is written, and goes on."""
    before = len(machine.asked())
    if agent == "claude":
        words = f"{sys.executable} -m backstory resume {options} -- -p '{NEXT}'"
        machine.do(f'timeout 60 script -qec "{words}" /dev/null > {machine.root}/screen < /dev/null', HELLO)
    else:
        asked = json.loads(machine.ask(f"resume {options} --json"))
        at = options.partition("--at ")[2].split(" ")[0]
        up_to = f"--at {at}" if at else ""
        machine.ask(f"export -S {asked['uid']} --format codex {up_to} --write")
        machine.do(goes_on("codex", asked["native_id"]), HELLO)
    (request,) = machine.asked()[before:]
    return request


@pytest.mark.parametrize("agent", AGENTS)
def test_resume_hands_a_session_of_our_own_runs_to_its_agents_client(ran: Callable[[str], Machine], agent: str) -> None:
    assert typed(resumed(ran(agent), agent, "S1"), FIRST, NEXT) == [FIRST, NEXT]


@pytest.mark.parametrize("agent", AGENTS)
def test_resume_hands_a_session_to_another_agents_client(native: Callable[[str], Machine], agent: str) -> None:
    machine = native(agent)
    uid = uid_of(machine)
    assert typed(resumed(machine, OTHER[agent], f"{uid} --agent {OTHER[agent]}"), FIRST, NEXT) == [FIRST, NEXT]


def test_a_running_client_of_the_target_is_no_obstacle(native: Callable[[str], Machine]) -> None:
    machine = native("claude")
    uid = uid_of(machine)
    busy, go = machine.root / "busy", machine.root / "go"
    waiting = shell("codex", f"touch {busy}; until [ -e {go} ]; do sleep 0.02; done")
    other = machine.start(NATIVE["codex"].format("Wait.", ""), [{"tools": [waiting]}, {"text": "Waited."}])
    until(busy.exists)
    log = written(machine, uid, "codex")
    assert other.poll() is None
    go.touch()
    machine.end(other)
    request = gone_on(machine, "codex", log["native_id"])
    assert typed(request, FIRST, NEXT) == [FIRST, NEXT]


def test_what_was_written_is_taken_back_with_its_row(native: Callable[[str], Machine]) -> None:
    machine = native("claude")
    uid = uid_of(machine)
    machine.do("echo 'Hello.' | codex exec --skip-git-repo-check - > /dev/null 2>&1")
    database = machine.root / "home/.codex/state_5.sqlite"

    def rows() -> list[tuple[str]]:
        with closing(sqlite3.connect(database)) as db:
            return sorted(db.execute("select id from threads").fetchall())

    before = rows()
    log = written(machine, uid, "codex")
    assert rows() == sorted([*before, (log["native_id"],)])
    machine.ask(f"export -S {uid} --format codex --undo")
    assert (rows(), Path(log["log"]).exists()) == (before, False)


SAMPLE = {
    "claude": (
        "tools", "denied", "sigkill-in-tool", "interrupted-by-hand", "compact", "with-a-helper", "live-queued",
        "glued-records", "plan-refused",
    ),
    "codex": ("tools", "mcp", "sigint-in-tool", "sigkill-in-tool", "compact", "code-mode", "with-a-helper", "review"),
}  # fmt: skip
"""Recorded sessions with calls, refusals, open calls, interruptions, compactions, subagents, scripts, plans."""


@pytest.mark.parametrize("agent", AGENTS)
def test_whatever_a_recorded_session_holds_makes_requests_that_a_service_takes(machine: Machine, agent: str) -> None:
    for name in SAMPLE[agent]:
        path = machine.root / "home" / place(f"{agent}/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(case(f"{agent}/{name}"))
    machine.ask("ingest")
    listed = json.loads(machine.ask("list --all --json"))["sessions"]
    logs = [written(machine, each["uid"], OTHER[agent], f"--cwd {machine.work}") for each in listed]
    assert len(logs) == len(listed) == len(SAMPLE[agent])
    lines = [goes_on(OTHER[agent], each["native_id"]) for each in logs]
    before = len(machine.asked())
    machine.do("\n".join(lines), {"text": "Done."})
    requests = machine.asked()[before:]
    assert len(requests) == len(logs)
    faults = faults_of_claude if OTHER[agent] == "claude" else faults_of_codex
    assert [faults(each) for each in requests] == [[]] * len(logs)


def faults_of_claude(request: dict[str, Any]) -> list[str]:
    """What the service refuses: calls and results that do not stand next to each other, empty texts, ids twice."""
    places: list[tuple[str, list[dict[str, Any]]]] = []
    for message in request["messages"]:
        content = message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if message["role"] == "system":
            continue
        if places and places[-1][0] == message["role"]:
            places[-1][1].extend(blocks)
        else:
            places.append((message["role"], list(blocks)))
    faults = [] if places[0][0] == "user" else ["the model speaks first"]
    calls = [block["id"] for _, blocks in places for block in blocks if block["type"] == "tool_use"]
    faults += ["an id stands twice"] * (len(calls) != len(set(calls)))
    for (_, before), (_, behind) in pairwise([("", []), *places, ("", [])]):
        open_calls = [block["id"] for block in before if block["type"] == "tool_use"]
        results = [block["tool_use_id"] for block in behind if block["type"] == "tool_result"]
        faults += [f"{open_calls} are answered by {results}"] * (sorted(open_calls) != sorted(results))
    blank = [block for _, blocks in places for block in blocks if block["type"] == "text" and not block["text"].strip()]
    return faults + ["a text is empty"] * len(blank)


def faults_of_codex(request: dict[str, Any]) -> list[str]:
    """What the service refuses: a call without a result, a result without a call, ids twice."""
    calls = [each["call_id"] for each in request["input"] if each["type"].endswith("_call")]
    results = [each["call_id"] for each in request["input"] if each["type"].endswith("_call_output")]
    faults = [f"calls {calls}, results {results}"] * (sorted(calls) != sorted(results))
    return faults + ["an id stands twice"] * (len(calls) != len(set(calls)))
