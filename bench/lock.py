"""What holding a session costs: ``python -m bench.lock [--times N]``.

"lock" is taking and giving back the right to write a session; with "row" the owner's row is written and removed beside
it, as a run does. "heartbeat" is the processor time of a session that is held while nothing happens.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.runs.lock import SessionLease
from backstory.store import open_store
from bench.figures import Figure, arguments, report

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK_MS_MAX = 5.0
HEARTBEAT_PERCENT_MAX = 0.1


def now_ms() -> int:
    """The time, in ms since 1970."""
    return time.time_ns() // 1_000_000


def hold_ms(root: Path, times: int, *, row: bool) -> tuple[float, float]:
    """Taking and giving back: median and 99th percentile."""
    took = []
    with open_store(root / "project" / "sessions.bks") as store:
        for n in range(times):
            started = time.perf_counter()
            hold = SessionLease(root / "home", store, f"SESSION{n % 10}", now_ms)
            assert hold.take()
            if row:
                hold.show_owner()
            hold.release()
            took.append((time.perf_counter() - started) * 1000)
            assert hold.trouble is None
    return statistics.median(took), statistics.quantiles(took, n=100)[-1]


def heartbeat_percent(root: Path, seconds: float) -> float:
    """How much of one processor a held session needs while nothing happens."""
    with open_store(root / "project" / "sessions.bks") as store:
        hold = SessionLease(root / "home", store, "SESSION", now_ms)
        assert hold.take()
        hold.show_owner()
        time.sleep(1)
        before = sum(os.times()[:2])
        time.sleep(seconds)
        used = sum(os.times()[:2]) - before
        hold.release()
    return used / seconds * 100


def figures(times: int, idle_s: float) -> Iterator[Figure]:
    """What holding a session costs."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "project").mkdir()
        for name, row in (("lock a session, 99th percentile", False), ("the same with its owner's row", True)):
            median, p99 = hold_ms(root, times, row=row)
            load = (os.getloadavg()[0],)
            yield Figure(name, p99, "ms", most=LOCK_MS_MAX, loads=load, note=f"median {median:.2f} ms, on the clock")
        name = "a processor's share, a session held while nothing happens"
        yield Figure(name, heartbeat_percent(root, idle_s), "%", most=HEARTBEAT_PERCENT_MAX)


def main() -> None:
    """Print the figures."""
    parser = arguments(__doc__)
    parser.add_argument("--times", type=int, default=1_000)
    parser.add_argument("--idle-s", type=float, default=30.0)
    given = parser.parse_args()
    report(given, figures(given.times, given.idle_s))


if __name__ == "__main__":
    main()
