"""Imports sidecars: small files that agents keep beside logs, with facts about their sessions.

A file with unchanged size and mtime is not opened. The store keeps sidecars whose files are gone.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

from msgspec import Struct, field

from backstory import agents
from backstory.errors import in_words, is_for_one_only
from backstory.ingest.log_reader import state_of
from backstory.lazy import lazy_module
from backstory.model import HOST_TYPE, OWN_PARTS_FROM, LogIdentity, SessionFacts, ToolResult
from backstory.projects.git import project_key, worktree_root
from backstory.store import FileStamp
from backstory.store.tables import logs, sidecars
from backstory.store.tables.sidecars import TOO_LARGE, SidecarBatch, SidecarFacts, pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set
    from io import BufferedReader

    from backstory.agents.contract import SidecarContent, SidecarPart
    from backstory.ingest import record_source
    from backstory.ingest.discover import Candidate, SidecarFile
    from backstory.store import Log, Store
    from backstory.store.tables import side_texts
    from backstory.store.tables.side_texts import SideText
    from backstory.store.tables.sidecars import StoredSidecar
else:
    # Few logs have results beside them.
    record_source = lazy_module("backstory.ingest.record_source")
    side_texts = lazy_module("backstory.store.tables.side_texts")

SIDECAR_BYTES_MAX = 8 * 1024 * 1024
BINARY_BYTES_MAX = 2 * 1024 * 1024
HASHED_BYTES_MAX = 1024 * 1024 * 1024
"""A file that is too large to be stored is reported with its hash, unless it is larger than this."""
BATCH_BYTES = 16 * 1024 * 1024
BATCH_LOGS = 400
READS_MAX = 3
"""The number of readings of a file that changes meanwhile; then the next ingest reads it."""
FILE = "file"
"""The kind of log that may have sidecars."""
_SNIFFED_BYTES = 8 * 1024

TOO_LARGE_MESSAGE = "a sidecar above the limit of 8 MB of text, or 2 MB of anything else"


class Gathered(Struct, kw_only=True):
    """The result of reading sidecars."""

    read: dict[str, int] = field(default_factory=dict)
    """The number of new or changed ones, by agent."""
    problems: list[tuple[str, str]] = field(default_factory=list)
    """Files that could not be stored, each with the reason."""
    known_problems: list[tuple[str, str]] = field(default_factory=list)
    """Those that were reported before, and are unchanged."""
    seen: list[FileStamp] = field(default_factory=list)


def changed_sidecars(store: Store, found: Sequence[tuple[Candidate, int]], stored: set[int]) -> list[Candidate]:
    """Return those of some logs, each given with its id here, that have sidecars which the store has not as they are.

    ``stored`` receives the ids of the others.
    """
    marks = store.ask_or({}, sidecars.marks, [log_id for _, log_id in found]) if found else {}
    changed: list[Candidate] = []
    for each, log_id in found:
        if all(marks.get((log_id, file.name)) == (file.size, file.mtime_ns) for file in each.sidecars):
            stored.add(log_id)
        else:
            changed.append(each)
    return changed


def gather(
    store: Store, found: Sequence[tuple[Candidate, int]], read: Set[int], stored: Set[int] = frozenset()
) -> Gathered:
    """Store new and changed sidecars of logs, each given with its id here.

    ``read``: the ids of logs that were just read, for which the facts of sidecars are written again.
    ``stored``: those of logs of which another file has its sidecars as they are stored.
    """
    work = _Gathering(store, {log_id for _, log_id in found}, stored)
    for each, log_id in found:
        try:
            work.look(each, log_id, was_read=log_id in read)
        except Exception as refused:
            work.note_failure(each.path, refused)
    work.flush()
    return work.gathered


def reapply_sidecars(store: Store, log: Log) -> None:
    """Apply the facts of a log's stored sidecars again, as after its session was rederived."""
    if log.kind != FILE:
        return
    keeper = agents.load(log.agent).sidecars
    if keeper is None:
        return
    found = store.ask(sidecars.around, log.id)
    if not found:
        return
    contents = _readable(store, keeper, [each for of, each in found if of == log.id])
    facts = _facts_of(store, log, keeper, contents) if contents else None
    batches = [SidecarBatch(log_id=log.id, facts=facts)]
    # Results of a subagent lie beside its parent's log.
    for of in dict.fromkeys(of for of, _ in found):
        texts = _texts_of(store, keeper, of, [each.name for other, each in found if other == of])
        batches.append(SidecarBatch(log_id=of, texts=texts))
    store.write(sidecars.write_all, batches)


class _Gathering:
    def __init__(self, store: Store, log_ids: Set[int], stored: Set[int]) -> None:
        self._store = store
        self._too_large = store.ask_or({}, logs.file_stamps, TOO_LARGE)
        self._marks = store.ask_or({}, sidecars.marks, log_ids)
        self._logs_with_sidecars = {log_id for log_id, _ in self._marks}
        self._met = {(log_id, name) for log_id, name in self._marks if log_id in stored}
        self._pending: list[tuple[str, SidecarBatch]] = []
        self._pending_bytes = 0
        self.gathered = Gathered()

    def look(self, each: Candidate, log_id: int, *, was_read: bool) -> None:
        """Read the new sidecars of one log."""
        keeper = each.agent.sidecars
        if keeper is None or not (each.sidecars or log_id in self._logs_with_sidecars):
            return
        changed: dict[str, bytes] = {}
        searched: list[str] = []
        for file in each.sidecars:
            # If a session is in several places, the first file counts.
            if (log_id, file.name) in self._met:
                continue
            self._met.add((log_id, file.name))
            if self._marks.get((log_id, file.name)) != (file.size, file.mtime_ns):
                content = self._take(each, log_id, file)
                if content is not None and keeper.is_read(file.name):
                    changed[file.name] = content
                if content is not None and keeper.is_searched(file.name):
                    searched.append(file.name)
        if changed or was_read:
            self._add_facts(keeper, log_id, changed)
        if was_read:
            # What had no result yet may have one now.
            searched += self._store.ask(side_texts.unlinked, log_id)
        if searched:
            texts = _texts_of(self._store, keeper, log_id, searched)
            self._add(each.path, SidecarBatch(log_id=log_id, texts=texts), 0)

    def flush(self) -> None:
        """Write what is pending."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if not pending:
            return
        try:
            self._store.write(sidecars.write_all, [piece for _, piece in pending])
        except Exception as refused:
            if not is_for_one_only(refused):
                raise
            # One of them failed: it is found by writing each alone.
            for path, piece in pending:
                self._write_alone(path, piece)

    def _write_alone(self, path: str, piece: SidecarBatch) -> None:
        try:
            self._store.write(sidecars.write_all, [piece])
        except Exception as refused:
            self.note_failure(path, refused)
            if piece.facts is not None:
                # The facts are written when the log is derived again.
                self._store.write(logs.mark_stale, piece.log_id)

    def note_failure(self, path: str, refused: Exception) -> None:
        """Record the failure of one log's sidecars; raises failures of the store itself."""
        if not is_for_one_only(refused):
            raise refused
        self.gathered.problems.append((path, in_words(refused)))

    def _take(self, each: Candidate, log_id: int, file: SidecarFile) -> bytes | None:
        try:
            taken = self._content(each, file)
        except FileNotFoundError:
            # The file was removed meanwhile: its stored copy stays.
            return None
        except Exception as refused:
            self.note_failure(file.path, refused)
            return None
        if taken is None:
            return None
        content, mtime_ns = taken
        self.gathered.read[each.agent.name] = self.gathered.read.get(each.agent.name, 0) + 1
        self._add(file.path, SidecarBatch(log_id=log_id, sidecars=[pack(file.name, mtime_ns, content)]), len(content))
        return content

    def _content(self, each: Candidate, file: SidecarFile) -> tuple[bytes, int] | None:
        """Read a sidecar's bytes and their mtime; None if it is not stored, or not now."""
        known = self._too_large.get(file.path)
        if known is not None and (known.size, known.mtime_ns) == (file.size, file.mtime_ns):
            self.gathered.known_problems.append((file.path, TOO_LARGE_MESSAGE))
            return None
        with _opened(file.path) as opened:
            for _ in range(READS_MAX):
                before = os.fstat(opened.fileno())
                if not stat.S_ISREG(before.st_mode):
                    return None
                if _is_too_large(opened, before.st_size):
                    self._refuse(each, file, opened, before)
                    return None
                opened.seek(0)
                content = opened.read(SIDECAR_BYTES_MAX + 1)
                after = os.fstat(opened.fileno())
                if (len(content), after.st_mtime_ns) == (before.st_size, before.st_mtime_ns):
                    return content, before.st_mtime_ns
        return None

    def _refuse(self, each: Candidate, file: SidecarFile, opened: BufferedReader, status: os.stat_result) -> None:
        digest = ""
        if status.st_size <= HASHED_BYTES_MAX:
            opened.seek(0)
            digest = f", sha256 {hashlib.file_digest(opened, 'sha256').hexdigest()}"
        self.gathered.problems.append((file.path, f"{TOO_LARGE_MESSAGE}; it has {status.st_size:,} bytes{digest}"))
        self.gathered.seen.append(
            FileStamp(
                path=file.path, agent=each.agent.name, log_id=None, device=status.st_dev, inode=status.st_ino,
                size=status.st_size, mtime_ns=status.st_mtime_ns, reason=TOO_LARGE,
            )
        )  # fmt: skip

    def _add_facts(self, keeper: SidecarPart, log_id: int, changed: dict[str, bytes]) -> None:
        log = self._store.log(log_id)
        if log is not None and (contents := _readable_contents(self._store, keeper, log_id) | changed):
            self._add(log.path, SidecarBatch(log_id=log_id, facts=_facts_of(self._store, log, keeper, contents)), 0)

    def _add(self, path: str, piece: SidecarBatch, length: int) -> None:
        self._pending.append((path, piece))
        self._pending_bytes += length
        if self._pending_bytes >= BATCH_BYTES or len(self._pending) >= BATCH_LOGS:
            self.flush()


def _readable_contents(store: Store, keeper: SidecarPart, log_id: int) -> dict[str, bytes]:
    """Return the stored sidecars of a log that may have facts, by name."""
    return _readable(store, keeper, store.ask(sidecars.of_log, log_id))


def _readable(store: Store, keeper: SidecarPart, stored: Iterable[StoredSidecar]) -> dict[str, bytes]:
    return {each.name: store.ask(sidecars.read, each.id) for each in stored if keeper.is_read(each.name)}


def _texts_of(store: Store, keeper: SidecarPart, log_id: int, names: Iterable[str]) -> list[SideText]:
    """The texts of a log's sidecars that are to be found, each with the result that it is the whole of."""
    return [
        side_texts.SideText(name=name, event_id=_result_in(store, keeper, log_id, name))
        for name in dict.fromkeys(names)
        if keeper.is_searched(name)
    ]


def _result_in(store: Store, keeper: SidecarPart, log_id: int, name: str) -> int | None:
    """The result whose log has only its beginning, and which this sidecar holds as a whole."""
    for event_id in store.ask(side_texts.mentions, log_id, name.rpartition("/")[2]):
        stored = store.event(event_id)
        log = store.log(stored.log_id) if stored is not None and stored.log_id is not None else None
        if stored is None or log is None or stored.position is None or stored.length is None:
            continue
        record = store.read_log(log.id, stored.position, stored.length)
        source = record_source.record_source(log.source_kind, log.agent, LogIdentity(native_id=log.native_id))
        for part, event in source.read(record, stored.seq).events:
            # A reader that has seen nothing else numbers a record's own events from 0.
            if not isinstance(event, ToolResult) or stored.part not in (part, part + OWN_PARTS_FROM):
                continue
            ending = keeper.spilled_to(event)
            if ending is not None and name.endswith(ending):
                return event_id
    return None


def _facts_of(store: Store, log: Log, keeper: SidecarPart, contents: Mapping[str, bytes]) -> SidecarFacts:
    """Parse the facts of a log's sidecars, in addition to the log's own."""
    agent = agents.load(log.agent)
    in_log = agent.log.reader(LogIdentity(native_id=log.native_id), state_of(store, log), lambda: ()).session
    return combined_facts(in_log, [keeper.read(name, content) for name, content in sorted(contents.items())])


def combined_facts(in_log: SessionFacts, facts: Iterable[SidecarContent]) -> SidecarFacts:
    """Merge the facts of several sidecars. A person's title has priority over the log's, and that over others."""
    facts = list(facts)
    given = (each.title for each in facts if each.is_title_given)
    others = (each.title for each in facts if not each.is_title_given)
    cwd = _first(each.cwd for each in facts)
    folder = in_log.cwd or cwd
    return SidecarFacts(
        session=SessionFacts(
            title=_first(given) or in_log.title or _first(others),
            cwd=cwd,
            branch=_first(each.branch for each in facts),
            repository=_first(each.repository for each in facts),
            values={HOST_TYPE: found} if (found := _first(each.host_type for each in facts)) else None,
        ),
        project=project_key(folder),
        root=worktree_root(folder),
        checkpoints=dict(each.checkpoint for each in facts if each.checkpoint is not None),
        checkpoint_titles={number: title for each in facts for number, title in each.checkpoint_titles.items()},
        outcome=_first(each.outcome for each in facts),
    )


def _first(values: Iterable[str | None]) -> str | None:
    return next(filter(None, values), None)


def _opened(path: str) -> BufferedReader:
    """Open a file, unless it has become a link; a pipe does not block."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    return open(os.open(path, flags), "rb")  # noqa: PTH123 - the caller closes it


def _is_too_large(opened: BufferedReader, size: int) -> bool:
    if size <= BINARY_BYTES_MAX or size > SIDECAR_BYTES_MAX:
        return size > SIDECAR_BYTES_MAX
    opened.seek(0)
    return b"\0" in opened.read(_SNIFFED_BYTES)
