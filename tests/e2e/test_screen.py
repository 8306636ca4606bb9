"""A day on the screen with the real clients: prompts, words while they work, a branch, a summary, and what is kept."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from backstory.store.tables import compactions
from tests.support.real_clients import SERVED, namespace, shell
from tests.support.running import until
from tests.support.watched import Watched

if TYPE_CHECKING:
    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow

FIRST = "Where does the heron nest?"
SUMMARY = "The heron nests in the reeds. " * 20
CTRL_G, CTRL_T, F2 = "\x07", "\x14", "\x1bOQ"
USAGE = {"input": 1200, "output": 17}


def works(machine: Machine, name: str) -> list[dict[str, Any]]:
    """A model whose agent runs a command until a file is there, and then answers."""
    command = f"until [ -e {machine.root}/{name} ]; do sleep 0.02; done; echo reeds"
    return [{"text": f"Begun-{name}.", "tools": [shell("claude", command)], "usage": USAGE}, answer(f"Done-{name}.")]


def answer(text: str) -> dict[str, Any]:
    return {"text": text, "usage": USAGE}


def scenario(machine: Machine) -> dict[str, Any]:
    """The answers of the model by words of the last prompt: a later one stands first, for it is told of all before."""
    rules = [
        ("older part of a coding session", [answer(SUMMARY)]), ("Another way", [answer("Forked.")]),
        ("Codex, your turn", [answer("From-codex.")]), ("Work for ever", works(machine, "never")),
        ("Wait your turn", [answer("Waited.")]), ("Work again", works(machine, "again")),
        ("Rather this", [answer("Staged.")]), ("Work long", works(machine, "long")),
        ("Look for the otter", works(machine, "otter")),
    ]  # fmt: skip
    found: list[dict[str, Any]] = [{"when": when, "turns": turns} for when, turns in rules]
    found[0]["without_tools"] = True
    return {"turns": [answer("In the reeds.")], "rules": found}


def opened(machine: Machine) -> Watched:
    """The screen beside the model, after a first run, in a network of its own."""
    file = machine.root / "scenario.json"
    file.write_text(json.dumps(scenario(machine)))
    ours = f"{sys.executable} -m backstory"
    lines = f"""
        export ANTHROPIC_BASE_URL=http://127.0.0.1:$STUB_PORT
        sed "s/PORT/$STUB_PORT/" $CODEX_HOME/config.in > $CODEX_HOME/config.toml
        {ours} config set run.permissions all 2> /dev/null
        {ours} run -a claude "{FIRST}" && exec {ours} tui
    """
    served = [sys.executable, "-c", SERVED, "--scenario", str(file), "--log", str(machine.requests), "--"]
    environ = machine.environ() | {"TERM": "xterm-256color"}
    return Watched([*(namespace() or ()), *served, "bash", "-c", lines], machine.work, environ, width=110, rows=40)


def send(seen: Watched, prompt: str, *then: str, key: str = "\r") -> None:
    """Write a prompt into the session, and send it."""
    seen.press("p", "Ctrl+T queue")
    seen.press(prompt, prompt)
    seen.press(key, "s sessions", *then)


def test_a_day_on_the_screen_with_the_real_clients(machine: Machine) -> None:
    with opened(machine) as seen:
        seen.wait("1 session", FIRST)
        seen.press("\r", "In the reeds.", "✓", "p prompt")
        send(seen, "Look for the otter", "Begun-otter.", "Bash")
        send(seen, "And the badger, too.", key=CTRL_G)
        until(lambda: any(b"badger" in each.read_bytes() for each in (machine.root / "bh" / "spool").rglob("*")
                          if each.is_file()))  # fmt: skip
        (machine.root / "otter").touch()
        seen.wait("Done-otter.", "── turn 2", "2 turns")

        send(seen, "Work long", "Begun-long.")
        send(seen, "Rather this", "Staged.", "■ cancelled")

        send(seen, "Work again", "Begun-again.")
        send(seen, "Wait your turn", "+1]", key=CTRL_T)
        (machine.root / "again").touch()
        seen.wait("Done-again.", "Waited.")

        send(seen, "Work for ever", "Begun-never.", "running")
        seen.press("x", "Stopped; its output is kept.")

        seen.press("p", "Ctrl+T queue")
        seen.press(F2 * 2, "to codex")
        seen.press("Codex, your turn", "Codex, your turn")
        seen.press("\r", "s sessions", "From-codex.")

        seen.press("C", "y yes")
        seen.press("y", "summar")
        until(lambda: summaries(machine))

        seen.press("g", "── turn 1")
        seen.press("\x1b[B\x1b[B", "In the reeds.")
        seen.press("f", "may do unasked")
        seen.press("Another way", "Another way")
        seen.press("\r", "❯ Another way", "Forked.", "rewound", "✓ S1")

        seen.press("e", "Write the session to a file")
        seen.press("\r", "Written:")
        seen.press("s", "1 session", "S1")
        seen.press("/", "leave the field")
        seen.press("Begun-otter", "in texts", "»")
        seen.press("\x1b", "Enter open")
        seen.press("\r", "Begun-otter.", "Done-otter.")
        seen.type("q")
        seen.end()
        assert "Traceback" not in seen.shown
    until(lambda: not machine.spools())
    (session,) = machine.store.sessions()
    assert [(each.prompt, each.agent, each.outcome) for each in machine.store.turns(session)] == [
        (FIRST, "claude", "completed"), ("Look for the otter", "claude", "completed"),
        ("Work long", "claude", "cancelled"), ("Rather this", "claude", "completed"),
        ("Work again", "claude", "completed"), ("Wait your turn", "claude", "completed"),
        ("Work for ever", "claude", "cancelled"), ("Codex, your turn", "codex", "completed"),
        ("Another way", "codex", "completed"),
    ]  # fmt: skip
    (written,) = machine.work.glob("*.md")
    assert "Forked." in written.read_text()
    machine.check()


def summaries(machine: Machine) -> bool:
    (session,) = machine.store.sessions()
    return machine.store.ask(compactions.in_force, session.id) is not None
