"""Subagents of which only their parent's log reports: each becomes a session of its own, read from a log that is made
of the records that the parent's log repeats.

Such a log is called like its parent's with ``#`` and the subagent's id behind it. It grows as the parent's log does,
gives way to the subagent's own log when that comes, and is never written out: the parent's log holds all of it.

A new log's subagents are read along with it, by the process that reads it. Where something of a log or of its
subagents is kept already, the reports are read again from its beginning, and compared.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from backstory.agents.jsonl import lines_of
from backstory.ingest.discover import Candidate
from backstory.ingest.log_reader import BLOCK_BYTES as CHUNK_BYTES
from backstory.ingest.log_reader import Slicer, Start
from backstory.ingest.matching import first_record_hash, whose_log
from backstory.ingest.sources import source_of
from backstory.lazy import lazy_regex
from backstory.store import codec
from backstory.store.tables.logs import Chunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.agents.contract import Agent, ReportedRecord
    from backstory.ingest.log_reader import Source
    from backstory.store import RecordBatch

SUBAGENTS_MAX = 1_000
"""The most subagents of one log that become sessions."""
IN_MEMORY_BYTES = 1024 * 1024
BLOCK_BYTES = 256 * 1024
LENDER_TO_COME = 0
"""In place of the id of a lender that is stored with the batch."""
_NAME = lazy_regex(r"(.+\.jsonl)#[\w-]+")


def is_reported(path: str) -> bool:
    """Return True if a log of this name is made of what another one reports.

    >>> is_reported("p/7f2c.jsonl#a580f73"), is_reported("p/7f2c.jsonl")
    (True, False)
    """
    return _NAME.fullmatch(path) is not None


def reported_logs(agent: Agent, path: str, file: IO[bytes], until: int) -> Iterator[tuple[str, IO[bytes]]]:
    """The logs of subagents, by their names, that the first ``until`` bytes of a log report of.

    Those whose own log lies in its place are left out. ``path`` is where the log lies.
    """
    reports = agent.reports
    if reports is None:
        return
    name = path.removesuffix(".zst")
    with ExitStack() as open_files:
        found: dict[str, IO[bytes] | None] = {}
        for _, _, line in lines_of(_blocks(file, until)):
            for subagent, record, _ in reports.reported(line) if line is not None else ():
                if subagent not in found and len(found) < SUBAGENTS_MAX:
                    found[subagent] = None if _has_own(agent, name, subagent) else _spooled(open_files)
                if (kept := found.get(subagent)) is not None:
                    kept.write(record + b"\n")
        for subagent, kept in found.items():
            if kept is not None:
                kept.seek(0)
                yield f"{name}#{subagent}", kept


def reported_candidate(agent: Agent, path: str, beside: str, mtime_ns: int, size: int = 0) -> Candidate:
    """The log of a subagent as if it were found; ``beside`` is where its parent's is below the agent's own folder."""
    relpath = str(Path(beside).with_name(Path(path).name))
    return Candidate(agent=agent, path=path, relpath=relpath, device=0, inode=0, size=size, mtime_ns=mtime_ns)


class ReportedBatch(NamedTuple):
    """A batch of a subagent's log, and what of it could not be understood."""

    batch: RecordBatch
    unknown: dict[str, int]
    problem: str | None


class SubagentLogs:
    """Reads the logs of the subagents that a new log reports of, while that is read.

    Of what that log repeats no bytes are kept a second time: the batches are to be written with it, and after it.
    """

    def __init__(self, parent: Source, generation: int) -> None:
        self._parent, self._name = parent, str(parent.path).removesuffix(".zst")
        self._lender = (parent.agent.name, parent.identity.native_id, generation)
        self._logs: dict[str, _SubagentLog | None] = {}
        self._has_failed = False

    def take(self, start: int, line: bytes) -> None:
        """Take a line that reports, and its place."""
        try:
            self._take(start, line)
        except Exception:
            # Who reads each of them alone notes at which one it fails.
            self._has_failed = True

    def _take(self, start: int, line: bytes) -> None:
        reports = self._parent.agent.reports
        for report in reports.reported(line) if reports is not None else ():
            subagent = report.subagent
            if subagent not in self._logs and len(self._logs) < SUBAGENTS_MAX:
                has_own = _has_own(self._parent.agent, self._name, subagent)
                self._logs[subagent] = None if has_own else _SubagentLog(self._parent, f"{self._name}#{subagent}")
            if (log := self._logs.get(subagent)) is not None:
                log.take(start, line, report)

    def batches(self) -> list[ReportedBatch] | None:
        """The batches of what was taken since the last call; None if something failed."""
        try:
            batches = [batch for log in self._logs.values() if log is not None for batch in log.batches()]
        except Exception:
            self._has_failed = True
        if self._has_failed:
            return None
        for each in batches:
            each.batch.lender = self._lender
        return batches


class _SubagentLog:
    def __init__(self, parent: Source, path: str) -> None:
        self._parent, self._path = parent, path
        self._records: list[bytes] = []
        self._pieces: list[bytes | tuple[int, int]] = []
        """The same: bytes, and where they are in the parent's log."""
        self._begin = self._at = 0
        """The places of the first of these in the parent's log, and in this one."""
        self._slicer: Slicer | None = None
        self._said = Counter[str]()
        """The unknown types that the batches so far had."""

    def take(self, start: int, line: bytes, report: ReportedRecord) -> None:
        # To read a chunk is to read all between its first record and its last in the parent's log.
        if self._records and start + len(line) - self._begin > CHUNK_BYTES:
            self._feed()
        if not self._records:
            self._begin = start
        self._records.append(report.record + b"\n")
        self._pieces += _pieces(start, line, report)

    def batches(self) -> Iterator[ReportedBatch]:
        slicer = self._feed()
        if slicer is not None and slicer.has_taken:
            unknown = Counter(slicer.unknown)
            yield ReportedBatch(slicer.rest(), dict(unknown - self._said), slicer.problem)
            self._said = unknown

    def _feed(self) -> Slicer | None:
        """Let what is held be read; None if it says of no subagent whose it is."""
        block, pieces, self._records, self._pieces = b"".join(self._records), self._pieces, [], []
        if self._slicer is None:
            self._slicer = self._begun(block)
        if block and self._slicer is not None:
            frame = codec.pack_copies(pieces)
            self._slicer.take(block, Chunk(self._at, len(block), codec.chunk_digest(block), frame, LENDER_TO_COME))
            self._at += len(block)
        return self._slicer

    def _begun(self, block: bytes) -> Slicer | None:
        parent = self._parent
        identity, head = whose_log(parent.agent, self._path, BytesIO(block))
        if identity is None:
            return None
        each = reported_candidate(parent.agent, self._path, parent.relpath, parent.place.mtime_ns)
        source = source_of(each, identity, head, None)
        return Slicer(source, Start(log=None, next_seq=1, generation=1, first_hash=first_record_hash(head)))


def _pieces(start: int, line: bytes, report: ReportedRecord) -> Iterator[bytes | tuple[int, int]]:
    """A record as bytes, and as (place, length) in the log where its parts are as they are; ``start``: of the line."""
    at = 0
    for part in report.repeated:
        if len(part) < codec.COPIED_BYTES_LEAST:
            continue
        here, there = _place(part, report.record, at), _place(part, line)
        if here >= 0 and there >= 0:
            yield report.record[at:here]
            yield start + there, len(part)
            at = here + len(part)
    yield report.record[at:] + b"\n"


def _place(part: bytes, text: bytes, at: int = 0) -> int:
    """The place of a part in a text from there on, as ``find`` gives it."""
    # To prepare a long word for a search takes longer than to compare it once.
    found = text.find(part[: codec.COPIED_BYTES_LEAST], at)
    return found if found < 0 or text.startswith(part, found) else text.find(part, found)


def _has_own(agent: Agent, name: str, subagent: str) -> bool:
    """Return True if the own log of a subagent lies in its place."""
    reports = agent.reports
    return reports is not None and any(own.exists() for own in reports.own_logs(Path(name), subagent))


def _spooled(open_files: ExitStack) -> IO[bytes]:
    # In memory while it is small, on the disk when it is not.
    return cast("IO[bytes]", open_files.enter_context(tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)))


def _blocks(file: IO[bytes], until: int) -> Iterator[bytes]:
    """The first bytes of a file."""
    file.seek(0)
    while until > 0 and (block := file.read(min(until, BLOCK_BYTES))):
        until -= len(block)
        yield block
