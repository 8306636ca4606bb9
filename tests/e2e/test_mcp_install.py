"""The real clients start our server because `mcp install` told them to, and their model reads earlier sessions."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from backstory.agents.codex.settings import WAIT
from tests.support.real_clients import AGENTS, ANSWER, FIRST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow


OTHERS = {"claude": "codex", "codex": "claude"}
CLIENTS = {
    "claude": "claude -p --verbose --output-format stream-json --dangerously-skip-permissions",
    "codex": "codex exec --json --skip-git-repo-check -",
}
ASK = 'echo "What did we say of the heron?" | {client} > out.jsonl'


def called(agent: str, tool: str, words: dict[str, Any]) -> dict[str, Any]:
    """A model's call of a tool of our server, as each client names it."""
    if agent == "claude":
        return {"tools": [{"name": f"mcp__backstory__{tool}", "input": words}]}
    return {"tools": [{"name": tool, "namespace": "mcp__backstory", "input": words}]}


def results_told(body: dict[str, Any]) -> list[str]:
    """What tools returned, as a request of the client tells its model."""
    blocks = [
        block for message in body.get("messages", []) if isinstance(message["content"], list)
        for block in message["content"] if block["type"] == "tool_result"
    ]  # fmt: skip
    items = [item["output"] for item in body.get("input", []) if item["type"] == "function_call_output"]
    return [json.dumps(each, ensure_ascii=False) for each in [*(block["content"] for block in blocks), *items]]


def asking(agent: str) -> list[dict[str, Any]]:
    """A model that searches, reads the session that it found, and answers."""
    return [
        called(agent, "search_sessions", {"query": "heron"}),
        called(agent, "get_session", {"session": r"{last:(?:label|uid)\W+(01[0-9A-Z]{10})}"}),
        {"text": "By the reeds."},
    ]


def settings_of(machine: Machine, agent: str) -> Path:
    home = machine.root / "home"
    return home / ".claude" / ".claude.json" if agent == "claude" else home / ".codex" / "config.toml"


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_answers_from_an_earlier_session_and_what_was_installed_is_taken_away_again(
    ran: Callable[[str], Machine], agent: str
) -> None:
    machine = ran(agent)
    file = settings_of(machine, agent)
    # The client's configuration is made anew with the model's port when a script begins, so all is done in one.
    printed = machine.do(
        f"cp {file} before; $B mcp install {agent}; cp {file} installed; $B mcp uninstall {agent}; cp {file} again;"
        f"$B mcp install {agent}; {ASK.format(client=CLIENTS[agent])}; cp {file} used; $B mcp uninstall {agent}",
        *asking(agent),
    )
    assert '"backstory"' in printed or "[mcp_servers.backstory]" in printed
    found, read = results_told(machine.asked()[-1])
    assert FIRST in found
    assert ANSWER["text"] in read
    assert FIRST in read
    before, installed, again, used = ((machine.work / name).read_bytes() for name in BEFORE_AND_AFTER)
    assert installed != before
    assert again == before
    assert used.count(b"backstory") >= 2
    # One client writes its file anew, with times in it: what is left is that without our lines.
    left = file.read_bytes()
    assert left == (before if used == installed else without_server(used))
    assert b"backstory" not in left
    machine.check()


BEFORE_AND_AFTER = ("before", "installed", "again", "used")


def without_server(settings: bytes) -> bytes:
    """Settings without servers, as the client that writes them anew would write them."""
    kept = {key: value for key, value in json.loads(settings).items() if key != "mcpServers"}
    return json.dumps(kept, indent=2, ensure_ascii=False).encode()


TRUST = {
    "claude": "mkdir -p .claude; echo '{\"enableAllProjectMcpServers\": true}' > .claude/settings.json",
    "codex": """printf '[projects."%s"]\\ntrust_level = "trusted"\\n' "$PWD" >> $CODEX_HOME/config.toml""",
}
"""What a person answers when the client asks whether it may use what a project brings."""


@pytest.mark.parametrize("agent", AGENTS)
def test_a_projects_server_answers_where_the_project_is_trusted(ran: Callable[[str], Machine], agent: str) -> None:
    machine = ran(OTHERS[agent])
    ask = ASK.format(client=CLIENTS[agent]).replace("out.jsonl", "../out.jsonl")
    machine.do(
        f"{TRUST[agent]}; $B mcp install {agent} --scope project && mkdir -p below && cd below && {ask}", *asking(agent)
    )
    found, read = results_told(machine.asked()[-1])
    assert (FIRST in found, ANSWER["text"] in read) == (True, True)


@pytest.mark.parametrize(("agent", "scope"), [("claude", "user"), ("codex", "project")])
def test_an_agents_model_is_told_of_the_skill_until_it_is_uninstalled(
    native: Callable[[str], Machine], agent: str, scope: str
) -> None:
    machine = native(agent)
    ask = ASK.format(client=CLIENTS[agent])
    machine.do(f"{TRUST[agent]}; $B skill install {agent} --scope {scope}; {ask}; "
               f"$B skill uninstall {agent} --scope {scope}; {ask}")  # fmt: skip
    about = "Search and read earlier coding-agent sessions on this machine."
    # What a client asks before is what it asked in the session that it began; twice, as it called its shell.
    assert [about in json.dumps(each) for each in machine.asked()] == [False, False, True, False]


OTHER = {
    "claude": ("claude mcp add -s user other -- /bin/true", "claude mcp remove -s user other"),
    "codex": ("codex mcp add other -- /bin/true", "codex mcp remove other"),
}
"""How the clients' own commands add another server, and remove it."""


@pytest.mark.parametrize("agent", AGENTS)
def test_the_clients_own_commands_know_the_server_and_keep_it_when_they_write_their_settings_anew(
    machine: Machine, agent: str
) -> None:
    file, (add, remove) = settings_of(machine, agent), OTHER[agent]
    printed = machine.do(
        f"$B mcp install {agent} >&2; {add} >&2; {agent} mcp list; cp {file} used; $B mcp uninstall {agent} >&2;"
        f"cp {file} left; {remove} >&2"
    )
    (line,) = [line for line in printed.splitlines() if line.startswith("backstory")]
    assert ("Connected" if agent == "claude" else "enabled") in line
    used, left = ((machine.work / name).read_text() for name in ("used", "left"))
    assert used.count("backstory") >= 2
    assert "backstory" not in left
    assert "/bin/true" in left
    if agent == "claude":
        # As this client itself writes the file: an entry fewer, and not a byte besides.
        settings = json.loads(used)
        del settings["mcpServers"]["backstory"]
        assert left == json.dumps(settings, indent=2, ensure_ascii=False)
    else:
        table = r"\n\[mcp_servers\.backstory(?:\.env)?\]\n(?:.+\n)+"
        assert left == re.sub(table, "", used).removeprefix(f"{WAIT[0]} = {WAIT[1]}\n")
