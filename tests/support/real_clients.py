"""A machine of their own for the real clients, beside a model that answers as it is told."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from backstory.store import Store, open_store
from tests.support import forked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CLIENTS = Path(os.environ.get("BACKSTORY_CLIENTS") or Path.home() / ".cache" / "backstory-clients")
PROGRAMS = {
    "claude": "claude-latest/node_modules/@anthropic-ai/claude-code-*/claude",
    "codex": "codex/node_modules/@openai/codex-*/vendor/*/bin/codex",
}
"""The native programs: the Node scripts around them are processes of their own, which signals would reach instead."""


AGENTS = tuple(PROGRAMS)
STUB = Path(__file__).parent.parent / "e2e" / "stub_model.py"
OURS = "backstory"
"""The first word of what runs beside the model, where that is a command of ours."""
SERVED = f"""{forked.COPIED}
import sys
sys.path.insert(0, {str(STUB.parent.parent.parent)!r})
from tests.support import real_clients
del sys.path[0]
real_clients.serve()
"""
WAIT_S = 120
FIRST = "Where does the heron nest?"
ANSWER: dict[str, Any] = {"text": "In-the-reeds-1181.", "usage": {"input": 1200, "output": 17}}
NATIVE = {
    "claude": "echo '{0}' | claude {1} -p --permission-mode bypassPermissions > /dev/null 2>&1",
    "codex": "echo '{0}' | codex exec {1} --skip-git-repo-check - > /dev/null 2>&1",
}
"""A prompt for a client itself, with options."""
RESUMED = {"claude": "--resume {0}", "codex": "resume {0}"}
"""The options by which it goes on with a session."""
HELLO: dict[str, Any] = {"text": "Hello from the stub.", "usage": {"input": 1200, "output": 34}}
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
request_max_retries = 1
stream_max_retries = 1
"""


OVER = f"""
    exec {{nobody}}<> <(:)
    waited() {{
        for exe in $(find /proc/[0-9]*/exe -maxdepth 0 -lname '{CLIENTS.resolve()}/*' 2>/dev/null); do
            grep -qs "BACKSTORY_HOME=$BACKSTORY_HOME" ${{exe%exe}}environ || continue
            while [ -e $exe ]; do read -rt 0.02 -u $nobody; done
            return 0
        done
        return 1
    }}
    while waited; do :; done
"""
"""Waits until the agents that were started have ended, and starts no process for each look."""


@cache
def clients() -> dict[str, Path]:
    """The native programs that are installed, by agent."""
    found = {agent: next(CLIENTS.glob(pattern), None) for agent, pattern in PROGRAMS.items()}
    return {agent: path for agent, path in found.items() if path is not None}


@cache
def namespace() -> list[str] | None:
    """The command that leaves a process nothing but loopback; None where that is not allowed."""
    for options in (["-n"], ["-rn"]):
        command = ["unshare", *options, "--", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        if shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            return command
    return None


def why_not() -> str | None:
    """What keeps the real clients from being run here; None when nothing does."""
    missing = [agent for agent in AGENTS if agent not in clients()]
    if missing:
        why = os.environ.get("BACKSTORY_NO_CLIENTS") or "`make clients` installs them"
        return f"NOT TESTED with the real {' and '.join(missing)}: not in {CLIENTS} ({why})"
    if namespace() is None:
        return (
            "NOT TESTED with the real clients: no network namespace may be made here, neither as root (unshare -n) "
            "nor as a user (unshare -rn), and they are not run where they could reach a network"
        )
    return None


class Machine:
    """A machine of its own: folders, clients, and a model that says what it is told."""

    def __init__(self, root: Path) -> None:
        self.root, self.work = root, root / "work"
        for name in ("work", "home/.claude", "home/.codex", "tmp", "bh", "bin"):
            (root / name).mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(self.work)], check=True)
        for name, program in clients().items():
            (root / "bin" / name).symlink_to(program)
        for name in ("config.in", "config.toml"):
            (root / "home" / ".codex" / name).write_text(CODEX_CONFIG)
        self.requests = root / "requests.jsonl"
        self.started: list[subprocess.Popen[str]] = []

    def start(
        self, script: str, turns: list[dict[str, Any]], rules: list[dict[str, Any]] | None = None
    ) -> subprocess.Popen[str]:
        """Run shell lines with ``$B`` for backstory, beside a model that answers with these turns.

        Rules ({"when": regex, "turns": [...]}) answer the requests whose words they match.
        """
        lines = f"""
            export ANTHROPIC_BASE_URL=http://127.0.0.1:$STUB_PORT
            sed "s/PORT/$STUB_PORT/" $CODEX_HOME/config.in > $CODEX_HOME/config.toml
            B="{sys.executable} -m backstory"
            {script}
        """
        return self._served(["bash", "-c", lines], turns, rules)

    def _served(
        self,
        words: list[str],
        turns: list[dict[str, Any]],
        rules: list[dict[str, Any]] | None = None,
        stdin: IO[bytes] | None = None,
    ) -> subprocess.Popen[str]:
        """``words``: a program, or ``OURS`` and the arguments of a command."""
        scenario = self.root / "scenario.json"
        scenario.write_text(json.dumps({"turns": turns, "rules": rules or []}))
        served = [sys.executable, "-c", SERVED, "--scenario", str(scenario), "--log", str(self.requests)]
        process: subprocess.Popen[str] = forked.Process(
            [*served, "--var", f"cwd={self.work}", "--", *words], cwd=self.work, env=self.environ(), text=True,
            stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            within=namespace() or (),
        )  # fmt: skip
        self.started.append(process)
        return process

    def do(self, script: str, *turns: dict[str, Any]) -> str:
        """The same, to its end; gives what it printed."""
        out, err, code = self.end(self.start(script, list(turns) or [HELLO]))
        assert code == 0, err
        return out

    def do_ours(self, line: str, *turns: dict[str, Any], rules: list[dict[str, Any]] | None = None) -> str:
        """The same of one command of ours, which is a copy of a process that has imported everything."""
        out, err, code = self.end(self._served([OURS, *shlex.split(line)], list(turns) or [HELLO], rules))
        assert code == 0, err
        return out

    def ask(self, line: str, *, code: int | None = 0) -> str:
        """Run one backstory command that needs no model; gives what it printed, on stderr too where it must fail.

        ``code``: its exit code, None for any.
        """
        done = forked.run(
            [*forked.COMMAND, *shlex.split(line)], cwd=self.work, env=self.environ(), within=namespace() or (),
            timeout=WAIT_S,
        )  # fmt: skip
        assert code in (None, done.returncode), done.stderr.decode()
        return (done.stdout + (done.stderr if code else b"")).decode()

    def end(self, process: subprocess.Popen[str]) -> tuple[str, str, int]:
        """Wait for what was started: what it printed on stdout and on stderr, and its exit code."""
        out, err = process.communicate(timeout=WAIT_S)
        return out, err, process.returncode

    def run(self, agent: str, prompt: str, *turns: dict[str, Any]) -> Ran:
        """One run with all permissions, the prompt on stdin as it is, beside a model that answers with these turns."""
        given = self.root / "prompt"
        given.write_bytes(prompt.encode())
        words = [OURS, "run", "-a", agent, "--permissions", "all", "--json"]
        with given.open("rb") as stdin:
            process = self._served(words, list(turns) or [HELLO], stdin=stdin)
        out, err, code = self.end(process)
        return Ran(self, agent, code, [json.loads(line) for line in out.splitlines()], err)

    def environ(self) -> dict[str, str]:
        home = self.root / "home"
        return {
            "PATH": f"{self.root / 'bin'}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "dumb",
            "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "CODEX_HOME": str(home / ".codex"),
            "TMPDIR": str(self.root / "tmp"), "BACKSTORY_HOME": str(self.root / "bh"), "ANTHROPIC_API_KEY": "test",
            "STUB_API_KEY": "test", "IS_SANDBOX": "1", "CLAUDE_CODE_MAX_RETRIES": "1", "DISABLE_TELEMETRY": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
        }  # fmt: skip

    @property
    def store(self) -> Store:
        return open_store(self.work / ".backstory" / "sessions.bks")

    @property
    def home_store(self) -> Store:
        return open_store(self.root / "bh" / "store.db", shared=True)

    def asked(self) -> list[dict[str, Any]]:
        """The model's requests so far, those for titles and the like left out."""
        lines = self.requests.read_bytes().splitlines(keepends=True) if self.requests.exists() else []
        entries = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [each["body"] for each in entries if str(each.get("answer", "")).startswith("turns") and "body" in each]

    def spools(self) -> list[str]:
        """The runs that are not stored yet."""
        folder = self.root / "bh" / "spool"
        return sorted(each.name for each in folder.iterdir()) if folder.exists() else []

    def processes(self) -> dict[int, str]:
        """What still runs of all that was started on this machine, by id."""
        mine, found = f"BACKSTORY_HOME={self.root / 'bh'}".encode(), {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if mine in (entry / "environ").read_bytes().split(b"\0"):
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(entry.name)] = words.decode("utf-8", "replace")
            except OSError:
                continue
        return found

    def keep(self) -> None:
        """Note all that there is on it, to be put back."""
        subprocess.run(["cp", "-a", str(self.root), str(self._kept)], check=True)

    def put_back(self) -> None:
        """Have it be as it was when it was noted."""
        shutil.rmtree(self.root)
        subprocess.run(["cp", "-a", str(self._kept), str(self.root)], check=True)

    @property
    def _kept(self) -> Path:
        return self.root.with_name(f"{self.root.name}-kept")

    def switch_off(self) -> None:
        """End what a failed test has left running."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.communicate(timeout=WAIT_S)
        self.started.clear()

    def check(self) -> None:
        """What must hold after every run, however it ended: nothing is hurt, left over, or still running."""
        assert self.store.verify().problems == []
        assert self.home_store.verify().problems == []
        assert self.spools() == []
        assert self.processes() == {}


if TYPE_CHECKING:
    Done = Callable[[Machine, str], None]
    """What is done on a machine with an agent."""
    DoneOnce = Callable[[Done, str], Machine]


class Ran:
    """One run that is over: what it printed, and what the store has of it."""

    def __init__(self, machine: Machine, agent: str, code: int, printed: list[dict[str, Any]], stderr: str) -> None:
        self.machine, self.agent, self.code, self.printed, self.stderr = machine, agent, code, printed, stderr
        (self.session,) = machine.store.sessions()
        self.turn = machine.store.turns(self.session)[-1]
        stored = machine.store.events(self.session)
        self.events: list[Any] = [each.event for each in stored if each.seq >= self.turn.first_seq]
        self.kinds = [each.kind for each in self.events]

    def of(self, kind: str) -> list[Any]:
        """Its events of one kind."""
        return [event for event in self.events if event.kind == kind]


def begin_natively(machine: Machine, agent: str) -> None:
    """A session of a client itself, in which its shell was called, and which was read."""
    call = {"text": "I look.", "tools": [shell(agent, "echo nest-4711 | tr a-z A-Z")]}
    machine.do(NATIVE[agent].format(FIRST, ""), call, ANSWER)
    machine.ask("ingest")


def begin_by_run(machine: Machine, agent: str) -> None:
    """A session of ours, begun by a run of an agent."""
    machine.do_ours(f"run -a {agent} --permissions all '{FIRST}'", ANSWER)


def shell(agent: str, command: str) -> dict[str, Any]:
    """A model's call of the agent's shell."""
    if agent == "claude":
        return {"name": "Bash", "input": {"command": command}}
    return {"name": "exec_command", "input": {"cmd": command}}


def said_to(body: dict[str, Any]) -> list[str]:
    """Each text in the user's place of a request, in order."""
    said = []
    for message in body.get("messages") or body.get("input") or []:
        if message.get("role") == "user":
            content = message.get("content")
            blocks = [{"text": content}] if isinstance(content, str) else content or []
            said += [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    return said


# the process that is the model --------------------------------------------------------------------------------------


class _Forked:
    """A command of ours in a fork of the process that is the model, as ``subprocess.Popen`` would begin it."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str]) -> None:
        self._pid = os.fork()
        if self._pid == 0:
            port = env["STUB_PORT"]
            os.environ.update(env, ANTHROPIC_BASE_URL=f"http://127.0.0.1:{port}")
            codex = Path(env["CODEX_HOME"])
            (codex / "config.toml").write_text((codex / "config.in").read_text().replace("PORT", port))
            forked.run_as_main(words[1:])

    def send_signal(self, number: int) -> None:
        os.kill(self._pid, number)

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def serve() -> None:
    """Be the model until what it is given to run has ended: the arguments are those of its program."""
    if sys.argv[sys.argv.index("--") + 1] == OURS:
        STUB_MODEL.START = _Forked
    sys.exit(STUB_MODEL.main())


STUB_MODEL: Any = importlib.import_module("tests.e2e.stub_model")
