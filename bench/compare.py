"""Our ingest and search beside other indexers' on the same logs, in turns: ``compare.py LOGS --agentsview PATH``.

LOGS is shaped like a home folder. All run on one copy of it, without network where the system allows that;
agentsview (``pip install agentsview``) syncs as one process that ends, without its server. Printed are medians, and
how many times as fast and as large ours is. agentsview keeps no bytes of the logs; ours keeps them all.

``--search COMMAND`` (several times) also times a search as a whole process beside ours: words are added to COMMAND,
such as ``'puenteo search'``, ``'agsearch -n'`` or ``'agentsview session search'``, which is run once before, untimed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

AGENTS = (".claude", ".codex", ".copilot")
"""The folders that all read."""
WORDS = ("rate limit", "checkpoint", "worktree", "error", "TestExplain", "pytest", "the", "migration")


def offline() -> list[str]:
    """The command that leaves a process nothing but loopback, where that is allowed."""
    command = ["unshare", "-rn", "--", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"]
    allowed = (
        shutil.which("unshare") and not subprocess.run([*command, "true"], capture_output=True, check=False).returncode
    )
    return command if allowed else []


def timed(command: list[str], env: dict[str, str]) -> float:
    """Seconds of one run; a failing one ends the benchmark."""
    started = time.perf_counter()
    done = subprocess.run([*offline(), *command], env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.perf_counter() - started


def size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file() and not each.is_symlink())


def search_times(commands: dict[str, list[str]], env: dict[str, str], runs: int) -> dict[str, float]:
    """The median of all searches of each command, in ms, in turns."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for words in WORDS:
            for name, command in commands.items():
                started = time.perf_counter()
                subprocess.run([*command, words], env=env, capture_output=True, check=False)
                times[name].append((time.perf_counter() - started) * 1000)
    return {name: round(statistics.median(each), 1) for name, each in times.items()}


def ingest_times(home: Path, ours: Path, base: dict[str, str], program: str, runs: int) -> dict[str, float]:
    """Both read the same logs, from nothing, in turns."""
    theirs = home / ".agentsview"
    ingest = [sys.executable, "-m", "backstory", "ingest"]
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(runs):
        for each in (ours, theirs):
            shutil.rmtree(each, ignore_errors=True)
        times["ours"].append(timed(ingest, base))
        times["theirs"].append(timed([program, "sync"], {**base, "AGENTSVIEW_NO_DAEMON": "1"}))
    logs = size(home) - size(theirs)
    own, other = (statistics.median(times[name]) for name in ("ours", "theirs"))
    return {
        "logs_mb": logs / 1e6,
        "ours_s": own,
        "theirs_s": other,
        "times_as_fast": other / own,
        "store_per_log": (ours / "store.db").stat().st_size / logs,
        "their_store_per_log": (theirs / "sessions.db").stat().st_size / logs,
        "again_s": timed(ingest, base),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--agentsview", default=shutil.which("agentsview"), help="its program")
    parser.add_argument("--search", action="append", default=[], metavar="COMMAND")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if not given.agentsview:
        sys.exit("agentsview is not installed: pip install agentsview==0.46.1 somewhere, and name it with --agentsview")
    with tempfile.TemporaryDirectory() as folder:
        home, ours = Path(folder) / "home", Path(folder) / "ours"
        home.mkdir()
        for name in AGENTS:
            if (given.logs / name).is_dir():
                shutil.copytree(given.logs / name, home / name)
        base = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "BACKSTORY_HOME": str(ours)}
        told = ingest_times(home, ours, base, given.agentsview, given.runs)
        commands = {each: shlex.split(each) for each in given.search}
        for command in commands.values():
            subprocess.run([*command, WORDS[0]], env=base, capture_output=True, check=False)
        commands["backstory search"] = [sys.executable, "-m", "backstory", "search"]
        searches = search_times(commands, base, given.runs) if given.search else {}
        # A server that a command started would outlive the logs.
        subprocess.run([given.agentsview, "daemon", "stop"], env=base, capture_output=True, check=False)
    if given.json:
        print(json.dumps({**told, "search_ms": searches}))
        return
    mb = told["logs_mb"]
    print(f"logs                          {mb:8.1f} MB")
    print(f"cold ingest, backstory        {told['ours_s']:8.2f} s   {mb / told['ours_s']:6.1f} MB/s")
    print(f"cold ingest, agentsview       {told['theirs_s']:8.2f} s   {mb / told['theirs_s']:6.1f} MB/s")
    print(f"times as fast                 {told['times_as_fast']:8.2f}")
    print(f"store / logs, backstory       {told['store_per_log']:8.3f}   with every byte of the logs")
    print(f"store / logs, agentsview      {told['their_store_per_log']:8.3f}   without")
    print(f"second ingest, backstory      {told['again_s']:8.2f} s, whole process")
    for name, median in searches.items():
        print(f"{name[-29:]:29} {median:8.0f} ms, whole process")


if __name__ == "__main__":
    main()
