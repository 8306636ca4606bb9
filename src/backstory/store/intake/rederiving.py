"""A session derived again from the bytes that are kept: what is derived, and if wanted its events. Never commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.model import LogIdentity, Record, UserMessage, event_from_json
from backstory.store import codec
from backstory.store.intake import claims, coverage, derived_tables
from backstory.store.intake.batches import BatchContent, RecordBatch
from backstory.store.schema import fetch
from backstory.store.tables import compactions, event_rows, lent, logs, sidecars, titles, turns
from backstory.store.tables import sessions as stored_sessions

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw


_TOLD_END = "coalesce(told_to, read_to)"


def sessions(db: apsw.Connection, *, only_stale: bool) -> list[int]:
    """The sessions to derive again: all, or those with a log that an earlier version derived."""
    stale = "where exists (select 1 from logs where session_id = s.id and derived < ?)" if only_stale else "where ? > 0"
    rows = db.execute(f"select s.id from sessions s {stale} order by s.id", (derived_tables.VERSION,))
    return [int(str(found)) for (found,) in rows]


def left(db: apsw.Connection) -> tuple[int, int]:
    """Return how many sessions have a log that an earlier version derived, and the bytes of these logs."""
    found = "select count(distinct session_id), coalesce(sum(read_to), 0) from logs where derived < ?"
    return fetch(db, tuple[int, int], found, (derived_tables.VERSION,))[0]


def clear(db: apsw.Connection, session_id: int) -> None:
    """Remove what is derived of a session; its logs say that it is to be derived. Parts are numbered as today."""
    # First, because what is derived anew names events by today's numbers.
    event_rows.number_parts(db, session_id)
    derived_tables.clear(db, session_id)
    titles.clear(db, session_id)
    db.execute("delete from turn_texts where turn_id in (select id from turns where session_id = ?)", (session_id,))
    db.execute("update logs set derived = 0 where session_id = ?", (session_id,))
    if not coverage.is_covered(db, session_id):
        coverage.clear(db, session_id)
    # They are no part of what is derived, but their place in the index is.
    compactions.index(db, session_id)


def drop_logs(db: apsw.Connection, log_ids: Sequence[int], in_favour_of: int) -> None:
    """Remove logs whose records another one of the session holds, too; what lies beside them goes on with that."""
    for log_id in log_ids:
        session = db.execute("select session_id from logs where id = ?", (log_id,)).get
        # The file of the log that goes is known and gives nothing new, so it stays noted.
        db.execute("update log_places set log_id = ? where log_id = ?", (in_favour_of, log_id))
        logs.keep_stamps(db, "id = ?", log_id, log_id=in_favour_of)
        event_rows.delete_events(db, "session_id = ? and log_id = ?", (session, log_id))
        # Before the row goes: sidecars go with their log.
        sidecars.move(db, log_id, in_favour_of)
        event_rows.delete_files(db, "log_id = ?", (log_id,))
        db.execute("delete from logs where id = ?", (log_id,))
    lent.settle(db)


def replace_unread(db: apsw.Connection, log_id: int, understood: int) -> bool:
    """Remove a log that nobody understood, and its session, if another log holds all of its bytes by now."""
    old, new = logs.get(db, log_id), logs.get(db, understood)
    # Bytes are never dropped before another log has them.
    if old is None or new is None or new.read_to < old.read_to:
        return False
    drop_logs(db, [log_id], understood)
    stored_sessions.drop_read(db, understood)
    return True


def drop_all_reported(db: apsw.Connection, log_ids: Sequence[int]) -> None:
    """Remove logs that were made of what other logs report, with all that they hold: the session is read anew."""
    for log_id in log_ids:
        drop_reported(db, log_id)


def drop_reported(db: apsw.Connection, log_id: int) -> None:
    """Remove a log that was made of what another one reports; if it was its session's only one, with all its events."""
    session_id = db.execute("select session_id from logs where id = ?", (log_id,)).get
    event_rows.delete_events(db, "session_id = ? and log_id = ?", (session_id, log_id))
    event_rows.delete_files(db, "log_id = ?", (log_id,))
    db.execute("delete from logs where id = ?", (log_id,))
    if not db.execute("select exists (select 1 from logs where session_id = ?)", (session_id,)).get:
        clear(db, session_id)
        db.execute("delete from turns where session_id = ?", (session_id,))
        # Its records are numbered as where this log had never been.
        db.execute("update sessions set next_seq = 1, leaf_uid = null, leaf_seq = null where id = ?", (session_id,))


def unlogged(db: apsw.Connection, session_id: int) -> RecordBatch | None:
    """Return the part of a session that no log holds: the prompts of runs, and how they ended."""
    rows = fetch(
        db,
        tuple[int, int, int | None, bytes | str, str | None, str | None, str],
        "select e.seq, e.part, e.at, e.data, t.uid, t.prompt, s.uid from events e "
        "join sessions s on s.id = e.session_id left join turns t on t.id = e.turn_id "
        "where e.session_id = ? and e.log_id is null order by e.seq, e.part",
        (session_id,),
    )
    content, codecs = BatchContent(), dict[int, codec.EventCodec]()
    for seq, part, at, data, turn_uid, prompt, _ in rows:
        event = event_from_json(codec.unpack_event(db, codecs, data))
        whole = UserMessage(content=prompt) if isinstance(event, UserMessage) and prompt else event
        content.add(Record([(part, whole)], turn_uid, at), seq, None)
    if not rows:
        return None
    batch = RecordBatch(
        agent="", identity=LogIdentity(native_id=""), session_uid=rows[0][-1], kind=None, expected_next_seq=0,
        next_seq=0,
    )  # fmt: skip
    # The events are stored already; only what is derived of them is wanted.
    content.move_to(batch, None).events = []
    return batch


def drop_turns_but(db: apsw.Connection, session_id: int, derived: set[str], read: dict[int, int]) -> None:
    """Remove the turns of a session that today's adapter does not emit any more.

    Nothing is removed if a log is another one or longer than what was ``read``: another process added more meanwhile.
    """
    now = fetch(db, tuple[int, int], f"select id, {_TOLD_END} from logs where session_id = ?", (session_id,))
    if dict(now) != read:
        return
    renamed = claims.known_as(db, session_id)
    # The adapter says the log's own uids; here a turn may have that of its run.
    kept = {renamed.get(uid, uid) for uid in derived}
    rows = fetch(db, tuple[int, str], "select id, uid from turns where session_id = ?", (session_id,))
    db.executemany("delete from turns where id = ?", [(turn_id,) for turn_id, uid in rows if uid not in kept])
    turns.sum_up(db, session_id)


def mark_missing(db: apsw.Connection, log_ids: list[int], now: int) -> int:
    """Note which logs' files are gone, and since when that is known; gives how many sessions have none left."""
    gone = set(log_ids)
    known = fetch(db, tuple[int, int | None], "select id, gone from logs where kind = 'file'")
    db.executemany(
        "update logs set gone = ? where id = ?",
        [
            (now if log_id in gone else None, log_id)
            for log_id, since in known
            if (log_id in gone) != (since is not None)
        ],
    )
    return int(
        db.execute(
            "select count(*) from sessions s where s.owner is null "
            "and exists (select 1 from logs where session_id = s.id) "
            "and not exists (select 1 from logs where session_id = s.id and gone is null)"
        ).get
    )
