"""The processes that read logs while this one writes: how many there are, who reads what, and what comes back.

Each log is read by one of them from its beginning to its end, so its batches come in order; those of several logs come
as they are ready, and the store says the same in whichever order. A process that is lost costs the logs that it had.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

from backstory.ingest.worker import WaitingFrames, Worker, WorkerLost

if TYPE_CHECKING:
    from backstory.ingest.sources import Reading
    from backstory.ingest.worker import Job, JobOutcome

READERS_MAX = 3
"""More of them would wait for the one that writes."""
BYTES_EACH = 32 * 1024 * 1024
"""From so many more bytes on another process is worth its start."""
HANDED_MAX = 64
"""The most logs that may be with one process."""
AHEAD_BYTES = 32 * 1024 * 1024
"""With so much before it, a process is busy enough."""


def count_for(to_do: int, processors: int | None = None) -> int:
    """Return the number of processes that read this many new bytes: at least one, and a processor is left to write.

    >>> [count_for(1 << 30, processors) for processors in (1, 2, 4, 64)], count_for(1 << 20, 64)
    ([1, 1, 3, 3], 1)
    """
    processors = _processors() if processors is None else processors
    return max(1, min(READERS_MAX, processors - 1, 1 + to_do // BYTES_EACH))


def _processors() -> int:
    # A container may have fewer than its machine.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Reader:
    """A process, and the logs that it was given and has not read to their ends."""

    def __init__(self, waiting: WaitingFrames) -> None:
        self.worker = Worker(waiting)
        self.handed: deque[Reading] = deque()

    @property
    def ahead(self) -> int:
        """The bytes that it has before it."""
        return sum(reading.each.size for reading in self.handed)

    def has_room(self, size: int) -> bool:
        """Return True if a log of this size is better read by it than by a process that could write meanwhile."""
        return len(self.handed) < HANDED_MAX and (self.ahead < AHEAD_BYTES or size > AHEAD_BYTES)


class Readers:
    """Some processes that read along; none when all of them were lost."""

    def __init__(self, count: int) -> None:
        self._waiting = WaitingFrames()
        self._readers = list[_Reader]()
        try:
            for _ in range(count):
                self._readers.append(_Reader(self._waiting))
        except BaseException:
            # Where one cannot be started, those that were would wait for logs without an end.
            self.end()
            raise

    @property
    def has_outcome(self) -> bool:
        """True if a batch is there to be written."""
        return any(reader.worker.has_outcome for reader in self._readers)

    @property
    def is_reading(self) -> bool:
        """True if a log that was handed over is still to come, all of it or its end."""
        return any(reader.handed for reader in self._readers)

    @property
    def is_full(self) -> bool:
        """True if every process has as many logs as it may."""
        return bool(self._readers) and all(len(reader.handed) >= HANDED_MAX for reader in self._readers)

    def has_room(self, size: int) -> bool:
        """Return True if one of them should read a log of this size."""
        return any(reader.has_room(size) for reader in self._readers)

    def give(self, reading: Reading, job: Job) -> list[Reading]:
        """Hand a log over to the one with the least before it; returns what is to be read elsewhere, for it is lost."""
        reader = min((each for each in self._readers if each.has_room(reading.each.size)), key=lambda each: each.ahead)
        reader.handed.append(reading)
        try:
            reader.worker.give(job)
        except WorkerLost:
            return self._lose(reader)
        return []

    def take(self) -> tuple[Reading, JobOutcome] | list[Reading]:
        """The next batch and its log, waited for; or the logs of a process that was lost."""
        self._waiting.wait_until(lambda: self.has_outcome)
        reader = next(each for each in self._readers if each.worker.has_outcome)
        try:
            outcome = reader.worker.outcome()
        except WorkerLost:
            return self._lose(reader)
        if not reader.handed:
            # It says more than it was asked.
            return self._lose(reader)
        reading = reader.handed[0]
        if outcome.is_last:
            reader.handed.popleft()
        return reading, outcome

    def end(self) -> None:
        """Let all of them go, finished or not."""
        while self._readers:
            self._readers.pop().worker.end()

    def _lose(self, reader: _Reader) -> list[Reading]:
        self._readers.remove(reader)
        reader.worker.end()
        return list(reader.handed)
