"""A second process that reads and understands logs while the first one writes them into the store.

It is this module, run with ``python -m``: jobs come in on stdin, slices go out on stdout, each as a frame of
four bytes of length and msgpack. Only new logs are handed over; what must look into the store is not.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory import agents
from backstory.model import LogIdentity
from backstory.slicing import Slicer, Source, Start, opened
from backstory.store import LogSlice, SeenPlace
from backstory.store.codec import ZstdError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.agents import Agent

WAITING_BYTES_MAX = 32 * 1024 * 1024
"""Slices of this size may wait to be written; memory is bounded by it."""
NOT_UNDERSTOOD = "kept, but not all of it could be understood"
_LENGTH = struct.Struct("<I")


class Job(Struct, frozen=True, kw_only=True):
    """A log that the store does not have yet."""

    agent: str
    identity: LogIdentity
    session_uid: str
    created: int
    path: str
    relpath: str
    place: SeenPlace
    next_seq: int
    first_hash: str | None


class Outcome(Struct, frozen=True, kw_only=True):
    """A slice of a job's log, or why there is none. The last one of a job says so."""

    piece: LogSlice | None = None
    is_last: bool = False
    unknown: dict[str, int] = field(default_factory=dict)
    problem: str | None = None
    is_undone: bool = False
    """Whether reading it failed here in a way that the first process should see itself."""


class WorkerLost(Exception):
    """The second process ended before its work was done; this one can do it instead."""


def parse(job: Job, agent: Agent) -> Iterator[Outcome]:
    """Read a job's log to its end."""
    try:
        yield from _slices(job, agent)
    except (OSError, ZstdError) as refused:
        yield Outcome(is_last=True, problem=getattr(refused, "strerror", None) or str(refused))
    except Exception:
        yield Outcome(is_last=True, is_undone=True)


def _slices(job: Job, agent: Agent) -> Iterator[Outcome]:
    source = Source(
        agent=agent,
        identity=job.identity,
        session_uid=job.session_uid,
        created=job.created,
        path=Path(job.path),
        relpath=job.relpath,
        place=job.place,
    )
    slicer = Slicer(source, Start(log=None, next_seq=job.next_seq, generation=1, first_hash=job.first_hash))
    with opened(source.path) as file:
        yield from outcomes(slicer, file)


def outcomes(slicer: Slicer, file: IO[bytes]) -> Iterator[Outcome]:
    """The slices of a log, the last one marked; one outcome without a slice when there is nothing."""
    pieces = slicer.slices(file)
    piece = next(pieces, None)
    if piece is None:
        yield Outcome(is_last=True)
    while piece is not None:
        following = next(pieces, None)
        is_last = following is None
        unknown, problem = (slicer.unknown, slicer.problem) if is_last else ({}, None)
        yield Outcome(
            piece=piece, is_last=is_last, unknown=unknown, problem=problem and f"{NOT_UNDERSTOOD} ({problem})"
        )
        piece = following


class Worker:
    """The second process. Jobs are done in the order they are given; ``outcome`` gives their slices in that order."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", "from backstory.parsing import serve; serve()"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._decoder = msgspec.msgpack.Decoder(Outcome)
        self._frames: deque[bytes | None] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
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
        """Whether a slice is waiting."""
        return bool(self._frames)

    def outcome(self) -> Outcome:
        """The next slice of the jobs given so far; raises WorkerLost."""
        with self._changed:
            self._changed.wait_for(lambda: self._frames)
            frame = self._frames.popleft()
            if frame is None:
                raise WorkerLost
            self._waiting_bytes -= len(frame)
            self._changed.notify()
        return self._decoder.decode(frame)

    def end(self) -> None:
        """Let the process go, finished or not."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        with self._changed:
            self._waiting_bytes = 0
            self._changed.notify()
        self._thread.join()
        with suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()

    def _receive(self) -> None:
        assert self._process.stdout is not None
        while (frame := _receive(self._process.stdout)) is not None:
            self._put(frame)
        self._put(None)

    def _put(self, frame: bytes | None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting_bytes < WAITING_BYTES_MAX)
            self._frames.append(frame)
            self._waiting_bytes += len(frame or b"")
            self._changed.notify()


def serve() -> None:
    """Do jobs from stdin until it ends."""
    decoder, encoder = msgspec.msgpack.Decoder(Job), msgspec.msgpack.Encoder()
    while (frame := _receive(sys.stdin.buffer)) is not None:
        job = decoder.decode(frame)
        for outcome in parse(job, agents.load(job.agent)):
            try:
                encoded = encoder.encode(outcome)
            except Exception:
                # Something that an adapter told cannot be handed over: the first process need not.
                _send(sys.stdout.buffer, encoder.encode(Outcome(is_last=True, is_undone=True)))
                break
            _send(sys.stdout.buffer, encoded)


def _send(pipe: IO[bytes], frame: bytes) -> None:
    pipe.write(_LENGTH.pack(len(frame)))
    pipe.write(frame)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes | None:
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    frame = pipe.read(length)
    return frame if len(frame) == length else None
