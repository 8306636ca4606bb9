"""Decides whose log a file is, which of the kept ones it continues, and at which byte reading continues.

A file is compared by its size and hashes first, and byte for byte where they do not decide.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING

from backstory import ids
from backstory.agents import jsonl
from backstory.agents.jsonl import BLANK, LineReader, lines_of
from backstory.ingest.log_reader import BLOCK_BYTES, Start, known_numbers, numbered_lines, read_exactly, state_of
from backstory.ingest.unread import identified
from backstory.lazy import lazy_module
from backstory.store import codec, schema
from backstory.store.tables import logs, sessions

if TYPE_CHECKING:
    from backstory.agents.contract import Agent
    from backstory.ingest.log_reader import Source
    from backstory.model import LogIdentity
    from backstory.store import FileStamp, Log, Store
    from backstory.store.tables import pruned
else:
    pruned = lazy_module("backstory.store.tables.pruned")


def whose_log(agent: Agent, path: str, file: IO[bytes]) -> tuple[LogIdentity | None, bytes]:
    """Return a file's owner, None if its agent does not give one, and its first bytes; see ``unread.identified``."""

    def read(at: int, length: int) -> bytes:
        file.seek(at)
        return read_exactly(file, length)

    return identified(agent, Path(path), read)


def matching_log(
    store: Store, file: IO[bytes], first_hash: bytes | None, kept: list[Log], seen: FileStamp | None
) -> Log | None:
    """The kept log that a file goes on from, or is; None when it differs from all. ``seen``: how it was found before.

    Leaves the file standing where reading goes on.
    """
    # The log that this file was the last time, then the newest: generations of one log begin alike.
    for log in sorted(kept, key=lambda log: (seen is None or log.id != seen.log_id, -log.id)):
        if log.first_hash is not None and first_hash != log.first_hash:
            continue
        if has_grown(file, log) or begins_with(store, file, log):
            return log
        # A file that lost its end is still that log: what is kept of it stays.
        if log.read_to > 0 and is_beginning_of(store, file, log):
            file.seek(log.read_to)
            return log
    file.seek(0)
    return None


def start_of(
    store: Store, source: Source, log: Log | None, first_hash: bytes | None, others: list[Log], file: IO[bytes]
) -> Start:
    """Return where reading a log continues, with ``file`` standing there; ``log``: its kept part."""
    known = None
    if others:
        ranges = store.ask(logs.seq_ranges, log.id) if log else []
        taken = (seq for each in ranges for seq in range(each.first_seq, each.first_seq + each.records))
        known = known_numbers(store, source.agent, others, taken)
    generation = max((other.generation for other in others), default=0) + 1
    next_seq = store.ask_or(1, sessions.next_seq, source.session_uid)
    if log is None:
        return Start(log=None, next_seq=next_seq, generation=generation, first_hash=first_hash, known=known)
    file.seek(max(log.told_end - logs.TAIL_BYTES, 0))
    tail = read_exactly(file, min(logs.TAIL_BYTES, log.told_end))
    unfinished = log.told_end - log.parsed_to
    # Of a line that is too long to be parsed the length is enough.
    carry = store.read_log(log.id, log.parsed_to, unfinished) if unfinished <= jsonl.LINE_BYTES_MAX else b""
    return Start(
        log=log, state=lambda: state_of(store, log), next_seq=next_seq, generation=log.generation,
        first_hash=first_hash or log.first_hash, carry=carry, tail=tail, pending=store.ask(logs.pending, log.id),
        known=known, earlier=lambda: (line for line, _ in numbered_lines(store, log)),
    )  # fmt: skip


def first_record_hash(head: bytes) -> bytes | None:
    """The hash of the first record, or None while that may still grow."""
    reader = LineReader()
    for _, _, line in reader.lines(head):
        if line is not None and line.strip(BLANK):
            return codec.chunk_digest(line)
    return codec.chunk_digest(reader.unfinished) if reader.unfinished and len(head) == ids.HEAD_BYTES else None


def has_grown(file: IO[bytes], log: Log) -> bool:
    """Return True if a file goes on from what is kept, by its size and the hash of the bytes before the old end."""
    if log.first_hash is None or log.tail_hash is None or size_of(file) <= log.read_to:
        return False
    at = max(log.read_to - logs.TAIL_BYTES, 0)
    file.seek(at)
    tail = read_exactly(file, log.read_to - at)
    return codec.chunk_digest(tail) == log.tail_hash


def begins_with(store: Store, file: IO[bytes], log: Log) -> bool:
    """Return True if a file's beginning is all that is kept of a log, or was pruned of it; it then stands behind it."""
    file.seek(0)
    # By the hashes of its chunks, so that nothing is unpacked.
    for _, length, digest in store.ask(logs.chunk_marks, log.id):
        if codec.chunk_digest(read_exactly(file, length)) != digest:
            return _was(store, file, log, log.read_to)
    return True


def _was(store: Store, file: IO[bytes], log: Log, stop: int) -> bool:
    """Return True if the first bytes of a file are those that a log had before it was pruned; stands behind them."""

    def read(at: int, length: int) -> bytes:
        file.seek(at)
        return read_exactly(file, length)

    is_so = (
        bool(store.ask(lambda db: db.execute(schema.HAS_PRUNED).get))
        and store.ask(pruned.is_overwritten, log.id)
        and size_of(file) >= stop
        and store.ask(pruned.is_original, log.id, read, stop)
    )
    file.seek(stop)
    return is_so


def is_beginning_of(store: Store, file: IO[bytes], log: Log) -> bool:
    """Return True if all of a file is the beginning of what is kept."""
    file.seek(0)
    for data in store.stream_log(log.id):
        found = read_exactly(file, len(data))
        if found != data:
            return (data.startswith(found) and not file.read(1)) or _was(store, file, log, size_of(file))
    return not file.read(1)


def repeated_by(store: Store, new: Log, older: list[Log]) -> list[int]:
    """The ids of those older logs that hold no record which the new one lacks."""
    if not older:
        return []
    has = _lines(store, new)
    return [log.id for log in older if _lines(store, log) <= has]


def _lines(store: Store, log: Log) -> Counter[bytes]:
    """The content of a log's lines, and how often each comes; also of a torn last one."""
    found = Counter[bytes]()
    for start, stop, line in lines_of(store.stream_log(log.id)):
        found[codec.chunk_digest(line) if line is not None else _digest(store, log, start, stop)] += 1
    return found


def _digest(store: Store, log: Log, start: int, stop: int) -> bytes:
    """The same as of a shorter line, of one that is not read whole."""
    digest = hashlib.sha256()
    for at in range(start, stop, BLOCK_BYTES):
        digest.update(store.read_log(log.id, at, min(BLOCK_BYTES, stop - at)).replace(b"\n", b""))
    return digest.digest()


def size_of(file: IO[bytes]) -> int:
    """Return the length of a file; keeps its position."""
    at = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(at)
    return size
