"""Our ingest and search beside another indexer's on the same logs, in turns: ``compare.py LOGS --agentsview PATH``.

LOGS is shaped like a home folder. Each is run on a copy of its own, without network where the system allows that;
agentsview (``pip install agentsview``) as one process that ends, without its server. Printed are medians, and how
many times as fast and as large ours is. agentsview keeps no bytes of the logs; ours keeps them all.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

AGENTS = (".claude", ".codex", ".copilot")
"""The folders that both read."""


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


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--agentsview", default=shutil.which("agentsview"), help="its program")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    if not given.agentsview:
        sys.exit("agentsview is not installed: pip install agentsview==0.46.1 somewhere, and name it with --agentsview")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        for name in AGENTS:
            if (given.logs / name).is_dir():
                shutil.copytree(given.logs / name, home / name)
        logs = size(home)
        base = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
        ours, theirs = Path(folder) / "ours", home / ".agentsview"
        ingest = [sys.executable, "-m", "backstory", "ingest"]
        times: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(given.runs):
            for each in (ours, theirs):
                shutil.rmtree(each, ignore_errors=True)
            times["ours"].append(timed(ingest, {**base, "BACKSTORY_HOME": str(ours)}))
            times["theirs"].append(timed([given.agentsview, "sync"], {**base, "AGENTSVIEW_NO_DAEMON": "1"}))
        own, other = (statistics.median(times[name]) for name in ("ours", "theirs"))
        stored = [(path / name).stat().st_size for path, name in ((ours, "store.db"), (theirs, "sessions.db"))]
        again = timed(ingest, {**base, "BACKSTORY_HOME": str(ours)})
    print(f"logs                          {logs / 1e6:8.1f} MB")
    print(f"cold ingest, backstory        {own:8.2f} s   {logs / own / 1e6:6.1f} MB/s")
    print(f"cold ingest, agentsview       {other:8.2f} s   {logs / other / 1e6:6.1f} MB/s")
    print(f"times as fast                 {other / own:8.2f}")
    print(f"store / logs, backstory       {stored[0] / logs:8.3f}   with every byte of the logs")
    print(f"store / logs, agentsview      {stored[1] / logs:8.3f}   without")
    print(f"second ingest, backstory      {again:8.2f} s, whole process")


if __name__ == "__main__":
    main()
