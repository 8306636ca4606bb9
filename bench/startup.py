"""How long commands take as whole processes: ``startup.py HOME [--runs N]`` (HOME is ingested first)."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMANDS = {
    "--version": ["--version"],
    "list --all": ["list", "--all"],
    "search (rare)": ["search", "rate limit"],
    "search (common)": ["search", "the"],
    "search C++": ["search", "C++"],
}


def main() -> None:
    """Print the median and the 90th percentile of each command, in ms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--runs", type=int, default=15)
    given = parser.parse_args()
    backstory = Path(sys.executable).with_name("backstory")
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "HOME": str(given.home.absolute()), "BACKSTORY_HOME": folder}
        subprocess.run([backstory, "ingest"], env=env, check=True, capture_output=True)
        for name, words in COMMANDS.items():
            times = []
            for _ in range(given.runs + 1):
                started = time.perf_counter()
                subprocess.run([backstory, *words], env=env, check=True, capture_output=True, cwd="/")
                times.append((time.perf_counter() - started) * 1000)
            counted = sorted(times[1:])
            print(f"{name:18} {statistics.median(counted):7.0f} ms   p90 {counted[int(len(counted) * 0.9)]:7.0f} ms")


if __name__ == "__main__":
    main()
