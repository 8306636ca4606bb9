"""What a run costs beside the bare agent: ``python -m bench.run [--runs N] [--quick]``.

The agent is a script that streams 200 events and ends; "over the bare agent" is a whole ``backstory run`` less the
agent alone. Syncs are those of SQLite and of Python, of folders, too. A line is shown so long after the agent wrote it.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.conversation.context import build_context
from backstory.model import AssistantText, ToolCall, ToolResult, UserMessage
from backstory.store import open_store
from bench import profiles
from bench.figures import Figure, arguments, profiled, report
from bench.measuring import ROOT, Command, backstory, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

OVER_AGENT_MS = 100
SYNCS = 10
AGENT = """
import json, sys, time
sys.stdin.readline()
# It says the id that it was given, as agents do: another one is noted in a transaction of its own.
session = sys.argv[sys.argv.index("--session-id") + 1] if "--session-id" in sys.argv else "s"
def out(**v): print(json.dumps(v), flush=True)
for n in range(EVENTS):
    text = json.dumps({"n": n, "at": time.time()})
    out(type="assistant", session_id=session, message={"id": f"m{n}", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 1, "output_tokens": 1}})
    time.sleep(PAUSE)
out(type="result", subtype="success", is_error=False, duration_ms=1, total_cost_usd=0.0, session_id=session, result="",
    usage={"input_tokens": 1, "output_tokens": 1})
"""


class Place:
    """A throw-away project, home and agent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "project"
        for name in ("project", "home", "bin"):
            (root / name).mkdir()

    def agent(self, events: int, pause: float) -> list[str]:
        script = self.root / "agent.py"
        script.write_text(AGENT.replace("EVENTS", str(events)).replace("PAUSE", str(pause)))
        program = self.root / "bin" / "claude"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
        program.chmod(0o755)
        return [str(program)]

    def environ(self) -> dict[str, str]:
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        return environment(self.root, self.root / "home", PATH=path)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = backstory("run", "-a", "claude", *words)
        return subprocess.run(
            command, cwd=self.project, env=self.environ(), capture_output=True, text=True, check=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip


def overhead_ms(place: Place, runs: int) -> tuple[float, float, tuple[float, ...]]:
    """A whole run less the agent alone, medians: on the clock, and of the processor; the loads before each pair."""
    bare = place.agent(200, 0)
    walls, cpus, loads = [], [], []
    place.run("warm up")
    for _ in range(runs):
        loads.append(os.getloadavg()[0])
        before = _spent()
        subprocess.run(bare, input="x", capture_output=True, text=True, check=True)
        between = _spent()
        place.run("-n", "go")
        after = _spent()
        wall, cpu = (c - b - (b - a) for a, b, c in zip(before, between, after, strict=True))
        walls.append(wall * 1000)
        cpus.append(cpu * 1000)
    return statistics.median(walls), statistics.median(cpus), tuple(loads)


def _spent() -> tuple[float, float]:
    """The clock, and what the programs that were run have used of the processor, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), used.ru_utime + used.ru_stime


def syncs(place: Place) -> list[str]:
    """The files that a run syncs, in their order."""
    out = place.root / "counts.json"
    words = [sys.executable, "-m", "tests.support.counted", str(out), "run", "-a", "claude", "-n", "go"]
    env = {**place.environ(), "PYTHONPATH": str(ROOT)}
    subprocess.run(words, cwd=place.project, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    found: list[str] = json.loads(out.read_text("utf-8"))["synced"]
    return [each.replace(str(place.root), "") for each in found]


def shown_after_ms(place: Place) -> tuple[float, float]:
    """From a line's writing to its printing: median and 95th percentile."""
    place.agent(200, 0.01)
    command = backstory("run", "-a", "claude", "-n", "--json", "go")
    late = []
    with subprocess.Popen(
        command, cwd=place.project, env=place.environ(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event["kind"] == "AssistantText":
                late.append((time.time() - json.loads(event["text"])["at"]) * 1000)
    return statistics.median(late), statistics.quantiles(late, n=20)[-1]


def busy_percent(place: Place) -> float:
    """How much of one processor backstory needs while an agent streams 200 events a second."""
    place.agent(1_400, 0.005)
    command = backstory("run", "-a", "claude", "-n", "go")
    with subprocess.Popen(
        command, cwd=place.project, env=place.environ(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        time.sleep(2)
        before = cpu_s(process.pid)
        time.sleep(4)
        return (cpu_s(process.pid) - before) / 4 * 100


def cpu_s(pid: int) -> float:
    """Seconds of processor time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def context_ms() -> tuple[float, int]:
    """Building the context of a session of 10,000 events within 400,000 characters."""
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "s.bks") as store:
        session = store.create_session()
        turn = [
            UserMessage(content="Please go on with the next step."),
            AssistantText(text="This is what I found in the file. " * 8),
            ToolCall(tool_name="Bash", input={"command": "make test"}),
            ToolResult(tool_name="Bash", content="ok\n" * 40),
        ]
        for _ in range(2_500):
            store.append_events(session, turn)
        times = []
        for _ in range(7):
            started = time.perf_counter()
            context = build_context(store.context_turns(session, 400_000), budget_chars=400_000)
            times.append((time.perf_counter() - started) * 1000)
        return statistics.median(times), len(context.text)


def growth(place: Place) -> list[int]:
    """Bytes of the store after 10, 20, … 50 turns of one session."""
    place.agent(20, 0)
    sizes = []
    for n in range(50):
        place.run("--name", "growing", f"prompt {n}")
        if n % 10 == 9:
            sizes.append((place.project / ".backstory" / "sessions.bks").stat().st_size)
    return sizes


def figures(runs: int, *, quick: bool, profile: bool) -> Iterator[Figure]:
    """What a run costs."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        wall, cpu, loads = overhead_ms(place, runs)
        figure = Figure("a run of 200 events, over the bare agent", cpu, "ms", most=OVER_AGENT_MS, runs=runs)
        command = Command(backstory("run", "-a", "claude", "-n", "go"), place.environ(), place.project)
        yield profiled(figure, lambda: profiles.imports(command) + profiles.cpu(command), wanted=profile)
        yield Figure("the same on the clock", wall, "ms", runs=runs, loads=loads)
        files = syncs(place)
        yield profiled(Figure("syncs of a run", len(files), most=SYNCS), lambda: files, wanted=profile)
        if quick:
            return
        median, p95 = shown_after_ms(place)
        yield Figure("a line is shown after, on the clock", median, "ms", note=f"95th percentile {p95:.0f} ms")
        yield Figure("a processor's share at 200 events a second", busy_percent(place), "%")
        took, characters = context_ms()
        yield Figure("context of 10,000 events, in process", took, "ms", note=f"{characters:,} characters")
    with tempfile.TemporaryDirectory() as folder:
        sizes = growth(Place(Path(folder)))
        note = ", ".join(f"{size / 1000:.0f} KB" for size in sizes)
        a_turn = (sizes[-1] - sizes[0]) / 40 / 1000
        yield Figure("a store grows with each turn of a session", a_turn, "KB", note=f"after 10, 20, … turns {note}")


def main() -> None:
    """Print the figures."""
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="only what has a bound")
    given = parser.parse_args()
    report(given, figures(given.runs, quick=given.quick, profile=given.profile))


if __name__ == "__main__":
    main()
