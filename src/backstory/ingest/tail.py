"""One log read behind what the store has of it, as it grows: its new records with their numbers. Stores nothing.

A record has the number that an ingest would give it, so what is shown here can be named by it later. The file is opened
only when its size or time changed, and is never kept open.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from backstory import agents
from backstory.agents.jsonl import LineReader
from backstory.ingest.log_reader import (
    BLOCK_BYTES,
    known_numbers,
    numbered_lines,
    read_exactly,
    record_end_of,
    state_of,
)
from backstory.ingest.matching import whose_log
from backstory.ingest.record_source import LogNumbers, RecordLines, looks_whole, record_key, record_source
from backstory.ingest.rewritten import as_kept, is_rewritten
from backstory.model import LogIdentity, Record
from backstory.store.tables import sessions
from backstory.store.tables.logs import FILE, TAIL_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.ingest.record_source import NumberedLine, RecordSource
    from backstory.model import Turn
    from backstory.store import Log, Session, Store

REPLACED, GONE = "replaced", "deleted"
"""Reasons why a log is not the same file with more in it."""


class Growth(Struct, frozen=True, kw_only=True):
    """New records since the last look. ``turns``: those that began or changed, as they are now."""

    records: tuple[tuple[int, Record], ...] = ()
    """Each with its number in the session."""
    turns: tuple[Turn, ...] = ()
    change: str | None = None
    """REPLACED or GONE, if that happened; records of a new file that were in the old one are not repeated."""
    has_more: bool = False
    """True if there is more to read at once."""


class LogTail:
    """Reads a session's log behind ``log``: what the store has of it."""

    def __init__(self, store: Store, session: Session, log: Log) -> None:
        self._store, self._session, self._log = store, session, log
        self._agent, self.path = agents.load(log.agent), Path(log.path)
        self.shown_to = 0
        """Records up to this one came already; they are not returned."""
        self._numbers = LogNumbers(self._agent, store.ask_or(1, sessions.next_seq, session.uid), log.tail_seq)
        self._keys: dict[int, str] = {}
        """By what each record would be known again that was read here."""
        self._at = log.parsed_to
        before = min(TAIL_BYTES, self._at)
        self._before = store.read_log(log.id, self._at - before, before)
        """The bytes before ``_at``: a file that has others there is another log."""
        self._state = state_of(store, log)
        self._source: RecordSource | None = None
        self._lines = RecordLines(self._numbers, LineReader(self._at))
        self._provisional: int | None = None
        """The start of the last line, if it was read before its end came: it held a whole record."""
        self._stamp: tuple[int, int, int] | None = None
        self._is_gone = False
        self._document: bytes | None = None
        """A document that is written anew, in the form that is kept of it, as it was at the last look."""

    def look(self) -> Growth | None:
        """Return the new records since the last look; None if there are none."""
        try:
            found = self.path.stat()
            stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
            if stamp == self._stamp:
                return None
            self._stamp = stamp
            with self.path.open("rb", buffering=0) as file:
                self._is_gone = False
                return self._read(self._as_kept(file))
        except OSError:
            was_gone, self._is_gone, self._stamp = self._is_gone, True, None
            return None if was_gone else Growth(change=GONE)

    def _as_kept(self, file: IO[bytes]) -> IO[bytes]:
        """The file, of a document that is written anew in the form that is kept of it."""
        if not is_rewritten(self._agent, self.path):
            return file
        if self._document is None:
            self._document = b"".join(self._store.stream_log(self._log.id))
        grown = as_kept(self._agent, file, self._document)
        self._document = grown.read()
        return grown

    def _read(self, file: IO[bytes]) -> Growth:
        change = None
        if not self._goes_on(file):
            self._begin_again()
            change = REPLACED
        if self._source is None:
            self._source = self._new_source(file)
            reader = LineReader(self._at, record_end=record_end_of(self._agent, self.path, file))
            self._lines = RecordLines(self._numbers, reader)
        file.seek(self._at)
        block = read_exactly(file, BLOCK_BYTES)
        self._at += len(block)
        self._before = (self._before + block)[-TAIL_BYTES:]
        records = tuple(self._records(self._source, block))
        has_more = len(block) == BLOCK_BYTES
        if has_more:
            self._stamp = None
        return Growth(records=records, turns=tuple(self._source.turns()), change=change, has_more=has_more)

    def _goes_on(self, file: IO[bytes]) -> bool:
        """Return True if a file begins with what was read, as far as the last of it shows."""
        file.seek(self._at - len(self._before))
        return read_exactly(file, len(self._before)) == self._before

    def _begin_again(self) -> None:
        """Read another file from its beginning; records that it repeats are known by their own ids, or content."""
        stored = [log for log in self._store.logs(self._session) if log.agent == self._log.agent]
        known = known_numbers(self._store, self._agent, stored)
        numbers = {seq for each in known.values() for seq in each}
        for seq, key in self._keys.items():
            # What was shown and is not stored yet has its number all the same.
            if seq not in numbers:
                known.setdefault(key, deque()).append(seq)
        next_seq = max(self._numbers.next_seq, self._store.ask_or(1, sessions.next_seq, self._session.uid))
        self._numbers = LogNumbers(self._agent, next_seq, None, known)
        self._at, self._before, self._state, self._source = 0, b"", None, None
        self._provisional = None

    def _new_source(self, file: IO[bytes]) -> RecordSource:
        identity, _ = whose_log(self._agent, str(self.path), file)
        identity = identity or LogIdentity(native_id=self._log.native_id)
        return record_source(FILE, self._agent, identity, state=self._state, earlier=self._earlier)

    def _earlier(self) -> Iterable[bytes]:
        """The lines before those that are read here."""
        return () if self._state is None else (line for line, _ in numbered_lines(self._store, self._log))

    def _records(self, source: RecordSource, block: bytes) -> Iterator[tuple[int, Record]]:
        for line in self._lines.feed(block):
            if line.start != self._provisional:
                yield from self._parsed(source, line)
        if self._lines.start != self._provisional:
            last = self._lines.unfinished(partial(looks_whole, self._agent))
            if last is not None:
                # A whole record cannot grow into another one: all that may come is its end, under the same number.
                self._provisional, self._numbers.tail_seq = last.start, last.seq
                yield from self._parsed(source, last)

    def _parsed(self, source: RecordSource, line: NumberedLine) -> Iterator[tuple[int, Record]]:
        if line.content is not None:
            self._keys[line.seq] = record_key(self._agent, line.content)
        record = source.parse(line)
        if line.seq > self.shown_to:
            self.shown_to = line.seq
            yield line.seq, record
