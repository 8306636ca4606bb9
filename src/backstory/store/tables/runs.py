"""The beginning of a run of ours in its session, and its stored part. Functions take the connection, never commit.

A run's first batch begins its turn, the last one sets the outcome. A turn without an outcome was left by a process that
was killed between two; the next first batch of the same run takes its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.conversation.tree import Point
from backstory.errors import SessionNotFound
from backstory.model import Complete, Error, Event, LogIdentity, Record, ToolCall, ToolResult, Turn, event_from_json
from backstory.store import codec, schema
from backstory.store.intake.batches import BatchContent, BatchRun, RecordBatch
from backstory.store.schema import fetch, fetch_one
from backstory.store.tables import branches, turns

if TYPE_CHECKING:
    from collections.abc import Container

    import apsw


LOST = "lost"
"""The stop_reason of a turn that was found open after a crash."""


class RunStart(Struct, frozen=True):
    """The state of a store before a run is written: the number of its prompt, and the point that it follows.

    ``was_begun``: its turn is there without an outcome, and is replaced.
    """

    next_seq: int = 1
    leaf: Point | None = None
    was_begun: bool = False


def start_of(db: apsw.Connection, session_id: int, turn_uid: str | None = None) -> RunStart:
    """Return where the run of this turn begins. For a turn that was begun and left, ``leaf`` is what that followed."""
    left = fetch_one(
        db,
        tuple[int, str | None, int],
        "select id, parent_uid, parent_seq from turns where session_id = ? and uid = ?",
        (session_id, turn_uid),
    )
    if left is None:
        # Another program may have added events by hand, which leaves next_seq behind.
        next_seq = db.execute(
            "select max(next_seq, coalesce((select max(seq) + 1 from events where session_id = ?1), 1)) "
            "from sessions where id = ?1",
            (session_id,),
        ).get
        return RunStart(int(next_seq), branches.leaf(db, session_id))
    turn_id, parent_uid, parent_seq = left
    next_seq = db.execute(
        "select 1 + max(coalesce((select max(seq) from events where session_id = ?1 and turn_id is not ?2), 0), "
        "coalesce((select max(last_seq) from turns where session_id = ?1 and id <> ?2), 0))",
        (session_id, turn_id),
    ).get
    return RunStart(int(next_seq), None if parent_uid is None else Point(parent_uid, parent_seq), was_begun=True)


def start_in(db: apsw.Connection, session_uid: str, turn_uid: str) -> RunStart:
    """Return where a run begins in the session with this uid; raises SessionNotFound."""
    session_id = db.execute("select id from sessions where uid = ?", (session_uid,)).get
    if session_id is None:
        raise SessionNotFound(session_uid)
    return start_of(db, session_id, turn_uid)


def is_stored(db: apsw.Connection, session_uid: str, turn_uid: str) -> bool:
    """Return True if the whole run is in the store; False for one closed as lost, which may come after all."""
    # Its spool may turn up later, on a disk that was not mounted.
    return _ended(db, session_uid, turn_uid, "and t.stop_reason is not ?", LOST)


def has_ended(db: apsw.Connection, session_uid: str, turn_uid: str) -> bool:
    """Return True if a run is over as far as the store knows, also one of which the rest is lost."""
    return _ended(db, session_uid, turn_uid)


def _ended(db: apsw.Connection, session_uid: str, turn_uid: str, condition: str = "", *values: str) -> bool:
    return bool(
        db.execute(
            "select count(*) from turns t join sessions s on s.id = t.session_id "
            f"where s.uid = ? and t.uid = ? and t.outcome is not null {condition}",
            (session_uid, turn_uid, *values),
        ).get
    )


def note_native_id(db: apsw.Connection, session_uid: str, native_id: str) -> None:
    """Note the agent's own id of a session that runs; the run's end takes it away."""
    column = schema.running_id_column()
    # What is noted already is not written again: a transaction that changes nothing waits for no disk.
    db.execute(f"update sessions set {column} = ?1 where uid = ?2 and {column} is not ?1", (native_id, session_uid))


def native_ids(db: apsw.Connection) -> dict[str, str]:
    """The agents' ids of this store's sessions that run, or whose run waits to be stored, by the sessions' uids."""
    rows = fetch(
        db,
        tuple[str, str],
        "select uid, last_native_id from sessions where last_native_id <> '' "
        "and owner = (select value from meta where key = 'store_id')",
    )
    return dict(rows)


def drop_native_ids(db: apsw.Connection, gone: dict[str, str]) -> None:
    """Take away the ids of sessions of which no run will be stored any more, unless they have another one by now."""
    column = schema.running_id_column()
    # Compared with the id that was read: a run that began since has noted its own.
    db.executemany(f"update sessions set {column} = '' where uid = ? and {column} = ?", list(gone.items()))


# what a crash leaves --------------------------------------------------------------------------------------------------


CUT_OFF = "The run was cut off, and what it said last is lost."
"""The error that closes such a turn."""
NO_RESULT = "There is no result: the run was cut off."


class Orphan(Struct, frozen=True, kw_only=True):
    """A turn that a crash left open, and that is closed now."""

    session_uid: str
    turn_uid: str
    seq: int
    """The number of its prompt."""
    calls: int
    """Calls that never got a result."""


class Left(Struct, frozen=True):
    """A turn that a crash left open, with what it takes to close it."""

    orphan: Orphan
    turn: Turn
    next_seq: int
    calls: list[ToolCall]


def found(db: apsw.Connection, running: Container[str]) -> list[tuple[int, str, int, str]]:
    """The turns of this store's own runs that have no ending, but for ``running``: (id, uid) and the session's."""
    rows = fetch(
        db,
        tuple[int, str, int, str],
        "select t.id, t.uid, s.id, s.uid from turns t join sessions s on s.id = t.session_id "
        "where s.owner = (select value from meta where key = 'store_id') and t.outcome is null "
        # What is stored of a run says how long its context was; turns of other makers say nothing of it.
        "and t.prefix_chars is not null order by t.id",
    )
    return [row for row in rows if row[1] not in running]


def left(db: apsw.Connection, turn_id: int, turn_uid: str, session_id: int, session_uid: str) -> Left:
    """Return the facts needed to close one."""
    codecs: dict[int, codec.EventCodec] = {}
    rows = fetch(
        db,
        tuple[str, bytes | str],
        f"select kind, data from events where session_id = ? and turn_id = ? and kind in {schema.TOOLS} "
        "order by seq, part",
        (session_id, turn_id),
    )
    calls: dict[str, Any] = {}
    for _, data in rows:
        event = event_from_json(codec.unpack_event(db, codecs, data))
        if isinstance(event, ToolResult):
            calls.pop(event.tool_use_id, None)
        else:
            calls[event.tool_use_id] = event  # type: ignore[attr-defined]
    (turn,) = (each for each in turns.of_session(db, session_id) if each.uid == turn_uid)
    orphan = Orphan(session_uid=session_uid, turn_uid=turn_uid, seq=turn.first_seq, calls=len(calls))
    return Left(orphan, turn, start_of(db, session_id).next_seq, list(calls.values()))


def closing(left: Left, now: int) -> RecordBatch:
    """Return the batch that closes such a turn."""
    turn_uid, content = left.turn.uid, BatchContent()
    # Every call gets a result, so that no reader of the session waits for one for ever.
    closing: list[Event] = [
        ToolResult(
            tool_use_id=call.tool_use_id, tool_name=call.tool_name, tool=call.tool, file_path=call.file_path,
            content=NO_RESULT, is_error=True,
        )
        for call in left.calls
    ]  # fmt: skip
    closing += [Error(message=CUT_OFF), Complete(success=False)]
    for n, event in enumerate(closing):
        content.add(Record([(0, event)], turn_uid, now), left.next_seq + n, None)
    batch = RecordBatch(
        agent="", identity=LogIdentity(native_id=""), session_uid=left.orphan.session_uid, kind=None,
        run=BatchRun(turn_uid=turn_uid, is_last=True, is_lost=True), expected_next_seq=left.next_seq,
        next_seq=left.next_seq + len(closing), turns=[left.turn],
    )  # fmt: skip
    return content.move_to(batch, None)
