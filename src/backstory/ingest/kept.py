"""A kept log, read again by today's reader: from its beginning, some megabytes at a time."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from backstory import agents
from backstory.ingest.log_reader import SLICE_BYTES
from backstory.ingest.record_source import record_source
from backstory.ingest.sources import created_ms
from backstory.ingest.unread import identified, is_unread
from backstory.model import LogIdentity
from backstory.store.intake.batches import SUFFIX, Arrivals, BatchContent, RecordBatch
from backstory.store.tables import logs as stored_logs
from backstory.store.tables import sidecars as stored_sidecars
from backstory.store.tables.logs import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from backstory.ingest.record_source import NumberedLine, RecordSource
    from backstory.store import Log, Session, Store


def rederived(
    store: Store, session: Session, log: Log, source: RecordSource, created: int, lines: Iterable[NumberedLine], *,
    events_too: bool,
) -> Iterator[RecordBatch]:  # fmt: skip
    """A log's ``lines``, read again by today's adapter, some megabytes at a time; the last batch says that it is."""
    content = BatchContent(arrivals=arrivals(store, log), is_stored=not events_too)
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


def arrivals(store: Store, log: Log) -> Arrivals:
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
