"""A process that reads and understands logs while the first one writes them into the store.

It is this module's ``serve``: jobs come in on stdin, batches go out on stdout, each as a frame of msgpack with its
length and checksum before it. A frame that is not what was sent is the end of that process: what it was given
is read by the first. Only new logs are handed over; what must look into the store is not.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import zlib
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory import agents
from backstory.ingest.log_reader import Slicer, Source, Start, opened
from backstory.ingest.reported import SubagentLogs, is_reported
from backstory.ingest.rewritten import as_kept, is_rewritten
from backstory.model import LogIdentity
from backstory.store import FileStamp, RecordBatch
from backstory.store.codec import ZstdError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.agents.contract import Agent
    from backstory.ingest.log_reader import Pace

WAITING_BYTES_MAX = 32 * 1024 * 1024
"""Slices of this size may wait to be written; memory is bounded by it."""
NOT_UNDERSTOOD = "kept, but not all of it could be understood"
FRAME_BYTES_MAX = 1024 * 1024 * 1024
"""A frame that says it is longer is none: a slice has some 16 MB, and what a few long lines add."""
PIPE_BYTES = 1024 * 1024
"""A frame is large, and each filling of the pipe switches between the processes."""
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
"""GNU's malloc keeps what was freed for the next log, rather than have the system clear as many pages again."""
DEAF = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
"""Ctrl-C interrupts both processes: the first one says so, and ends the other."""
COMMAND = (sys.executable, "-c", f"{DEAF}; from backstory.ingest.worker import serve; serve()")
_FRAME = b"bksf"
_HEAD = struct.Struct("<4sII")
"""The head of a frame: its magic, its length, the CRC-32 of its content."""


class Job(Struct, frozen=True, kw_only=True):
    """A log that the store does not have yet."""

    agent: str
    identity: LogIdentity
    session_uid: str
    created: int
    path: str
    relpath: str
    place: FileStamp
    next_seq: int
    first_hash: bytes | None


class JobOutcome(Struct, frozen=True, kw_only=True):
    """A batch of a job's log, or why there is none. The last one of a job says so."""

    batch: RecordBatch | None = None
    is_last: bool = False
    unknown: dict[str, int] = field(default_factory=dict)
    problem: str | None = None
    is_undone: bool = False
    """True if reading it failed here in a way that the first process should see itself."""
    reported: list[JobOutcome] | None = None
    """Batches of the subagents that the batch reports of, to be written behind it; None if they are to be read."""


def job_of(source: Source, next_seq: int, first_hash: bytes | None) -> Job:
    """The reading of a new log, as it is handed to another process."""
    return Job(
        agent=source.agent.name, identity=source.identity, session_uid=source.session_uid, created=source.created,
        path=str(source.path), relpath=source.relpath, place=source.place, next_seq=next_seq, first_hash=first_hash,
    )  # fmt: skip


class WorkerLost(Exception):
    """A process that reads ended, or is not to be believed, before its work was done; this one can do it instead."""


def parse(job: Job, agent: Agent) -> Iterator[JobOutcome]:
    """Read a job's log to its end."""
    try:
        yield from _slices(job, agent)
    except (OSError, ZstdError) as refused:
        yield JobOutcome(is_last=True, problem=getattr(refused, "strerror", None) or str(refused))
    except Exception:
        # The first process meets the same when it reads the log, and can keep its bytes.
        yield JobOutcome(is_last=True, is_undone=True)


def _slices(job: Job, agent: Agent) -> Iterator[JobOutcome]:
    source = Source(
        agent=agent, identity=job.identity, session_uid=job.session_uid, created=job.created, path=Path(job.path),
        relpath=job.relpath, place=job.place,
    )  # fmt: skip
    start = Start(log=None, next_seq=job.next_seq, generation=1, first_hash=job.first_hash)
    with opened(source.path) as file:
        is_document = is_rewritten(agent, source.path)
        yield from outcomes(source, start, as_kept(agent, file) if is_document else file)


def outcomes(source: Source, start: Start, file: IO[bytes], pace: Pace | None = None) -> Iterator[JobOutcome]:
    """The batches of a log, the last one marked; one outcome without a batch when there is nothing.

    With a new log its subagents are read; of one that goes on, something of them may be kept.
    """
    is_new = start.log is None and not is_reported(source.relpath)
    subagents = SubagentLogs(source, start.generation) if is_new else None
    slicer = Slicer(source, start, pace, subagents.take if subagents is not None else None)
    batches = slicer.batches(file)
    batch = next(batches, None)
    if batch is None:
        yield JobOutcome(is_last=True)
    while batch is not None:
        reported = subagents.batches() if subagents is not None else None
        # One ahead: only the end of the log says which batch is its last.
        following = next(batches, None)
        is_last = following is None
        unknown, problem = (slicer.unknown, slicer.problem) if is_last else ({}, None)
        yield JobOutcome(
            batch=batch, is_last=is_last, unknown=unknown, problem=_in_words(problem),
            reported=None if reported is None else [
                JobOutcome(batch=each.batch, is_last=True, unknown=each.unknown, problem=_in_words(each.problem))
                for each in reported
            ],
        )  # fmt: skip
        batch = following


def _in_words(problem: str | None) -> str | None:
    return problem and f"{NOT_UNDERSTOOD} ({problem})"


class WaitingFrames:
    """Frames of all processes that wait to be written; one bound on their bytes, for any number of processes."""

    def __init__(self) -> None:
        self._bytes = 0
        self._changed = threading.Condition()

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something to come."""
        with self._changed:
            self._changed.wait_for(is_so)

    def put(self, frames: deque[bytes | None], frame: bytes | None, is_over: Callable[[], bool]) -> None:
        """Queue a frame with others, as soon as there is room for it, or nobody wants it any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._bytes < WAITING_BYTES_MAX or is_over())
            frames.append(frame)
            self._bytes += len(frame or b"")
            self._changed.notify_all()

    def take(self, frames: deque[bytes | None]) -> bytes | None:
        """The next frame, waited for; None where none comes any more."""
        with self._changed:
            self._changed.wait_for(lambda: frames)
            frame = frames.popleft()
            self._bytes -= len(frame or b"")
            self._changed.notify_all()
        return frame

    def drop(self, frames: deque[bytes | None]) -> None:
        """Let go of what nobody will take."""
        with self._changed:
            self._bytes -= sum(len(frame or b"") for frame in frames)
            frames.clear()
            self._changed.notify_all()


class Worker:
    """A process that reads. Jobs are done in the order they are given; ``outcome`` gives their slices in that order."""

    def __init__(self, waiting: WaitingFrames) -> None:
        self._process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pipesize=PIPE_BYTES, env={**os.environ, **MEMORY}
        )
        self._decoder = msgspec.msgpack.Decoder(JobOutcome)
        self._frames: deque[bytes | None] = deque()
        self._waiting, self._is_over = waiting, False
        # The pipe is emptied while this process writes: the other one would stop when it is full.
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def give(self, job: Job) -> None:
        """Hand over a log; raises WorkerLost."""
        assert self._process.stdin is not None
        try:
            _send(self._process.stdin, msgspec.msgpack.encode(job))
        except OSError as refused:
            raise WorkerLost from refused

    @property
    def has_outcome(self) -> bool:
        """True if a slice is waiting."""
        return bool(self._frames)

    def outcome(self) -> JobOutcome:
        """The next slice of the jobs given so far; raises WorkerLost."""
        frame = self._waiting.take(self._frames)
        if frame is None:
            raise WorkerLost
        try:
            return self._decoder.decode(frame)
        except (msgspec.MsgspecError, ValueError) as refused:
            # Another version of this package answers, which was installed meanwhile.
            raise WorkerLost from refused

    def end(self) -> None:
        """Let the process go, finished or not."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._is_over = True
        self._waiting.drop(self._frames)
        self._thread.join()
        # Once more: it may have queued a last frame before it saw that nobody takes any.
        self._waiting.drop(self._frames)
        with suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()

    def _receive(self) -> None:
        assert self._process.stdout is not None
        # No name is kept of a frame, which may be large, while the next one is waited for.
        while self._put(_receive(self._process.stdout)):
            pass

    def _put(self, frame: bytes | None) -> bool:
        """Queue a frame to be taken; returns whether another one may follow."""
        self._waiting.put(self._frames, frame, lambda: self._is_over)
        return frame is not None and not self._is_over


def serve() -> None:
    """Do jobs from stdin until it ends."""
    decoder, encoder = msgspec.msgpack.Decoder(Job), msgspec.msgpack.Encoder()
    # Buffered whatever PYTHONUNBUFFERED says: a write to a pipe may end half-way, at a signal that stops us.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        # What an agent's code prints must not come between two frames.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        while (frame := _receive(sys.stdin.buffer)) is not None:
            job = decoder.decode(frame)
            for outcome in parse(job, agents.load(job.agent)):
                try:
                    encoded = encoder.encode(outcome)
                except Exception:
                    # A value of an adapter cannot be passed between processes: the first process need not pass it.
                    _send(out, encoder.encode(JobOutcome(is_last=True, is_undone=True)))
                    break
                _send(out, encoded)


def _send(pipe: IO[bytes], frame: bytes) -> None:
    pipe.write(_HEAD.pack(_FRAME, len(frame), zlib.crc32(frame)))
    pipe.write(frame)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes | None:
    """The next frame; None where there is none, and where what comes is none."""
    head = pipe.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    begin, length, checksum = _HEAD.unpack(head)
    if begin != _FRAME or length > FRAME_BYTES_MAX:
        return None
    frame = pipe.read(length)
    return frame if len(frame) == length and zlib.crc32(frame) == checksum else None
