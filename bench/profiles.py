"""Where a command's time, memory or bytes go: the top lines of a profile of all its Python processes."""

from __future__ import annotations

import pstats
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.measuring import Command, answer, spend

LINES = 12
HOOK = """
import atexit, os, threading, time
out = f"{os.environ['BENCH_PROFILE']}/{os.getpid()}"
def keep(data):
    with open(out + ".new", "wb") as file:
        file.write(data)
    os.replace(out + ".new", out)
def again(look, every_s):
    while True:
        time.sleep(every_s)
        look()
if os.environ["BENCH_PROFILED"] == "cpu":
    import cProfile, marshal
    profile = cProfile.Profile(time.thread_time)
    def look():
        profile.snapshot_stats()
        keep(marshal.dumps(profile.stats))
    threading.Thread(target=again, args=(look, 0.3), daemon=True).start()
    atexit.register(lambda: (profile.disable(), look()))
    profile.enable()
else:
    import tracemalloc
    largest = 0
    def look():
        global largest
        now = tracemalloc.get_traced_memory()[0]
        if now > 1.1 * largest:
            largest = now
            places = tracemalloc.take_snapshot().statistics("lineno")[:20]
            frames = ((each.size, each.traceback[0]) for each in places)
            keep("".join(f"{size}\\t{frame.filename}:{frame.lineno}\\n" for size, frame in frames).encode())
    tracemalloc.start()
    threading.Thread(target=again, args=(look, 0.05), daemon=True).start()
"""
"""Begins in every Python process of a command, as its ``sitecustomize``; a killed one has written what it knew."""
TABLES = """
import sys, apsw
db = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READONLY)
for name, size in db.execute("select name, sum(pgsize) from dbstat group by name order by 2 desc"):
    print(f"{size}\\t{name}")
"""


def cpu(command: Command) -> list[str]:
    """The functions in which most processor time is spent."""
    with tempfile.TemporaryDirectory() as folder:
        files = _hooked(command, "cpu", Path(folder))
        return [f"{len(files)} process{'es' if len(files) > 1 else ''}", *top(pstats.Stats(*map(str, files)))]


def top(told: Any) -> list[str]:
    """The first lines of what a profiler noted."""
    rows = sorted(told.stats.items(), key=lambda row: -row[1][2])[:LINES]
    lines = [
        f"{own:6.2f} s {calls:>10,} calls  {_place(file)}:{line} {name}"
        for (file, line, name), (_, calls, own, _, _) in rows
    ]
    return [f"{told.total_tt:.2f} s under the profiler, which slows Python down", *lines]


def memory(command: Command) -> list[str]:
    """The lines that hold most memory of Python when it holds most; SQLite's and zstd's own is not in it."""
    with tempfile.TemporaryDirectory() as folder:
        held: dict[str, int] = defaultdict(int)
        for file in _hooked(command, "memory", Path(folder)):
            for line in file.read_text("utf-8").splitlines():
                size, _, place = line.partition("\t")
                held[_place(place)] += int(size)
    rows = sorted(held.items(), key=lambda row: -row[1])[:LINES]
    return [f"{size / 1e6:6.1f} MB  {place}" for place, size in rows]


def _hooked(command: Command, what: str, folder: Path) -> list[Path]:
    hooks, out = folder / "hooks", folder / "out"
    hooks.mkdir()
    out.mkdir()
    (hooks / "sitecustomize.py").write_text(HOOK, "utf-8")
    path = ":".join(filter(None, [str(hooks), command.env.get("PYTHONPATH", "")]))
    more = {"PYTHONPATH": path, "BENCH_PROFILE": str(out), "BENCH_PROFILED": what}
    spend(replace(command, env={**command.env, **more}))
    return sorted(each for each in out.iterdir() if each.suffix != ".new")


def imports(command: Command) -> list[str]:
    """The modules whose own import takes longest; the words begin with the interpreter."""
    command.before()
    words = [command.words[0], "-X", "importtime", *command.words[1:]]
    done = subprocess.run(
        words, env=dict(command.env), cwd=command.cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    rows = [line.removeprefix("import time:").split("|") for line in done.stderr.splitlines() if line.count("|") == 2]
    times = sorted(((int(own), name.strip()) for own, _, name in rows if own.strip().isdigit()), reverse=True)
    total = f"{sum(own for own, _ in times) / 1000:.1f} ms in {len(times)} modules"
    return [total, *(f"{own / 1000:6.1f} ms  {name}" for own, name in times[:LINES])]


def tables(store: Path, logs: float) -> list[str]:
    """The tables and indexes that take most of a store, and their share of the logs."""
    told = answer(Command([sys.executable, "-c", TABLES, str(store)], {}))
    rows = [line.partition("\t") for line in told.splitlines()[:LINES]]
    return [f"{int(size) / 1e6:8.2f} MB  {int(size) / logs:.4f} of the logs  {name}" for size, _, name in rows]


def _place(name: str) -> str:
    for begin in ("/src/", "/site-packages/", "/lib/python"):
        _, found, rest = name.rpartition(begin)
        if found:
            return rest
    return name
