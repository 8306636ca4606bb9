"""Logs into the store, again and again without doubles.

Files that are as they were are not opened. An append is believed if the file grew and both its first record
and the bytes before the old end are as they were; anything else is compared byte for byte with what is kept,
and a log that was rewritten is read anew beside it, its records known again by their ids.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct, field

from backstory import ids
from backstory.discover import Candidate, Looked, discover
from backstory.projects import project_key
from backstory.slicing import BLANK, SLICE_BYTES, Slicer, Source, Start, known_numbers, numbered_lines, record_key
from backstory.store import SeenPlace, codec, logs, slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from backstory.agents import Agent
    from backstory.store import Log, LogSlice, Store, Written

BULK_BYTES = 32 * 1024 * 1024
"""From so many new bytes on the index is built in one go."""
BATCH_LOGS = 400
TRIES = 4
"""How often a log is read again when another process was faster."""
IDLE_MS = 24 * 3600 * 1000

EMPTY = "it is empty"
NOT_A_LOG = "no record of this agent in its first 64 KB"


class Problem(Struct, frozen=True):
    """A log that could not be read, and why."""

    path: str
    reason: str


class Tally(Struct, kw_only=True):
    """What one agent's logs gave."""

    logs_seen: int = 0
    logs_read: int = 0
    bytes_read: int = 0
    sessions_new: int = 0
    sessions_updated: int = 0
    events_new: int = 0


class Report(Struct, kw_only=True):
    """What an ingest did."""

    by_agent: dict[str, Tally] = field(default_factory=dict)
    unknown_records: dict[str, int] = field(default_factory=dict)
    errors: list[Problem] = field(default_factory=list)
    looked: list[Looked] = field(default_factory=list)
    gave_nothing: list[Problem] = field(default_factory=list)

    def total(self, name: str) -> int:
        """A figure of all agents together."""
        return sum(getattr(tally, name) for tally in self.by_agent.values())


class _Gone(Exception):  # noqa: N818 - not an error of ours, a fact about a file
    """The file cannot be read now."""


def ingest(
    store: Store,
    agents: Sequence[Agent],
    *,
    environ: Mapping[str, str],
    home: Path,
    now: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Read every log of these agents that is new or changed; ``progress`` is told bytes done and bytes to do."""
    candidates, looked = discover(agents, environ, home)
    work = _Ingest(store, progress)
    work.report.looked = looked
    for each in looked:
        work.report.gave_nothing += [Problem(path, reason) for path, reason in each.passed_over]
    work.run(candidates)
    if store.exists:
        store.fold_idle(now - IDLE_MS)
    return work.report


class _Ingest:
    def __init__(self, store: Store, progress: Callable[[int, int], None]) -> None:
        self.store = store
        self.report = Report()
        self._progress = progress
        self._places = store.places()
        self._pending: list[tuple[Candidate, Slicer, LogSlice]] = []
        self._pending_bytes = 0
        self._again: list[Candidate] = []
        self._new_places: list[SeenPlace] = []
        self._sessions: dict[str, set[tuple[int, bool]]] = {}
        self._done = self._to_do = 0

    def run(self, candidates: list[Candidate]) -> None:
        """Read what is new or changed, and what another process changed meanwhile once more."""
        for each in candidates:
            self._tally(each.agent.name).logs_seen += 1
        changed = [each for each in candidates if not self._is_as_it_was(each)]
        self._to_do = sum(each.size for each in changed)
        bulk = self._to_do >= BULK_BYTES
        if bulk:
            self.store.begin_bulk()
        for _ in range(TRIES):
            for each in changed:
                self._read(each)
            self._flush()
            changed, self._again = self._again, []
            if not changed:
                break
        self.report.errors += [Problem(each.path, slices.STALE) for each in changed]
        if self._new_places:
            self.store.remember_places(self._new_places)
        if bulk:
            self.store.end_bulk()
        self._sum_up()

    def _is_as_it_was(self, each: Candidate) -> bool:
        seen = self._places.get(each.path)
        if seen is None or (seen.size, seen.mtime_ns, seen.inode, seen.device) != (
            each.size, each.mtime_ns, each.inode, each.device,
        ):  # fmt: skip
            return False
        if seen.log_id is None and seen.reason:
            self.report.gave_nothing.append(Problem(each.path, seen.reason))
        return True

    def _read(self, each: Candidate) -> None:
        try:
            with _opened(each) as file:
                self._read_open(each, file)
        except (OSError, _Gone, codec.ZstdError) as refused:
            reason = getattr(refused, "strerror", None) or str(refused)
            self.report.errors.append(Problem(each.path, reason))
        self._done += each.size
        self._progress(self._done, self._to_do)

    def _read_open(self, each: Candidate, file: IO[bytes]) -> None:
        head = file.read(ids.HEAD_BYTES)
        if not head.strip(BLANK + b"\n"):
            self._gave_nothing(each, EMPTY)
            return
        identity = each.agent.identify(Path(each.path), head)
        if identity is None:
            self._gave_nothing(each, NOT_A_LOG, problem=True)
            return
        first_hash = _first_hash(head)
        kept = self.store.logs_of(each.agent.name, identity.native_id)
        log = self._matching_log(each, file, head, first_hash, kept)
        if log is not None and _size(each, file) == log.read_to:
            self._place(each, log.id)
            return
        created = ids.first_timestamp_ms(head)
        uid = ids.session_uid(each.agent.name, identity.native_id, created)
        others = [other for other in kept if log is None or other.id != log.id]
        start = self._start(each.agent, log, uid, first_hash, others, file)
        source = Source(
            agent=each.agent,
            identity=identity,
            session_uid=uid,
            created=created,
            path=Path(each.path),
            relpath=each.relpath.removesuffix(".zst"),
            place=_as_place(each, log.id if log else None),
            project=project_key,
        )
        self._slice(each, Slicer(source, start), file, others)

    def _matching_log(
        self, each: Candidate, file: IO[bytes], head: bytes, first_hash: str | None, kept: list[Log]
    ) -> Log | None:
        """The kept log that this file goes on from, or is; None when it differs from all.

        Leaves the file standing where reading goes on.
        """
        seen = self._places.get(each.path)
        for log in sorted(kept, key=lambda log: (seen is None or log.id != seen.log_id, -log.id)):
            if log.first_hash is not None and first_hash != log.first_hash:
                continue
            if _has_grown(each, file, log) or _begins_with(self.store, file, log):
                return log
            if log.read_to > 0 and _is_beginning_of(self.store, file, log):
                file.seek(log.read_to)
                return log
        file.seek(0)
        return None

    def _start(
        self, agent: Agent, log: Log | None, uid: str, first_hash: str | None, others: list[Log], file: IO[bytes]
    ) -> Start:
        known = known_numbers(self.store, agent, others) if others else None
        generation = max((other.generation for other in others), default=0) + 1
        next_seq = self.store.next_seq(uid)
        if log is None:
            return Start(log=None, next_seq=next_seq, generation=generation, first_hash=first_hash, known=known)
        file.seek(max(log.read_to - logs.TAIL_BYTES, 0))
        tail = file.read(min(logs.TAIL_BYTES, log.read_to))
        carry = self.store.read_log(log.id, log.parsed_to, log.read_to - log.parsed_to)
        return Start(
            log=log,
            next_seq=next_seq,
            generation=log.generation,
            first_hash=first_hash or log.first_hash,
            carry=carry,
            tail=tail,
            known=known,
            earlier=lambda: (line for line, _ in numbered_lines(self.store, log)),
        )

    def _slice(self, each: Candidate, slicer: Slicer, file: IO[bytes], others: list[Log]) -> None:
        pieces = slicer.slices(file)
        piece = next(pieces, None)
        while piece is not None:
            following = next(pieces, None) if _is_partial(piece) else None
            if following is None:
                piece.place = _as_place(each, None)
                self._pending.append((each, slicer, piece))
                self._pending_bytes += sum(chunk.length for chunk in piece.chunks)
                if self._pending_bytes >= SLICE_BYTES or len(self._pending) >= BATCH_LOGS or others:
                    self._flush()
                    self._drop_superseded(each, slicer, others)
                return
            self._flush()
            written = self._store_one(each, slicer, piece)
            if written.refused:
                return
            slicer.log_id = following.log_id = written.log_id
            piece = following

    def _store_one(self, each: Candidate, slicer: Slicer, piece: LogSlice) -> Written:
        (written,) = self.store.write_slices([piece])
        self._note(each, slicer, piece, written, final=False)
        return written

    def _flush(self) -> None:
        if not self._pending:
            return
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        for (each, slicer, piece), written in zip(
            pending, self.store.write_slices([piece for _, _, piece in pending]), strict=True
        ):
            slicer.log_id = written.log_id
            self._note(each, slicer, piece, written, final=True)

    def _note(self, each: Candidate, slicer: Slicer, piece: LogSlice, written: Written, *, final: bool) -> None:
        if written.refused == slices.FORGOTTEN:
            self._gave_nothing(each, slices.FORGOTTEN)
            return
        if written.refused:
            self._again.append(each)
            return
        tally = self._tally(each.agent.name)
        tally.bytes_read += sum(chunk.length for chunk in piece.chunks)
        tally.events_new += len(piece.events)
        self._sessions.setdefault(each.agent.name, set()).add((written.session_id or 0, written.session_is_new))
        if final:
            tally.logs_read += 1
            for kind, count in slicer.unknown.items():
                self.report.unknown_records[kind] = self.report.unknown_records.get(kind, 0) + count

    def _drop_superseded(self, each: Candidate, slicer: Slicer, others: list[Log]) -> None:
        """Of a log that was rewritten the old bytes stay only if they hold a record that the new ones lack."""
        if slicer.log_id is None:
            return
        new = self.store.log(slicer.log_id)
        if new is None:
            return
        gone = [log for log in others if log.path == each.path or not Path(log.path).exists()]
        if gone:
            has = set(known_numbers(self.store, each.agent, [new]))
            lacks_nothing = [
                log.id
                for log in gone
                if all(record_key(each.agent, line) in has for line, _ in numbered_lines(self.store, log))
            ]
            if lacks_nothing:
                self.store.drop_logs(lacks_nothing, in_favour_of=new.id)

    def _gave_nothing(self, each: Candidate, reason: str, *, problem: bool = False) -> None:
        self._new_places.append(_as_place(each, None, reason))
        self.report.gave_nothing.append(Problem(each.path, reason))
        if problem:
            self.report.errors.append(Problem(each.path, reason))

    def _place(self, each: Candidate, log_id: int) -> None:
        self._new_places.append(_as_place(each, log_id))

    def _tally(self, agent: str) -> Tally:
        return self.report.by_agent.setdefault(agent, Tally())

    def _sum_up(self) -> None:
        for agent, touched in self._sessions.items():
            new = {session for session, is_new in touched if is_new}
            self._tally(agent).sessions_new = len(new)
            self._tally(agent).sessions_updated = len({session for session, _ in touched} - new)


def _opened(each: Candidate) -> IO[bytes]:
    if each.path.endswith(".zst"):
        return _decompressed(Path(each.path))
    return Path(each.path).open("rb", buffering=0)


def _decompressed(path: Path) -> IO[bytes]:
    """A compressed log as a file of its content that can be sought in, on disk only when it is large."""
    import tempfile

    spooled = tempfile.SpooledTemporaryFile(max_size=SLICE_BYTES)  # noqa: SIM115 - the caller closes it
    try:
        with codec.open_compressed(path) as content:
            while block := content.read(codec.CHUNK_BYTES):
                spooled.write(block)
    except BaseException:
        spooled.close()
        raise
    spooled.seek(0)
    return spooled  # type: ignore[return-value]


def _size(each: Candidate, file: IO[bytes]) -> int:
    at = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(at)
    return size


def _first_hash(head: bytes) -> str | None:
    """The hash of the first record, or None while that may still grow."""
    at = 0
    while at < len(head):
        end = head.find(b"\n", at)
        if end < 0:
            return codec.text_digest(head[at:]) if len(head) == ids.HEAD_BYTES else None
        if head[at:end].strip(BLANK):
            return codec.text_digest(head[at:end])
        at = end + 1
    return None


def _has_grown(each: Candidate, file: IO[bytes], log: Log) -> bool:
    """Whether a file goes on from what is kept, by its size and the hash of the bytes before the old end."""
    if log.first_hash is None or log.tail_hash is None or _size(each, file) <= log.read_to:
        return False
    at = max(log.read_to - logs.TAIL_BYTES, 0)
    file.seek(at)
    tail = _read_exactly(file, log.read_to - at)
    return codec.text_digest(tail) == log.tail_hash


def _begins_with(store: Store, file: IO[bytes], log: Log) -> bool:
    """Whether a file's beginning is all that is kept of a log; it then stands behind it."""
    file.seek(0)
    for _, length, _, _, digest in store.chunk_marks(log.id):
        if codec.chunk_digest(_read_exactly(file, length)) != digest:
            return False
    return True


def _is_beginning_of(store: Store, file: IO[bytes], log: Log) -> bool:
    """Whether all of a file is the beginning of what is kept."""
    file.seek(0)
    for data in store.stream_log(log.id):
        found = _read_exactly(file, len(data))
        if found != data:
            return data.startswith(found) and not file.read(1)
    return not file.read(1)


def _read_exactly(file: IO[bytes], length: int) -> bytes:
    pieces = []
    while length > 0 and (piece := file.read(length)):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def _is_partial(piece: LogSlice) -> bool:
    return sum(chunk.length for chunk in piece.chunks) >= SLICE_BYTES


def _as_place(each: Candidate, log_id: int | None, reason: str | None = None) -> SeenPlace:
    return SeenPlace(
        path=each.path,
        agent=each.agent.name,
        log_id=log_id,
        device=each.device,
        inode=each.inode,
        size=each.size,
        mtime_ns=each.mtime_ns,
        reason=reason,
    )
