"""The calls that failed, and those that took long. Never commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.derive import call_words
from backstory.model import ToolCall, ToolResult, event_from_json
from backstory.store import kinds, turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import apsw

    from backstory.store.codec import EventCodec
    from backstory.store.habits import Known

SLOW_MS = 5_000
"""A call that took less is not looked at, unless it failed."""
OUTPUT_CHARS = 400
TURNS_AT_ONCE = 500


class HabitCall(Struct, frozen=True, kw_only=True):
    """A call. ``turn``: its uid; ``words``: what its script is for; ``reading``: of one that only reads, its words."""

    session: str
    context: str
    turn: str
    agent: str
    seq: int
    at: int | None
    tool_name: str
    tool: str
    words: tuple[str, ...]
    reading: tuple[str, ...]
    path: str | None
    is_error: bool
    output: str
    """The beginning of what it returned, if it failed."""
    error: str
    """What it failed with, in words that recur."""
    duration_ms: int | None
    """As its agent reports, else until its result came."""


def failed(db: apsw.Connection, known: Known) -> Iterator[HabitCall]:
    """The calls that failed."""
    yield from _calls(db, known, _FAILED, kinds.json_list(known.turns))


def slow(db: apsw.Connection, known: Known, report: Callable[[int, int], None]) -> Iterator[HabitCall]:
    """The calls that took long and did not fail, of turns that took long. ``report`` is told of the second half."""
    long = [id_ for id_, each in known.turns.items() if (each.ended or 0) - each.started >= SLOW_MS]
    for start in range(0, len(long), TURNS_AT_ONCE):
        report(len(long) + start, 2 * len(long))
        yield from _calls(db, known, _SLOW, kinds.json_list(long[start : start + TURNS_AT_ONCE]))


def counts(db: apsw.Connection, turn_ids: Sequence[int]) -> dict[str, int]:
    """How many calls each of these turns has, by its uid."""
    return {str(uid): int(count) for uid, count in db.execute(_COUNTS, (kinds.json_list(turn_ids),))}


def _calls(db: apsw.Connection, known: Known, sql: str, ids: str) -> Iterator[HabitCall]:
    codecs: dict[int, EventCodec] = {}
    for turn_id, session_id, seq, at, is_error, took, data, result in db.execute(sql, (ids,)):
        call = event_from_json(turns.unpack_event(db, codecs, data))
        came = event_from_json(turns.unpack_event(db, codecs, result))
        if not isinstance(call, ToolCall) or not isinstance(came, ToolResult):
            continue
        turn = known.turns[turn_id]
        output = came.content[:OUTPUT_CHARS] if is_error else ""
        yield HabitCall(
            session=known.listed[session_id], context=known.contexts[session_id], turn=turn.uid, agent=turn.agent,
            seq=seq, at=at, tool_name=call.tool_name, tool=call.tool, words=call_words.script_words(call),
            reading=call_words.reading_words(call), path=call.file_path, is_error=bool(is_error), output=output,
            error=call_words.error_words(output), duration_ms=took if came.duration_ms is None else came.duration_ms,
        )  # fmt: skip


_COLUMNS = "e.turn_id, e.session_id, e.seq, e.at, c.is_error, r.at - e.at, e.data, r.data"
_FAILED = f"""
select {_COLUMNS} from call_results c cross join events e on e.id = c.call_id cross join events r on r.id = c.result_id
where c.is_error = 1 and e.turn_id in (select value from json_each(?))
"""
"""Few calls fail, so these are found first."""
_OF_TURNS = f"""
from turns t cross join events e on e.session_id = t.session_id and e.seq between t.first_seq and t.last_seq
  and e.turn_id = t.id and e.kind in {kinds.CALLS}
"""
_SLOW = f"""
select {_COLUMNS} {_OF_TURNS}
cross join call_results c on c.call_id = e.id cross join events r on r.id = c.result_id
where t.id in (select value from json_each(?)) and c.is_error = 0 and r.at - e.at >= {SLOW_MS}
"""
_COUNTS = f"select t.uid, count(*) {_OF_TURNS} where t.id in (select value from json_each(?)) group by t.id"
