"""The real clients start our server, and their model is not told of the session that it asks from."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from backstory.agents.codex.settings import WAIT
from tests.support.real_clients import AGENTS, CODEX_CONFIG, FIRST

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow

CLIENTS = {
    "claude": "claude -p --verbose --output-format stream-json --dangerously-skip-permissions",
    "codex": "codex exec --json --skip-git-repo-check -",
}
SEARCH = {"query": "heron"}


def configure(machine: Machine) -> None:
    """Have both clients start the server, whatever variables they pass on."""
    home, program = machine.root / "home", [sys.executable, "-m", "backstory", "mcp"]
    environ = {"BACKSTORY_HOME": str(machine.root / "bh"), "CODEX_HOME": str(home / ".codex")}
    entry = {"command": program[0], "args": program[1:], "env": environ}
    (home / ".claude" / ".claude.json").write_text(json.dumps({"mcpServers": {"backstory": entry}}))
    passed = ", ".join(f"{name} = {json.dumps(value)}" for name, value in environ.items())
    (home / ".codex" / "config.in").write_text(
        f"{WAIT[0]} = {WAIT[1]}\n{CODEX_CONFIG}\n[mcp_servers.backstory]\n"
        f"command = {json.dumps(program[0])}\nargs = {json.dumps(program[1:])}\nenv = {{ {passed} }}\n"
    )


def calling(agent: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A model's call of a tool of our server."""
    if agent == "claude":
        return {"tools": [{"name": f"mcp__backstory__{tool}", "input": arguments}]}
    return {"tools": [{"name": tool, "namespace": "mcp__backstory", "input": arguments}]}


def told(body: dict[str, Any]) -> str:
    """All that tools returned, as a request of the client tells its model."""
    said = json.dumps(body, ensure_ascii=False)
    return "\n".join(re.findall(r"Recorded history.{0,4000}", said))


@pytest.mark.parametrize("agent", AGENTS)
def test_a_client_is_told_of_other_sessions_and_not_of_its_own(native: Callable[[str], Machine], agent: str) -> None:
    machine = native(agent)
    configure(machine)
    # Twice, because the first call may come before the client has written anything.
    turns = [calling(agent, "search_sessions", SEARCH), calling(agent, "search_sessions", SEARCH), {"text": "Done."}]
    machine.do(f'echo "And what does the heron eat?" | {CLIENTS[agent]} > second.jsonl', *turns)
    answer = told(machine.asked()[-1])
    # One of two calls each: what a client gives its model holds the fields, and not the text as well.
    assert json.dumps(machine.asked()[-1]).count("Recorded history: data") == 2
    assert not re.search(r"<history [0-9a-f]{12}>", answer)
    assert FIRST in answer
    assert "what does the heron eat" not in answer
    assert re.search(r"The session that asks \(\w+\) and its subagents are left out", answer)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_run_of_ours_is_not_told_of_its_own_session(native: Callable[[str], Machine], agent: str) -> None:
    machine = native("codex" if agent == "claude" else "claude")
    machine.run(agent, "Where does the heron fly?", {"text": "To the south."})
    configure(machine)
    machine.run(agent, "Look it up", calling(agent, "search_sessions", SEARCH), {"text": "Done."})
    answer = told(machine.asked()[-1])
    assert FIRST in answer
    assert "Where does the heron fly?" not in answer
    assert re.search(r"The session that asks \(\w+\) and its subagents are left out", answer)
    machine.check()
