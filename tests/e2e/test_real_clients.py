"""The real ``claude`` and ``codex``, offline, against a scripted model on loopback, in a network namespace.

Install them with ``make clients``. Every run has a home of its own and keys that open nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from backstory.context import CLOSE
from backstory.store import Store, open_store

CLIENTS = Path(os.environ.get("BACKSTORY_CLIENTS") or Path.home() / ".cache" / "backstory-clients")
STUB = Path(__file__).with_name("stub_model.py")
WAIT_S = 120
HELLO = {"text": "Hello from the stub.", "usage": {"input": 1200, "output": 34}}
CODEX_CONFIG = """
model = "gpt-5.5"
model_provider = "stub"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
daemon_auto_start = false
unbounded_connection_retries = false
[model_providers.stub]
name = "stub"
base_url = "http://127.0.0.1:PORT/v1"
wire_api = "responses"
env_key = "STUB_API_KEY"
request_max_retries = 2
stream_max_retries = 2
"""


def clients() -> dict[str, Path]:
    """The native programs, where they are installed."""
    claude = CLIENTS / "claude-latest" / "node_modules" / ".bin" / "claude"
    codex = next(CLIENTS.glob("codex/**/vendor/*/bin/codex"), None)
    return {name: path for name, path in (("claude", claude), ("codex", codex)) if path is not None and path.exists()}


def namespace() -> list[str] | None:
    """The command that leaves a process nothing but loopback; None where that is not allowed."""
    for options in (["-n"], ["-rn"]):
        command = ["unshare", *options, "--", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        if (
            shutil.which("unshare")
            and subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
        ):
            return command
    return None


pytestmark = [
    pytest.mark.skipif(len(clients()) < 2, reason="the real clients are not installed: make clients"),
    pytest.mark.skipif(namespace() is None, reason="no network namespaces here: the real clients are not run"),
]


class Machine:
    """A machine of its own: folders, clients, and a model that says what it is told."""

    def __init__(self, root: Path) -> None:
        self.root, self.work = root, root / "work"
        for name in ("work", "home/.claude", "home/.codex", "tmp", "bh", "bin"):
            (root / name).mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(self.work)], check=True)
        for name, program in clients().items():
            (root / "bin" / name).symlink_to(program)
        (root / "home" / ".codex" / "config.in").write_text(CODEX_CONFIG)
        self.requests = root / "requests.jsonl"

    def start(self, script: str, turns: list[dict[str, Any]]) -> subprocess.Popen[str]:
        """Run shell lines with ``$B`` for backstory, beside a model that answers with these turns."""
        scenario = self.root / "scenario.json"
        scenario.write_text(json.dumps({"turns": turns}))
        lines = f"""
            export ANTHROPIC_BASE_URL=http://127.0.0.1:$STUB_PORT
            sed "s/PORT/$STUB_PORT/" $CODEX_HOME/config.in > $CODEX_HOME/config.toml
            B="{sys.executable} -m backstory"
            {script}
        """
        stub = [sys.executable, str(STUB), "--scenario", str(scenario), "--log", str(self.requests)]
        command = [*(namespace() or []), *stub, "--var", f"cwd={self.work}", "--", "bash", "-c", lines]
        return subprocess.Popen(
            command, cwd=self.work, env=self.environ(), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def do(self, script: str, *turns: dict[str, Any]) -> str:
        """The same, to its end; gives what it printed."""
        process = self.start(script, list(turns) or [HELLO])
        out, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, err
        return out

    def environ(self) -> dict[str, str]:
        home = self.root / "home"
        return {
            "PATH": f"{self.root / 'bin'}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "dumb",
            "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "CODEX_HOME": str(home / ".codex"),
            "TMPDIR": str(self.root / "tmp"), "BACKSTORY_HOME": str(self.root / "bh"), "ANTHROPIC_API_KEY": "test",
            "STUB_API_KEY": "test", "IS_SANDBOX": "1", "CLAUDE_CODE_MAX_RETRIES": "2", "DISABLE_TELEMETRY": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
        }  # fmt: skip

    @property
    def store(self) -> Store:
        return open_store(self.work / ".backstory" / "sessions.bks")

    def sent(self) -> list[str]:
        """What the model was asked, request by request."""
        return [line for line in self.requests.read_text("utf-8").splitlines() if "nest" in line]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_one_session_goes_from_claude_to_codex_and_back(machine: Machine) -> None:
    machine.do(
        '$B run -a claude "Where does the heron nest?"; $B run -a codex "Say it again."; $B run -a claude "And again."'
    )
    (session,) = machine.store.sessions()
    turns = machine.store.turns(session)
    assert [(turn.prompt, turn.agent, turn.outcome) for turn in turns] == [
        ("Where does the heron nest?", "claude", "completed"), ("Say it again.", "codex", "completed"),
        ("And again.", "claude", "completed"),
    ]  # fmt: skip
    first, second, third = machine.sent()
    assert CLOSE not in first
    assert second.count("Where does the heron nest?") == third.count("Where does the heron nest?") == 1
    assert third.count("Say it again.") == 1
    assert all(turn.tokens.output == 34 for turn in turns)
    assert machine.store.verify().problems == []


def test_the_agents_own_logs_of_runs_make_no_second_session(machine: Machine) -> None:
    out = machine.do(
        '$B run -a claude "Where does the heron nest?" >/dev/null; $B run -a codex "Say it again." >/dev/null; '
        "$B ingest --json; $B list --all --json"
    )
    decoder = json.JSONDecoder()
    report, at = decoder.raw_decode(out)
    listed, _ = decoder.raw_decode(out[at:].lstrip())
    assert report["logs_read"] >= 2
    assert report["errors"] == []
    assert report["unknown_records"] == {}
    assert [each["number"] for each in listed] == ["S1"]


def test_tools_that_were_run_are_recorded_with_their_results(machine: Machine) -> None:
    machine.do(
        '$B run -a claude --permissions all "Do the work."',
        {
            "text": "Looking.",
            "tools": [{"name": "Bash", "input": {"command": "echo alpha > notes.txt; cat notes.txt"}}],
        },
        {"text": "Done."},
    )
    kinds = [stored.kind for stored in machine.store.events(1)]
    assert [kind for kind in kinds if kind.startswith("Tool")] == ["ToolCall", "ToolResult"]
    assert (machine.work / "notes.txt").read_text() == "alpha\n"


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_an_error_of_the_model_is_a_failed_turn(machine: Machine, agent: str) -> None:
    out = machine.do(
        f'$B run -a {agent} --json "Do the work." || true',
        {"status": 400, "error": "invalid", "message": "no such thing"},
    )
    last = json.loads(out.splitlines()[-1])
    assert last["outcome"] == "failed"
    assert last["error"]
    assert machine.store.turns(1)[0].outcome == "failed"


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_killed_backstory_leaves_the_answer_to_the_next_command(machine: Machine, agent: str) -> None:
    slow = {"text": "word " * 60, "chunk": 10, "chunk_delay": 0.02}
    script = (
        f'$B run -a {agent} "Where does the heron nest?" & run=$!; '
        'until [ -s "$(echo $BACKSTORY_HOME/spool/*/stdout)" ]; do sleep 0.02; done; kill -9 $run; '
        'while $B ps --json | grep -q running; do sleep 0.1; done; $B run -a claude "Go on."'
    )
    machine.do(script, slow, HELLO)
    first, second = machine.store.turns(1)
    assert (first.outcome, second.outcome) == ("completed", "completed")
    answer = next(s.event.text for s in machine.store.events(1) if s.kind == "AssistantText")  # type: ignore[attr-defined]
    assert answer.strip() == ("word " * 60).strip()


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_an_interrupt_makes_a_cancelled_turn(machine: Machine, agent: str) -> None:
    process = machine.start(
        f'exec $B run -a {agent} "Where does the heron nest?"', [{"text": "one two three", "hang": 60}]
    )
    spool = machine.root / "bh" / "spool"
    end = time.monotonic() + WAIT_S
    while not machine.requests.exists() or not machine.requests.read_text() or not any(spool.glob("*/process.json")):
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT_S)
    assert machine.store.turns(1)[0].outcome == "cancelled"


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_four_hundred_thousand_characters_reach_the_model(machine: Machine, agent: str) -> None:
    machine.do(f"{sys.executable} -c \"print('nest ' + '漢字ab' * 100_000)\" | $B run -a {agent}")
    assert machine.store.turns(1)[0].outcome == "completed"
    assert any("漢字ab" * 99_000 in line.encode().decode("unicode_escape", "ignore") or line.count("\\u6f22") > 90_000
               or line.count("漢") > 90_000 for line in machine.sent())  # fmt: skip
