"""One log, read in blocks and understood line by line, as slices that the store can take.

Every line that holds anything is a record and gets a number, whatever its adapter makes of it; where an agent keeps
one document over many lines, it says which of them end a record. The last line of a log may still grow: its bytes are
kept, and if it looks whole it is told provisionally and told again when more has come.

A record that an adapter fails at is kept like one that it does not know, and the reading goes on.
"""

from __future__ import annotations

import hashlib
import io
from collections import deque
from pathlib import PurePath
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from backstory import agents
from backstory.derive.deriver import Deriver
from backstory.derive.facts import Found, RecordFacts
from backstory.errors import in_words
from backstory.ingest.unread import reader_of
from backstory.model import AssistantText, At, Parsed, SessionFacts, Unknown
from backstory.store import codec, logs
from backstory.store.logs import BLANK, FAILED, FILE, LINE_BYTES_MAX, OVERSIZE
from backstory.store.slices import LogSlice, NewEvent, packed

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from _typeshed import WriteableBuffer as Buffer

    from backstory.agents.contract import Agent
    from backstory.model import LogIdentity
    from backstory.store import Log, SeenPlace, Store

BLOCK_BYTES = codec.CHUNK_BYTES
SLICE_BYTES = 16 * 1024 * 1024
BEGINNING_BYTES = 4096
"""So much of a log tells how its records end."""


class Source(Struct, frozen=True, kw_only=True):
    """A log to read: whose it is, where it lies, how it was found."""

    agent: Agent
    identity: LogIdentity
    session_uid: str
    created: int
    """When its session began, as its beginning says; 0 where that says nothing."""
    path: Path
    relpath: str
    place: SeenPlace


class Start(Struct, kw_only=True):
    """Where reading starts: the log as the store has it (None: new), and how its records are numbered."""

    log: Log | None
    next_seq: int
    generation: int
    first_hash: str | None
    carry: bytes = b""
    tail: bytes = b""
    pending: bytes | None = None
    """What the deriver of an earlier reading left."""
    known: dict[str, deque[int]] | None = None
    """Numbers of records that other logs of the session hold, by their key; None when there are none."""
    earlier: Callable[[], Iterable[bytes]] = tuple


class Slicer:
    """Reads one log from ``start`` to its end, a slice at a time.

    Where bytes of it are kept that were not told, it goes on behind what was: from a file of what is kept.
    """

    def __init__(self, source: Source, start: Start) -> None:
        self._source, self._start = source, start
        log = start.log
        self.unknown: dict[str, int] = {}
        self.problem: str | None = None
        """What kept a record from being understood, the last time that happened."""
        self._reader = reader_of(source.agent, source.identity, log.state if log else None, start.earlier)
        self._deriver = Deriver(start.pending)
        self._at = log.told_end if log else 0
        self._is_kept = log is not None and log.told_to is not None
        self._line_start = log.parsed_to if log else 0
        self._carry = [start.carry] if start.carry else []
        self._carried = self._at - (log.parsed_to if log else 0)
        self._end: re.Pattern[bytes] | None = None
        self._begun = start.carry.rpartition(b"\n")[2]
        self._tail = start.tail
        self._next_seq = start.next_seq
        self._tail_seq = log.tail_seq if log else None
        self._undo_from = log.parsed_to if log and log.tail_seq is not None else None
        self._expected = (self._at, start.next_seq)
        self._created = source.created
        self._clear()

    def slices(self, file: IO[bytes]) -> Iterator[LogSlice]:
        """The slices of what ``file`` holds from where it stands; none when it holds nothing more.

        Only the first knows the log's id in the store; those that follow are given it by whoever stores them.
        """
        before = self._at
        self._end = _record_end(self._source.agent, self._source.path, file)
        while block := file.read(BLOCK_BYTES):
            # Cut before the next block, so that the last slice has a chunk for an unfinished record to count in.
            if self._taken >= SLICE_BYTES:
                yield self._cut(self._reader.state(), self._deriver.state(), self._line_start, self._tail_seq)
            self._take(block)
        if self._at == before:
            return
        state, pending, parsed_to = self._reader.state(), self._deriver.state(), self._line_start
        tail_seq = self._tell_tail()
        yield self._cut(state, pending, parsed_to, tail_seq, is_last=True)

    def _clear(self) -> None:
        self._taken = 0
        self._chunks: list[logs.Chunk] = []
        self._runs: list[logs.Run] = []
        self._events: list[NewEvent] = []
        self._answers: dict[str, str] = {}
        self._facts = RecordFacts()
        self._has_reports = False
        self._last_active: int | None = None

    def _take(self, block: bytes) -> None:
        if not self._is_kept:
            self._chunks.append(logs.pack(self._at, block))
        done = 0
        *lines, rest = block.split(b"\n")
        for piece in lines:
            done += len(piece) + 1
            if self._end is not None and self._goes_on(piece):
                self._carry_on(piece + b"\n")
                continue
            line: bytes | None = piece
            if self._carried:
                line = self._joined(piece)
            start, self._line_start = self._line_start, self._at + done
            seq = self._record(line, start)
            if seq is not None:
                self._count(start, self._line_start, seq)
        if rest:
            self._carry_on(rest)
            if self._end is not None and len(self._begun) <= LINE_BYTES_MAX:
                self._begun += rest
        self._at += len(block)
        self._taken += len(block)
        self._tail = (self._tail + block)[-logs.TAIL_BYTES :]

    def _count(self, start: int, stop: int, seq: int) -> None:
        if self._runs and self._runs[-1].takes(start, seq):
            self._runs[-1].records += 1
            self._runs[-1].stop = stop
        else:
            self._runs.append(logs.Run(start, stop, seq, 1))

    def _carry_on(self, rest: bytes) -> None:
        self._carried += len(rest)
        if self._carried > LINE_BYTES_MAX:
            self._carry.clear()
        else:
            self._carry.append(rest)

    def _goes_on(self, piece: bytes) -> bool:
        """Whether a record goes on behind the line that this is, or is the rest of."""
        assert self._end is not None
        line, self._begun = self._begun + piece, b""
        return self._end.match(line) is None

    def _joined(self, piece: bytes) -> bytes | None:
        """The carried line with its last piece; None when it is longer than we read."""
        whole = self._carried + len(piece) <= LINE_BYTES_MAX
        line = b"".join((*self._carry, piece)) if whole else None
        self._carry.clear()
        self._carried = 0
        return line

    def _record(self, line: bytes | None, start: int) -> int | None:
        """Number a line and take what it says; None for one that holds nothing."""
        if line is not None and not line.strip(BLANK):
            return None
        seq = self._number(line)
        if line is None:
            self.unknown[OVERSIZE] = self.unknown.get(OVERSIZE, 0) + 1
            self._note(Parsed(None, [(0, Unknown(type=OVERSIZE))], None), seq, start, 0)
            return seq
        told = len(self._events)
        try:
            parsed = self._reader.read(line, seq)
            self._facts.take(parsed)
            self._has_reports = self._has_reports or parsed.has_reports
            if not self._created and parsed.at is not None and self._start.log is None:
                # Its first time stands behind what is searched for it.
                self._created = parsed.at
            if parsed.events:
                self._note(parsed, seq, start, len(line))
        except Exception as refused:
            # Whatever an adapter stumbles over, the record is kept, and the others are read.
            del self._events[told:]
            self.problem = in_words(refused)
            self.unknown[FAILED] = self.unknown.get(FAILED, 0) + 1
            self._note(Parsed(None, [(0, Unknown(type=FAILED))], None), seq, start, len(line))
        return seq

    def _number(self, line: bytes | None) -> int:
        if self._tail_seq is not None:
            seq, self._tail_seq = self._tail_seq, None
            return seq
        if self._start.known and line is not None:
            numbers = self._start.known.get(record_key(self._source.agent, line))
            if numbers:
                return numbers.popleft()
        self._next_seq += 1
        return self._next_seq - 1

    def _note(self, parsed: Parsed, seq: int, start: int, length: int) -> None:
        turn_uid = parsed.turn.uid if parsed.turn else None
        if parsed.at is not None and (self._last_active is None or parsed.at > self._last_active):
            self._last_active = parsed.at
        cwd = self._reader.session.cwd
        for part, event in parsed.events:
            self._events.append(packed(event, seq, part, turn_uid, parsed.at, start, length))
            self._deriver.take(event, At(seq, part, turn_uid, parsed.at), cwd)
            if turn_uid is not None and isinstance(event, AssistantText):
                self._answers[turn_uid] = event.text

    def _tell_tail(self) -> int | None:
        """Tell an unfinished last line that looks whole, for the time being; gives its number.

        One that looked whole and turned out to go on says nothing until it ends, and keeps its number.
        """
        line = b"".join(self._carry)
        if line.strip(BLANK) and self._looks_whole(line):
            seq = self._record(line, self._line_start)
        elif self._carried and self._tail_seq is not None:
            seq, self._tail_seq = self._tail_seq, None
        else:
            return None
        return seq

    def _looks_whole(self, line: bytes) -> bool:
        try:
            return self._source.agent.log.is_whole(line)
        except Exception:
            return False

    def _cut(
        self, state: bytes, pending: bytes | None, parsed_to: int, tail_seq: int | None, *, is_last: bool = False
    ) -> LogSlice:
        source, expected = self._source, self._expected
        # First what was touched: what of it cannot be kept is counted, too.
        turns = list(self._reader.touched())
        self.unknown |= self._reader.unknown
        piece = LogSlice(
            agent=source.agent.name,
            identity=source.identity,
            session_uid=source.session_uid,
            created=self._created,
            relpath=source.relpath,
            path=str(source.path),
            modified=source.place.mtime_ns // 1_000_000,
            log_id=self._start.log.id if self._start.log else None,
            expected_read_to=expected[0],
            expected_next_seq=expected[1],
            undo_from=self._undo_from,
            matched=self._start.known is not None,
            read_to=self._at,
            parsed_to=parsed_to,
            tail_seq=tail_seq,
            next_seq=self._next_seq,
            generation=self._start.generation,
            first_hash=self._start.first_hash,
            tail_hash=codec.text_digest(self._tail),
            state=state,
            pending=pending,
            found=self._found(),
            chunks=self._chunks,
            runs=self._runs,
            tail_run=logs.Run(parsed_to, self._at, tail_seq, 1) if tail_seq is not None and is_last else None,
            events=self._events,
            turns=turns,
            answers=self._answers,
            facts=self._reader.session,
            last_active=self._last_active,
            has_reported=self._has_reports,
            is_kept=self._is_kept,
        )
        self._expected, self._undo_from = (self._at, self._next_seq), None
        self._clear()
        return piece

    def _found(self) -> Found:
        found = self._deriver.cut(self._reader.session.cwd)
        self._facts.move_to(found)
        return found


def untold_slices(source: Source, start: Start, file: IO[bytes]) -> Iterator[LogSlice]:
    """The slices of what ``file`` holds behind what is kept, as bytes alone: nobody is asked what they say."""
    log = start.log
    at = log.read_to if log else 0
    file.seek(max(at - logs.TAIL_BYTES, 0))
    tail = read_exactly(file, min(at, logs.TAIL_BYTES))
    while data := file.read(SLICE_BYTES):
        chunks = [logs.pack(at + n, data[n : n + BLOCK_BYTES]) for n in range(0, len(data), BLOCK_BYTES)]
        tail = (tail + data)[-logs.TAIL_BYTES :]
        yield LogSlice(
            agent=source.agent.name,
            identity=source.identity,
            session_uid=source.session_uid,
            created=source.created,
            relpath=source.relpath,
            path=str(source.path),
            modified=source.place.mtime_ns // 1_000_000,
            log_id=log.id if log else None,
            expected_read_to=at,
            expected_next_seq=start.next_seq,
            read_to=at + len(data),
            parsed_to=at,
            tail_seq=None,
            next_seq=start.next_seq,
            generation=start.generation,
            first_hash=start.first_hash,
            tail_hash=codec.text_digest(tail),
            state=b"",
            chunks=chunks,
            facts=SessionFacts(),
            is_told=False,
        )
        at += len(data)


def read_exactly(file: IO[bytes], length: int) -> bytes:
    """So many bytes of a file from where it stands, or as many as there are."""
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
    """Why a file that ``opened`` gave ends before its log does; None where it does not."""
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


def _record_end(agent: Agent, path: PurePath, file: IO[bytes]) -> re.Pattern[bytes] | None:
    """What the last line of every record matches; None where each line is one. The file is left as it stands."""
    keeper = agent.documents
    if keeper is None or not keeper.is_document(path):
        return None
    at = file.tell()
    file.seek(0)
    head = file.read(BEGINNING_BYTES)
    file.seek(at)
    return keeper.record_end(head)


def record_key(agent: Agent, line: bytes) -> str:
    """By what a record is known again in a rewritten log: its own id, else its content."""
    try:
        native_id = agent.log.native_id_of(line)
    except Exception:
        # What it fails at has no id that it could tell.
        native_id = None
    return native_id or hashlib.sha256(line).hexdigest()


def numbered_lines(store: Store, log: Log) -> Iterator[tuple[bytes, int]]:
    """Every record of a log that has a number, with it."""
    return ((line, seq) for _, line, seq in placed_lines(store, log))


def placed_lines(store: Store, log: Log) -> Iterator[tuple[int, bytes, int]]:
    """The same, each with the offset at which it begins."""
    runs = deque(store.runs(log.id))
    end = _kept_record_end(store, log)
    start, seq = 0, 0
    # Joined only when its end has come: a line may be many blocks long.
    carry: list[bytes] = []
    held: list[bytes] = []
    for data in store.stream_log(log.id):
        *lines, rest = data.split(b"\n")
        for each in lines:
            piece = b"".join((*carry, each)) if carry else each
            carry.clear()
            held.append(piece)
            if end is not None and end.match(piece) is None:
                continue
            line = b"\n".join(held) if len(held) > 1 else piece
            held.clear()
            while runs and start >= runs[0].stop:
                runs.popleft()
            if runs and start >= runs[0].start and line.strip(BLANK):
                seq = runs[0].first_seq if start == runs[0].start else seq + 1
                yield start, line, seq
            start += len(line) + 1
        if rest:
            carry.append(rest)
    while runs and start >= runs[0].stop:
        runs.popleft()
    if runs and start == runs[0].start:
        # The last line was told before its end had come.
        yield start, b"\n".join((*held, b"".join(carry))), runs[0].first_seq


def _kept_record_end(store: Store, log: Log) -> re.Pattern[bytes] | None:
    keeper = agents.load(log.agent).documents if log.kind.endswith(FILE) else None
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
