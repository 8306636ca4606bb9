"""Agents whose logs may be on a machine and that nothing here reads: ``not_read.json`` says where those would lie.

Its paths are patterns below the user's home. An agent that gets a package of its own is taken out of it.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import msgspec

from backstory import agents

PLACES = Path(__file__).with_suffix(".json")
COUNTED_MAX = 9_999
"""The most logs of an agent that are counted."""


def logs_of_others(home: Path) -> dict[str, int]:
    """Return the number of logs of each agent that is not read, those with logs only, by name."""
    places = msgspec.json.decode(PLACES.read_bytes(), type=dict[str, list[str]])
    read = agents.names()
    counts = {name: _count(home, patterns) for name, patterns in places.items() if name not in read}
    return {name: count for name, count in sorted(counts.items()) if count}


def _count(home: Path, patterns: list[str]) -> int:
    try:
        return sum(1 for _ in islice((path for pattern in patterns for path in home.glob(pattern)), COUNTED_MAX))
    except OSError:
        # A folder that may not be entered: what is in it is nobody's to count.
        return 0
