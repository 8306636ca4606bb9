"""How much work commands do on a small machine that is always the same: counts, no times."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from bench import homes
from tests.support import agent
from tests.support.machines import claude_line, claude_log, lines

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parent.parent.parent
LIMITS = ROOT / "tests" / "work_limits.json"
"""What each command did when its limits were last set."""
CALL_LIMITS = ROOT / "tests" / "call_limits.json"
"""The calls that reading logs took when the limits were last set, by version of Python; and why a limit was raised."""
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SMALL_LOGS = 60
RECORDS_IN_A_SMALL_LOG = 6
SLACK = 1.1
"""A count may be so many times what it was: other versions of SQLite and Python do a little more or less."""
CALL_SLACK = 1.03
"""Calls are always the same, and one more for each record is more than this."""
CALLED = ("agents", "conversation", "derive", "ingest", "nouns", "store")
"""The folders, and those in them, of what each record goes through."""
COPILOT_TURNS = 300
SESSIONS_MORE = 150
COUNTED = ("statements", "sqlite_steps", "transactions", "syncs", "bytes_written", "files_opened", "files_asked")
SCRIPT = [{"say": "I look."}, {"tool": "ls"}, {"say": "Done."}, {"result": True}]
SHOWN = "011ed182-7e99-4421-9c41-c873947f9fe6"
"""A session among the sample logs."""

Counts = dict[str, dict[str, int]]
"""By command, what it did how often."""


def small_log(number: int) -> bytes:
    """Prompts and answers of a session."""
    said = [("user" if n % 2 == 0 else "assistant", f"u{number}-{n}") for n in range(RECORDS_IN_A_SMALL_LOG)]
    return lines(*(claude_line(kind, uuid, f"words of {uuid}", sessionId=session_id(number)) for kind, uuid in said))


def session_id(number: int) -> str:
    """The id of a small session."""
    return f"{number:08}-0000-4000-8000-000000000000"


AGED = 1_750_000_000
"""When the logs of the machine were written, in s since 1970."""


class SmallMachine:
    """The sample logs, and many logs of a few lines, on a machine where backstory never ran."""

    def __init__(self, root: Path) -> None:
        self.home, self.project, self.bin = root / "home", root / "project", root / "bin"
        shutil.copytree(ROOT / "demo" / "home", self.home)
        for folder in (self.project, self.bin):
            folder.mkdir()
        for number in range(SMALL_LOGS):
            self.log(number).parent.mkdir(parents=True, exist_ok=True)
            self.log(number).write_bytes(small_log(number))
        # A folder that was written just now is looked at again, which is more work.
        for path in (self.home, *self.home.rglob("*")):
            os.utime(path, (AGED, AGED))
        agent.install(self.bin)
        self.environ = {
            "HOME": str(self.home), "BACKSTORY_HOME": str(root / "store"), "LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT),
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", "RECEIVED": str(root / "received"),
            "SCRIPT": json.dumps(SCRIPT), "PYTHONHASHSEED": "0",
        }  # fmt: skip
        self._out = root / "counts.json"

    @property
    def store(self) -> Path:
        return Path(self.environ["BACKSTORY_HOME"]) / "store.db"

    def log(self, number: int) -> Path:
        """A log of a few lines."""
        return self.home / claude_log(session_id(number))

    def append(self, number: int) -> None:
        """One more line in a log."""
        with self.log(number).open("ab") as file:
            file.write(lines(claude_line("user", "appended", "one more line", sessionId=session_id(number))))

    def work(self, *words: str) -> dict[str, int]:
        """Run a command; what it did."""
        self._python("-m", "tests.support.counted", str(self._out), *words)
        told = json.loads(self._out.read_text("utf-8"))["work"]
        return {name: told.get(name, 0) for name in COUNTED}

    def modules(self, *words: str) -> dict[str, int]:
        """Run a command; how many modules it imports."""
        told = self._python("-X", "importtime", "-m", "backstory", *words)
        names = [line.rpartition("|")[2].strip() for line in told.splitlines() if line.startswith("import time:")]
        ours = sum(name.partition(".")[0] == "backstory" for name in names)
        return {"modules_of_ours": ours, "modules_of_others": len(names) - 1 - ours}

    def called(self, *words: str, stdin: str = "") -> list[str]:
        """Run a command; the modules of ours that it calls."""
        self._python("-m", "tests.support.called", str(self._out), *words, stdin=stdin)
        called: list[str] = json.loads(self._out.read_text("utf-8"))
        return called

    def calls(self, *words: str) -> dict[str, int]:
        """Run a command; the calls of our functions, by folder."""
        self._python("-m", "tests.support.calls", str(self._out), *words)
        counted: dict[str, int] = json.loads(self._out.read_text("utf-8"))
        return {folder: count for folder, count in counted.items() if folder.partition("/")[0] in CALLED}

    def index(self) -> dict[str, int]:
        """What an ingest leaves behind."""
        with closing(apsw.Connection(str(self.store), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            return {
                "index_segments": db.execute("select count(distinct segid) from search_index_idx").get,
                "free_pages": db.pragma("freelist_count"),
                "store_bytes": self.store.stat().st_size,
            }

    def _python(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=self.project, env=self.environ, capture_output=True, text=True, timeout=120,
            input=stdin,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stderr


def counted(root: Path) -> Counts:
    """What commands do, one after the other, on a machine below ``root``."""
    machine = SmallMachine(root)
    counts = {"version": machine.modules("--version")}
    counts["first ingest"] = machine.work("ingest") | machine.index()
    counts["ingest, nothing new"] = machine.work("ingest") | machine.modules("ingest")
    machine.append(7)
    counts["ingest, one line more"] = machine.work("ingest")
    commands = {"list": ["list", "--all"], "search": ["search", "telemetry"], "show": ["show", SHOWN],
                "doctor": ["doctor"]}  # fmt: skip
    for name, words in commands.items():
        counts[name] = machine.work(*words) | machine.modules(*words)
    # How often a run writes depends on how fast its agent is; what it imports does not.
    counts["run"] = machine.modules("run", "-a", "claude", "-n", "go")
    return counts


def counted_calls(root: Path) -> Counts:
    """The calls that reading logs takes: those of a small machine below ``root``, and 2 MB that were made."""
    machine = SmallMachine(root)
    homes.copilot(machine.home, COPILOT_TURNS)
    homes.small(machine.home, SESSIONS_MORE)
    return {"first ingest": machine.calls("ingest"), "reindex": machine.calls("reindex")}


def grown(counts: Counts, limits: Mapping[str, Mapping[str, int]], slack: float = SLACK) -> list[str]:
    """What is done more often than the limits allow, or has none, in words."""
    found = []
    for command, each in counts.items():
        for name, count in each.items():
            limit = limits.get(command, {}).get(name)
            if limit is None:
                found.append(f"{command}: {name} has no limit")
            elif count > limit * slack:
                found.append(f"{command}: {name} grew from {limit:,} to {count:,}")
    return found
