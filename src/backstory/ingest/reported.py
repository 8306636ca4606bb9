"""Subagents of which only their parent's log reports: each becomes a session of its own, read from a log that is made
of the records that the parent's log repeats.

Such a log is called like its parent's with ``#`` and the subagent's id behind it. It grows as the parent's log does,
gives way to the subagent's own log when that comes, and is never written out: the parent's log holds all of it.

A new log's subagents are read along with it, by the process that reads it. Where something of a log or of its
subagents is kept already, the reports are read again from its beginning, and compared.
"""

from __future__ import annotations

import tempfile
from collections import Counter, deque
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from backstory import agents, errors
from backstory.agents.jsonl import lines_of
from backstory.ingest.discover import Candidate
from backstory.ingest.log_reader import BLOCK_BYTES as CHUNK_BYTES
from backstory.ingest.log_reader import Slicer, Start
from backstory.ingest.matching import first_record_hash, whose_log
from backstory.ingest.sources import source_of
from backstory.lazy import lazy_regex
from backstory.store import codec
from backstory.store.file import maintenance
from backstory.store.tables import lent, logs
from backstory.store.tables.logs import Chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from backstory.agents.contract import Agent, ReportedRecord
    from backstory.ingest.log_reader import Source
    from backstory.store import Log, RecordBatch, Store
    from backstory.store.file.maintenance import KeptChunk, LendingFamily, RemadeChunk

SUBAGENTS_MAX = 1_000
"""The most subagents of one log that become sessions."""
IN_MEMORY_BYTES = 1024 * 1024
BLOCK_BYTES = 256 * 1024
OWNED_BYTES_LEAST, OWNED_PART = 256 * 1024, 8
"""Subagents' logs have so many bytes of their own, and this part of their parent's, before an ingest reads it again."""
ANY_TIME = 1 << 62
"""In ms, behind every time."""
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


def lend(store: Store, before: int, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
    """Have kept logs of subagents made of their parent's bytes, where they have the same ones of their own.

    Of logs that were last written before this time (ms). Each transaction is short, and may be the last: what is left
    is found again. ``progress`` receives the bytes of parents' logs that are done, and those to do.
    """
    families, done, kept = store.ask(maintenance.families, before), 0, lent.LenderChunks()
    total = sum(each.length for each in families)
    for family in families:
        for count in _lend(store, family, kept):
            progress(min(done + count, total), total)
        done += family.length
        progress(done, total)


def lend_what_is_much(store: Store, lender: Log) -> None:
    """Likewise of one parent's log that grows, where so much has come that reading what is kept of it is little."""
    for family in store.ask(maintenance.families, ANY_TIME, lender.id):
        if sum(family.owned) >= max(OWNED_BYTES_LEAST, family.length // OWNED_PART):
            deque(_lend(store, family, lent.LenderChunks()), maxlen=0)


def _lend(store: Store, family: LendingFamily, kept: lent.LenderChunks) -> Iterator[int]:
    """Make logs of a lender's bytes; yields how many of these were read."""
    log = store.log(family.lender)
    if log is None or (reports := agents.load(log.agent).reports) is None:
        return
    borrowers = _borrowers(store, log, family)
    ready: list[RemadeChunk] = []
    try:
        for start, stop, line in lines_of(store.stream_log(log.id)) if borrowers else ():
            if line is not None:
                ready += _taken(borrowers, start, line, reports.reported(line))
            if sum(each.chunk.length for each in ready) >= CHUNK_BYTES:
                _write(store, ready, kept, borrowers)
                yield stop
        _write(store, ready, kept, borrowers)
    except errors.StoreDamaged:
        # What is damaged lends nothing more; ``verify`` names it.
        return


def _taken(
    borrowers: dict[str, _Borrower], start: int, line: bytes, reports: Iterable[ReportedRecord]
) -> Iterator[RemadeChunk]:
    """The chunks that end with what a line reports."""
    for report in reports:
        if (borrower := borrowers.get(report.subagent)) is not None:
            yield from borrower.take(start, line, report)


def _borrowers(store: Store, lender: Log, family: LendingFamily) -> dict[str, _Borrower]:
    """The logs that are to be made of a lender's bytes, by their subagents."""
    borrowers: dict[str, _Borrower] = {}
    for log_id in family.borrowers:
        chunks = store.ask(maintenance.kept_chunks, log_id)
        if sum(each.lender is None for each in chunks) > 1:
            # What came line by line becomes one chunk that copies, not one for each time.
            store.change(logs.merge_chunks, log_id, idle=True)
            chunks = store.ask(maintenance.kept_chunks, log_id)
        log = store.log(log_id)
        if log is not None and is_reported(log.path) and any(each.lender is None for each in chunks):
            borrowers[log.path.rpartition("#")[2]] = _Borrower(log_id, lender.id, chunks)
    return borrowers


def _write(store: Store, ready: list[RemadeChunk], kept: lent.LenderChunks, borrowers: dict[str, _Borrower]) -> None:
    """Store what is ready, and let go of logs of which something is not as it was."""
    refused = maintenance.lend(store, ready, kept) if ready else []
    ready.clear()
    for subagent in [name for name, each in borrowers.items() if each.log_id in refused]:
        del borrowers[subagent]


class _Borrower:
    """A kept log of a subagent, whose chunks are made anew while the records that its parent's log repeats come."""

    def __init__(self, log_id: int, lender: int, chunks: list[KeptChunk]) -> None:
        self.log_id, self._lender = log_id, lender
        self._chunks = deque(chunks)
        self._at = self._begin = 0
        """The place in this log, and that of what is held in the lender."""
        self._pieces: list[bytes | tuple[int, int]] = []
        self._data: list[bytes] = []
        """The same as bytes."""
        self._made: list[Chunk] = []

    def take(self, start: int, line: bytes, report: ReportedRecord) -> Iterator[RemadeChunk]:
        """Take a record, out of a line of the lender and its place; yields the chunks that end with it."""
        if self._pieces and start + len(line) - self._begin > CHUNK_BYTES:
            self._cut()
        for each in _pieces(start, line, report):
            piece: bytes | tuple[int, int] = each
            while self._chunks and (size := _length(piece)):
                chunk = self._chunks[0]
                now, piece = _split(piece, min(size, chunk.start + chunk.length - self._at))
                self._hold(chunk, now, start, line)
                if self._at == chunk.start + chunk.length:
                    yield from self._ended(self._chunks.popleft())

    def _hold(self, chunk: KeptChunk, piece: bytes | tuple[int, int], start: int, line: bytes) -> None:
        self._at += _length(piece)
        if chunk.lender is not None:
            return
        data = piece if isinstance(piece, bytes) else line[piece[0] - start : piece[0] - start + piece[1]]
        if not self._pieces:
            self._begin = start
        # A copy that a chunk's end cut is too short to be one.
        self._pieces.append(piece if len(data) >= codec.COPIED_BYTES_LEAST else data)
        self._data.append(data)

    def _ended(self, chunk: KeptChunk) -> Iterator[RemadeChunk]:
        self._cut()
        made, self._made = self._made, []
        if made:
            yield maintenance.RemadeChunk(self.log_id, chunk, made)

    def _cut(self) -> None:
        if self._pieces:
            data = b"".join(self._data)
            frame = codec.pack_copies(self._pieces)
            self._made.append(Chunk(self._at - len(data), len(data), codec.chunk_digest(data), frame, self._lender))
            self._pieces, self._data = [], []


def _length(piece: bytes | tuple[int, int]) -> int:
    return len(piece) if isinstance(piece, bytes) else piece[1]


def _split(piece: bytes | tuple[int, int], at: int) -> tuple[bytes | tuple[int, int], bytes | tuple[int, int]]:
    if isinstance(piece, bytes):
        return piece[:at], piece[at:]
    place, length = piece
    return (place, at), (place + at, length - at)


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
