"""What was done in sessions: their turns, their calls and the files that they changed. Never commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from backstory.model import Relation, ToolCall, ToolResult, event_from_json
from backstory.store import kinds, turns
from backstory.store.rows import fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import apsw

    from backstory.store.codec import EventCodec


class WorkTurn(NamedTuple):
    """A turn. Times are in ms since 1970; ``answer``: the last thing the model said, '' for nothing."""

    session_id: int
    uid: str
    seq: int
    prompt: str
    started: int | None
    ended: int | None
    outcome: str | None
    stop_reason: str | None
    answer: str


class WorkCall(Struct, frozen=True, kw_only=True):
    """A call. ``is_error``: whether it failed; None where nobody knows. ``changed``: the files that it changed.

    ``output``: what it returned, as far as a store keeps that unpacked; None where nobody asked for it.
    """

    session_id: int
    turn_uid: str | None
    seq: int
    at: int | None
    call: ToolCall
    is_error: bool | None
    changed: tuple[str, ...]
    output: str | None = None


def of_sessions(
    db: apsw.Connection, session_ids: Sequence[int], needs_output: Callable[[ToolCall], bool]
) -> tuple[list[WorkTurn], list[WorkCall]]:
    """The turns of these sessions, and their calls with those of their subagents. ``needs_output``: of which calls."""
    below = [each for (each,) in fetch(db, tuple[int], _BELOW, (kinds.json_list(session_ids),))]
    return turns_of(db, session_ids), list(calls_of(db, [*session_ids, *below], needs_output))


def turns_of(db: apsw.Connection, session_ids: Sequence[int]) -> list[WorkTurn]:
    """The turns of these sessions that no person removed, in the order of their prompts."""
    return fetch(db, WorkTurn, _TURNS, (kinds.json_list(session_ids),))


def calls_of(
    db: apsw.Connection, session_ids: Sequence[int], needs_output: Callable[[ToolCall], bool]
) -> Iterator[WorkCall]:
    """The calls of these sessions in the order of their records."""
    ids = kinds.json_list(session_ids)
    changed: dict[tuple[int, int, int], list[str]] = {}
    for session_id, seq, part, path in fetch(db, tuple[int, int, int, str], _CHANGED, (ids,)):
        changed.setdefault((session_id, seq, part), []).append(path)
    codecs: dict[int, EventCodec] = {}
    for session_id, turn_uid, seq, part, at, data, is_error, result_id in db.execute(_CALLS, (ids,)):
        event = event_from_json(turns.unpack_event(db, codecs, data))
        if isinstance(event, ToolCall):
            yield WorkCall(
                session_id=session_id, turn_uid=turn_uid, seq=seq, at=at, call=event,
                is_error=None if is_error is None else bool(is_error),
                changed=tuple(changed.get((session_id, seq, part), ())),
                output=_output(db, codecs, result_id) if result_id is not None and needs_output(event) else None,
            )  # fmt: skip


def _output(db: apsw.Connection, codecs: dict[int, EventCodec], event_id: int) -> str | None:
    data = db.execute("select data from events where id = ?", (event_id,)).get
    event = None if data is None else event_from_json(turns.unpack_event(db, codecs, data))
    return event.content if isinstance(event, ToolResult) else None


_BELOW = f"""
with recursive below(id) as (
  select id from sessions where relation = '{Relation.SUBAGENT}' and parent_id in (select value from json_each(?))
  union select s.id from sessions s join below b on s.parent_id = b.id where s.relation = '{Relation.SUBAGENT}'
)
select id from below
"""
_TURNS = """
select t.session_id, t.uid, t.first_seq, t.prompt, t.started, t.ended, t.outcome, t.stop_reason, coalesce(x.answer, '')
from turns t left join turn_texts x on x.turn_id = t.id
where t.removed is null and t.session_id in (select value from json_each(?)) order by t.session_id, t.first_seq, t.id
"""
_CALLS = f"""
select e.session_id, t.uid, e.seq, e.part, e.at, e.data, c.is_error, c.result_id
from events e left join turns t on t.id = e.turn_id left join call_results c on c.call_id = e.id
where e.kind in {kinds.CALLS} and e.session_id in (select value from json_each(?)) order by e.session_id, e.seq, e.part
"""
_CHANGED = """
select f.session_id, t.seq, t.part, coalesce(t.to_path, f.file_path)
from session_files f join file_touches t on t.file_id = f.id
where t.action <> 'read' and f.session_id in (select value from json_each(?))
"""
