"""What following logs costs and how soon a line is found: ``python -m bench.watch [--files N] [--lines N] [--idle S]``.

``backstory ingest --watch`` runs in a home folder with that many logs. "idle CPU" is the share of a processor that it
used while nothing changed; "latency" is the time from the append of a line until a search in another process finds it.
Each line goes to a log chosen by a fixed rule; "batch CPU" is what following cost per line.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.store import open_store
from bench.figures import Figure, arguments, report
from bench.measuring import backstory

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDERS = 500
WAIT_S = 120.0


def line(session: str, number: int, word: str) -> bytes:
    """A prompt as Claude Code writes it."""
    record = {
        "type": "user",
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{session}/{number}")),
        "sessionId": session,
        "timestamp": "2026-11-21T21:00:00.000Z",
        "cwd": "/home/dev/project",
        "message": {"role": "user", "content": f"Please look at {word}"},
    }
    return json.dumps(record).encode() + b"\n"


def make_logs(home: Path, count: int) -> list[Path]:
    """So many logs in ``FOLDERS`` folders."""
    made = []
    for number in range(count):
        session = str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))
        path = home / ".claude" / "projects" / f"-home-dev-p{number % FOLDERS}" / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(line(session, each, f"item {each}") for each in range(5)))
        made.append(path)
    return made


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> tuple[float, float]:
    """What a process has in memory now, and the most it ever had."""
    told = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {row.split(":")[0]: float(row.split()[1]) / 1024 for row in told if row.startswith(("VmRSS", "VmHWM"))}
    return found["VmRSS"], found["VmHWM"]


def latency_ms(store_path: Path, log: Path, number: int) -> float:
    """Append a line, and ask until a search finds it."""
    word = f"needle{number}x"
    with log.open("ab") as file:
        file.write(line(log.stem, 1000 + number, word))
    began = time.perf_counter()
    while time.perf_counter() - began < WAIT_S:
        with open_store(store_path, shared=True) as store:
            if store.search(word).hits:
                return (time.perf_counter() - began) * 1000
        time.sleep(0.005)
    raise SystemExit(f"{word} was not found within {WAIT_S} s")


def measure(home: Path, files: int, lines: int, idle_s: float) -> dict[str, float]:
    """Follow, be idle, append."""
    logs = make_logs(home, files)
    environ = {**os.environ, "HOME": str(home), "BACKSTORY_HOME": str(home / "backstory")}
    environ.pop("CLAUDE_CONFIG_DIR", None)
    began = time.perf_counter()
    command = backstory("ingest", "--watch", "--json")
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        figures = {"first_s": time.perf_counter() - began}
        # The store is closed a moment after it was written; that is not idle yet.
        time.sleep(5)
        before, at = cpu_s(process.pid), time.perf_counter()
        time.sleep(idle_s)
        figures["idle_cpu_percent"] = 100 * (cpu_s(process.pid) - before) / (time.perf_counter() - at)
        figures["idle_memory_mb"], figures["peak_memory_mb"] = memory_mb(process.pid)
        figures["idle_side_files"] = len(list((home / "backstory").glob("store.db-*")))
        before = cpu_s(process.pid)
        found = [latency_ms(home / "backstory" / "store.db", logs[n * 7919 % files], n) for n in range(lines)]
        figures["batch_cpu_ms"] = 1000 * (cpu_s(process.pid) - before) / lines
        figures["latency_ms_median"] = statistics.median(found)
        figures["latency_ms_p95"] = statistics.quantiles(found, n=20)[-1]
        figures["latency_ms_max"] = max(found)
        figures["memory_after_mb"] = memory_mb(process.pid)[0]
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)
    figures["exit_code"] = process.returncode
    return figures


def figures(files: int, lines: int, idle_s: float) -> Iterator[Figure]:
    """What following costs."""
    with tempfile.TemporaryDirectory() as folder:
        told = measure(Path(folder), files, lines, idle_s)
    yield Figure(f"a processor's share, {files:,} logs, idle", told["idle_cpu_percent"], "%")
    yield Figure("memory, idle", told["idle_memory_mb"], "MB", note=f"at most {told['peak_memory_mb']:.0f} MB")
    yield Figure("processor time of one line", told["batch_cpu_ms"], "ms", runs=lines)
    note = f"95th percentile {told['latency_ms_p95']:.0f} ms, at most {told['latency_ms_max']:.0f} ms, on the clock"
    yield Figure("a line is found after", told["latency_ms_median"], "ms", runs=lines, note=note)


def main() -> None:
    """Make logs, follow them, print."""
    parser = arguments(__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--idle", type=float, default=20.0)
    given = parser.parse_args()
    report(given, figures(given.files, given.lines, given.idle))


if __name__ == "__main__":
    main()
