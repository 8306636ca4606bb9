"""Logs into the store, again and again without doubles.

Files that are as they were are not opened. An append is believed if the file grew and both its first record
and the bytes before the old end are as they were; anything else is compared byte for byte with what is kept,
and a log that was rewritten is read anew beside it, its records known again by their ids.
"""

from __future__ import annotations

from functools import cached_property, partial
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from backstory import agents
from backstory.errors import StoreDamaged, is_for_one_only
from backstory.ingest import folders, unread
from backstory.ingest.databases import ROWS_OF, DatabaseRows, Done, Unread, sessions_without_logs
from backstory.ingest.discover import Candidate, stream_logs
from backstory.ingest.folders import are_as_noted
from backstory.ingest.live_databases import ASIDE, Known, Moment, changed_of, changed_sessions, with_new_rows
from backstory.ingest.log_reader import (
    Pace,
    Source,
    full_pace,
    kept_bytes,
    missing_of,
    opened,
    unparsed_batches,
)
from backstory.ingest.matching import (
    begins_with,
    first_record_hash,
    matching_log,
    repeated_by,
    size_of,
    start_of,
    whose_log,
)
from backstory.ingest.own_logs import match_runs
from backstory.ingest.readers import Readers, count_for
from backstory.ingest.report import IngestNotes, IngestReport, Problem
from backstory.ingest.reported import is_reported, lend_what_is_much, reported_candidate, reported_logs
from backstory.ingest.rewritten import as_kept, is_rewritten, kept_form
from backstory.ingest.sidecars import changed_sidecars, gather, reapply_sidecars
from backstory.ingest.sources import Reading, kept_candidate, place_of, relpath, rows_candidate, source_of
from backstory.ingest.worker import Job, JobOutcome, job_of, outcomes
from backstory.lazy import lazy_module
from backstory.model import DOCUMENT_LINE, LogIdentity
from backstory.projects.git import project_key, worktree_root
from backstory.store import codec, schema
from backstory.store.file import maintenance
from backstory.store.intake import append, ingesting
from backstory.store.tables import logs, sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set

    from backstory.agents.contract import Agent
    from backstory.ingest import pruning
    from backstory.store import FileStamp, Log, RecordBatch, Store, Written
    from backstory.store.intake import rederiving
    from backstory.store.tables import pruned
else:
    pruned = lazy_module("backstory.store.tables.pruned")
    pruning = lazy_module("backstory.ingest.pruning")
    rederiving = lazy_module("backstory.store.intake.rederiving")

BULK_BYTES = 32 * 1024 * 1024
"""From so many new bytes on the index is built in one go."""
WORKER_BYTES = 8 * 1024 * 1024
"""From so many on other processes read along; below that they would hardly have begun when all is done."""
BATCH_LOGS = 400
STAMPS_AT_ONCE = 1_000
"""The most files that are compared with what the store knows of them at a time."""
TRIES = 1_000
"""The most readings of a log when another process was faster: each time that one has come nearer to its end."""
IDLE_MS = 24 * 3600 * 1000

BYTES_ONLY = "its bytes are kept, but not what they say"
KEPT_SO_FAR = "{}: kept as far as it can be read"
"""The remark for a compressed log that is not whole."""


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
) -> IngestReport:
    """Read every log of these agents that is new or changed; ``progress`` receives bytes done and bytes to do.

    ``running``: (agent, its id of a session) of runs of ours that are not stored yet; their logs are read afterwards.
    ``places``: folders and files in which databases are looked for, too, beside the folders of known sessions.
    """
    store.make_ready()
    work = _Ingest(store, running, progress)
    # Bytes that were kept alone come first: a file that continues them is read from where they end.
    work.parse_kept()
    work.run(stream_logs(agents, environ, home, work.report.looked))
    work.read_databases(agents, environ, home, [*places, *map(Path, store.ask_or([], sessions.folders, store.moves))])
    if store.exists:
        # When all is read: a run and its agent's own log may come in either order.
        match_runs(store, work.report)
        work.prune_again()
        work.link_retold()
        work.merge_idle_chunks(now - IDLE_MS)
    return work.report


def ingest_these(
    store: Store, changed: list[Candidate], *, running: Set[tuple[str, str]] = frozenset()
) -> IngestReport:
    """Read these logs and what was found beside them, and look at nothing else; ``running`` as for ``ingest``."""
    store.make_ready()
    work = _Ingest(store, running, lambda done, total: None)
    work.run(changed)
    match_runs(store, work.report)
    work.prune_again()
    work.link_retold()
    return work.report


def ingest_briefly(
    store: Store, changed: list[Candidate], pace: Pace, *, running: Set[tuple[str, str]] = frozenset()
) -> IngestReport:
    """Read these logs as far as there is time, and what was found beside them; ``report.left`` has what is not read.

    Nothing else is done: what earlier ingests left is left, and no run is matched with its log.
    """
    work = _Ingest(store, running, lambda done, total: None, pace=pace)
    work.run(changed)
    return work.report


def ingest_rows_briefly(store: Store, databases: Mapping[str, Agent], pace: Pace, bytes_max: int) -> IngestReport:
    """Read what is new in databases that are open, or small, as far as there is time; ``report.left`` has the rest."""
    work = _Ingest(store, frozenset(), lambda done, total: None, pace=pace)
    work.read_rows_briefly(databases, Moment(bytes_max=bytes_max, is_over=pace.is_over))
    return work.report


def understand(store: Store, log: Log) -> bool:
    """Return True if a kept log that nobody understood is known by now; it is then read as the log that it is."""
    agent = agents.load(log.agent)
    identity, _ = unread.identified(agent, Path(log.path or log.relpath), partial(store.read_log, log.id))
    if identity is None:
        return False
    return _Ingest(store, frozenset(), lambda done, total: None).read_kept(log, agent, identity)


def read_reported(store: Store, log: Log) -> None:
    """Make sessions of the subagents of which only a kept log reports."""
    _Ingest(store, frozenset(), lambda done, total: None).read_reported(log)


class _Ingest(IngestNotes):
    def __init__(
        self, store: Store, running: Set[tuple[str, str]], progress: Callable[[int, int], None], *,
        pace: Pace | None = None,
    ) -> None:  # fmt: skip
        super().__init__(store)
        self._running, self._pace, self._is_brief = running, pace or full_pace(), pace is not None
        self._progress = progress
        self._pending: list[tuple[Reading, JobOutcome, RecordBatch]] = []
        self._readers: Readers | None = None
        self._pending_bytes = 0
        self._again: list[Candidate] = []
        self._unseen: set[str] = set()
        """Paths of files that nobody had looked at when this ingest looked for what is new."""
        self._unparsed = {log.id for log in store.ask_or([], logs.unparsed)} if not self._is_brief else set[int]()
        self._tried: set[int] = set()
        """Logs that were read once more because something of them is kept as bytes only."""
        self._with_stored_sidecars: set[int] = set()
        """Logs of files that are as they were, of which the store has every sidecar as it is."""
        self._done = self._to_do = 0

    def run(self, candidates: Iterable[Candidate]) -> None:
        """Read what is new or changed, and what another process changed meanwhile once more."""
        changed: list[Candidate] = []
        beside: list[Candidate] = []
        """The logs whose sidecars are still to be read."""
        every = iter(candidates)
        # Of the many files that are as they were no more than these are in memory.
        while some := list(islice(every, STAMPS_AT_ONCE)):
            new, unchanged = self._compared(some)
            changed += new
            beside += unchanged
        self._note_passed_over()
        self._to_do = sum(each.size for each in changed)
        with ingesting.bulk(self.store, is_bulk=self._to_do >= BULK_BYTES):
            self._read_changed(changed)
            self._gather([*changed, *beside])
            self._remember()
        if self._ctimes:
            self.store.write(logs.note_ctimes, self._ctimes)
        self._sum_up()

    def _compared(self, some: list[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
        """Those of some files that are new or changed, and those of the others beside which something is."""
        paths = [each.path for each in some] + [more.path for each in some for more in each.watched]
        seen = self.store.ask_or({}, logs.stamps_of, paths)
        changed: list[Candidate] = []
        beside: list[tuple[Candidate, int]] = []
        for each in some:
            self._tally(each.agent.name).logs_seen += 1
            stamp = seen.get(each.path)
            if not self._is_as_it_was(each, stamp) or (each.watched and not are_as_noted(each.watched, seen)):
                changed.append(each)
                if stamp is None:
                    self._unseen.add(each.path)
            elif each.sidecars and stamp is not None and stamp.log_id is not None:
                beside.append((each, stamp.log_id))
        return changed, changed_sidecars(self.store, beside, self._with_stored_sidecars)

    def _note_passed_over(self) -> None:
        passed_over = (problem for each in self.report.looked for problem in each.passed_over)
        self.report.gave_nothing[:0] = [Problem(path, reason) for path, reason in passed_over]

    def _read_changed(self, changed: list[Candidate]) -> None:
        if self._to_do >= WORKER_BYTES and not self._is_brief:
            self._readers = Readers(count_for(self._to_do))
        try:
            for _ in range(TRIES):
                self._read_all(changed)
                changed, self._again = self._again, []
                # Another process has looked at these.
                self._unseen.clear()
                if not changed:
                    break
        finally:
            self._end_readers()
        self.report.errors += [Problem(each.path, append.STALE) for each in changed]

    def parse_kept(self) -> None:
        """Parse what is kept as bytes only, whether the files that it came from are there or gone."""
        for log_id in sorted(self._unparsed):
            if (log := self.store.log(log_id)) is not None:
                self._parse_kept(log)

    def _parse_kept(self, log: Log) -> Log:
        """Parse what is kept of a log as bytes only, once in an ingest; returns the log as it is then."""
        if log.id not in self._unparsed - self._tried:
            return log
        try:
            self._parse_log(log)
        except StoreDamaged as refused:
            # Bytes of one log that are damaged keep no other from being read.
            self._tried.add(log.id)
            self.report.errors.append(Problem(log.path, f"{BYTES_ONLY} ({refused})"))
        except Exception as refused:
            self._note_failure(log.path, refused, BYTES_ONLY)
        return self.store.log(log.id) or log

    def _parse_log(self, log: Log) -> None:
        agent = agents.load(log.agent)
        each = kept_candidate(log, agent)
        with kept_bytes(self.store, log) as file:
            identity, head = whose_log(agent, each.path, file)
            if identity is not None and self._is_running(each, identity):
                return
            self._tried.add(log.id)
            if identity is None or identity.native_id != log.native_id:
                # Where its beginning does not say whose it is any more, it did when its bytes were kept.
                identity = LogIdentity(native_id=log.native_id)
            same_id = self.store.ask_or([], logs.of_native_id, log.agent, log.native_id)
            others = [other for other in same_id if other.id != log.id]
            reading = Reading(each=each, others=others, is_kept=True)
            self._read_here(reading, source_of(each, identity, head, log), log, first_record_hash(head), file)
        self._flush()
        reapply_sidecars(self.store, log)

    @cached_property
    def _has_pruned(self) -> bool:
        return bool(self.store.ask_or(0, lambda db: db.execute(schema.HAS_PRUNED).get))

    def prune_again(self) -> None:
        """Prune what logs that were rewritten say again of turns that were pruned."""
        try:
            if self._has_pruned and self.store.ask(pruned.unsettled):
                refused = pruning.prune_again(self.store)
                self.report.errors += [Problem(uid, str(reason)) for uid, reason in refused]
        except Exception as refused:
            self._note_failure(str(self.store.path), refused)

    def link_retold(self) -> None:
        """Count turns once that another program retold and that the agents' own logs have, too."""
        try:
            ingesting.link_retold(self.store)
        except Exception as refused:
            self._note_failure(str(self.store.path), refused)

    def merge_idle_chunks(self, before: int) -> None:
        """Merge the chunks of logs that were last written before this time (ms)."""
        try:
            maintenance.merge_idle_chunks(self.store, before)
        except Exception as refused:
            self._note_failure(str(self.store.path), refused)

    def read_databases(
        self, agents: Sequence[Agent], environ: Mapping[str, str], home: Path, places: Sequence[Path]
    ) -> None:
        """Read sessions that only a database still holds, each as a log of its rows."""
        known = self._known_databases()
        live = changed_sessions(agents, environ, home, known, self.report.databases)
        self._take_rows(chain(live, sessions_without_logs(agents, environ, home, known.seen, places)))
        # What another process took meanwhile is read again when the database changes.
        self.report.errors += [Problem(each.path, append.STALE) for each in self._again]

    def read_rows_briefly(self, databases: Mapping[str, Agent], moment: Moment) -> None:
        """Read what is new in these databases, as far as a moment allows."""
        known = self._known_databases()
        self._take_rows(
            chain.from_iterable(changed_of(agent, Path(path), known, moment) for path, agent in databases.items())
        )
        self.report.left += [each.path for each in self._again]

    def _known_databases(self) -> Known:
        seen = self.store.ask_or({}, logs.file_stamps, append.DATABASE)
        return Known(seen=seen, stamps_of=self._stamps_of, aside=self.store.path.with_name(ASIDE))

    def _take_rows(self, found: Iterable[DatabaseRows | Unread | Done]) -> None:
        read: list[str] = []
        for each in found:
            match each:
                case DatabaseRows():
                    self._alone(each.path, lambda rows=each: self._read_rows(rows))  # type: ignore[misc]
                    read.append(each.path)
                case Unread():
                    self.report.errors.append(Problem(each.path, each.reason))
                    if self._is_brief and not each.is_final:
                        self.report.left.append(each.path)
                case Done():
                    self._flush()
                    if not self._failed.intersection(read):
                        # Of a database that gave something that was not stored nothing is noted: it is read again.
                        self._new_places += each.places
                    read.clear()
        self._flush()
        if self.store.exists:
            self._remember()
        self._sum_up()

    def _read_rows(self, rows: DatabaseRows) -> None:
        kept = self.store.ask_or([], logs.of_native_id, rows.agent.name, rows.native_id)
        if rows.is_live:
            rows = msgspec.structs.replace(rows, content=with_new_rows(self.store, rows, kept))
        elif any(ROWS_OF not in Path(log.relpath).name for log in kept):
            # Its log says more than its rows do.
            return
        candidate = rows_candidate(rows)
        self._to_do += candidate.size
        self._tally(rows.agent.name).logs_seen += 1
        with BytesIO(rows.content) as file:
            self._read_open(candidate, file)

    def _stamps_of(self, paths: list[str]) -> dict[str, FileStamp]:
        return self.store.ask_or({}, logs.stamps_of, paths)

    def _gather(self, candidates: list[Candidate]) -> None:
        """Keep what lies beside the logs that are here."""
        beside = [each for each in candidates if each.sidecars or each.path in self._read_now]
        here = [(each, log_id) for each in beside if (log_id := self._log_id(each)) is not None]
        if not here:
            return
        gathered = gather(self.store, here, set(self._read_now.values()), self._with_stored_sidecars)
        for name, read in gathered.read.items():
            self._tally(name).companions_read += read
        self._new_places += gathered.seen
        problems = [Problem(path, reason) for path, reason in gathered.problems]
        self.report.errors += problems
        self.report.gave_nothing += problems
        self.report.gave_nothing += [Problem(path, reason) for path, reason in gathered.known_problems]

    def _read_all(self, changed: list[Candidate]) -> None:
        for each in changed:
            if self._pace.is_over():
                self.report.left.append(each.path)
            else:
                self._read(each)
        while self._readers is not None and self._readers.is_reading:
            self._collect(self._readers)
        self._flush()
        self._end_readers()

    def _read(self, each: Candidate) -> None:
        try:
            if each.folder:
                self._read_folder(each)
                return
            with opened(Path(each.path)) as file:
                is_document = is_rewritten(each.agent, each.path)
                self._read_open(each, self._as_kept(each, file) if is_document else file)
        except (OSError, codec.ZstdError) as refused:
            reason = getattr(refused, "strerror", None) or str(refused)
            self.report.errors.append(Problem(each.path, reason))
        except Exception as refused:
            self._note_failure(each.path, refused)

    def _as_kept(self, each: Candidate, file: IO[bytes]) -> IO[bytes]:
        """A document, which is written anew at each change, as what is kept of it with what is new behind it."""
        identity, head = whose_log(each.agent, each.path, file)
        native_id = (identity or unread.identity_of(relpath(each))).native_id
        known = self.store.ask_or([], logs.of_native_id, each.agent.name, native_id) if head else []
        kept = kept_form(self.store, each.path, file, known)
        file.seek(0)
        return as_kept(each.agent, file, kept)

    def _read_folder(self, each: Candidate) -> None:
        """Read a folder that is one log. One of which something is missing is looked at again, changed or not."""
        with folders.opened(self.store, each.agent, each.path, self._stamp(each.path)) as file:
            is_whole = missing_of(file) is None
            self._read_open(each if is_whole else msgspec.structs.replace(each, mtime_ns=each.mtime_ns - 1), file)
        if each.path not in self._failed:
            self._new_places += each.watched

    def _read_open(self, each: Candidate, file: IO[bytes]) -> None:
        identity, head = whose_log(each.agent, each.path, file)
        missing = missing_of(file)
        if not head:
            self._gave_nothing(each, append.EMPTY)
            return
        if identity is not None and self._is_running(each, identity):
            return
        reasons = [] if identity is not None else [append.NOT_UNDERSTOOD]
        reasons += [] if missing is None else [KEPT_SO_FAR.format(missing)]
        self._not_understood[each.path] = "; ".join(reasons)
        if identity is not None:
            self._understand(each, identity, file)
        self._read_as(each, identity or unread.identity_of(relpath(each)), head, file)

    def _understand(self, each: Candidate, identity: LogIdentity, file: IO[bytes]) -> None:
        """Turn the kept bytes of a file that nobody understood into the beginning of the log that it is now."""
        seen = None if each.path in self._unseen else self._stamp(each.path)
        if seen is None or seen.log_id is None or not seen.reason:
            return
        native_id = unread.identity_of(relpath(each)).native_id
        for log in self.store.ask_or([], logs.of_native_id, each.agent.name, native_id):
            if begins_with(self.store, file, log):
                self.read_kept(log, each.agent, identity)

    def read_kept(self, log: Log, agent: Agent, identity: LogIdentity) -> bool:
        """Read a log that is kept and that nobody understood anew, as this one; it takes that one's place."""
        each = kept_candidate(log, agent)
        with kept_bytes(self.store, log) as file:
            _, head = whose_log(agent, each.path, file)
            self._read_as(each, identity, head, file, is_kept=True)
        self._flush()
        # Only when all of it is kept as the log that it is, the one that nobody understood goes.
        understood = self._read_now.pop(each.path, None)
        return understood is not None and self.store.write(rederiving.replace_unread, log.id, understood)

    def _read_as(
        self, each: Candidate, identity: LogIdentity, head: bytes, file: IO[bytes], *, is_kept: bool = False,
        parent: Candidate | None = None,
    ) -> None:  # fmt: skip
        """Read a file as this log."""
        first_hash = first_record_hash(head)
        is_form = bool(each.folder) or head.startswith(DOCUMENT_LINE)
        kept = self._kept_logs(each.agent, identity.native_id, reported_too=parent is not None)
        log = matching_log(self.store, file, first_hash, kept, self._stamp(each.path) if kept else None)
        if log is not None:
            log = self._parse_kept(log)
        is_told_again = bool(kept) and (log is None or is_form)
        if self._is_brief and is_told_again and self._has_pruned and self.store.ask(pruned.noted, kept[0].session_id):
            # What it says again of turns that were pruned is pruned again, for which there is no time now.
            self.report.left.append(each.path)
            return
        # It holds nothing that is not kept: at most it lies elsewhere now.
        if log is not None and size_of(file) <= log.read_to:
            if is_kept or parent is not None:
                self._read_now[each.path] = log.id
                return
            self._place(each, log.id)
            if log.path != each.path and not Path(log.path).exists():
                self._moved.append((log.id, each.path, relpath(each)))
            return
        others = [other for other in kept if log is None or other.id != log.id]
        source = source_of(each, identity, head, log)
        # Who reads elsewhere has no store to ask, so only a log that nothing is kept of is handed over.
        if not (kept or is_kept or parent or each.folder) and self._should_hand_over(each):
            next_seq = self.store.ask_or(1, sessions.next_seq, source.session_uid)
            self._hand_over(each, job_of(source, next_seq, first_hash))
            return
        reading = Reading(each=each, others=others, is_kept=is_kept, parent=parent)
        if log is not None and log.told_to is not None:
            # What follows unparsed bytes is kept like them.
            reading.log_id = log.id
            self._keep_unparsed(reading, source, log, first_hash, file)
            return
        self._read_here(reading, source, log, first_hash, file)

    def _kept_logs(self, agent: Agent, native_id: str, *, reported_too: bool) -> list[Log]:
        """Return the kept logs of a session; a session that another log reported gives way to a log of its own."""
        kept = self.store.ask_or([], logs.of_native_id, agent.name, native_id)
        reported = [log.id for log in kept if is_reported(log.relpath)]
        if reported_too or not reported:
            return kept
        # What is pending of them has to be stored before it can be removed.
        self._flush()
        self.store.write(rederiving.drop_all_reported, reported)
        return [log for log in kept if log.id not in reported]

    def read_reported(self, log: Log) -> None:
        """Read the subagents that a log reports of, from what is kept of it; nothing of one that was pruned."""
        if self._has_pruned and self.store.ask(pruned.is_overwritten, log.id):
            return
        each = kept_candidate(log, agents.load(log.agent))
        with kept_bytes(self.store, log) as file:
            self._read_reported(each, file, log.read_to)
        self._flush()

    def _read_reported(self, each: Candidate, file: IO[bytes], until: int) -> None:
        """Read the subagents that the beginning of a log reports of, and of which nothing else does."""
        for path, content in reported_logs(each.agent, each.path, file, until):
            self._alone(path, lambda path=path, content=content: self._read_subagent(each, path, content))  # type: ignore[misc]

    def _read_subagent(self, parent: Candidate, path: str, content: IO[bytes]) -> None:
        agent = parent.agent
        identity, head = whose_log(agent, path, content)
        if identity is None or not all(
            is_reported(log.relpath) for log in self.store.ask_or([], logs.of_native_id, agent.name, identity.native_id)
        ):
            return
        candidate = reported_candidate(agent, path, relpath(parent), parent.mtime_ns, size_of(content))
        content.seek(0)
        self._read_as(candidate, identity, head, content, parent=parent)

    def _report(self, reading: Reading, until: int) -> None:
        """Read what a log that is being read reports of subagents."""
        log = self.store.log(reading.log_id) if reading.log_id is not None else None
        if log is not None:
            lend_what_is_much(self.store, log)
        if log is not None and (reading.is_kept or not Path(reading.each.path).exists()):
            if self._has_pruned and self.store.ask(pruned.is_overwritten, log.id):
                return
            with kept_bytes(self.store, log) as file:
                self._read_reported(reading.each, file, until)
            return
        with opened(Path(reading.each.path)) as file:
            self._read_reported(reading.each, file, until)

    def _read_along(self, reading: Reading, reported: list[JobOutcome] | None) -> list[JobOutcome] | None:
        """The batches of subagents that were read along with a log; None if something of theirs is here already."""
        if reported is None or not reading.is_along:
            return None
        for batch in (outcome.batch for outcome in reported):
            assert batch is not None
            if batch.path in reading.subagents:
                continue
            kept = self.store.ask_or([], logs.of_native_id, batch.agent, batch.identity.native_id)
            if kept or self.store.ask_or(1, sessions.next_seq, batch.session_uid) != batch.expected_next_seq:
                reading.is_along = False
                return None
        return reported

    def _subagent(self, parent: Reading, batch: RecordBatch) -> Reading:
        """The reading of a subagent that is read along with its parent's log."""
        if batch.path not in parent.subagents:
            each = reported_candidate(parent.each.agent, batch.path, relpath(parent.each), parent.each.mtime_ns)
            parent.subagents[batch.path] = Reading(each=each, parent=parent.each)
        return parent.subagents[batch.path]

    def _read_here(
        self, reading: Reading, source: Source, log: Log | None, first_hash: bytes | None, file: IO[bytes]
    ) -> None:
        """Read a log in this process, from where ``file`` stands; ``log`` is what is kept of it."""
        reading.log_id = log.id if log else None
        start = start_of(self.store, source, log, first_hash, reading.others, file)
        try:
            for outcome in outcomes(source, start, file, self._pace):
                self._take(reading, outcome)
                if not outcome.is_last and self._pace.is_over():
                    # What is stored is whole, and no stamp says that it is all.
                    self.report.left.append(reading.each.path)
                    return
        except (OSError, codec.ZstdError):
            # The file cannot be read, whatever it says: its bytes cannot be kept alone either.
            raise
        except Exception as refused:
            self._note_failure(reading.each.path, refused, BYTES_ONLY)
            reading.is_unparsed = True
            if log is None or log.told_to is None:
                self._keep_unparsed(reading, source, log, first_hash, file)
        if reading.others:
            self._flush()
            # A log that goes on may have left its first records to another one.
            if (log is None or log.told_end == 0) and not (reading.is_unparsed or reading.is_refused):
                self._drop_superseded(reading)

    def _is_running(self, each: Candidate, identity: LogIdentity) -> bool:
        """Return True if a log, or that of the session it helps, is of a run that is not stored yet."""
        named = (identity.native_id, identity.parent_native_id)
        is_running = any((each.agent.name, native_id) in self._running for native_id in named)
        if is_running:
            self.report.postponed.append(each.path)
        return is_running

    def _should_hand_over(self, each: Candidate) -> bool:
        """Return True if another process reads this log: this one takes a small one itself when it would only wait."""
        if self._readers is None:
            return False
        while self._readers.has_outcome or self._readers.is_full:
            self._collect(self._readers)
        return self._readers.has_room(each.size)

    def _hand_over(self, each: Candidate, job: Job) -> None:
        """Let another process read a log, a few logs ahead of what is written."""
        assert self._readers is not None
        self._read_here_again(self._readers.give(Reading(each=each), job))

    def _collect(self, readers: Readers) -> None:
        """Take the next batch from another process."""
        taken = readers.take()
        if isinstance(taken, list):
            self._read_here_again(taken)
            return
        reading, outcome = taken
        if outcome.is_undone:
            self._again.append(reading.each)
        self._take(reading, outcome)

    def _read_here_again(self, undone: Iterable[Reading]) -> None:
        """Read in this process what another one left undone."""
        self._again += [reading.each for reading in undone]

    def _end_readers(self) -> None:
        if self._readers is not None:
            self._readers.end()
            self._readers = None

    def _take(self, reading: Reading, outcome: JobOutcome) -> None:
        """Store a batch: the last one of a log together with others', one before it at once."""
        batch = outcome.batch
        self._note_problem(reading, outcome)
        if batch is not None and not reading.is_refused:
            along: list[JobOutcome] | None = []
            if reading.is_unparsed:
                batch = batch.without_words()
            else:
                self._place_batch(reading.each.path, batch)
                if batch.has_reported and reading.parent is None:
                    along = self._read_along(reading, outcome.reported)
                if along is None:
                    # Before the log itself: what stops the work in between is then made good by reading it again.
                    self._alone(reading.each.path, lambda: self._report(reading, batch.read_to))
            if outcome.is_last and batch.is_parsed and not reading.is_kept and reading.parent is None:
                batch.place = place_of(reading.each, None, self._why(reading.each))
            self._add(reading, outcome, batch)
            # In the same transaction, and behind it: they are made of its bytes.
            for each in along or ():
                assert each.batch is not None
                if not (subagent := self._subagent(reading, each.batch)).is_refused:
                    self._note_problem(subagent, each)
                    self._place_batch(each.batch.path, each.batch)
                    self._add(subagent, each, each.batch)
            # A slice that is not the last is written at once: of a long log no more than that is in memory.
            if not outcome.is_last or self._pending_bytes >= self._pace.slice_bytes or len(self._pending) >= BATCH_LOGS:
                self._flush()
        if outcome.is_last and not reading.is_kept and reading.parent is None:
            self._done += reading.each.size
            self._progress(self._done, self._to_do)

    def _note_problem(self, reading: Reading, outcome: JobOutcome) -> None:
        if outcome.problem:
            self.report.errors.append(Problem(reading.each.path, outcome.problem))

    def _add(self, reading: Reading, outcome: JobOutcome, batch: RecordBatch) -> None:
        """Have a batch written with the next ones."""
        batch.log_id = reading.log_id if reading.log_id is not None else batch.log_id
        self._pending.append((reading, outcome, batch))
        self._pending_bytes += batch.length

    def _place_batch(self, path: str, batch: RecordBatch) -> None:
        """Note to which project a batch belongs."""
        try:
            batch.project, batch.root = project_key(batch.facts.cwd), worktree_root(batch.facts.cwd)
        except Exception as refused:
            self._note_failure(path, refused, "kept, but its project could not be found")

    def _flush(self) -> None:
        """Write what is pending, in one transaction."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if not pending:
            return
        try:
            written = self.store.append([batch for _, _, batch in pending])
        except Exception as refused:
            if not is_for_one_only(refused):
                raise
            # One of them is to blame: it is found by writing each by itself, a log with its subagents' first.
            while pending:
                end = next((n for n, each in enumerate(pending[1:], 1) if each[2].lender is None), len(pending))
                self._write_family(pending[:end])
                del pending[:end]
            return
        for (reading, outcome, batch), result in zip(pending, written, strict=True):
            self._written(reading, outcome, batch, result)

    def _write_family(self, family: list[tuple[Reading, JobOutcome, RecordBatch]]) -> None:
        """Store a log and what is made of its bytes; where that fails each by itself, with bytes of its own."""
        parent, _, batch = family[0]
        if len(family) > 1:
            try:
                written = self.store.append([each[2] for each in family])
            except Exception as refused:
                if not is_for_one_only(refused):
                    raise
                parent.is_along = False
                self._alone(parent.each.path, lambda: self._report(parent, batch.read_to))
                self._flush()
            else:
                for (reading, outcome, each), result in zip(family, written, strict=True):
                    self._written(reading, outcome, each, result)
                return
        self._write_alone(*family[0])

    def _written(self, reading: Reading, outcome: JobOutcome, batch: RecordBatch, result: Written) -> None:
        reading.log_id, reading.is_refused = result.log_id, result.refused is not None
        self._note(reading, outcome, batch, result)

    def _write_alone(self, reading: Reading, outcome: JobOutcome, batch: RecordBatch) -> None:
        """Store one batch; where that fails its bytes alone, and where that fails, too, nothing more of its log."""
        try:
            self._written(reading, outcome, batch, self.store.append([batch])[0])
            return
        except Exception as refused:
            failure = refused
            if not is_for_one_only(refused):
                raise
        if batch.is_kept:
            reading.is_refused = True
            self._note_failure(reading.each.path, failure, BYTES_ONLY)
            return
        try:
            bytes_only = batch.without_words()
            self._written(reading, outcome, bytes_only, self.store.append([bytes_only])[0])
        except Exception as refused:
            reading.is_refused = True
            self._note_failure(reading.each.path, failure if is_for_one_only(refused) else refused)
            return
        reading.is_unparsed = True
        self._note_failure(reading.each.path, failure, BYTES_ONLY)

    def _keep_unparsed(
        self, reading: Reading, source: Source, log: Log | None, first_hash: bytes | None, file: IO[bytes]
    ) -> None:
        """Keep the bytes of a log that cannot be parsed, behind what is kept of it by now."""
        # Slices that were parsed before the failure go first, and may be refused.
        self._flush()
        if reading.is_refused:
            return
        reading.is_unparsed = True
        if reading.log_id is not None:
            log = self.store.log(reading.log_id)
        start = start_of(self.store, source, log, first_hash, reading.others, file)
        for batch in unparsed_batches(source, start, file):
            self._take(reading, JobOutcome(batch=batch))

    def _note(self, reading: Reading, outcome: JobOutcome, batch: RecordBatch, written: Written) -> None:
        each = reading.each
        if written.refused and reading.is_kept:
            return
        if written.refused == append.FORGOTTEN:
            self._gave_nothing(each, append.FORGOTTEN)
            return
        if written.refused:
            if (again := reading.parent or each) not in self._again:
                self._again.append(again)
            return
        if written.log_id is not None and not batch.is_kept:
            self._read_now[each.path] = written.log_id
        tally = self._tally(each.agent.name)
        if batch.is_kept or not (reading.is_kept or reading.parent):
            tally.bytes_read += batch.length
            tally.logs_read += outcome.is_last
        if unread.is_unread(batch.identity.native_id):
            return
        self._events[each.agent.name, written.session_id or 0] += len(batch.events)
        self._sessions.setdefault(each.agent.name, set()).add((written.session_id or 0, written.session_is_new))
        for kind, count in outcome.unknown.items():
            self.report.unknown_records[kind] = self.report.unknown_records.get(kind, 0) + count

    def _drop_superseded(self, reading: Reading) -> None:
        """Drop the old bytes of a log that was rewritten, unless they hold a record that the new ones lack."""
        each = reading.each
        new = self.store.log(reading.log_id) if reading.log_id is not None else None
        if new is None:
            return
        older = [log for log in reading.others if log.generation < new.generation]
        gone = [log for log in older if log.path == each.path or not Path(log.path).exists()]
        if lacks_nothing := repeated_by(self.store, new, gone):
            self.store.write(rederiving.drop_logs, lacks_nothing, new.id)
