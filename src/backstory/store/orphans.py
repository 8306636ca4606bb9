"""What a crash leaves in a store, found and closed. Never commits.

A run whose spool is lost has no ending: nobody will ever store the rest of it. What came of it stays; calls without a
result are closed as such, and the turn as crashed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.model import Complete, Error, Event, LogIdentity, Record, ToolCall, ToolResult, Turn, event_from_json
from backstory.store import codec, kinds, runs, turns
from backstory.store.batches import BatchContent, RecordBatch, RunPart
from backstory.store.rows import fetch

if TYPE_CHECKING:
    from collections.abc import Container

    import apsw

CUT_OFF = "The run was cut off, and what it said last is lost."
"""What a turn is closed with."""
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
    """What it takes to close one."""
    codecs: dict[int, codec.EventCodec] = {}
    rows = fetch(
        db,
        tuple[str, bytes | str],
        f"select kind, data from events where session_id = ? and turn_id = ? and kind in {kinds.TOOLS} "
        "order by seq, part",
        (session_id, turn_id),
    )
    calls: dict[str, Any] = {}
    for _, data in rows:
        event = event_from_json(turns.unpack_event(db, codecs, data))
        if isinstance(event, ToolResult):
            calls.pop(event.tool_use_id, None)
        else:
            calls[event.tool_use_id] = event  # type: ignore[attr-defined]
    (turn,) = (each for each in turns.of_session(db, session_id) if each.uid == turn_uid)
    orphan = Orphan(session_uid=session_uid, turn_uid=turn_uid, seq=turn.first_seq, calls=len(calls))
    return Left(orphan, turn, runs.start_of(db, session_id).next_seq, list(calls.values()))


def closing(left: Left, now: int) -> RecordBatch:
    """What closes such a turn."""
    turn_uid, content = left.turn.uid, BatchContent()
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
        run=RunPart(turn_uid=turn_uid, is_last=True, is_lost=True), expected_next_seq=left.next_seq,
        next_seq=left.next_seq + len(closing), turns=[left.turn],
    )  # fmt: skip
    return content.move_to(batch, None)
