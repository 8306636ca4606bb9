"""A session that is pruned in part, in one transaction: its bytes overwritten, and what they say derived anew.

Who plans it has the new bytes, and the batches that are made of them. Functions take the connection, never commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory.derive import pruning
from backstory.derive.pruning import PROMPTS
from backstory.store import codec, database
from backstory.store.file import erasing, migrate
from backstory.store.intake import append, derived_tables, rederiving
from backstory.store.intake.batches import NewEvent
from backstory.store.schema import fetch
from backstory.store.tables import event_rows, logs, pruned

if TYPE_CHECKING:
    import apsw

    from backstory.derive.pruning import Pruning
    from backstory.store.intake.batches import RecordBatch
    from backstory.store.tables.logs import Chunk, ChunkMark, Log
    from backstory.store.tables.sidecars import StoredSidecar


class HeldBatch(Struct, frozen=True):
    """A batch whose events are packed until they are stored."""

    batch: RecordBatch
    events: bytes
    room: int
    """The bytes of its events in the file."""

    @classmethod
    def of(cls, batch: RecordBatch) -> HeldBatch:
        """Pack the events of a batch, which has none then."""
        events, batch.events = batch.events, []
        return cls(batch, codec.pack_frame(msgspec.msgpack.encode(events)), sum(len(each.data) for each in events))

    def whole(self) -> RecordBatch:
        """The batch with its events."""
        packed = codec.unpack_frame(self.events, codec.UNPACKED_BYTES_MAX)
        return msgspec.structs.replace(self.batch, events=msgspec.msgpack.decode(packed, type=list[NewEvent]))


class OverwrittenLog(Struct, frozen=True, kw_only=True):
    """A log, its chunks as they were when this was planned, and the new bytes of those that differ."""

    log: Log
    marks: list[ChunkMark]
    changed: dict[int, Chunk]
    """By their starts."""
    batches: list[HeldBatch]
    """All that the log says then."""


class OverwrittenFile(Struct, frozen=True, kw_only=True):
    """A file beside a log, and its new bytes."""

    log_id: int
    file: StoredSidecar
    data: bytes


class Overwriting(Struct, frozen=True, kw_only=True):
    """The plan for a session. ``next_seq``: the number of the first record that stays whole."""

    session_id: int
    what: Pruning
    next_seq: int
    logs: list[OverwrittenLog]
    files: list[OverwrittenFile]
    is_empty: bool = False
    """True if nothing of it differs, and only that it was pruned is noted."""


def is_running(db: apsw.Connection, session_id: int) -> bool:
    """Return True if a run of a session is not stored yet."""
    return bool(db.execute("select last_native_id <> '' from sessions where id = ?", (session_id,)).get)


def has_other_texts(db: apsw.Connection, session_id: int, what: Pruning) -> bool:
    """Return True if texts go that are in no log: summaries that were made here."""
    asked = "select exists (select 1 from compactions where session_id = ? and summary <> ?)"
    return what.keep == PROMPTS and bool(db.execute(asked, (session_id, pruning.MARK)).get)


def room(db: apsw.Connection, session_id: int) -> int:
    """The bytes of a session's chunks, events and files, as they are packed."""
    of_log = "join logs l on l.id = c.log_id where l.session_id = ?1"
    return int(
        db.execute(
            f"select coalesce((select sum(length(c.data)) from chunks c {of_log}), 0) "
            f"+ coalesce((select sum(length(c.data)) from sidecars c {of_log}), 0) "
            "+ coalesce((select sum(length(data)) from events where session_id = ?1), 0)",
            (session_id,),
        ).get
    )


def frames(db: apsw.Connection, log_id: int) -> list[tuple[int, int]]:
    """The start of each chunk of a log, and the length of its frame."""
    return fetch(db, tuple[int, int], "select start, length(data) from chunks where log_id = ?", (log_id,))


def file_frames(db: apsw.Connection, log_id: int) -> list[tuple[int, int]]:
    """The id of each file beside a log, and the length of its frame."""
    return fetch(db, tuple[int, int], "select id, length(data) from sidecars where log_id = ?", (log_id,))


def results(db: apsw.Connection, log_id: int) -> set[int]:
    """The files beside a log that are the whole of a result."""
    asked = (
        "select t.sidecar_id from side_texts t join sidecars c on c.id = t.sidecar_id "
        "where c.log_id = ? and t.event_id is not null"
    )
    return {sidecar_id for (sidecar_id,) in fetch(db, tuple[int], asked, (log_id,))}


def loose_room(db: apsw.Connection, session_id: int) -> int:
    """The bytes of a session's events that are in no log."""
    asked = "select coalesce(sum(length(data)), 0) from events where session_id = ? and log_id is null"
    return int(db.execute(asked, (session_id,)).get)


def write(db: apsw.Connection, plan: Overwriting, now: int) -> bool:
    """Overwrite what goes and derive the session anew; returns False where it is another one than was planned."""
    if not _is_as_planned(db, plan):
        return False
    _note(db, plan, now)
    if plan.is_empty:
        return True
    erasing.note_removal(db)
    # It is merged once, when all are pruned: a merge now would write as much as the whole index has.
    database.set_index(db, automerge=0, crisismerge=database.BULK_CRISIS_MERGE)
    for each in plan.logs:
        if each.changed:
            pruned.free_borrowers(db, each.log.id)
    for each in plan.logs:
        for chunk in each.changed.values():
            pruned.overwrite(db, each.log.id, chunk)
    for file in plan.files:
        pruned.note_sidecar(db, plan.session_id, file.log_id, file.file.name, file.file.size, file.file.digest)
        event_rows.delete_files(db, "id = ?", (file.file.id,))
        db.execute(
            "update sidecars set sha256 = ?, data = ? where id = ?",
            (codec.chunk_digest(file.data), codec.pack_chunk(file.data), file.file.id),
        )
    _derive(db, plan)
    database.reset_index(db)
    # What files beside its logs say comes behind; who is killed until then leaves it to the next ingest.
    db.execute("update logs set derived = 0 where session_id = ?", (plan.session_id,))
    db.execute("insert or ignore into meta(key, value) values (?, '1')", (migrate.STALE,))
    return True


def _is_as_planned(db: apsw.Connection, plan: Overwriting) -> bool:
    here = logs.of_session(db, plan.session_id)
    if is_running(db, plan.session_id) or [log.id for log in here] != [each.log.id for each in plan.logs]:
        return False
    return all(
        (log.read_to, log.told_to) == (each.log.read_to, each.log.told_to)
        and logs.chunk_marks(db, log.id) == each.marks
        for log, each in zip(here, plan.logs, strict=True)
    )


def _note(db: apsw.Connection, plan: Overwriting, now: int) -> None:
    before = pruned.noted(db, plan.session_id)
    # The same prune twice changes nothing.
    if before is None or (before.pruning, before.next_seq) != (plan.what, plan.next_seq):
        pruned.note(db, plan.session_id, plan.what, now, plan.next_seq)
    for each in plan.logs:
        pruned.note_log(db, plan.session_id, each.log.id, each.log.read_to)


def _derive(db: apsw.Connection, plan: Overwriting) -> None:
    session_id = plan.session_id
    if plan.what.keep == PROMPTS:
        event_rows.delete_summaries(db, "session_id = ?", (session_id,))
        db.execute("update compactions set summary = ?, undone = 1 where session_id = ?", (pruning.MARK, session_id))
    if plan.what.keep is not None:
        db.execute("update turns set stop_reason = null where session_id = ? and stop_reason like '% %'", (session_id,))
    rederiving.clear(db, session_id)
    # A record that says nothing any more would keep the events that it had.
    for each in plan.logs:
        event_rows.delete_events(db, "session_id = ? and log_id = ?", (session_id, each.log.id))
    for each in plan.logs:
        for batch in each.batches:
            append.rederive(db, batch.whole(), events_too=True)
    unlogged = rederiving.unlogged(db, session_id)
    if unlogged is not None:
        append.rederive(db, unlogged, events_too=False)


def settle(db: apsw.Connection, session_id: int) -> None:
    """Note that a session is derived, what the files beside its logs say included."""
    db.execute("update logs set derived = ? where session_id = ?", (derived_tables.VERSION, session_id))
    if not db.execute("select exists (select 1 from logs where derived < ?)", (derived_tables.VERSION,)).get:
        migrate.note_derived(db)
