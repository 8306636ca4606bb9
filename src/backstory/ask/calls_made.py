"""Calls of tools with what came of each. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.model import ToolCall, ToolResult, event_from_json
from backstory.store import codec, schema
from backstory.store.schema import fetch
from backstory.store.tables import session_filter

if TYPE_CHECKING:
    from collections.abc import Collection

    import apsw

    from backstory.store.moves import Moves


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
        called = event_from_json(codec.unpack_event(db, codecs, call))
        answered = None if result is None else event_from_json(codec.unpack_event(db, codecs, result))
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


# file history ---------------------------------------------------------------------------------------------------------
# Calls that touched a file, and their sessions. Reads only.


class TouchingCall(Struct, frozen=True):
    """A call that read or changed a file: its session's id, the file, its record, what it did, when, in which turn.

    ``action``: read, edit, create, delete or rename; ``at``: ms since 1970.
    """

    session_id: int
    path: str
    seq: int
    action: str
    at: int | None
    turn_uid: str | None
    prompt: str | None


TOUCHES_MAX = 20_000
"""The newest touches of a file are looked at, no more than these."""


def touches(db: apsw.Connection, path: str, session_ids: Collection[int], moves: Moves | None) -> list[TouchingCall]:
    """The touches of a file or folder in these sessions, the newest first; each call once, where it was made first."""
    patterns = session_filter.patterns_of([path, *(moves.earlier(path) if moves else [])])
    named, renamed = (" or ".join(f"{column} glob ?" for _ in patterns) for column in ("file_path", "to_path"))
    ids = schema.json_list(session_ids)
    # Crossed, so that the few files are found first: without statistics all touches would be looked through.
    rows = fetch(
        db,
        TouchingCall,
        f"with files(id) as materialized (select id from session_files where ({named}) "
        "and session_id in (select value from json_each(?)) union "
        f"select file_id from file_touches where to_path is not null and ({renamed})) "
        "select f.session_id, f.file_path, t.seq, t.action, e.at, u.uid, u.prompt from files n "
        "cross join session_files f on f.id = n.id "
        "cross join file_touches t on t.file_id = f.id "
        "cross join events e on e.session_id = f.session_id and e.seq = t.seq and e.part = t.part "
        "left join turns u on u.id = e.turn_id "
        "where f.session_id in (select value from json_each(?)) and u.removed is null "
        "order by e.at desc, f.session_id, t.seq desc limit ?",
        (*patterns, ids, *patterns, ids, TOUCHES_MAX),
    )
    first: dict[tuple[str | None, str, int | None, str], int] = {}
    for each in rows:
        key = each.turn_uid, each.path, each.at, each.action
        first[key] = min(first.get(key, each.session_id), each.session_id)
    return [each for each in rows if first[each.turn_uid, each.path, each.at, each.action] == each.session_id]
