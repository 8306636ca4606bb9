"""Everything that can be derived, made again from the bytes that are kept; no agent's file is needed for it.

A session is cleared and derived again, a batch to a transaction. A log is marked when all of it is derived, so that one
that was left half way is derived again by the next reindex or ingest.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from backstory import agents
from backstory.errors import SessionNotFound, in_words
from backstory.ingest import sidecars
from backstory.ingest.ingest import read_reported, understand
from backstory.ingest.log_reader import SLICE_BYTES, kept_lines
from backstory.ingest.record_source import record_source
from backstory.ingest.sources import created_ms
from backstory.ingest.unread import identified, is_unread
from backstory.model import LogIdentity
from backstory.store.file import maintenance
from backstory.store.intake import append, ingesting, rederiving
from backstory.store.intake.batches import SUFFIX, Arrivals, BatchContent, RecordBatch
from backstory.store.tables import logs as stored_logs
from backstory.store.tables import sidecars as stored_sidecars
from backstory.store.tables.logs import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from backstory.ingest.record_source import NumberedLine, RecordSource
    from backstory.store import Log, Session, Store

BULK_SESSIONS = 50
"""From so many sessions on the index is merged once at the end."""


class FailedSession(Struct, frozen=True):
    """A session that could not be derived again, and why. What was derived of it before is gone; its bytes are not."""

    session: str
    reason: str


class Reindexed(Struct, kw_only=True):
    """The number of sessions that were derived, that are left, and whose logs are gone, and those that failed."""

    sessions: int = 0
    left: int = 0
    gone: int = 0
    failed: list[FailedSession] = field(default_factory=list)


def reindex(
    store: Store,
    *,
    now: int,
    events_too: bool = False,
    only_stale: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    is_over: Callable[[], bool] = lambda: False,
) -> Reindexed:
    """Derive again what is derived: of every session, or with ``only_stale`` of those that an older version derived.

    ``events_too``: also what their records say, with today's adapters. ``progress`` receives sessions done and to do.
    ``is_over``: asked before each session, whether the rest is left.
    """
    done = Reindexed()
    todo = maintenance.sessions_to_derive(store, only_stale=only_stale)
    if not only_stale and todo:
        store.change(maintenance.begin_reindex)
    with ingesting.bulk(store, is_bulk=len(todo) >= BULK_SESSIONS):
        for number, session_id in enumerate(todo, 1):
            if is_over():
                done.left = len(todo) - number + 1
                break
            try:
                session = store.session(session_id)
            except SessionNotFound:
                # It was removed meanwhile.
                continue
            try:
                _rederive(store, session, events_too=events_too)
                done.sessions += 1
            except Exception as refused:
                done.failed.append(FailedSession(session.uid, in_words(refused)))
            progress(number, len(todo))
    if not done.failed and not done.left and (todo or not only_stale) and store.exists:
        store.change(maintenance.note_reindexed, is_whole=not only_stale)
    if not only_stale:
        done.gone = store.change(rederiving.mark_missing, [log.id for log in store.logs() if _is_gone(log)], now)
    return done


def _is_gone(log: Log) -> bool:
    # Of a log out of a database it is the database's path that counts.
    path = log.path.rpartition("#")[0] or log.path
    return log.kind == FILE and bool(path) and not Path(log.path).exists() and not Path(path).exists()


def _rederive(store: Store, session: Session, *, events_too: bool) -> None:
    understood = [understand(store, log) for log in store.logs(session) if is_unread(log.native_id)]
    if any(understood):
        # It was derived in the session that it belongs to.
        return
    derived: set[str] = set()
    # What cannot be derived again is found out before anything is cleared.
    logs = [(log, *kept_source(store, log, session.said_folder)) for log in store.logs(session)]
    for log, *_ in logs:
        _arrivals(store, log)
    store.change(rederiving.clear, session.id)
    for log, source, created in logs:
        for batch in rederived(store, session, log, source, created, kept_lines(store, log), events_too=events_too):
            derived |= {turn.uid for turn in batch.turns}
            store.change(append.rederive, batch, events_too=events_too)
    maintenance.rederive_unlogged(store, session.id)
    for log in store.logs(session):
        sidecars.reapply_sidecars(store, log)
    # A turn that today's adapter does not emit goes, but only where agents' own logs are all that there is.
    if events_too and session.number is None and all(log.source_kind == FILE for log, *_ in logs):
        store.change(rederiving.drop_turns_but, session.id, derived, {log.id: log.told_end for log, *_ in logs})
    for log, source, *_ in logs:
        if source.has_reported():
            # An earlier version did not make sessions of what a log reports.
            read_reported(store, log)


def rederived(
    store: Store, session: Session, log: Log, source: RecordSource, created: int, lines: Iterable[NumberedLine], *,
    events_too: bool,
) -> Iterator[RecordBatch]:  # fmt: skip
    """A log's ``lines``, read again by today's adapter, some megabytes at a time; the last batch says that it is."""
    content = BatchContent(arrivals=_arrivals(store, log), is_stored=not events_too)
    size, is_past, cwd = 0, False, source.cwd

    def batch() -> RecordBatch:
        return RecordBatch(
            agent=log.agent, identity=LogIdentity(native_id=log.native_id), session_uid=session.uid,
            kind=log.source_kind, log_id=log.id, expected_read_to=log.told_end, expected_next_seq=0, next_seq=0,
        )  # fmt: skip

    def settle(piece: RecordBatch) -> None:
        piece.state, piece.facts, piece.pending = source.state(), source.facts, content.pending()
        piece.turns += source.turns()

    piece = batch()
    for line in lines:
        if log.tail_seq == line.seq and not is_past:
            # What a record that may still grow says is not part of the state to go on from.
            is_past = True
            settle(piece)
        record = content.take(source, line.content, line.seq, line.start)
        created = created or record.at or 0
        size += len(line.content or b"")
        if size >= SLICE_BYTES and not is_past:
            settle(piece)
            yield _cut(piece, content, source, cwd)
            piece, size = batch(), 0
    if is_past:
        piece.turns += source.turns()
    else:
        settle(piece)
    piece.is_last, piece.created = True, created if piece.kind == FILE else 0
    yield _cut(piece, content, source, cwd)


def _arrivals(store: Store, log: Log) -> Arrivals:
    """Return the times when the lines of a log came, if it is a run's output that somebody watched."""
    noted = () if log.source_kind == FILE else store.ask(stored_sidecars.of_log, log.id)
    found = next((each for each in noted if each.name.endswith(SUFFIX)), None)
    return Arrivals() if found is None else Arrivals(store.ask(stored_sidecars.read, found.id))


def _cut(batch: RecordBatch, content: BatchContent, source: RecordSource, cwd: str | None) -> RecordBatch:
    source.note_found(content.move_to(batch, cwd).found)
    return batch


def kept_source(
    store: Store, log: Log, folder: str | None, read: Callable[[int, int], bytes] | None = None
) -> tuple[RecordSource, int]:
    """Return the reader of a kept log from its beginning, and the begin of its session; 0 if it gives none.

    ``read``: gives bytes in the place of those that are kept, by their start and length.
    """
    identity, created = LogIdentity(native_id=log.native_id), 0
    cwd = store.ask(stored_logs.run_folder, log.id) or folder or None
    if log.source_kind == FILE and not is_unread(log.native_id):
        # Where its beginning does not say whose it is any more, it did when the log was first read.
        agent, path = agents.load(log.agent), log.path or log.relpath
        found, head = identified(agent, Path(path), read or partial(store.read_log, log.id))
        identity, created = found or identity, created_ms(agent, path, head)
    turn_uid = store.ask(stored_logs.turn_uid, log.id)
    return record_source(log.source_kind, log.agent, identity, turn_uid=turn_uid, cwd=cwd), created
