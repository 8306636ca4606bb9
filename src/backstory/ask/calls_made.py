"""Calls of tools with what came of each. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.model import ToolCall, ToolResult, event_from_json
from backstory.store import codec, schema
from backstory.store.tables import turns

if TYPE_CHECKING:
    import apsw


class CallMade(Struct, frozen=True, kw_only=True):
    """A call in its compact form, and its result, if that came. ``turn_id``: None before the first prompt."""

    session_id: int
    seq: int
    part: int
    turn_id: int | None
    at: int | None
    call: ToolCall
    result_seq: int | None
    result: ToolResult | None
    is_error: bool
    exit_code: int | None

    @property
    def failed(self) -> bool:
        """True if its agent, or its exit code, says that it failed."""
        return self.is_error or self.exit_code not in (0, None)


_COLUMNS = """
select e.session_id, e.seq, e.part, e.turn_id, e.at, e.data, r.seq, r.data, c.is_error, c.exit_code
from events e left join call_results c on c.call_id = e.id left join events r on r.id = c.result_id
"""


def of_session(db: apsw.Connection, session_id: int, after: int, limit: int) -> list[CallMade]:
    """The calls of a session behind a record, in order; of branches that were removed none."""
    rows = db.execute(
        f"{_COLUMNS} where e.session_id = ? and e.seq > ? and e.kind in {schema.CALLS} "
        "and not exists (select 1 from turns t where t.id = e.turn_id and t.removed is not null) "
        "order by e.seq, e.part limit ?",
        (session_id, after, limit),
    ).fetchall()
    return _calls(db, rows)


def of_event(db: apsw.Connection, event_id: int) -> CallMade | None:
    """The call that an event is, or whose result it is; None for any other event."""
    rows = db.execute(
        # A result's call is looked for from the result backwards: no index leads to it.
        f"{_COLUMNS} where e.kind in {schema.CALLS} and e.id = coalesce((select k.id from events a "
        f"join events k on k.session_id = a.session_id and k.seq <= a.seq and k.kind in {schema.CALLS} "
        "join call_results w on w.call_id = k.id where a.id = ?1 and w.result_id = ?1 "
        "order by k.seq desc limit 1), ?1)",
        (event_id,),
    ).fetchall()
    return next(iter(_calls(db, rows)), None)


def _calls(db: apsw.Connection, rows: list[Any]) -> list[CallMade]:
    codecs: dict[int, codec.EventCodec] = {}
    found = []
    for session_id, seq, part, turn_id, at, call, result_seq, result, is_error, exit_code in rows:
        called = event_from_json(turns.unpack_event(db, codecs, call))
        answered = None if result is None else event_from_json(turns.unpack_event(db, codecs, result))
        if not isinstance(called, ToolCall):
            continue
        found.append(
            CallMade(
                session_id=session_id, seq=seq, part=part, turn_id=turn_id, at=at, call=called, result_seq=result_seq,
                result=answered if isinstance(answered, ToolResult) else None, is_error=bool(is_error),
                exit_code=exit_code,
            )
        )  # fmt: skip
    return found
