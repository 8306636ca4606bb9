"""Writes what commands do today as the limits of ``tests/test_work.py``: ``python -m tests.set_work_limits``."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.support.work import LIMITS, counted


def main() -> None:
    """Count, write, say what changed."""
    before = json.loads(LIMITS.read_text("utf-8")) if LIMITS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        counts = counted(Path(folder))
    LIMITS.write_text(json.dumps(counts, indent=2) + "\n", "utf-8")
    for command, each in counts.items():
        for name, count in each.items():
            old = before.get(command, {}).get(name)
            if old != count:
                sys.stdout.write(f"{command}: {name} {old} -> {count}\n")


if __name__ == "__main__":
    main()
