"""A log of a JSON export: its bytes as they come, or, where they were left out, a log made of its events."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from backstory.exchange.portable import row_of
from backstory.model import encoded
from backstory.store import codec
from backstory.store.tables import logs
from backstory.store.tables.logs import API, COPY, FILE, JSON, STDERR, STREAM, SeqRange

if TYPE_CHECKING:
    from backstory.exchange.json_lines import BytesLine, EventLine, LogLine, NumbersLine, SidecarLine
    from backstory.exchange.staging import Rows

LOG_KINDS = frozenset(f"{before}{kind}" for kind in (FILE, STREAM, STDERR, API, JSON) for before in ("", COPY))
BLOCK_BYTES = codec.CHUNK_BYTES


class Wrong(Exception):
    """A reason why a value in a line cannot be."""


class StagedLog:
    """Takes the lines of a log. Raises Wrong, and ValueError."""

    def __init__(self, line: LogLine, log_id: int) -> None:
        if line.kind not in LOG_KINDS:
            raise Wrong(f"{line.kind[:40]!r} is no kind of log")
        if max(line.parsed_to, line.told_to or 0) > line.length:
            raise Wrong("what was parsed of it is longer than it is")
        self.id, self.length = log_id, line.length
        self._line = line
        self._bytes = _Bytes(log_id)
        self._numbered_to, self._names, self._is_over = 0, set[str](), False

    def number(self, line: NumbersLine, rows: Rows, next_seq: int) -> None:
        """Note the numbers of its records."""
        for start, stop, first_seq, records in line.ranges:
            if not self._numbered_to <= start < stop <= self.length or first_seq + records > next_seq:
                raise Wrong(f"records {first_seq} to {first_seq + records - 1} cannot lie from byte {start} to {stop}")
            self._numbered_to = stop
            rows.add("numbers", log_id=self.id, start=start, stop=stop, first_seq=first_seq, records=records)

    def keep(self, line: BytesLine, rows: Rows) -> None:
        """Take the next of its bytes."""
        if line.start != self._bytes.end or line.start + len(line.data) > self.length:
            raise Wrong(f"bytes from {line.start} on came, and byte {self._bytes.end} of {self.length} was to come")
        check_digest(line.data, line.sha256)
        self._bytes.add(line.data, rows)

    def note_sidecar(self, line: SidecarLine) -> None:
        """Check a file beside it."""
        if line.name in self._names:
            raise Wrong(f"the file {line.name[:80]!r} is beside this log already")
        check_digest(line.data, line.sha256)
        self._names.add(line.name)

    def end(self, rows: Rows, session_id: int, *, trusted: bool) -> None:
        """Add its row; a second time nothing."""
        if self._is_over:
            return
        self._is_over, line = True, self._line
        if self._bytes.end != self.length:
            raise Wrong(f"of {self.length} bytes of log {line.log} {self._bytes.end} came before it")
        tail_hash, frames = self._bytes.finish(rows)
        said = row_of(line, trusted=trusted) | {"kind": kind_of(line.kind, trusted=trusted)}
        rows.add("logs", id=self.id, session_id=session_id, tail_hash=tail_hash, frames=frames, **said)


class OmittedLog:
    """Makes a log of a session's events, a line for each record: so their full forms are kept without its own logs.

    Such a line is ``{"at":…,"turn":…,"events":[[part,{…}],…]}``.
    """

    def __init__(self, session_uid: str, session_id: int, log_id: int) -> None:
        self._uid, self._session_id, self._log_id = session_uid, session_id, log_id
        self._bytes = _Bytes(log_id)
        self._record: list[tuple[EventLine, tuple[Any, ...]]] = []
        """The events of the last record, each with its row up to the columns that say where that lies."""
        self._range: SeqRange | None = None

    def take(self, line: EventLine, row: tuple[Any, ...], rows: Rows) -> None:
        """Take an event, with its row as far as it is known."""
        if self._record and self._record[0][0].seq != line.seq:
            self._flush(rows)
        self._record.append((line, row))

    def end(self, rows: Rows, *, trusted: bool) -> None:
        """Add what is left, and the log's own row."""
        self._flush(rows)
        self._add_range(rows)
        tail_hash, frames = self._bytes.finish(rows)
        rows.add(
            "logs", id=self._log_id, session_id=self._session_id, agent=API, kind=kind_of(JSON, trusted=trusted),
            native_id=self._uid, tail_hash=tail_hash, read_to=self._bytes.end, parsed_to=self._bytes.end, frames=frames,
        )  # fmt: skip

    def _flush(self, rows: Rows) -> None:
        if not self._record:
            return
        first, (*_, at, _kind, _data, _chars) = self._record[0]
        events = [(int(row[1]), msgspec.Raw(bytes(line.event))) for line, row in self._record]
        text = encoded({"at": at, "turn": first.turn, "events": events})
        start = self._bytes.end
        self._bytes.add(text + b"\n", rows)
        self._number(first.seq, start, rows)
        for _, row in self._record:
            rows.add_event(self._session_id, (*row, self._log_id, start, len(text)), size=len(row[-2]))
        self._record.clear()

    def _number(self, seq: int, start: int, rows: Rows) -> None:
        if self._range is not None and self._range.takes(start, seq):
            self._range.records += 1
            self._range.stop = self._bytes.end
        else:
            self._add_range(rows)
            self._range = SeqRange(start, self._bytes.end, seq, 1)

    def _add_range(self, rows: Rows) -> None:
        if (each := self._range) is not None:
            rows.add(
                "numbers", log_id=self._log_id, start=each.start, stop=each.stop, first_seq=each.first_seq,
                records=each.records,
            )  # fmt: skip


class _Bytes:
    """The bytes of a log, packed in blocks as large as those of a log that was read from a file."""

    def __init__(self, log_id: int) -> None:
        self._log_id = log_id
        self._held = bytearray()
        self._packed_to, self._tail = 0, b""

    @property
    def end(self) -> int:
        """The number of lines."""
        return self._packed_to + len(self._held)

    def add(self, data: bytes, rows: Rows) -> None:
        """Add bytes behind the others."""
        self._held += data
        while len(self._held) >= BLOCK_BYTES:
            self._pack(bytes(self._held[:BLOCK_BYTES]), rows)
            del self._held[:BLOCK_BYTES]

    def finish(self, rows: Rows) -> tuple[bytes, int]:
        """Pack what is left; gives the hash of the last bytes, and how many small chunks there are."""
        small = bool(self._held)
        if small:
            self._pack(bytes(self._held), rows)
            self._held.clear()
        return codec.chunk_digest(self._tail), int(small)

    def _pack(self, data: bytes, rows: Rows) -> None:
        chunk = logs.pack(self._packed_to, data)
        rows.add(
            "chunks", len(chunk.frame), log_id=self._log_id, start=chunk.start, length=chunk.length,
            sha256=chunk.digest, data=chunk.frame,
        )  # fmt: skip
        self._packed_to += len(data)
        self._tail = (self._tail + data)[-logs.TAIL_BYTES :]


def kind_of(kind: str, *, trusted: bool) -> str:
    """The kind that a log is kept as: what nobody trusted is no log that one of ours could be taken for."""
    return kind if trusted or kind.startswith(COPY) else f"{COPY}{kind}"


def check_digest(data: bytes, sha256: str) -> None:
    """Raise Wrong where bytes are not what their SHA-256 says."""
    if hashlib.sha256(data).hexdigest() != sha256:
        raise Wrong("its bytes do not match their sha256")
