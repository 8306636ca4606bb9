"""Processor time for what leaves the machine: an export without secrets, and in frames, beside a plain one.

``python -m bench.leaving STORE [--turns N]``. STORE is a store with real sessions. All of it is exported in turn, N
times (3), without the bytes of logs; each figure is the median of the turns, in microseconds an event.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from backstory.derive.secrets import Redactor
from backstory.exchange.frames import frames, read
from backstory.export.exporting import everything
from backstory.export.portable import JsonExport
from backstory.store import open_store
from bench.figures import Figure, arguments, report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from backstory.store import Store

MASKED_TIMES, MASKED_MORE_US = 1.5, 60
"""The most that masks may cost: as a multiple of a plain export, and beside it."""
UID_AT = 60
"""The uid of a session stands in its line's first characters."""


def exported(store: Store, redactor: Redactor | None) -> tuple[JsonExport, Iterator[bytes]]:
    """An export of all sessions, and its lines."""
    export = JsonExport(has_bytes=False, now=0, redactor=redactor)
    return export, export.lines(everything([store]), removed=False)


def plain(store: Store) -> int:
    """Export all; return the number of events."""
    export, lines = exported(store, None)
    sum(map(len, lines))
    return export.counts["events"]


def masked(store: Store) -> int:
    """Export all without secrets; return the number of events."""
    export, lines = exported(store, Redactor("/home/dev"))
    sum(map(len, lines))
    return export.counts["events"]


def in_frames(store: Store) -> tuple[float, float]:
    """Cut all into frames, and read each: the processor time of both, in microseconds an event."""
    export, lines = exported(store, None)
    cutting = reading = 0.0
    for each in _sessions(lines):
        uid = each[0][:UID_AT].split(b'"uid":"')[1][:26].decode()
        start = time.process_time()
        made = list(frames(each, session=uid))
        cutting += (cut := time.process_time()) - start
        for frame in made:
            read(frame)
        reading += time.process_time() - cut
    events = max(export.counts["events"], 1)
    return cutting * 1e6 / events, reading * 1e6 / events


def _sessions(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    held = list[bytes]()
    for line in lines:
        if not line.startswith((b'{"type":"backstory"', b'{"type":"end"')):
            held.append(line)
        if line.startswith(b'{"type":"session_end"'):
            yield held
            held = []


def us_an_event(work: Callable[[Store], int], path: Path) -> float:
    """Return the processor time of some work, in microseconds an event."""
    with open_store(path) as store:
        start = time.process_time()
        events = work(store)
        return (time.process_time() - start) * 1e6 / max(events, 1)


def figures(path: Path, turns: int) -> Iterator[Figure]:
    """Each of them, measured in turn."""
    took = [(us_an_event(plain, path), us_an_event(masked, path)) for _ in range(turns)]
    without = median(each for each, _ in took)
    beside, times = median(masks - bare for bare, masks in took), median(masks / bare for bare, masks in took)
    yield Figure("export, an event", without, "µs", runs=turns)
    yield Figure("export without secrets, an event, beside it", beside, "µs", most=MASKED_MORE_US, runs=turns)
    yield Figure("export without secrets, as a multiple", times, "×", most=MASKED_TIMES, runs=turns)
    with open_store(path) as store:
        cut, back = zip(*(in_frames(store) for _ in range(turns)), strict=True)
    yield Figure("frames of it, an event, beside it", median(cut), "µs", runs=turns)
    yield Figure("frames read and checked, an event", median(back), "µs", runs=turns)


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    report(asked, figures(asked.store, asked.turns))


if __name__ == "__main__":
    main()
