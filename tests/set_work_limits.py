"""Writes what commands do today as the limits of ``tests/test_work.py``: ``python -m tests.set_work_limits [WHY]``.

WHY says what is bought with more calls of functions; without it their limits only sink.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.support.work import CALL_LIMITS, CALL_SLACK, LIMITS, PYTHON, Counts, counted, counted_calls, grown


def main() -> None:
    """Count, write, say what changed."""
    before = json.loads(LIMITS.read_text("utf-8")) if LIMITS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        counts = counted(Path(folder))
    LIMITS.write_text(json.dumps(counts, indent=2) + "\n", "utf-8")
    for line in changed(before, counts):
        sys.stdout.write(f"{line}\n")
    with tempfile.TemporaryDirectory() as folder:
        set_calls(counted_calls(Path(folder)), " ".join(sys.argv[1:]))


def set_calls(counts: Counts, why: str) -> None:
    """Set the limits of this version of Python."""
    kept = json.loads(CALL_LIMITS.read_text("utf-8")) if CALL_LIMITS.exists() else {"limits": {}, "raised": []}
    before = kept["limits"].get(PYTHON, {})
    raised = grown(counts, before, CALL_SLACK) if before else []
    if raised and not why:
        sys.exit("\n".join(["More calls than the limits allow, and no reason:", *raised]))
    if raised:
        kept["raised"].append({"python": PYTHON, "by": raised, "why": why})
    else:
        # A little more is allowed and sets no limit, so that many times a little is not.
        counts = {
            command: {folder: min(count, before.get(command, {}).get(folder, count)) for folder, count in each.items()}
            for command, each in counts.items()
        }
    kept["limits"][PYTHON] = counts
    CALL_LIMITS.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
    for line in changed(before, counts):
        sys.stdout.write(f"{line}\n")


def changed(before: Counts, counts: Counts) -> list[str]:
    """Counts that are not what they were, in words."""
    return [
        f"{command}: {name} {old} -> {count}"
        for command, each in counts.items()
        for name, count in each.items()
        if (old := before.get(command, {}).get(name)) != count
    ]


if __name__ == "__main__":
    main()
