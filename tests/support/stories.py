"""The stories of README.md: their commands, typed into a terminal on a small machine, and what they print there.

The machine has the logs of ``demo/home``, scripted agents, and a clock that only the agents move. A story is a block
of the kind ``console``: lines that begin with ``$ `` are typed into a shell, the lines behind each are its output.
"""

from __future__ import annotations

import fcntl
import html
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import tomllib
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from tests.support import agent

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PICTURES = ROOT / "docs" / "screens"
REGENERATE = "python -m tests.set_readme_output"
COLUMNS, ROWS = 100, 400
"""Lines that fit a page of GitHub, and so many of them that nothing is paged."""
NOW = int(datetime(2026, 11, 22, 9, 30, tzinfo=UTC).timestamp() * 1000)
"""The day after the newest log, in ms since 1970."""
WAIT_S = 120
PROMPT = "$ "
PLACE_OF_ADDRESS = "REPOSITORY"
_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_SCREENS = re.compile(r"(?<=^<!-- screens -->\n).*?(?=^<!-- end of screens -->$)", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'<text class="screen-title"[^>]*>([^<]*)<')
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LINE_CLEARED = "\x1b[2K"
_BAR = "━"
_AT_A_CLOCK = """
import os, pathlib, sys
import backstory.cli.app as app
sys.argv[0] = "backstory"
app.now_ms = lambda: int(pathlib.Path(os.environ["CLOCK"]).read_text())
from backstory.cli import main
main()
"""
_STALE = "// Load telemetry preference from settings (ignore errors - default to enabled)\n"
"""The comment that a session of the samples leaves to be corrected."""


def _codex(*items: dict[str, object], took_ms: int) -> list[dict[str, object]]:
    usage = {"input_tokens": 24_000, "cached_input_tokens": 18_500, "output_tokens": 235}
    records = [
        {"type": "thread.started", "thread_id": "01a20004-0a6c-7ed2-8c55-3a29d0f1b7c4"},
        {"type": "turn.started"},
        *({"type": "item.completed", "item": {"id": f"item_{n}", **item}} for n, item in enumerate(items)),
        {"type": "turn.completed", "usage": usage},
    ]
    return [{"takes": took_ms}, {"raw": "".join(json.dumps(record) + "\n" for record in records)}]


SCRIPTS: dict[str, list[dict[str, object]]] = {
    "codex": _codex(
        {"type": "file_change", "changes": [{"path": "cmd/entire/main.go", "kind": "update"}], "status": "completed"},
        {"type": "agent_message", "text": "The comment in main.go now says that telemetry is off by default."},
        took_ms=8300,
    ),
    "claude": [
        {"takes": 1200},
        {"tool": "sed -i '/default to enabled/d' cmd/entire/main.go"},
        {"say": "I removed the comment: the code below it says the same."},
        {"result": True},
    ],
}
"""What each agent does whenever it is asked."""


class Machine:
    """A home folder with the sample logs, a project ``~/cli``, agents on PATH and a clock."""

    def __init__(self, root: Path) -> None:
        self.home, self._bin = root / "home", root / "bin"
        self._clock, self._folder = root / "clock", root / "folder"
        shutil.copytree(ROOT / "demo" / "home", self.home)
        self._bin.mkdir()
        self._clock.write_text(str(NOW))
        self._make_program("backstory", {}, "-c", _AT_A_CLOCK)
        for name, script in SCRIPTS.items():
            self._make_program(name, {"SCRIPT": json.dumps(script), "RECEIVED": str(root / name)}, *agent.OPTIONS)
        self._make_project(self.home / "cli")
        self._folder.write_text(str(self.home))

    def typed(self, command: str) -> str:
        """Return what the terminal shows when the command is over, without colours.

        The next command is run in the folder where this one ended, as in one shell.
        """
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        script = f"{command}\npwd >{shlex.quote(str(self._folder))}"
        process = subprocess.Popen(
            ["sh", "-c", script], cwd=self._folder.read_text().strip(), env=self.environ(),
            stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        with suppress(OSError):
            while block := os.read(ours, 65536):
                seen += block
        os.close(ours)
        process.wait(timeout=WAIT_S)
        return self._lasting(seen.decode())

    def _lasting(self, seen: str) -> str:
        lines = seen.replace("\r\n", "\n").replace(str(self.home), "~").split("\n")
        kept = [_CONTROL.sub("", line.rpartition(_LINE_CLEARED)[2]) for line in lines]
        return "\n".join(line.rstrip() for line in kept if _BAR not in line).strip("\n")

    def environ(self) -> dict[str, str]:
        return {
            "HOME": str(self.home), "BACKSTORY_HOME": str(self.home / ".local/share/backstory"),
            "PATH": f"{self._bin}:{os.environ['PATH']}", "CLOCK": str(self._clock), "LC_ALL": "C.UTF-8", "TZ": "UTC",
            "TERM": "xterm-256color", "GIT_CONFIG_GLOBAL": os.devnull,
        }  # fmt: skip

    def program(self, name: str) -> Path:
        """Where a program of this machine is, which is on its PATH."""
        return self._bin / name

    def _make_program(self, name: str, environ: dict[str, str], *words: str) -> None:
        settings = "".join(f"{key}={shlex.quote(value)} " for key, value in environ.items())
        program = self.program(name)
        program.write_text(f'#!/bin/sh\n{settings}exec {shlex.join([sys.executable, *words])} "$@"\n')
        program.chmod(0o755)

    def _make_project(self, folder: Path) -> None:
        source = folder / "cmd" / "entire" / "main.go"
        source.parent.mkdir(parents=True)
        source.write_text(_STALE)
        subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True, env=self.environ())


def stories(text: str) -> list[str]:
    """Return the stories of a document, as they stand."""
    return _BLOCK.findall(text)


def steps(story: str) -> list[tuple[str, str]]:
    """Return the commands of a story, each with the output shown."""
    found: list[tuple[str, list[str]]] = []
    for line in story.splitlines():
        if line.startswith(PROMPT):
            found.append((line.removeprefix(PROMPT), []))
        elif found:
            found[-1][1].append(line)
    return [(command, "\n".join(shown)) for command, shown in found]


def played(story: str, machine: Machine) -> str:
    """Return the story with what its commands print on this machine."""
    return "".join(
        f"{PROMPT}{command}\n" + "".join(f"{line}\n" for line in machine.typed(command).splitlines())
        for command, _ in steps(story)
    )


def illustrated(text: str) -> str:
    """Return a document with links to all pictures of screens, called by the commands that they show."""
    titles = {path: _TITLE.search(path.read_text("utf-8")) for path in sorted(PICTURES.glob("*.svg"))}
    links = [
        f"[`{html.unescape(title.group(1)).replace(chr(0xA0), ' ')}`]({path.relative_to(ROOT)})"
        for path, title in titles.items()
        if title
    ]
    return _SCREENS.sub(lambda _: " ·\n".join(links) + "\n", text)


def address() -> str | None:
    """Return the address of the repository, if the package's metadata have one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: str | None = project.get("urls", {}).get("Repository")
    return found


def addressed(text: str, repository: str | None) -> str:
    """Return a document with the address of the repository, where one is known, in its place."""
    return text.replace(PLACE_OF_ADDRESS, repository) if repository else text


def retold(text: str, machine: Machine) -> str:
    """Return a document with the output of all its stories as it is today."""
    return _BLOCK.sub(lambda story: played(story.group(), machine), text)
