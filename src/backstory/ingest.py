"""Logs into the store, again and again without doubles.

Files that are as they were are not opened. An append is believed if the file grew and both its first record
and the bytes before the old end are as they were; anything else is compared byte for byte with what is kept,
and a log that was rewritten is read anew beside it, its records known again by their ids.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter, deque
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from msgspec import Struct, field

from backstory import agents, ids, unread
from backstory.agents import documents_of
from backstory.companions import gather
from backstory.databases import ROWS_OF, Done, Rows, Unread, sessions_without_logs
from backstory.discover import Candidate, Looked, discover
from backstory.errors import in_words, is_for_one_only
from backstory.parsing import Job, Outcome, Worker, WorkerLost, outcomes
from backstory.projects import project_key, worktree_root
from backstory.reported import is_reported, reported_logs
from backstory.slicing import (
    SLICE_BYTES,
    Slicer,
    Source,
    Start,
    kept_bytes,
    known_numbers,
    missing_of,
    numbered_lines,
    opened,
    untold_slices,
)
from backstory.store import SeenPlace, codec, logs, slices
from backstory.store.logs import BLANK, LINE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from backstory.agents import Agent
    from backstory.model import LogIdentity
    from backstory.store import Log, LogSlice, Store, Written

BULK_BYTES = 32 * 1024 * 1024
"""From so many new bytes on the index is built in one go."""
WORKER_BYTES = 8 * 1024 * 1024
"""From so many on a second process reads along; below that it would hardly have begun when all is done."""
BATCH_LOGS = 400
HANDED_MAX = 64
"""So many logs may be with the second process."""
AHEAD = 8
"""With so many logs before it, the second process is busy enough."""
SMALL_BYTES = 8 * 1024 * 1024
TRIES = 4
"""How often a log is read again when another process was faster."""
IDLE_MS = 24 * 3600 * 1000

REASONS = {
    slices.EMPTY: "it is empty",
    slices.NOT_UNDERSTOOD: "no record of this agent is in its beginning",
    slices.FORGOTTEN: "removed by you; `backstory ingest --forgotten` brings it back",
}
"""What the store notes of files that gave nothing, or not all, in words."""
BYTES_ONLY = "its bytes are kept, but not what they say"
KEPT_SO_FAR = "{}: kept as far as it can be read"
"""Of a compressed log that is not whole."""


class Problem(Struct, frozen=True):
    """A log that could not be read, and why."""

    path: str
    reason: str


class Tally(Struct, kw_only=True):
    """What one agent's logs gave."""

    logs_seen: int = 0
    logs_read: int = 0
    bytes_read: int = 0
    companions_read: int = 0
    """Small files beside logs that were new or changed."""
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
    not_understood: list[Problem] = field(default_factory=list)
    """Files that are kept, now or before, though nobody understands them or not all of them can be read."""

    def total(self, name: str) -> int:
        """A figure of all agents together."""
        return sum(getattr(tally, name) for tally in self.by_agent.values())


def ingest(
    store: Store,
    agents: Sequence[Agent],
    *,
    environ: Mapping[str, str],
    home: Path,
    now: int,
    running: Set[tuple[str, str]] = frozenset(),
    places: Sequence[Path] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Read every log of these agents that is new or changed; ``progress`` is told bytes done and bytes to do.

    ``running``: (agent, its id of a session) of runs of ours that are not stored yet; their logs are read afterwards.
    ``places``: folders and files in which databases are looked for, too, beside the folders of known sessions.
    """
    store.make_ready()
    candidates, looked = discover(agents, environ, home)
    work = _Ingest(store, running, progress)
    work.report.looked = looked
    for each in looked:
        work.report.gave_nothing += [Problem(path, reason) for path, reason in each.passed_over]
    work.run(candidates)
    work.read_untold()
    work.read_databases(agents, environ, home, [*places, *map(Path, store.folders())])
    if store.exists:
        work.fold_idle(now - IDLE_MS)
    return work.report


def ingest_these(store: Store, changed: list[Candidate], *, running: Set[tuple[str, str]] = frozenset()) -> Report:
    """Read these logs and what was found beside them, and look at nothing else; ``running`` as for ``ingest``."""
    store.make_ready()
    work = _Ingest(store, running, lambda done, total: None)
    work.run(changed)
    return work.report


def understand(store: Store, log: Log) -> bool:
    """Whether a kept log that nobody understood is known by now; it is then read as the log that it is."""
    agent = agents.load(log.agent)
    identity, _ = unread.identified(agent, Path(log.path or log.relpath), partial(store.read_log, log.id))
    if identity is None:
        return False
    return _Ingest(store, frozenset(), lambda done, total: None).read_kept(log, agent, identity)


def read_reported(store: Store, log: Log) -> None:
    """Make sessions of the subagents of which only a kept log reports."""
    _Ingest(store, frozenset(), lambda done, total: None).read_reported(log)


class _Reading(Struct, kw_only=True):
    """A log whose slices are coming in."""

    each: Candidate
    others: list[Log] = field(default_factory=list)
    """The session's other logs, whose records it may repeat."""
    log_id: int | None = None
    is_refused: bool = False
    is_untold: bool = False
    """Whether what it says could not be stored: of what follows the bytes are kept alone."""
    is_kept: bool = False
    """It is read from what the store keeps of it, not from its file."""
    parent: Candidate | None = None
    """Of a log that is made of what another one reports, that one."""


class _Ingest:
    def __init__(self, store: Store, running: Set[tuple[str, str]], progress: Callable[[int, int], None]) -> None:
        self.store, self._running = store, running
        self.report = Report()
        self._progress = progress
        self._places = store.places()
        self._pending: list[tuple[_Reading, Outcome, LogSlice]] = []
        self._worker: Worker | None = None
        self._handed: deque[_Reading] = deque()
        self._pending_bytes = 0
        self._again: list[Candidate] = []
        self._new_places: list[SeenPlace] = []
        self._moved: list[tuple[int, str, str]] = []
        self._untold = {log.id for log in store.untold_logs()}
        self._tried: set[int] = set()
        """Logs that were read once more because something of them is kept as bytes only."""
        self._failed: set[str] = set()
        """Paths of what could not be stored."""
        self._ctimes: dict[str, int] = {}
        """Of files that are as they were, as far as an earlier version noted it."""
        self._not_understood: dict[str, str] = {}
        """Of each file that is kept though not all of it is understood, why that is."""
        self._read_now: dict[str, int] = {}
        """The log's id of each path that was read, or compared, in this ingest."""
        self._sessions: dict[str, set[tuple[int, bool]]] = {}
        self._done = self._to_do = 0

    def run(self, candidates: list[Candidate]) -> None:
        """Read what is new or changed, and what another process changed meanwhile once more."""
        for each in candidates:
            self._tally(each.agent.name).logs_seen += 1
        changed = [each for each in candidates if not self._is_as_it_was(each)]
        self._to_do = sum(each.size for each in changed)
        with self.store.bulk(is_bulk=self._to_do >= BULK_BYTES):
            self._read_changed(changed)
            self._gather(candidates)
            self._remember()
        if self._ctimes:
            self.store.note_ctimes(self._ctimes)
        self._sum_up()

    def _read_changed(self, changed: list[Candidate]) -> None:
        if self._to_do >= WORKER_BYTES:
            self._worker = Worker()
        try:
            for _ in range(TRIES):
                self._read_all(changed)
                changed, self._again = self._again, []
                if not changed:
                    break
        finally:
            self._end_worker()
        self.report.errors += [Problem(each.path, slices.STALE) for each in changed]

    def read_untold(self) -> None:
        """Read once more what is kept as bytes only, of logs whose files are gone: from those bytes."""
        for log in self.store.untold_logs():
            if log.id not in self._tried and log.id in self._untold and not Path(log.path).exists():
                try:
                    self._read_kept(log)
                except Exception as refused:
                    self._note_failure(log.path, refused)
        self._flush()

    def _read_kept(self, log: Log) -> None:
        each = Candidate(
            agent=agents.load(log.agent),
            path=log.path,
            relpath=log.relpath,
            device=0,
            inode=0,
            size=log.read_to,
            mtime_ns=(log.modified or 0) * 1_000_000,
        )
        with tempfile.SpooledTemporaryFile(max_size=SLICE_BYTES) as file:
            for data in self.store.stream_log(log.id):
                file.write(data)
            file.seek(0)
            self._read_open(each, cast("IO[bytes]", file))

    def fold_idle(self, before: int) -> None:
        """Fold logs that were last written before this time (ms)."""
        try:
            self.store.fold_idle(before)
        except Exception as refused:
            self._note_failure(str(self.store.path), refused)

    def _remember(self) -> None:
        """Note the files that were looked at; where that fails, each by itself."""
        places, moved = self._new_places, self._moved
        self._new_places, self._moved = [], []
        if not places and not moved:
            return
        try:
            self.store.remember_places(places, moved)
        except Exception as refused:
            if not is_for_one_only(refused):
                raise
            for place in places:
                self._alone(place.path, lambda place=place: self.store.remember_places([place]))  # type: ignore[misc]
            for each in moved:
                self._alone(each[1], lambda each=each: self.store.remember_places([], [each]))  # type: ignore[misc]

    def _alone(self, path: str, work: Callable[[], object]) -> None:
        """Do something for one file; what goes wrong is that file's alone."""
        try:
            work()
        except Exception as refused:
            self._note_failure(path, refused)

    def _note_failure(self, path: str, refused: Exception, more: str = "") -> None:
        """List what went wrong with one log; raises what concerns the store itself."""
        if not is_for_one_only(refused):
            raise refused
        self._failed.add(path)
        reason = in_words(refused)
        self.report.errors.append(Problem(path, f"{more} ({reason})" if more else reason))

    def read_databases(
        self, agents: Sequence[Agent], environ: Mapping[str, str], home: Path, places: Sequence[Path]
    ) -> None:
        """Read sessions that only a database still holds, each as a log of its rows."""
        read: list[str] = []
        for each in sessions_without_logs(agents, environ, home, self._places, places):
            match each:
                case Rows():
                    self._alone(each.path, lambda rows=each: self._read_rows(rows))  # type: ignore[misc]
                    read.append(each.path)
                case Unread():
                    self.report.errors.append(Problem(each.path, each.reason))
                case Done():
                    self._flush()
                    if not self._failed.intersection(read):
                        # Of a database that gave something that was not stored nothing is noted: it is read again.
                        self._new_places += each.places
                    read.clear()
        self._flush()
        # What another process took meanwhile is read again when the database changes.
        self.report.errors += [Problem(each.path, slices.STALE) for each in self._again]
        if self.store.exists:
            self._remember()
        self._sum_up()

    def _read_rows(self, rows: Rows) -> None:
        kept = self.store.logs_of(rows.agent.name, rows.native_id)
        if any(ROWS_OF not in Path(log.relpath).name for log in kept):
            # Its log says more than its rows do.
            return
        candidate = Candidate(
            agent=rows.agent,
            path=rows.path,
            relpath=rows.relpath,
            device=0,
            inode=0,
            size=len(rows.content),
            mtime_ns=rows.mtime_ns,
        )
        self._to_do += candidate.size
        self._tally(rows.agent.name).logs_seen += 1
        with BytesIO(rows.content) as file:
            self._read_open(candidate, file)

    def _gather(self, candidates: list[Candidate]) -> None:
        """Keep what lies beside the logs that are here."""
        beside = [each for each in candidates if each.companions or each.path in self._read_now]
        here = [(each, log_id) for each in beside if (log_id := self._log_id(each)) is not None]
        if not here:
            return
        gathered = gather(self.store, here, set(self._read_now.values()), self._places)
        for name, read in gathered.read.items():
            self._tally(name).companions_read += read
        self._new_places += gathered.seen
        problems = [Problem(path, reason) for path, reason in gathered.problems]
        self.report.errors += problems
        self.report.gave_nothing += problems
        self.report.gave_nothing += [Problem(path, reason) for path, reason in gathered.known_problems]

    def _log_id(self, each: Candidate) -> int | None:
        """The id of the log that a file is kept as."""
        seen = self._places.get(each.path)
        return self._read_now.get(each.path, seen.log_id if seen is not None else None)

    def _read_all(self, changed: list[Candidate]) -> None:
        for each in changed:
            self._read(each)
        while self._handed:
            self._collect()
        self._flush()
        self._end_worker()

    def _is_as_it_was(self, each: Candidate) -> bool:
        seen = self._places.get(each.path)
        if seen is None or (seen.size, seen.mtime_ns, seen.inode, seen.device) != (
            each.size, each.mtime_ns, each.inode, each.device,
        ):  # fmt: skip
            return False
        if seen.ctime_ns is None and each.ctime_ns is not None:
            self._ctimes[each.path] = each.ctime_ns
        elif seen.ctime_ns != each.ctime_ns:
            # It may have been written to, and got its size and time back.
            return False
        if seen.log_id is None and not seen.reason:
            # Its session was deleted by another program, which leaves no tombstone.
            return False
        if seen.log_id is not None and seen.reason:
            self._not_understood[each.path] = seen.reason
        elif seen.reason:
            self.report.gave_nothing.append(Problem(each.path, REASONS.get(seen.reason, seen.reason)))
        return True

    def _read(self, each: Candidate) -> None:
        try:
            with opened(Path(each.path)) as file:
                self._read_open(each, file)
        except (OSError, codec.ZstdError) as refused:
            reason = getattr(refused, "strerror", None) or str(refused)
            self.report.errors.append(Problem(each.path, reason))
        except Exception as refused:
            self._note_failure(each.path, refused)

    def _read_open(self, each: Candidate, file: IO[bytes]) -> None:
        identity, head = unread.identified(each.agent, Path(each.path), partial(_read_at, file))
        missing = missing_of(file)
        if not head:
            self._gave_nothing(each, slices.EMPTY)
            return
        if identity is not None and self._is_running(each, identity):
            return
        reasons = [] if identity is not None else [slices.NOT_UNDERSTOOD]
        reasons += [] if missing is None else [KEPT_SO_FAR.format(missing)]
        self._not_understood[each.path] = "; ".join(reasons)
        if identity is not None:
            self._understand(each, identity, file)
        self._read_as(each, identity or unread.identity_of(_relpath(each)), head, file)

    def _understand(self, each: Candidate, identity: LogIdentity, file: IO[bytes]) -> None:
        """What is kept of a file from when nobody understood it becomes the beginning of the log that it is."""
        seen = self._places.get(each.path)
        if seen is None or seen.log_id is None or not seen.reason:
            return
        for log in self.store.logs_of(each.agent.name, unread.identity_of(_relpath(each)).native_id):
            if _begins_with(self.store, file, log):
                self.read_kept(log, each.agent, identity)

    def read_kept(self, log: Log, agent: Agent, identity: LogIdentity) -> bool:
        """Read a log that is kept and that nobody understood anew, as this one; it takes that one's place."""
        each = Candidate(
            agent=agent,
            path=log.path or log.relpath,
            relpath=log.relpath,
            device=0,
            inode=0,
            size=log.read_to,
            mtime_ns=(log.modified or 0) * 1_000_000,
        )
        with kept_bytes(self.store, log) as file:
            _, head = unread.identified(agent, Path(each.path), partial(_read_at, file))
            self._read_as(each, identity, head, file, is_kept=True)
        self._flush()
        understood = self._read_now.pop(each.path, None)
        if understood is not None:
            self.store.replace_unread(log.id, understood)
        return understood is not None

    def _read_as(
        self,
        each: Candidate,
        identity: LogIdentity,
        head: bytes,
        file: IO[bytes],
        *,
        is_kept: bool = False,
        parent: Candidate | None = None,
    ) -> None:
        """Read a file as this log."""
        first_hash = _first_hash(head)
        kept = self._kept_logs(each.agent, identity.native_id, reported_too=parent is not None)
        log = self._matching_log(each, file, first_hash, kept)
        if log is not None and log.id in self._untold - self._tried:
            self._tried.add(log.id)
            self.store.take_back_untold(log.id)
            log = self.store.log(log.id)
        if log is not None and _size(file) <= log.read_to:
            if is_kept or parent is not None:
                self._read_now[each.path] = log.id
                return
            self._place(each, log.id)
            if log.path != each.path and not Path(log.path).exists():
                self._moved.append((log.id, each.path, _relpath(each)))
            return
        others = [other for other in kept if log is None or other.id != log.id]
        created = _started_ms(each, head) or ids.first_timestamp_ms(head)
        source = Source(
            agent=each.agent,
            identity=identity,
            session_uid=ids.session_uid(each.agent.name, identity.native_id, created),
            created=created,
            path=Path(each.path),
            relpath=_relpath(each),
            place=_as_place(each, log.id if log else None),
        )
        if not (kept or is_kept or parent) and self._should_hand_over(each):
            self._hand_over(each, _job(source, self.store.next_seq(source.session_uid), first_hash))
            return
        reading = _Reading(each=each, others=others, is_kept=is_kept, parent=parent)
        self._read_here(reading, source, log, first_hash, file)

    def _kept_logs(self, agent: Agent, native_id: str, *, reported_too: bool) -> list[Log]:
        """What is kept of a session's logs; what another log reported of it gives way to a log of its own."""
        kept = self.store.logs_of(agent.name, native_id)
        reported = [log.id for log in kept if is_reported(log.relpath)]
        if reported_too or not reported:
            return kept
        self._flush()
        self.store.drop_reported(reported)
        return [log for log in kept if log.id not in reported]

    def read_reported(self, log: Log) -> None:
        """Read the subagents that a log reports of, from what is kept of it."""
        each = Candidate(
            agent=agents.load(log.agent),
            path=log.path or log.relpath,
            relpath=log.relpath,
            device=0,
            inode=0,
            size=log.read_to,
            mtime_ns=(log.modified or 0) * 1_000_000,
        )
        with kept_bytes(self.store, log) as file:
            self._read_reported(each, file, log.read_to)
        self._flush()

    def _read_reported(self, each: Candidate, file: IO[bytes], until: int) -> None:
        """Read the subagents that the beginning of a log reports of, and of which nothing else does."""
        for path, content in reported_logs(each.agent, each.path, file, until):
            self._alone(path, lambda path=path, content=content: self._read_subagent(each, path, content))  # type: ignore[misc]

    def _read_subagent(self, parent: Candidate, path: str, content: IO[bytes]) -> None:
        agent = parent.agent
        identity, head = unread.identified(agent, Path(path), partial(_read_at, content))
        if identity is None or not all(
            is_reported(log.relpath) for log in self.store.logs_of(agent.name, identity.native_id)
        ):
            return
        candidate = Candidate(
            agent=agent,
            path=path,
            relpath=str(Path(_relpath(parent)).with_name(Path(path).name)),
            device=0,
            inode=0,
            size=_size(content),
            mtime_ns=parent.mtime_ns,
        )
        content.seek(0)
        self._read_as(candidate, identity, head, content, parent=parent)

    def _report(self, reading: _Reading, until: int) -> None:
        """Read what a log that is being read reports of subagents."""
        log = self.store.log(reading.log_id) if reading.log_id is not None else None
        if log is not None and (reading.is_kept or not Path(reading.each.path).exists()):
            with kept_bytes(self.store, log) as file:
                self._read_reported(reading.each, file, until)
            return
        with opened(Path(reading.each.path)) as file:
            self._read_reported(reading.each, file, until)

    def _read_here(
        self, reading: _Reading, source: Source, log: Log | None, first_hash: str | None, file: IO[bytes]
    ) -> None:
        """Read a log in this process, from where ``file`` stands; ``log`` is what is kept of it."""
        reading.log_id = log.id if log else None
        start = self._start(source.agent, log, source.session_uid, first_hash, reading.others, file)
        try:
            for outcome in outcomes(Slicer(source, start), file):
                self._take(reading, outcome)
        except (OSError, codec.ZstdError):
            raise
        except Exception as refused:
            self._note_failure(reading.each.path, refused, BYTES_ONLY)
            self._keep_untold(reading, source, start, file)
        if reading.others:
            self._flush()
            # A log that goes on may have left the telling of its first records to another one.
            if (log is None or log.read_to == 0) and not reading.is_untold:
                self._drop_superseded(reading)

    def _is_running(self, each: Candidate, identity: LogIdentity) -> bool:
        """Whether a log, or that of the session it helps, is of a run that is not stored yet."""
        named = (identity.native_id, identity.parent_native_id)
        return any((each.agent.name, native_id) in self._running for native_id in named)

    def _matching_log(self, each: Candidate, file: IO[bytes], first_hash: str | None, kept: list[Log]) -> Log | None:
        """The kept log that this file goes on from, or is; None when it differs from all.

        Leaves the file standing where reading goes on.
        """
        seen = self._places.get(each.path)
        for log in sorted(kept, key=lambda log: (seen is None or log.id != seen.log_id, -log.id)):
            if log.first_hash is not None and first_hash != log.first_hash:
                continue
            if _has_grown(file, log) or _begins_with(self.store, file, log):
                return log
            if log.read_to > 0 and _is_beginning_of(self.store, file, log):
                file.seek(log.read_to)
                return log
        file.seek(0)
        return None

    def _start(
        self, agent: Agent, log: Log | None, uid: str, first_hash: str | None, others: list[Log], file: IO[bytes]
    ) -> Start:
        known = None
        if others:
            runs = self.store.runs(log.id) if log else []
            taken = (seq for run in runs for seq in range(run.first_seq, run.first_seq + run.records))
            known = known_numbers(self.store, agent, others, taken)
        generation = max((other.generation for other in others), default=0) + 1
        next_seq = self.store.next_seq(uid)
        if log is None:
            return Start(log=None, next_seq=next_seq, generation=generation, first_hash=first_hash, known=known)
        file.seek(max(log.read_to - logs.TAIL_BYTES, 0))
        tail = file.read(min(logs.TAIL_BYTES, log.read_to))
        unfinished = log.read_to - log.parsed_to
        carry = self.store.read_log(log.id, log.parsed_to, unfinished) if unfinished <= LINE_BYTES_MAX else b""
        return Start(
            log=log,
            next_seq=next_seq,
            generation=log.generation,
            first_hash=first_hash or log.first_hash,
            carry=carry,
            tail=tail,
            pending=self.store.pending_calls(log.id),
            known=known,
            earlier=lambda: (line for line, _ in numbered_lines(self.store, log)),
        )

    def _should_hand_over(self, each: Candidate) -> bool:
        """Whether the second process reads this log: this one takes a small one itself when it would only wait."""
        if self._worker is None:
            return False
        while self._handed and self._worker is not None and self._worker.has_outcome:
            self._collect()
        return self._worker is not None and (len(self._handed) < AHEAD or each.size > SMALL_BYTES)

    def _hand_over(self, each: Candidate, job: Job) -> None:
        """Let the second process read a log, a few logs ahead of what is written."""
        assert self._worker is not None
        self._handed.append(_Reading(each=each))
        try:
            self._worker.give(job)
        except WorkerLost:
            self._read_here_again()
        while len(self._handed) > HANDED_MAX:
            self._collect()

    def _collect(self) -> None:
        """Take the next slice from the second process."""
        assert self._worker is not None
        try:
            outcome = self._worker.outcome()
        except WorkerLost:
            self._read_here_again()
            return
        if outcome.is_undone:
            self._again.append(self._handed[0].each)
        self._take(self._handed[0], outcome)
        if outcome.is_last:
            self._handed.popleft()

    def _read_here_again(self) -> None:
        """What the second process left undone is read in this one."""
        self._again += [reading.each for reading in self._handed]
        self._handed.clear()
        self._end_worker()

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def _take(self, reading: _Reading, outcome: Outcome) -> None:
        """Store a slice: the last one of a log together with others', one before it at once."""
        piece = outcome.piece
        if outcome.problem:
            self.report.errors.append(Problem(reading.each.path, outcome.problem))
        if piece is not None and not reading.is_refused:
            if reading.is_untold:
                piece = slices.without_words(piece)
            else:
                self._place_piece(reading.each.path, piece)
                if piece.has_reported and reading.parent is None:
                    # Before the log itself: what stops the work in between is then made good by reading it again.
                    self._alone(reading.each.path, lambda: self._report(reading, piece.read_to))
            piece.log_id = reading.log_id if reading.log_id is not None else piece.log_id
            if outcome.is_last and piece.is_told and not reading.is_kept and reading.parent is None:
                piece.place = _as_place(reading.each, None, self._why(reading.each))
            self._pending.append((reading, outcome, piece))
            self._pending_bytes += _bytes_in(piece)
            if not outcome.is_last or self._pending_bytes >= SLICE_BYTES or len(self._pending) >= BATCH_LOGS:
                self._flush()
        if outcome.is_last and not reading.is_kept and reading.parent is None:
            self._done += reading.each.size
            self._progress(self._done, self._to_do)

    def _place_piece(self, path: str, piece: LogSlice) -> None:
        """Note to which project a slice belongs."""
        try:
            piece.project, piece.root = project_key(piece.facts.cwd), worktree_root(piece.facts.cwd)
        except Exception as refused:
            self._note_failure(path, refused, "kept, but its project could not be told")

    def _flush(self) -> None:
        """Write what is pending, in one transaction."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if not pending:
            return
        try:
            written = self.store.write_slices([piece for _, _, piece in pending])
        except Exception as refused:
            if not is_for_one_only(refused):
                raise
            # One of them is to blame: it is found by writing each by itself.
            for each in pending:
                self._write_alone(*each)
            return
        for (reading, outcome, piece), result in zip(pending, written, strict=True):
            self._written(reading, outcome, piece, result)

    def _written(self, reading: _Reading, outcome: Outcome, piece: LogSlice, result: Written) -> None:
        reading.log_id, reading.is_refused = result.log_id, result.refused is not None
        self._note(reading, outcome, piece, result)

    def _write_alone(self, reading: _Reading, outcome: Outcome, piece: LogSlice) -> None:
        """Store one slice; where that fails its bytes alone, and where that fails, too, nothing more of its log."""
        try:
            self._written(reading, outcome, piece, self.store.write_slices([piece])[0])
            return
        except Exception as refused:
            failure = refused
            if not is_for_one_only(refused):
                raise
        try:
            bytes_only = slices.without_words(piece)
            self._written(reading, outcome, bytes_only, self.store.write_slices([bytes_only])[0])
        except Exception as refused:
            reading.is_refused = True
            self._note_failure(reading.each.path, failure if is_for_one_only(refused) else refused)
            return
        reading.is_untold = True
        self._note_failure(reading.each.path, failure, BYTES_ONLY)

    def _keep_untold(self, reading: _Reading, source: Source, start: Start, file: IO[bytes]) -> None:
        """Keep the bytes of a log that nobody understands, behind what is stored of it by now."""
        self._flush()
        if reading.is_refused:
            return
        reading.is_untold = True
        log = self.store.log(reading.log_id) if reading.log_id is not None else None
        if log is not None:
            file.seek(max(log.read_to - logs.TAIL_BYTES, 0))
            start.tail = _read_exactly(file, min(logs.TAIL_BYTES, log.read_to))
        start.log, start.next_seq = log, self.store.next_seq(source.session_uid)
        for piece in untold_slices(source, start, file):
            self._take(reading, Outcome(piece=piece))

    def _note(self, reading: _Reading, outcome: Outcome, piece: LogSlice, written: Written) -> None:
        each = reading.each
        if written.refused and reading.is_kept:
            return
        if written.refused == slices.FORGOTTEN:
            self._gave_nothing(each, slices.FORGOTTEN)
            return
        if written.refused:
            self._again.append(reading.parent or each)
            return
        if written.log_id is not None:
            self._read_now[each.path] = written.log_id
        tally = self._tally(each.agent.name)
        if not reading.is_kept and reading.parent is None:
            tally.bytes_read += _bytes_in(piece)
            tally.logs_read += outcome.is_last
        if unread.is_unread(piece.identity.native_id):
            return
        tally.events_new += len(piece.events)
        self._sessions.setdefault(each.agent.name, set()).add((written.session_id or 0, written.session_is_new))
        for kind, count in outcome.unknown.items():
            self.report.unknown_records[kind] = self.report.unknown_records.get(kind, 0) + count

    def _drop_superseded(self, reading: _Reading) -> None:
        """Of a log that was rewritten the old bytes stay only if they hold a record that the new ones lack."""
        each = reading.each
        new = self.store.log(reading.log_id) if reading.log_id is not None else None
        if new is None:
            return
        gone = [log for log in reading.others if log.path == each.path or not Path(log.path).exists()]
        if gone:
            has = self._lines(new)
            lacks_nothing = [log.id for log in gone if self._lines(log) <= has]
            if lacks_nothing:
                self.store.drop_logs(lacks_nothing, in_favour_of=new.id)

    def _lines(self, log: Log) -> Counter[bytes]:
        """The content of a log's lines, and how often each comes; also of a torn last one."""
        carry, found = b"", Counter[bytes]()
        for data in self.store.stream_log(log.id):
            *lines, carry = (carry + data).split(b"\n")
            found.update(codec.chunk_digest(line) for line in lines)
        found[codec.chunk_digest(carry)] += bool(carry)
        return found

    def _gave_nothing(self, each: Candidate, reason: str) -> None:
        self._not_understood.pop(each.path, None)
        self._new_places.append(_as_place(each, None, reason))
        self.report.gave_nothing.append(Problem(each.path, REASONS[reason]))

    def _place(self, each: Candidate, log_id: int) -> None:
        self._read_now[each.path] = log_id
        self._new_places.append(_as_place(each, log_id, self._why(each)))

    def _why(self, each: Candidate) -> str | None:
        """Why a file is kept, but not understood or not whole; None for one that is both."""
        return self._not_understood.get(each.path) or None

    def _tally(self, agent: str) -> Tally:
        return self.report.by_agent.setdefault(agent, Tally())

    def _sum_up(self) -> None:
        told = ((path, reason) for path, reason in sorted(self._not_understood.items()) if reason)
        self.report.not_understood = [Problem(path, _in_words(reason)) for path, reason in told]
        for agent, touched in self._sessions.items():
            new = {session for session, is_new in touched if is_new}
            self._tally(agent).sessions_new = len(new)
            self._tally(agent).sessions_updated = len({session for session, _ in touched} - new)


def _relpath(each: Candidate) -> str:
    return each.relpath.removesuffix(".zst")


def _started_ms(each: Candidate, head: bytes) -> int:
    keeper = documents_of(each.agent)
    return keeper.started_ms(head) if keeper is not None and keeper.is_document(Path(each.path)) else 0


def _in_words(reason: str) -> str:
    return "; ".join(REASONS.get(each, each) for each in reason.split("; "))


def _read_at(file: IO[bytes], at: int, length: int) -> bytes:
    file.seek(at)
    return _read_exactly(file, length)


def _size(file: IO[bytes]) -> int:
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


def _has_grown(file: IO[bytes], log: Log) -> bool:
    """Whether a file goes on from what is kept, by its size and the hash of the bytes before the old end."""
    if log.first_hash is None or log.tail_hash is None or _size(file) <= log.read_to:
        return False
    at = max(log.read_to - logs.TAIL_BYTES, 0)
    file.seek(at)
    tail = _read_exactly(file, log.read_to - at)
    return codec.text_digest(tail) == log.tail_hash


def _begins_with(store: Store, file: IO[bytes], log: Log) -> bool:
    """Whether a file's beginning is all that is kept of a log; it then stands behind it."""
    file.seek(0)
    for _, length, digest in store.chunk_marks(log.id):
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


def _bytes_in(piece: LogSlice) -> int:
    return sum(chunk.length for chunk in piece.chunks)


def _job(source: Source, next_seq: int, first_hash: str | None) -> Job:
    """The reading of a new log, as it is handed to the second process."""
    return Job(
        agent=source.agent.name,
        identity=source.identity,
        session_uid=source.session_uid,
        created=source.created,
        path=str(source.path),
        relpath=source.relpath,
        place=source.place,
        next_seq=next_seq,
        first_hash=first_hash,
    )


def _as_place(each: Candidate, log_id: int | None, reason: str | None = None) -> SeenPlace:
    return SeenPlace(
        path=each.path,
        agent=each.agent.name,
        log_id=log_id,
        device=each.device,
        inode=each.inode,
        size=each.size,
        mtime_ns=each.mtime_ns,
        ctime_ns=each.ctime_ns,
        reason=reason,
    )
