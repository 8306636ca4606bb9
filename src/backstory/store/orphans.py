"""What a crash leaves in a store, found and closed. Never commits.

A run whose spool is lost has no ending: nobody will ever store the rest of it. What came of it stays; calls without a
result are told as such, and the turn as crashed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.model import Complete, Error, Event, Outcome, ToolResult, event_from_json
from backstory.store import claims, codec, kinds, runs, schema, slices, turns

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


def found(db: apsw.Connection, running: Container[str]) -> list[tuple[int, str, int, int, str]]:
    """The turns of this store's own runs that have no ending, but for ``running``: (id, uid, seq) and the session's."""
    rows: list[Any] = db.execute(
        "select t.id, t.uid, t.first_seq, s.id, s.uid from turns t join sessions s on s.id = t.session_id "
        "where s.owner = (select value from meta where key = 'store_id') and t.outcome is null "
        # What is stored of a run says how long its context was; turns of other makers say nothing of it.
        "and t.prefix_chars is not null order by t.id"
    ).fetchall()
    return [row for row in rows if row[1] not in running]


def cleanup(db: apsw.Connection, running: Container[str], now: int) -> list[Orphan]:
    """Close these turns, and tell which they were."""
    return [
        _close(db, turn_id, turn_uid, first_seq, session_id, session_uid, now)
        for turn_id, turn_uid, first_seq, session_id, session_uid in found(db, running)
    ]


def _close(
    db: apsw.Connection, turn_id: int, turn_uid: str, first_seq: int, session_id: int, session_uid: str, now: int
) -> Orphan:
    codecs: dict[int, codec.EventCodec] = {}
    rows: list[Any] = db.execute(
        f"select kind, data from events where session_id = ? and turn_id = ? and kind in {kinds.TOOLS} "
        "order by seq, part",
        (session_id, turn_id),
    ).fetchall()
    calls: dict[str, Any] = {}
    for _, data in rows:
        event = event_from_json(turns.unpack_event(db, codecs, data))
        if isinstance(event, ToolResult):
            calls.pop(event.tool_use_id, None)
        else:
            calls[event.tool_use_id] = event  # type: ignore[attr-defined]
    told: list[Event] = [
        ToolResult(
            tool_use_id=call.tool_use_id, tool_name=call.tool_name, tool=call.tool, file_path=call.file_path,
            content=NO_RESULT, is_error=True,
        )
        for call in calls.values()
    ]  # fmt: skip
    told += [Error(message=CUT_OFF), Complete(success=False)]
    seq = int(db.execute("select next_seq from sessions where id = ?", (session_id,)).get)
    packed = [slices.packed(event, seq + n, 0, turn_uid, now, None, None) for n, event in enumerate(told)]
    slices.insert_events(db, session_id, None, packed, {turn_uid: turn_id})
    last_seq = seq + len(told) - 1
    db.execute(
        "update turns set outcome = ?, stop_reason = ?, last_seq = ?, ended = coalesce(ended, ?) where id = ?",
        (Outcome.CRASHED, runs.LOST, last_seq, now, turn_id),
    )
    db.execute(
        f"update sessions set next_seq = ?, {schema.running_id_column()} = '' where id = ?", (last_seq + 1, session_id)
    )
    claims.settle(db, session_id, turn_uid)
    turns.sum_up(db, session_id)
    return Orphan(session_uid=session_uid, turn_uid=turn_uid, seq=first_seq, calls=len(calls))
