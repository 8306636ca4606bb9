"""The one place where records come into a store: bytes, numbers, turns, events and what is derived of them.

Whoever has records makes a ``RecordBatch`` of them against what the store says, and this writes it, in one transaction
with others. A batch is refused if the store moved on meanwhile: it is thrown away, and made again from what the store
says then. Functions take the connection, never commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backstory import ids
from backstory.derive.naming import repository_name
from backstory.errors import SessionNotFound
from backstory.model import Outcome, Relation
from backstory.store import codec, schema
from backstory.store.intake import claims, coverage, derived_tables, run_facts, written
from backstory.store.schema import fetch, fetch_one
from backstory.store.tables import branches, decisions, event_rows, lineage, logs, runs, titles, turns
from backstory.store.tables.event_rows import WaitingTexts
from backstory.store.tables.logs import FILE
from backstory.store.tables.sidecars import SidecarBatch
from backstory.store.tables.sidecars import write as keep_beside

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from backstory.model import Turn
    from backstory.store.intake.batches import LogKey, NewEvent, RecordBatch
    from backstory.store.tables.event_rows import EventKey

APPEND_TRIES = 10
"""The number of times a batch is rebuilt because the store changed; the last time the store is locked for it."""


class Written(Struct, frozen=True, kw_only=True):
    """The result of a batch: the log's id, or the reason why it was refused."""

    log_id: int | None = None
    session_id: int | None = None
    session_is_new: bool = False
    turn_uids: tuple[str, ...] = ()
    """The turns in it."""
    refused: str | None = None


UNTRUSTED = "elsewhere is not null and owner is null"
"""A session that was copied from a store which nobody has trusted since."""
STALE = "changed by another process"
FORGOTTEN = "forgotten"
STORED = "stored"
"""The reason why a run's batch is refused whose content is here already."""
EMPTY = "empty"
DATABASE = "database"
"""The reason why a database itself is no log; see log_places."""
NOT_UNDERSTOOD = "not_understood"


def write_all(db: apsw.Connection, batches: Sequence[RecordBatch]) -> list[Written]:
    """Store batches; each is accepted or refused alone, but those of a session of ours all or none."""
    waiting, done, stopped, begun = WaitingTexts(), list[Written](), dict[str, str](), set[str]()
    # Asked once for the transaction: a turn that was forked often has a row for each log.
    known_runs = claims.known_runs(db, [turn for each in batches if each.kind == FILE for turn in each.turns])
    lenders: dict[LogKey, Written] = {}
    for batch in batches:
        before = stopped.get(batch.session_uid)
        if batch.lender is not None:
            before = _borrow(batch, lenders.get(batch.lender))
        done.append(write(db, batch, waiting, known_runs) if before is None else Written(refused=before))
        if batch.kind == FILE:
            lenders[batch.key] = done[-1]
            continue
        if (refused := done[-1].refused) is None:
            begun.add(batch.session_uid)
        # To raise takes the whole transaction back: half a run of ours is worse than none.
        elif batch.session_uid in begun:
            raise ValueError("batches of a session do not go on from one another")
        else:
            stopped[batch.session_uid] = refused
    # After all batches: a copy and its original may come in one transaction, in either order.
    if turn_uids := {uid for each in done for uid in each.turn_uids} | written.settle(db):
        lineage.link_copies(db, turn_uids)
    waiting.index(db)
    return done


def _borrow(batch: RecordBatch, lender: Written | None) -> str | None:
    """Name the lender of a batch's chunks, as it was written in this transaction; returns why the batch is refused."""
    if lender is None or lender.log_id is None:
        return STALE if lender is None or lender.refused is None else lender.refused
    batch.chunks = [each if each.lender is None else replace(each, lender=lender.log_id) for each in batch.chunks]
    return None


def write(db: apsw.Connection, batch: RecordBatch, waiting: WaitingTexts, known_runs: dict[str, str]) -> Written:
    """Store one batch, or return why not. Its texts are added to ``waiting`` for the caller to index.

    ``known_runs``: the uids of runs by those that agents' logs give their turns; runs that the batch claims are added.
    """
    if batch.undo_from is not None or batch.matched or (batch.run is not None and batch.run.is_first):
        # Texts that this batch replaces must not be indexed afterwards.
        waiting.index(db)
    identity, is_read = ids.session_identity(batch.session_uid), batch.kind == FILE
    # The first ten characters are a time, which may become known later; the rest identifies the session.
    if db.execute("select 1 from forgotten where substr(uid, 11) = ?", (identity,)).fetchone():
        return Written(refused=FORGOTTEN)
    if is_read:
        _drop_taken(db, identity)
    known: int | None = db.execute("select id from sessions where substr(uid, 11) = ?", (identity,)).get
    log_id = batch.log_id
    if is_read:
        refused = None if _is_as_expected(db, known, batch) else STALE
    else:
        log_id, refused = _ours_as_expected(db, known, batch)
    # Nothing is written before this, so a refused batch costs the transaction nothing.
    if refused is not None:
        return Written(refused=refused)
    session_id = known if known is not None else _insert_session(db, batch)
    if batch.run is not None and batch.run.is_first:
        _drop_unfinished(db, session_id, batch.run.turn_uid)
    if log_id is None and batch.kind is not None:
        log_id = _insert_log(db, session_id, batch)
    turn_uids: tuple[str, ...] = ()
    if batch.is_parsed:
        turn_uids = _write_parsed(db, session_id, log_id, batch, waiting, known_runs, is_new=known is None)
    elif log_id is not None:
        _keep_unparsed(db, log_id, batch)
    return Written(log_id=log_id, session_id=session_id, session_is_new=known is None, turn_uids=turn_uids)


def _write_parsed(
    db: apsw.Connection,
    session_id: int,
    log_id: int | None,
    batch: RecordBatch,
    waiting: WaitingTexts,
    known_runs: dict[str, str],
    *,
    is_new: bool,
) -> tuple[str, ...]:
    """Store the content of a batch and its bytes; returns the uids of turns that may be copied elsewhere."""
    # Asked before the batch is written: it may be the one that names the repository.
    was_covered = is_new or coverage.is_covered(db, session_id)
    if log_id is not None:
        _clear_replaced(db, session_id, log_id, batch)
    turn_ids = _write_turns(db, session_id, batch, known_runs)
    # Turns come first: events name them by row id.
    event_ids = insert_events(db, session_id, log_id, batch.events, turn_ids, waiting)
    if log_id is not None:
        _note_parsed(db, log_id, batch)
        if not batch.is_kept:
            _keep_bytes(db, log_id, batch)
    if batch.kind == FILE:
        _update_session(db, session_id, batch, is_new=is_new)
    else:
        _update_ours(db, session_id, batch, turn_ids)
    # A session that begins with this batch has no rows derived by an earlier answer.
    if not is_new:
        coverage.settle(db, session_id, was_covered=was_covered)
    if batch.answers and coverage.is_covered(db, session_id):
        turns.note_answers(db, turn_ids, batch.answers)
    # A session that begins with this batch has its time, unless a prompt was logged after its answer.
    if log_id is not None and batch.created and not (is_new and _begins_first(batch)):
        _note_created(db, session_id, log_id, batch.created)
    derived_tables.write(db, session_id, batch.found, turn_ids, event_ids)
    if log_id is not None and (batch.found.summaries or batch.found.record_ids):
        titles.note(db, log_id, batch.found)
    return tuple(turn_ids) if batch.kind == FILE else ()


def _keep_unparsed(db: apsw.Connection, log_id: int, batch: RecordBatch) -> None:
    """Store bytes alone; everything else about the log stays unchanged."""
    logs.insert_chunks(db, log_id, batch.chunks)
    db.execute(
        f"update logs set {logs.PLACED}, modified = ?, first_hash = coalesce(first_hash, ?), tail_hash = ?, "
        # The first failure says where parsing goes on; bytes that come after it must not move that place.
        "read_to = ?, told_to = coalesce(told_to, ?), gone = null, frames = frames + ? where id = ?",
        (
            *logs.placed(batch.path, batch.relpath), batch.modified, batch.first_hash, batch.tail_hash, batch.read_to,
            batch.expected_read_to, _small_chunks(batch), log_id,
        ),
    )  # fmt: skip


def _small_chunks(batch: RecordBatch) -> int:
    # Only chunks below the full size can ever be merged, so only these count towards the next merge.
    return sum(chunk.length < codec.CHUNK_BYTES and chunk.lender is None for chunk in batch.chunks)


def _drop_taken(db: apsw.Connection, identity: str) -> None:
    """Remove a session that was copied from elsewhere: the agent's own log of it is here now."""
    taken = db.execute(f"select id from sessions where substr(uid, 11) = ? and {UNTRUSTED}", (identity,)).get
    if taken is not None:
        event_rows.delete_of_session(db, taken)
        db.execute("delete from sessions where id = ?", (taken,))


def _write_turns(
    db: apsw.Connection, session_id: int, batch: RecordBatch, known_runs: dict[str, str]
) -> dict[str, int]:
    """Store a batch's turns; returns their ids by uid, both by the log's uid and by the one here."""
    renamed = claims.renamed(db, session_id, batch, known_runs) if batch.kind == FILE else {}
    turn_ids = _upsert_turns(db, session_id, [claims.renamed_turn(turn, renamed) for turn in batch.turns])
    return turn_ids | {old: turn_ids[new] for old, new in renamed.items() if new in turn_ids}


def _upsert_turns(db: apsw.Connection, session_id: int, read: list[Turn]) -> dict[str, int]:
    """Store turns as they stand now, and have the names of branches follow the new ones; returns their ids by uid."""
    # Hardly any session has named branches, so the others do not pay for looking up which turns are new.
    named = branches.has_names(db, session_id)
    known = turns.ids_of(db, session_id, read) if named else {}
    turn_ids = turns.upsert(db, session_id, read)
    if named:
        branches.follow(db, session_id, [turn for turn in read if turn.uid not in known])
    return turn_ids


def _is_as_expected(db: apsw.Connection, session_id: int | None, batch: RecordBatch) -> bool:
    """Return True if a log and its session are unchanged since its reader started."""
    next_seq = db.execute("select next_seq from sessions where id = ?", (session_id,)).get or 1
    # Bytes alone take no numbers, so records that were stored meanwhile do not make them stale.
    if batch.is_parsed and next_seq != batch.expected_next_seq:
        return False
    if batch.log_id is not None:
        now = db.execute("select read_to, told_to from logs where id = ?", (batch.log_id,)).fetchone()
        if now is None:
            return False
        read_to, told_to = now
        # Records are parsed in order: nothing after a missing one is stored.
        is_next = told_to is not None if batch.is_kept else told_to is None or not batch.is_parsed
        return is_next and (told_to if batch.is_kept else read_to) == batch.expected_read_to
    taken = db.execute(
        "select 1 from logs where agent = ? and native_id = ? and generation >= ? and kind = 'file'",
        (batch.agent, batch.identity.native_id, batch.generation),
    ).fetchone()
    return taken is None


def _ours_as_expected(db: apsw.Connection, session_id: int | None, batch: RecordBatch) -> tuple[int | None, str | None]:
    """Return the log that a batch of a session of ours continues, if there is one, and why the batch is refused."""
    if session_id is None:
        raise SessionNotFound(batch.session_uid)
    run = batch.run
    if run is not None and (run.is_first or run.is_lost):
        # A killed runner's spool is stored by whoever finds it; the second one learns that it may remove it.
        has_all = runs.has_ended if run.is_lost else runs.is_stored
        if has_all(db, batch.session_uid, run.turn_uid):
            return None, STORED
    start = runs.start_of(db, session_id, run.turn_uid if run is not None and run.is_first else None)
    if start.next_seq != batch.expected_next_seq or (batch.follows_leaf and start.leaf != batch.expected_leaf):
        return None, STALE
    # A prompt or an end is in no log, so there is no place in one that could have moved.
    if batch.kind is None:
        return None, None
    log = fetch_one(
        db,
        tuple[int, int],
        "select id, read_to from logs where session_id = ? and kind = ? and turn_uid is ?",
        (session_id, batch.kind, run.turn_uid if run is not None else None),
    )
    log_id, read_to = log or (None, 0)
    return log_id, None if read_to == batch.expected_read_to else STALE


def _drop_unfinished(db: apsw.Connection, session_id: int, turn_uid: str) -> None:
    """Remove a turn that was begun and abandoned."""
    turn_id = db.execute("select id from turns where session_id = ? and uid = ?", (session_id, turn_uid)).get
    if turn_id is not None:
        event_rows.delete_events(db, "session_id = ? and turn_id = ?", (session_id, turn_id))
        db.execute("delete from logs where session_id = ? and turn_uid = ?", (session_id, turn_uid))
        db.execute("delete from turns where id = ?", (turn_id,))


def _insert_session(db: apsw.Connection, batch: RecordBatch) -> int:
    db.execute(
        "insert into sessions(uid, created, native_id) "
        "values (?, strftime('%Y-%m-%dT%H:%M:%fZ', ? / 1000.0, 'unixepoch'), ?)",
        (batch.session_uid, _created(batch), batch.identity.native_id),
    )
    session_id = db.last_insert_rowid()
    # Other relations need the parent's id, which may come in a later batch.
    relation = Relation.UNREAD if batch.identity.relation == Relation.ASIDE else batch.identity.relation
    if relation in (Relation.UNREAD, Relation.RETOLD):
        db.execute("update sessions set relation = ? where id = ?", (relation, session_id))
    db.execute(
        # Logs are read in any order: subagents that came before their parent wait for it by its identity.
        "update sessions set parent_id = ? where parent_identity = ? and parent_id is null",
        (session_id, ids.session_identity(batch.session_uid)),
    )
    return session_id


def _insert_log(db: apsw.Connection, session_id: int, batch: RecordBatch) -> int:
    db.execute(
        "insert into logs(session_id, agent, kind, native_id, generation, turn_uid, cwd) values (?, ?, ?, ?, ?, ?, ?)",
        (
            session_id,
            batch.agent,
            batch.kind,
            batch.identity.native_id,
            batch.generation,
            batch.run.turn_uid if batch.run is not None else None,
            batch.cwd,
        ),
    )
    return db.last_insert_rowid()


def _clear_replaced(db: apsw.Connection, session_id: int, log_id: int, batch: RecordBatch) -> None:
    """Remove the events that this batch replaces: an unfinished last record's, or another log's of the session."""
    if batch.undo_from is not None:
        event_rows.delete_events(
            db, "log_id = ? and session_id = ? and position >= ?", (log_id, session_id, batch.undo_from)
        )
        db.execute("delete from numbers where log_id = ? and start >= ?", (log_id, batch.undo_from))
        turns.forget_context(db, session_id)
    if batch.matched:
        for seq in sorted({event.seq for event in batch.events}):
            event_rows.delete_events(db, "session_id = ? and seq = ?", (session_id, seq))


def insert_events(
    db: apsw.Connection,
    session_id: int,
    log_id: int | None,
    new: list[NewEvent],
    turn_ids: dict[str, int],
    waiting: WaitingTexts,
) -> dict[EventKey, int]:
    """Store events; returns their ids by (seq, part). Their texts are added to ``waiting``."""
    if not new:
        return {}
    first_id = event_rows.insert(
        db,
        session_id,
        [
            (
                e.seq, e.part, turn_ids.get(e.turn_uid) if e.turn_uid else None, e.at, e.kind, e.data, e.char_len,
                log_id, e.position, e.length,
            )
            for e in new
        ],
    )  # fmt: skip
    # Statements between two texts could make FTS5 begin a new segment, so texts go in last, all at once.
    waiting.texts.append((session_id, [(first_id + n, e.seq, e.scope, e.text) for n, e in enumerate(new) if e.scope]))
    return {(e.seq, e.part): first_id + n for n, e in enumerate(new)}


def _note_parsed(db: apsw.Connection, log_id: int, batch: RecordBatch) -> None:
    """Store the numbers of its records, and the position of the reader."""
    logs.insert_seq_ranges(db, log_id, batch.seq_ranges)
    if batch.tail_seq_range is not None:
        logs.insert_seq_range(db, log_id, batch.tail_seq_range)
    # Of bytes that were kept alone ``told_to`` says what is left, until a batch has read the last of them.
    # A log derived by an earlier version is still derived again when more of it comes.
    db.execute(
        "update logs set first_hash = ?, parsed_to = ?, tail_seq = ?, state = ?, pending = ?, "
        "derived = min(?, iif(parsed_to = 0, ?, derived)), "
        "told_to = case when told_to is not null and ? < read_to then ? end where id = ?",
        (
            batch.first_hash, batch.parsed_to, batch.tail_seq,
            codec.pack_text(batch.state) if batch.state else None,
            codec.pack_text(batch.pending) if batch.pending else None, derived_tables.VERSION,
            derived_tables.VERSION, batch.read_to, batch.read_to, log_id,
        ),
    )  # fmt: skip


def _keep_bytes(db: apsw.Connection, log_id: int, batch: RecordBatch) -> None:
    logs.insert_chunks(db, log_id, batch.chunks)
    db.execute(
        f"update logs set {logs.PLACED}, modified = ?, tail_hash = ?, read_to = ?, gone = null, "
        "frames = frames + ?, native_id = iif(kind = 'file', native_id, ?) where id = ?",
        (
            *logs.placed(batch.path, batch.relpath),
            batch.modified,
            batch.tail_hash,
            batch.read_to,
            _small_chunks(batch),
            batch.identity.native_id,
            log_id,
        ),
    )
    # A log that grows by lines would else hold a frame for each, and a frame per line is hardly compressed.
    if db.execute("select frames from logs where id = ?", (log_id,)).get >= logs.FRAMES_MAX:
        logs.merge_chunks(db, log_id, idle=False)
    if batch.sidecar is not None:
        keep_beside(db, SidecarBatch(log_id=log_id, sidecars=[batch.sidecar]))
    # In the same transaction: a stamp without its bytes would have the file passed over for ever.
    if batch.place is not None:
        logs.remember_stamp(db, replace(batch.place, log_id=log_id))


def _update_ours(db: apsw.Connection, session_id: int, batch: RecordBatch, turn_ids: dict[str, int]) -> None:
    """Update a session of ours after a run, or the API, added to it."""
    run = batch.run
    if run is not None and run.is_first:
        db.execute(
            "update turns set prefix_chars = ?, prefix_sha256 = ? where id = ?",
            (run.prefix_chars, run.prefix_sha256, turn_ids[run.turn_uid]),
        )
    # The next prompt follows the last message, whatever was checked out before.
    goes_on = run.is_first if run is not None else bool(batch.events and batch.turns)
    native_id = batch.identity.native_id if run is not None and not run.is_last else ""
    running_id = schema.running_id_column()
    db.execute(
        "update sessions set next_seq = ?, imported = null, last_active = coalesce(?, last_active), "
        "leaf_seq = iif(?3, null, leaf_seq), "
        f"leaf_at = iif(?3, coalesce(?4, leaf_at), leaf_at), {running_id} = iif(?, ?, {running_id}) where id = ?",
        (
            batch.next_seq,
            None if run is not None and run.is_lost else batch.last_active,
            goes_on,
            max((turn.started or 0 for turn in batch.turns), default=0) or batch.last_active,
            run is not None,
            native_id,
            session_id,
        ),
    )
    if run is not None and run.is_lost:
        db.execute(
            "update turns set outcome = ?, stop_reason = ?, last_seq = ?, ended = coalesce(ended, ?) where id = ?",
            (Outcome.CRASHED, runs.LOST, batch.next_seq - 1, batch.last_active, turn_ids[run.turn_uid]),
        )
    if run is not None and run.is_last:
        claims.link_run_to_log(db, session_id, run.turn_uid)
    turns.sum_up(db, session_id)
    if batch.end is not None:
        turns.complete(db, session_id, batch.end.duration_ms, batch.end.cost_usd, batch.end.success)


def _note_created(db: apsw.Connection, session_id: int, log_id: int, created_ms: int) -> None:
    """Store when a session began: with the first record of its first log, or a prompt that was logged after it.

    Its uid keeps the time that it was made with.
    """
    db.execute(
        "update sessions set created = began.at from (select strftime('%Y-%m-%dT%H:%M:%fZ', "
        "min(?1, coalesce(min(started), ?1)) / 1000.0, 'unixepoch') as at from turns where session_id = ?2) as began "
        "where id = ?2 and owner is null and created <> began.at "
        "and ?3 = (select min(id) from logs where session_id = ?2)",
        (created_ms, session_id, log_id),
    )


def _begins_first(batch: RecordBatch) -> bool:
    """Return True if no turn of a batch began before its session did."""
    return all(turn.started is None or turn.started >= batch.created for turn in batch.turns)


def _created(batch: RecordBatch) -> int:
    return batch.created or ids.time_of(batch.session_uid)


def _update_session(db: apsw.Connection, session_id: int, batch: RecordBatch, *, is_new: bool) -> None:
    facts = batch.facts
    if batch.identity.parent_native_id is not None:
        _link_parent(db, session_id, batch)
    if not is_new and ids.time_of(batch.session_uid):
        # A log may begin with records without a time; the first one with a time counts.
        earlier = f"{'0' * 10}{batch.session_uid[10:]}"
        db.execute(
            "update sessions set uid = ?, created = strftime('%Y-%m-%dT%H:%M:%fZ', ? / 1000.0, 'unixepoch') "
            "where id = ? and substr(uid, 1, 10) = '0000000000'",
            (batch.session_uid, _created(batch), session_id),
        )
        if db.changes():
            decisions.follow_uid(db, earlier, batch.session_uid)
    db.execute(
        "update sessions set next_seq = ?, title = coalesce(?, title), cwd = coalesce(cwd, ?), "
        "branch = coalesce(?, branch), repository = coalesce(?, repository, ?), project = coalesce(project, ?), "
        # What began as a file beside a conversation is one when a turn comes.
        "root = coalesce(root, ?), relation = iif(? and relation = ?, null, relation), imported = null, "
        "last_active = max(coalesce(last_active, 0), coalesce(?, last_active, ?)) where id = ?",
        (
            batch.next_seq, facts.title, facts.cwd, facts.branch, repository_name(facts.repository),
            repository_name(batch.project), batch.project, batch.root, bool(batch.turns), Relation.UNREAD,
            batch.last_active, _created(batch), session_id,
        ),
    )  # fmt: skip
    if facts.title:
        titles.note_own(db, session_id)
    derived_tables.note_branches(db, session_id, facts.branches)
    derived_tables.note_values(db, session_id, facts.values)
    if batch.turns:
        run_facts.take(db, session_id)
        turns.sum_up(db, session_id)
    turns.follow(db, session_id, facts.leaf)


def _link_parent(db: apsw.Connection, session_id: int, batch: RecordBatch) -> None:
    """Store the parent session that a log names. The record with it may come after the first batch."""
    parent = ids.session_identity(ids.session_uid(batch.agent, batch.identity.parent_native_id or "", 0))
    db.execute(
        "update sessions set parent_identity = ?1, relation = ?2, "
        "parent_id = (select p.id from sessions p where substr(p.uid, 11) = ?1) "
        "where id = ?3 and (parent_identity is not ?1 or relation is not ?2)",
        (parent, batch.identity.relation, session_id),
    )


def rederive(db: apsw.Connection, batch: RecordBatch, *, events_too: bool) -> None:
    """Store the events of a log that was parsed again, under the existing numbers of its records.

    What is derived, and what today's adapter says of its turns; with ``events_too`` also its events, and turns that
    are new. When more of the log was read since, or all of it is not stored yet, it is not marked as derived.
    """
    session_id: int | None = db.execute("select id from sessions where uid = ?", (batch.session_uid,)).get
    if session_id is None:
        raise SessionNotFound(batch.session_uid)
    renamed, waiting = claims.known_as(db, session_id), WaitingTexts()
    read = [claims.renamed_turn(turn, renamed) for turn in batch.turns]
    if not events_too:
        # A turn that is new today would have no events.
        here = turns.ids_of(db, session_id, read)
        read = [turn for turn in read if turn.uid in here]
    _upsert_turns(db, session_id, read)
    rows = fetch(db, tuple[str, int], "select uid, id from turns where session_id = ?", (session_id,))
    here = dict(rows)
    turn_ids = here | {old: here[new] for old, new in renamed.items() if new in here}
    if events_too:
        for seq in sorted({event.seq for event in batch.events}):
            event_rows.delete_events(db, "session_id = ? and seq = ?", (session_id, seq))
        event_ids = insert_events(db, session_id, batch.log_id, batch.events, turn_ids, waiting)
        waiting.index(db)
        turns.forget_context(db, session_id)
    else:
        event_ids = _index_again(db, session_id, batch)
    if batch.answers and coverage.is_covered(db, session_id):
        turns.note_answers(db, turn_ids, {uid: text for uid, text in batch.answers.items() if uid in turn_ids})
    derived_tables.write(db, session_id, batch.found, turn_ids, event_ids)
    if batch.log_id is not None:
        titles.note_again(db, session_id, batch.log_id, batch.found)
    if batch.is_last:
        _mark_derived(db, session_id, batch, events_too=events_too)
        run_facts.apply(db, batch.log_id or 0)
        turns.sum_up(db, session_id)


def _index_again(db: apsw.Connection, session_id: int, batch: RecordBatch) -> dict[EventKey, int]:
    """Index the texts of stored events again; returns their ids."""
    if not batch.events:
        return {}
    rows = fetch(
        db,
        tuple[int, int, int],
        "select seq, part, id from events where session_id = ? and seq between ? and ?",
        (session_id, min(e.seq for e in batch.events), max(e.seq for e in batch.events)),
    )
    event_ids = {(seq, part): event_id for seq, part, event_id in rows}
    indexed = [(event_ids[e.seq, e.part], e) for e in batch.events if (e.seq, e.part) in event_ids]
    db.executemany("delete from search_index where rowid = ?", [(event_id,) for event_id, _ in indexed])
    event_rows.index_texts(db, session_id, [(event_id, e.seq, e.scope, e.text) for event_id, e in indexed if e.scope])
    return event_ids


def _mark_derived(db: apsw.Connection, session_id: int, batch: RecordBatch, *, events_too: bool) -> None:
    told_end = db.execute("select coalesce(told_to, read_to) from logs where id = ?", (batch.log_id,)).get
    if told_end != batch.expected_read_to:
        # Another process has read more meanwhile; the next ingest derives all of it again.
        db.execute("update logs set derived = 0 where id = ?", (batch.log_id,))
        return
    pending = codec.pack_text(batch.pending) if batch.pending else None
    db.execute("update logs set derived = ?, pending = ? where id = ?", (derived_tables.VERSION, pending, batch.log_id))
    if batch.created:
        _note_created(db, session_id, batch.log_id or 0, batch.created)
    derived_tables.note_branches(db, session_id, batch.facts.branches)
    derived_tables.note_values(db, session_id, batch.facts.values)
    if events_too and batch.kind == FILE:
        facts = batch.facts
        state = codec.pack_text(batch.state) if batch.state else None
        db.execute("update logs set state = ? where id = ?", (state, batch.log_id))
        db.execute(
            "update sessions set title = coalesce(?, title), cwd = coalesce(cwd, ?), branch = coalesce(?, branch), "
            "repository = coalesce(?, repository) where id = ? and owner is null",
            (facts.title, facts.cwd, facts.branch, repository_name(facts.repository), session_id),
        )
        if facts.title:
            titles.note_own(db, session_id)
        turns.follow(db, session_id, facts.leaf)
