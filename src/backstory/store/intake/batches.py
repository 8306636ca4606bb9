"""Records that were read, on their way into the store: a ``RecordBatch``, which ``append`` alone writes.

All of it is made before the transaction: events are packed, and what is derived of them is known.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Protocol

from msgspec import Struct, field

from backstory import bounds
from backstory.conversation.compact import compact_event
from backstory.conversation.tree import Point
from backstory.derive import index_text
from backstory.derive.facts import DerivedFacts
from backstory.errors import in_words
from backstory.model import (
    AssistantText,
    At,
    Complete,
    Event,
    LogIdentity,
    Record,
    SessionFacts,
    Turn,
    Unknown,
    event_to_json,
)
from backstory.store import codec
from backstory.store.tables import logs
from backstory.store.tables.logs import FAILED, FILE, OVERSIZE, Chunk, FileStamp, SeqRange
from backstory.store.tables.sidecars import Sidecar

LogKey = tuple[str, str, int]
"""An agent's log: the agent, its native id, its generation."""


class NewEvent(Struct, frozen=True, gc=False, array_like=True):
    """An event on its way into the store: its compact form packed, its text ready for the index."""

    seq: int
    part: int
    turn_uid: str | None
    at: int | None
    kind: str
    data: bytes
    char_len: int
    position: int | None
    length: int | None
    scope: str | None
    text: str


def packed(
    event: Event,
    seq: int,
    part: int,
    turn_uid: str | None,
    at: int | None,
    position: int | None,
    length: int | None,
    *,
    is_stored: bool = False,
) -> NewEvent:
    """An event made ready for the store. ``is_stored``: it is there, and only its text is wanted."""
    scope, text = index_text.searchable(event, in_index=True) or (None, "")
    data = b"" if is_stored else codec.shipped_codec().pack(event_to_json(compact_event(event)))
    return NewEvent(
        seq, part, turn_uid, at, event.kind, data, 0 if is_stored else index_text.char_len(event), position, length,
        scope, index_text.index_text(text, scope),
    )  # fmt: skip


class BatchRun(Struct, frozen=True, kw_only=True):
    """The run of ours that a batch is of, and the part of it."""

    turn_uid: str
    is_first: bool = False
    """It begins the turn, in place of one that a process began and left when it was killed."""
    is_last: bool = False
    is_lost: bool = False
    """True if the rest of the run is lost: it is closed as crashed."""
    prefix_chars: int = 0
    prefix_sha256: str | None = None


class RecordBatch(Struct, kw_only=True):
    """Records of one log, read and understood, with the state of the store that they were read against."""

    agent: str
    identity: LogIdentity
    session_uid: str
    created: int = 0
    kind: str | None = FILE
    """None: its records are in no log, as a run's prompt and its end."""
    relpath: str = ""
    path: str = ""
    modified: int | None = None
    place: FileStamp | None = None
    project: str | None = None
    root: str | None = None
    cwd: str | None = None
    """The folder that a run was in."""
    run: BatchRun | None = None

    log_id: int | None = None
    """The id of an agent's own log; another kind of log is found by its session, turn and kind."""
    expected_read_to: int = 0
    """Its first byte: behind the bytes kept when the reader started, or behind those parsed, if its bytes are kept."""
    expected_next_seq: int
    """The store's next number when the reader started; a different one now means that the batch is stale."""
    follows_leaf: bool = False
    """True if its turn follows where the session went on when the reader started: ``expected_leaf``."""
    expected_leaf: Point | None = None
    undo_from: int | None = None
    """Events of this log from this offset on were provisional and are replaced."""
    matched: bool = False
    """Its records may be ones that another log of the session already holds."""

    read_to: int = 0
    parsed_to: int = 0
    tail_seq: int | None = None
    next_seq: int
    generation: int = 1
    first_hash: bytes | None = None
    tail_hash: bytes | None = None
    state: bytes = b""
    pending: bytes | None = None
    """Calls whose results had not come at ``parsed_to``; see ``deriving``."""
    chunks: list[Chunk] = field(default_factory=list)
    lender: LogKey | None = None
    """The log that chunks of it copy from; it is refused where that is not written before it in one transaction."""
    sidecar: Sidecar | None = None
    """The sidecar to be kept beside the log, if that is a run's output; see ``Arrivals``."""
    seq_ranges: list[SeqRange] = field(default_factory=list)
    """The numbers of its records; not of one that may still grow."""
    tail_seq_range: SeqRange | None = None
    """The number of that one, if it is provisional."""
    events: list[NewEvent] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    """The last thing said in each turn, by its uid."""
    found: DerivedFacts = field(default_factory=DerivedFacts)
    facts: SessionFacts = field(default_factory=SessionFacts)
    last_active: int | None = None
    end: Complete | None = None
    """The end of the session's last turn, as it was set through the API."""
    is_last: bool = False
    """True if a log that is read again is parsed to its end with this."""
    has_reported: bool = False
    """True if it reports of subagents, whose own logs may not be there."""
    is_parsed: bool = True
    """True if it is understood; else its bytes alone are kept, to be parsed from the store later."""
    is_kept: bool = False
    """True if its bytes are in the store already, behind ``told_to``: only what they say is new."""

    @property
    def key(self) -> LogKey:
        """Its log."""
        return self.agent, self.identity.native_id, self.generation

    @property
    def length(self) -> int:
        """The number of bytes that it is about."""
        return self.read_to - self.expected_read_to

    def without_words(self) -> RecordBatch:
        """The same bytes, without anything of what they say."""
        return RecordBatch(
            agent=self.agent, identity=self.identity, session_uid=self.session_uid, created=self.created,
            relpath=self.relpath, path=self.path, modified=self.modified, log_id=self.log_id,
            expected_read_to=self.expected_read_to, expected_next_seq=self.expected_next_seq, read_to=self.read_to,
            parsed_to=self.expected_read_to, next_seq=self.expected_next_seq, generation=self.generation,
            first_hash=self.first_hash, tail_hash=self.tail_hash, chunks=self.chunks, lender=self.lender,
            is_parsed=False,
        )  # fmt: skip


class ReadsRecords(Protocol):
    """Reads the records of a log, one after the other."""

    @property
    def cwd(self) -> str | None:
        """The folder that their session is in."""

    def read(self, line: bytes, seq: int) -> Record:
        """Return the content of a record whose number is ``seq``."""


class BatchContent:
    """The content of records, gathered for the next batch. ``pending``: the calls that an earlier reading left waiting.

    ``arrivals``: when the lines of the log came, for records that do not say when they were made. ``is_stored``: the
    events are in the store already, and are not packed.
    """

    def __init__(
        self, pending: bytes | None = None, arrivals: Arrivals | None = None, *, is_stored: bool = False
    ) -> None:
        from backstory.derive.deriver import Deriver  # a reader does not need it

        self._deriver, self._arrivals, self._is_stored = Deriver(pending), arrivals or Arrivals(), is_stored
        self.unknown: dict[str, int] = {}
        """The kinds of records that could not be read at all, and how often each came."""
        self.problem: str | None = None
        """The last reason why a record was not understood."""
        self._clear()

    def _clear(self) -> None:
        self.events: list[NewEvent] = []
        self._seq_ranges: list[SeqRange] = []
        self._answers: dict[str, str] = {}
        self._last_active: int | None = None

    def take(self, source: ReadsRecords, line: bytes | None, seq: int, start: int) -> Record:
        """Take what a record says; None stands for a line that is too long to be read.

        One that an adapter fails at is kept like one that it does not know, and the reading goes on.
        """
        # The record keeps its number: whoever reads longer lines one day finds it where it was.
        if line is None:
            return self._unread(OVERSIZE, seq, start, 0)
        count = len(self.events)
        try:
            record = source.read(line, seq)
            # What the record says of itself is nearer to the truth than when its line was seen.
            if record.at is None and record.events:
                record = self._timed(record, start, len(line))
            if record.takes_number and record.events:
                self.add(record, seq, source.cwd, start, len(line))
        except Exception as refused:
            # Whatever an adapter stumbles over, the record is kept, and the others are read.
            del self.events[count:]
            self.problem = in_words(refused)
            return self._unread(FAILED, seq, start, len(line))
        return record

    def _timed(self, record: Record, start: int, length: int) -> Record:
        """A record with the time that its line came, unless it says itself when it was made."""
        at = self._arrivals.at(start, length)
        if at is None:
            return record
        return Record(record.events, record.turn_uid, at, record.takes_number, record.delta)

    def _unread(self, reason: str, seq: int, start: int, length: int) -> Record:
        self.unknown[reason] = self.unknown.get(reason, 0) + 1
        record = self._timed(Record([(0, Unknown(type=reason))]), start, length)
        self.add(record, seq, None, start, length)
        return record

    def add(
        self, record: Record, seq: int, cwd: str | None, position: int | None = None, length: int | None = None
    ) -> None:
        """Pack the events of a record, and derive what they add up to."""
        turn_uid, at = record.turn_uid, record.at
        if at is not None and (self._last_active is None or at > self._last_active):
            self._last_active = at
        for part, event in record.events:
            # Packed here, outside of any transaction: it is most of the work of an import.
            self.events.append(packed(event, seq, part, turn_uid, at, position, length, is_stored=self._is_stored))
            self._deriver.take(event, At(seq, part, turn_uid, at), cwd)
            if turn_uid is not None and isinstance(event, AssistantText):
                # The last one stays: a turn's answer is what its agent said last.
                self._answers[turn_uid] = event.text

    def count(self, start: int, stop: int, seq: int) -> None:
        """Note the number of a record that lies between two places."""
        # Runs of numbers keep the table small: most logs have one row.
        last = self._seq_ranges[-1] if self._seq_ranges else None
        if last is not None and last.takes(start, seq):
            last.records += 1
            last.stop = stop
        else:
            self._seq_ranges.append(SeqRange(start, stop, seq, 1))

    def pending(self) -> bytes | None:
        """The calls that wait for their results by now."""
        return self._deriver.state()

    def move_to(self, batch: RecordBatch, cwd: str | None) -> RecordBatch:
        """Give a batch what was gathered since the last one."""
        batch.events, batch.seq_ranges, batch.answers = self.events, self._seq_ranges, self._answers
        batch.last_active, batch.found = self._last_active, self._deriver.cut(cwd)
        self._clear()
        return batch


def chunks_of(start: int, data: bytes) -> list[Chunk]:
    """Bytes that lie at ``start`` in their log, packed."""
    size = codec.CHUNK_BYTES
    return [logs.pack(start + at, data[at : at + size]) for at in range(0, len(data), size)]


# the times of the lines of a run's output -----------------------------------------------------------------------------


SUFFIX = ".times"
"""The end of the sidecar's name, after the name of the log."""
VERSION = 1
"""The first byte."""
BYTES_MAX = 8 * 1024 * 1024
"""Anything after this many bytes is neither written nor read."""
_NUMBER_BYTES_MAX = 9
_UNKNOWN = -1


def seen(length: int, delta_ms: int) -> bytes:
    """Encode that the next ``length`` bytes arrived ``delta_ms`` after the last; < 0 if a clock was set back."""
    return _packed(length) + _packed(delta_ms * 2 + 1 if delta_ms >= 0 else -delta_ms * 2)


def unwatched(length: int) -> bytes:
    """Encode that the next ``length`` bytes arrived unwatched."""
    return _packed(0) + _packed(length)


class Arrivals:
    """The times of an output's bytes, from the content of its sidecar; without one nothing has a time.

    Notes are read as far as they are asked for: a store of others may hold millions about an output of one line.
    """

    def __init__(self, content: bytes = b"") -> None:
        self._ends, self._times = array("q"), array("q")
        self._content: memoryview | None = None
        # The first byte is the version.
        self._place, self._end, self._now = 1, 0, 0
        # A later form may mean anything else by its bytes, so one that is not known gives no times.
        if content[:1] == bytes([VERSION]):
            self._content = memoryview(content)[:BYTES_MAX]

    def at(self, start: int, length: int) -> int | None:
        """Return the time when a line, whose first byte is the one at ``start``, was complete; None if not known."""
        # A line came when its last byte did; an empty line has only its LF, which counts then.
        byte = start + max(length, 1) - 1
        self._read(byte)
        n = bisect_right(self._ends, byte)
        return self._times[n] if n < len(self._ends) and self._times[n] != _UNKNOWN else None

    @property
    def last(self) -> int | None:
        """Return the time when something came last."""
        self._read(bounds.INTEGER_MAX)
        return next((at for at in reversed(self._times) if at != _UNKNOWN), None)

    def _read(self, byte: int) -> None:
        """Read the notes up to the one about a byte, or all."""
        while self._content is not None and self._end <= byte:
            first = _number(self._content, self._place)
            second = first and _number(self._content, first[1])
            if not first or not second or not self._take(first[0], second[0]):
                self._content = None
                return
            self._place = second[1]

    def _take(self, length: int, number: int) -> bool:
        """Take one note; False where nobody wrote it: a disk may have filled up with zeros what it lost."""
        if length:
            # The lowest bit is the sign, so that zero is odd: an even zero is what a disk leaves in a hole.
            self._now += number // 2 if number % 2 else -(number // 2)
        self._end += length or number
        # A tail of zeros loses times and invents none.
        if not number or self._end > bounds.INTEGER_MAX:
            return False
        self._ends.append(self._end)
        at = bounds.time_ms(self._now) if length else None
        self._times.append(_UNKNOWN if at is None else at)
        return True


def _packed(number: int) -> bytes:
    """Encode a number as LEB128: 7 bits a byte, the lowest first; all but the last byte have their highest bit set."""
    packed = bytearray()
    while number > 0x7F:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)
    return bytes(packed)


def _number(content: memoryview, place: int) -> tuple[int, int] | None:
    """Decode the number at a position, and return the next position; None if it is incomplete."""
    number = 0
    for n, byte in enumerate(content[place : place + _NUMBER_BYTES_MAX]):
        number |= (byte & 0x7F) << 7 * n
        if byte < 0x80:
            # Each number has one encoding: zeros from a damaged disk must not end it.
            return (number, place + n + 1) if byte or not n else None
    return None
