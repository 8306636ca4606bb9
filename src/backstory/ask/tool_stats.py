"""Counts of calls by tool, each call once. Functions take the connection, never commit.

What a call says is packed, so each of them is unpacked: this takes longer than sums over turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory.ask.costs import Costs
from backstory.ask.stats import copies_among, elsewhere_among, members_of, runs_among
from backstory.store import codec, schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import apsw

    from backstory.ask.stats import StatsQuestion
    from backstory.derive.pricing import PriceTable
    from backstory.store.codec import EventCodec

SESSIONS_AT_ONCE = 200


class ToolCalls(Struct, kw_only=True):
    """The calls of one tool. ``sessions`` are any numbers that tell sessions apart."""

    calls: int = 0
    failed: int = 0
    """Calls whose result is an error."""
    without_result: int = 0
    """Calls of which nobody knows how they ended."""
    sessions: set[int] = field(default_factory=set)


class _Called(Struct):
    tool_name: str = ""


class _Event(Struct):
    """The part of an event that tells which tool was called."""

    call: _Called = field(default_factory=_Called, name="ToolCall")


def add_calls(
    db: apsw.Connection, prices: PriceTable, asked: StatsQuestion, tools: dict[str, ToolCalls], number: int,
    only: str | None = None,
) -> None:  # fmt: skip
    """Add the calls that were made in the sessions that are listed, and by their subagents, by tool.

    A call in a copy of a turn counts where the turn does. ``number`` is as in ``stats.add_turns``. ``only``: those of
    this tool, by the uid of the session that is listed.
    """
    costs = Costs(db, prices, estimates=False)
    roots, root_of = members_of(db, costs, asked)
    decoder = msgspec.json.Decoder(_Event)
    codecs: dict[int, EventCodec] = {}
    copied = copied_turns(db, costs, asked, root_of)
    for session_id, turn_id, data, at, is_error in _rows(db, asked, sorted(root_of)):
        if turn_id in copied or (asked.is_ranged and (at is None or not asked.includes(at))):
            continue
        name = decoder.decode(codec.unpack_event(db, codecs, data)).call.tool_name
        if only is not None:
            if name != only:
                continue
            name = roots[root_of[session_id]][1]
        found = tools.setdefault(name, ToolCalls())
        found.calls += 1
        found.failed += is_error == 1
        found.without_result += is_error is None
        found.sessions.add(number << 48 | root_of[session_id])


def copied_turns(db: apsw.Connection, costs: Costs, asked: StatsQuestion, root_of: Mapping[int, int]) -> set[int]:
    """The turns whose calls count elsewhere."""
    rows, runs = copies_among(db, root_of), runs_among(db, costs)
    hidden = costs.shown_as({each.other_session for each in rows})
    found = {each.turn for each in rows if each.other_session not in hidden and each.other_turn not in runs}
    return found | runs | elsewhere_among(db, asked.but_turns)


def _rows(db: apsw.Connection, asked: StatsQuestion, session_ids: list[int]) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(session_ids), SESSIONS_AT_ONCE):
        asked.report(start, len(session_ids))
        yield from db.execute(_CALLS, (schema.json_list(session_ids[start : start + SESSIONS_AT_ONCE]),))


_CALLS = f"""
select e.session_id, e.turn_id, e.data, e.at, c.is_error
from events e left join call_results c on c.call_id = e.id
where e.kind in {schema.CALLS} and e.session_id in (select value from json_each(?))
"""
