"""How time, memory and the store grow with the logs: ``growth.py LOGS [--gigabytes 0.1 1 5] [--json]``.

LOGS is shaped like a home folder. It is copied again and again, each time with other ids, so that every copy holds
sessions and turns of its own; each size is ingested into a new store by one process, whose time and peak memory (with
the process that helps it) are told, then once more with nothing to do. Linear is: MB/s stay, memory stays.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDERS = (".claude", ".codex", ".copilot")
UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
IDS = re.compile(rb"(?:msg|toolu|req|call|chatcmpl|rs|fc)_[A-Za-z0-9]{8,}")
MEASURED = """
import json, resource, sys, time
from backstory.cli import main
started = time.perf_counter()
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
peak = [resource.getrusage(who).ru_maxrss / 1000 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({"seconds": time.perf_counter() - started, "peak_mb": peak}), file=sys.stderr)
"""


def renamed(data: bytes, number: int) -> bytes:
    """A log with other ids: the same id becomes the same other one, wherever it stands."""

    def other(found: re.Match[bytes]) -> bytes:
        digest = hashlib.blake2b(found.group(), digest_size=4, salt=number.to_bytes(8, "big")).hexdigest().encode()
        return digest + found.group()[8:]

    def other_id(found: re.Match[bytes]) -> bytes:
        digest = hashlib.blake2b(found.group(), digest_size=4, salt=number.to_bytes(8, "big")).hexdigest().encode()
        return found.group()[:-8] + digest

    return IDS.sub(other_id, UUID.sub(other, data)) if number else data


def copy(logs: Path, home: Path, number: int, most: float) -> int:
    """Put one copy of the logs into a home folder, up to about ``most`` bytes; gives the bytes."""
    written = 0
    for folder in FOLDERS:
        for path in sorted((logs / folder).rglob("*")):
            if written >= most or not path.is_file() or path.is_symlink() or path.suffix in (".db", ".sqlite"):
                continue
            name = renamed(str(path.relative_to(logs)).encode(), number).decode()
            target = home / name
            if target.exists():
                # Its name holds no id: it belongs to nobody in particular.
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            written += target.write_bytes(renamed(path.read_bytes(), number))
    return written


def measured(home: Path, store: Path) -> dict[str, Any]:
    """Seconds and peak memory of one ingest, as a process of its own."""
    env = {**os.environ, "HOME": str(home), "BACKSTORY_HOME": str(store)}
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "ingest"], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    told: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    return told


def told(row: dict[str, Any]) -> str:
    """A size's figures as a line."""
    return (
        f"{row['gb']:5.2f} GB {row['seconds']:8.2f} s {row['mb_per_s']:6.1f} MB/s   "
        f"peak {row['peak_mb'][0]} + {row['peak_mb'][1]} MB   again {row['again_seconds']:.2f} s   "
        f"store/logs {row['store_per_log']:.3f}"
    )


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.1, 1.0, 5.0])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        home, store = Path(folder, "home"), Path(folder, "store")
        home.mkdir()
        size = copies = 0
        for wanted in sorted(given.gigabytes):
            while size < wanted * 1e9:
                came = copy(given.logs, home, copies, wanted * 1e9 - size)
                if not came:
                    sys.exit(f"{given.logs} holds no logs of {', '.join(FOLDERS)}")
                size, copies = size + came, copies + 1
            shutil.rmtree(store, ignore_errors=True)
            first, again = measured(home, store), measured(home, store)
            rows.append(
                {
                    "gb": round(size / 1e9, 2),
                    "seconds": round(first["seconds"], 2),
                    "mb_per_s": round(size / 1e6 / first["seconds"], 1),
                    "peak_mb": [round(each) for each in first["peak_mb"]],
                    "again_seconds": round(again["seconds"], 2),
                    "store_per_log": round((store / "store.db").stat().st_size / size, 3),
                }
            )
            if not given.json:
                print(told(rows[-1]), flush=True)
    if given.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
