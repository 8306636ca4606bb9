"""One log, read in blocks and understood line by line, as batches that the store can take.

Every line that holds anything is a record and gets a number, whatever its adapter makes of it; where an agent keeps
one document over many lines, it says which of them end a record. The last line of a log may still grow: its bytes are
kept, and if it looks whole it is parsed provisionally and parsed again when more has come.
"""

from __future__ import annotations

import io
from collections import deque
from functools import partial
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from backstory import agents
from backstory.agents.jsonl import LineReader
from backstory.ingest.record_source import LogNumbers, RecordLines, looks_whole, record_key, record_source
from backstory.ingest.unread import identified, is_unread
from backstory.model import LogIdentity
from backstory.store import codec
from backstory.store.intake.batches import BatchContent, RecordBatch, chunks_of
from backstory.store.tables import logs
from backstory.store.tables.logs import FILE

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator

    from _typeshed import WriteableBuffer as Buffer

    from backstory.agents.contract import Agent, RecordBegin
    from backstory.ingest.record_source import NumberedLine
    from backstory.store import FileStamp, Log, Store

BLOCK_BYTES = codec.CHUNK_BYTES
SLICE_BYTES = 16 * 1024 * 1024
STATELESS_BYTES = 8 * 1024
"""The size below which no state of a log is kept: its reader gets its lines again when more of it comes."""
BEGINNING_BYTES = 4096
"""Bytes of a log that show how its records end."""


def never() -> bool:
    """For who reads to the end."""
    return False


class Pace(Struct, frozen=True, kw_only=True):
    """The amount of a log that is read and stored at once, and the condition to end before its end."""

    slice_bytes: int
    block_bytes: int
    is_over: Callable[[], bool] = never
    """Asked between slices: what is stored by then is whole."""


def full_pace() -> Pace:
    """Reads all there is."""
    return Pace(slice_bytes=SLICE_BYTES, block_bytes=BLOCK_BYTES)


class Source(Struct, frozen=True, kw_only=True):
    """A log to read: whose it is, where it lies, how it was found."""

    agent: Agent
    identity: LogIdentity
    session_uid: str
    created: int
    """The begin of its session, as its first lines give it; 0 if they do not."""
    path: Path
    relpath: str
    place: FileStamp


class Start(Struct, kw_only=True):
    """The start of a reading: the log as the store has it (None: new), and the numbers of its records."""

    log: Log | None
    next_seq: int
    generation: int
    first_hash: bytes | None
    carry: bytes = b""
    tail: bytes = b""
    pending: bytes | None = None
    """The calls that an earlier reading's deriver left waiting."""
    state: Callable[[], bytes | None] = lambda: None
    """The state of its reader after all earlier lines."""
    known: dict[str, deque[int]] | None = None
    """Numbers of records that other logs of the session hold, by their key; None when there are none."""
    earlier: Callable[[], Iterable[bytes]] = tuple


def state_of(store: Store, log: Log) -> bytes | None:
    """Return the state of a log's reader at ``parsed_to``, made again if it is not kept; None: nothing yet."""
    if log.state is not None or not log.parsed_to or log.source_kind != FILE or is_unread(log.native_id):
        return log.state
    agent = agents.load(log.agent)
    identity, _ = identified(agent, Path(log.path or log.relpath), partial(store.read_log, log.id))
    records = record_source(FILE, agent, identity or LogIdentity(native_id=log.native_id))
    for line in kept_lines(store, log):
        if line.start >= log.parsed_to:
            break
        # A record that its adapter failed at was kept like one that it does not know.
        records.parse(line)
    return records.state()


class Slicer:
    """Reads one log from ``start`` to its end, a slice at a time.

    Where bytes of it are kept that were not parsed, it continues behind what was: from a file of what is kept.
    """

    def __init__(
        self,
        source: Source,
        start: Start,
        pace: Pace | None = None,
        on_report: Callable[[int, bytes], None] | None = None,
    ) -> None:
        self._on_report, self._line_start = on_report, 0
        self._source, self._start, self._pace = source, start, pace or full_pace()
        log = start.log
        self._records = record_source(
            FILE, source.agent, source.identity, state=start.state(), earlier=start.earlier,
            on_report=None if on_report is None else self._report,
        )  # fmt: skip
        self._content = BatchContent(start.pending)
        self._at = log.told_end if log else 0
        self._is_kept = log is not None and log.told_to is not None
        self._tail = start.tail
        self._numbers = LogNumbers(source.agent, start.next_seq, log.tail_seq if log else None, start.known)
        self._lines = RecordLines(self._numbers, LineReader())
        self._undo_from = log.parsed_to if log and log.tail_seq is not None else None
        self._expected = (self._at, start.next_seq)
        self._created = source.created
        self._taken = 0
        self._chunks: list[logs.Chunk] = []

    @property
    def unknown(self) -> dict[str, int]:
        """Types of records that could not be understood, with how often each came."""
        return {**self._content.unknown, **self._records.unknown}

    @property
    def has_taken(self) -> bool:
        """True if bytes came since the last batch."""
        return self._taken > 0

    @property
    def problem(self) -> str | None:
        """The last reason why a record was not understood."""
        return self._content.problem

    def batches(self, file: IO[bytes]) -> Iterator[RecordBatch]:
        """The batches of what ``file`` holds from where it stands; none when it holds nothing more.

        Only the first knows the log's id in the store; those that follow are given it by whoever stores them.
        """
        before = self._at
        parsed_to = log.parsed_to if (log := self._start.log) else 0
        end = record_end_of(self._source.agent, self._source.path, file)
        reader = LineReader(parsed_to, self._start.carry, carried=self._at - parsed_to, record_end=end)
        self._lines = RecordLines(self._numbers, reader)
        while block := file.read(self._pace.block_bytes):
            # Cut before the next block, so that the last slice has a chunk for an unfinished record to count in.
            if self._taken >= self._pace.slice_bytes:
                state, pending = self._records.state(), self._content.pending()
                yield self._cut(state, pending, self._lines.start, self._numbers.tail_seq)
            self.take(block)
        if self._at > before:
            yield self.rest()

    def rest(self) -> RecordBatch:
        """The batch of what was taken since the last one, also of a line that has not ended."""
        pending, parsed_to = self._content.pending(), self._lines.start
        # What a reader makes of a few lines is found in them again.
        state = self._records.state() if parsed_to > STATELESS_BYTES else b""
        tail_seq = self._parse_unfinished()
        return self._cut(state, pending, parsed_to, tail_seq, is_last=True)

    def take(self, block: bytes, packed: logs.Chunk | None = None) -> None:
        """Take the next bytes of the log, which may be packed already."""
        if not self._is_kept:
            # Packed while the log is read, not while the store is locked.
            self._chunks.append(packed or logs.pack(self._at, block))
        for line in self._lines.feed(block):
            self._parse(line)
            self._content.count(line.start, line.stop, line.seq)
        self._at += len(block)
        self._taken += len(block)
        self._tail = (self._tail + block[-logs.TAIL_BYTES :])[-logs.TAIL_BYTES :]

    def _report(self, line: bytes) -> None:
        assert self._on_report is not None
        self._on_report(self._line_start, line)

    def _parse(self, line: NumberedLine) -> None:
        self._line_start = line.start
        record = self._content.take(self._records, line.content, line.seq, line.start)
        if not self._created and record.at is not None and self._start.log is None:
            # The begin of a session is noted once: the first time that any record of a new log has.
            self._created = record.at

    def _parse_unfinished(self) -> int | None:
        """Parse the last line provisionally if it looks whole though its end has not come; returns its number.

        One that looked whole and turned out to go on says nothing until it ends, and keeps its number.
        """
        line = self._lines.unfinished(partial(looks_whole, self._source.agent))
        if line is not None:
            self._parse(line)
            return line.seq
        if self._lines.read_to == self._lines.start:
            return None
        seq, self._numbers.tail_seq = self._numbers.tail_seq, None
        return seq

    def _cut(
        self, state: bytes, pending: bytes | None, parsed_to: int, tail_seq: int | None, *, is_last: bool = False
    ) -> RecordBatch:
        records = self._records
        batch = _batch(self._source, self._start, *self._expected, self._at, self._tail, self._chunks)
        self._content.move_to(batch, records.cwd)
        batch.undo_from, batch.matched, batch.is_kept = self._undo_from, self._start.known is not None, self._is_kept
        batch.parsed_to, batch.tail_seq, batch.next_seq = parsed_to, tail_seq, self._numbers.next_seq
        batch.state, batch.pending, batch.turns, batch.facts = state, pending, records.turns(), records.facts
        batch.created = self._created
        records.note_found(batch.found)
        batch.has_reported = records.has_reported()
        if tail_seq is not None and is_last:
            batch.tail_seq_range = logs.SeqRange(parsed_to, self._at, tail_seq, 1)
        self._expected, self._undo_from = (self._at, self._numbers.next_seq), None
        self._taken, self._chunks = 0, []
        return batch


def unparsed_batches(source: Source, start: Start, file: IO[bytes]) -> Iterator[RecordBatch]:
    """The batches of what ``file`` holds behind what is kept, as bytes alone: nobody is asked what they say."""
    at = start.log.read_to if start.log else 0
    file.seek(max(at - logs.TAIL_BYTES, 0))
    tail = read_exactly(file, min(at, logs.TAIL_BYTES))
    while data := file.read(SLICE_BYTES):
        tail = (tail + data)[-logs.TAIL_BYTES :]
        yield _batch(source, start, at, start.next_seq, at + len(data), tail, chunks_of(at, data)).without_words()
        at += len(data)


def _batch(
    source: Source, start: Start, at: int, next_seq: int, read_to: int, tail: bytes, chunks: list[logs.Chunk]
) -> RecordBatch:
    """A batch of a log from ``at`` on, which ends in ``tail``."""
    return RecordBatch(
        agent=source.agent.name, identity=source.identity, session_uid=source.session_uid, created=source.created,
        relpath=source.relpath, path=str(source.path), modified=source.place.mtime_ns // 1_000_000,
        log_id=start.log.id if start.log else None, generation=start.generation, first_hash=start.first_hash,
        expected_read_to=at, expected_next_seq=next_seq, read_to=read_to, next_seq=next_seq,
        tail_hash=codec.chunk_digest(tail), chunks=chunks,
    )  # fmt: skip


def read_exactly(file: IO[bytes], length: int) -> bytes:
    """Read this many bytes of a file from its position, or as many as there are."""
    pieces = []
    while length > 0 and (piece := file.read(length)):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def opened(path: Path) -> IO[bytes]:
    """A log as a file of its content, also of a compressed one as far as it can be read; it can be sought in.

    ``missing_of`` says why not all of it can be.
    """
    return _decompressed(path) if path.name.endswith(".zst") else path.open("rb", buffering=0)


def missing_of(file: IO[bytes]) -> str | None:
    """Return the reason why a file that ``opened`` gave ends before its log does; None if it does not."""
    return getattr(file, "missing", None)


def _decompressed(path: Path) -> IO[bytes]:
    import tempfile

    class Content(tempfile.SpooledTemporaryFile[bytes]):
        missing: str | None = None

    # In memory while it is small, on the disk when it is not.
    spooled = Content(max_size=SLICE_BYTES)
    try:
        with path.open("rb") as file:
            try:
                for block in codec.decompressed(file):
                    spooled.write(block)
            except codec.ZstdError as refused:
                if not spooled.tell():
                    raise
                spooled.missing = str(refused)
    except BaseException:
        spooled.close()
        raise
    spooled.seek(0)
    return spooled


def kept_bytes(store: Store, log: Log) -> IO[bytes]:
    """A log that the store keeps, as a file to read and to seek in."""
    return io.BufferedReader(_KeptBytes(store, log), BLOCK_BYTES)


class _KeptBytes(io.RawIOBase):
    def __init__(self, store: Store, log: Log) -> None:
        self._store, self._log, self._at = store, log, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(offset + {io.SEEK_CUR: self._at, io.SEEK_END: self._log.read_to}.get(whence, 0), 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer)
        data = self._store.read_log(self._log.id, self._at, len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def record_end_of(agent: Agent, path: PurePath, file: IO[bytes]) -> re.Pattern[bytes] | RecordBegin | None:
    """Return what cuts a log into records; None if each line is one. Keeps the file's position."""
    keeper = agent.documents
    if keeper is None or not keeper.is_document(path):
        return None
    at = file.tell()
    file.seek(0)
    head = file.read(BEGINNING_BYTES)
    file.seek(at)
    return keeper.record_end(head)


def numbered_lines(store: Store, log: Log) -> Iterator[tuple[bytes, int]]:
    """Every record of a log that has a number, with it; without those that are too long to be read."""
    return ((line.content, line.seq) for line in kept_lines(store, log) if line.content is not None)


def kept_lines(store: Store, log: Log, instead: Iterable[bytes] | None = None) -> Iterator[NumberedLine]:
    """Every record of a kept log that has a number, with the number that it got when it came.

    ``instead``: bytes to read in the place of those that are kept, with the same records at the same places.
    """
    lines = RecordLines(_KeptNumbers(store.ask(logs.seq_ranges, log.id)), LineReader(record_end=kept_end(store, log)))
    for data in store.stream_log(log.id) if instead is None else instead:
        yield from lines.feed(data)
    # The last record may have a number before its end has come.
    if (last := lines.unfinished()) is not None:
        yield last


class _KeptNumbers:
    """The numbers that a kept log's lines have, asked for in their order; of bytes that were not parsed there is none.

    A range begins anew wherever numbers are not one after the other: lines of other logs came between, or a rewritten
    log kept the numbers of an older one.
    """

    def __init__(self, ranges: Iterable[logs.SeqRange]) -> None:
        self._ranges, self._seq = deque(ranges), 0

    def __call__(self, start: int, line: bytes | None) -> int | None:
        while self._ranges and start >= self._ranges[0].stop:
            self._ranges.popleft()
        if not self._ranges or start < self._ranges[0].start:
            return None
        self._seq = self._ranges[0].first_seq if start == self._ranges[0].start else self._seq + 1
        return self._seq


def kept_end(store: Store, log: Log) -> re.Pattern[bytes] | RecordBegin | None:
    """Return what cuts a kept log into records; None if each line is one."""
    keeper = agents.load(log.agent).documents if log.source_kind == FILE else None
    if keeper is None or not keeper.is_document(PurePath(log.path or log.relpath)):
        return None
    return keeper.record_end(store.read_log(log.id, 0, BEGINNING_BYTES))


def known_numbers(store: Store, agent: Agent, kept: Iterable[Log], taken: Iterable[int] = ()) -> dict[str, deque[int]]:
    """The numbers of all records of these logs, by key, in order: each once, and none that is ``taken``."""
    known: dict[str, deque[int]] = {}
    met = set(taken)
    for log in kept:
        for line, seq in numbered_lines(store, log):
            if seq not in met:
                met.add(seq)
                known.setdefault(record_key(agent, line), deque()).append(seq)
    return known
