"""Upper bounds of the costs of sessions, in two statements for all: of a list by cost only the dearest are computed.

A bound is what all turns of a session and of its subagents cost by themselves. Where none of them is a copy or included
in another's cost, that is what the session costs, to the last digit. Never commits.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from backstory.model import Relation
from backstory.store import schema
from backstory.store.schema import fetch
from backstory.store.tables import sessions
from backstory.store.tables.sessions import SortKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import apsw

    from backstory.derive.pricing import PriceTable, Rates
    from backstory.store.tables.session_filter import ListFilter

DAY_MS = 86_400_000
PARTS_READ = 4
"""If more than one of so many sessions is asked for, all turns are read in their order."""
ROUNDING = 1.000000001
"""Sums of many numbers may differ in their last digits."""


def sort_keys(db: apsw.Connection, wanted: ListFilter, prices: PriceTable) -> list[SortKey]:
    """Every session that is listed, in the order of ``listed``, with what it costs at most; None: nobody knows."""
    listed = sessions.in_order(db, wanted)
    most = bounds(db, prices, [session_id for session_id, _, _ in listed])
    return [SortKey(session_id, uid, at, most.get(session_id)) for session_id, uid, at in listed]


def bounds(db: apsw.Connection, prices: PriceTable, wanted: Sequence[int]) -> dict[int, float]:
    """Return the most that each of these sessions costs, with its subagents; those of unknown cost are left out."""
    parents = _parents(db)
    own = _own(db, prices, [*wanted, *(child for child, _ in parents)])
    above: dict[int, list[int]] = {}
    for child, parent in parents:
        above.setdefault(child, []).append(parent)
    found = dict(own)
    for child in above:
        if (usd := own.get(child)) is not None:
            for each in _ancestors(child, above):
                found[each] = (found.get(each, 0.0) + usd) * ROUNDING
    return found


def _ancestors(child: int, above: Mapping[int, Sequence[int]]) -> Iterator[int]:
    met, left = {child}, [child]
    while left:
        for parent in above.get(left.pop(), ()):
            if parent not in met:
                met.add(parent)
                left.append(parent)
                yield parent


def _parents(db: apsw.Connection) -> list[tuple[int, int]]:
    """Each subagent with its parent, and with the sessions whose runs that may be the log of."""
    return fetch(db, tuple[int, int], _PARENTS)


def _own(db: apsw.Connection, prices: PriceTable, wanted: Sequence[int]) -> dict[int, float]:
    """Return the most that the turns of each session itself cost; of one without turns, its marked value."""
    models = fetch(db, tuple[str, str], "select distinct agent, model from turns where model is not null")
    rows = [row for agent, model in models for row in _price_rows(agent, model, prices)]
    are_all = len(wanted) * PARTS_READ > int(db.execute("select count(*) from sessions").get)
    ids = None if are_all else schema.json_list(wanted)
    turns = fetch(db, tuple[int, float | None], _TURNS, (msgspec.json.encode(rows).decode(), ROUNDING, ids))
    marked = fetch(db, tuple[int, float], _MARKED, (ids,))
    return {session_id: usd for session_id, usd in (*turns, *marked) if usd is not None}


def _price_rows(agent: str, model: str, prices: PriceTable) -> Iterator[list[Any]]:
    """Yield the price of a model's tokens at any time: as in ``price`` of the statement below."""
    for price in prices.at_any_time(agent, model):
        since = None if price.since is None else _ms(price.since)
        until = None if price.until is None else _ms(price.until) + DAY_MS
        long = price.long if price.long is not None and price.long.input is not None else None
        over = None if long is None else long.over
        for is_long, rates in ((0, price), (1, long)):
            if rates is not None:
                yield [agent, model, since, until, over, is_long, *_amounts(rates)]


def _amounts(rates: Rates) -> list[float | None]:
    return [rates.input or 0.0, rates.output or 0.0, rates.cache_read or 0.0, rates.cache_write or 0.0,
            rates.cache_write_1h]  # fmt: skip


def _ms(day: str) -> int:
    return int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()) * 1000


_PARENTS = f"""
select id, parent_id from sessions where relation = '{Relation.SUBAGENT}' and parent_id is not null
union
select c.id, r.session_id from sessions c join sessions s on s.id = c.parent_id
  join turns r on r.native_id = s.native_id and r.session_id <> s.id
where c.relation = '{Relation.SUBAGENT}' and exists (select 1 from sessions where owner is not null)
"""
_HELD = "iif(p.write_1h is null, 0, coalesce(t.cache_write_1h_tokens, 0))"
_WHOLE = "(coalesce(t.input_tokens, 0) + coalesce(t.cache_read_tokens, 0) + coalesce(t.cache_write_tokens, 0))"
_COUNTED = "coalesce(t.input_tokens, t.output_tokens, t.cache_read_tokens, t.cache_write_tokens)"
_TURNS = f"""
with price(agent, model, since, until, over, is_long, input, output, cache_read, write, write_1h) as materialized (
  select cast(value ->> 0 as text), cast(value ->> 1 as text), {", ".join(f"value ->> {n}" for n in range(2, 11))}
  from json_each(?1)
)
select t.session_id, sum(max(coalesce(t.cost_usd, iif({_COUNTED} is null, null, (
    coalesce(t.input_tokens, 0) * p.input + coalesce(t.output_tokens, 0) * p.output
    + coalesce(t.cache_read_tokens, 0) * p.cache_read
    + (coalesce(t.cache_write_tokens, 0) - {_HELD}) * p.write + {_HELD} * coalesce(p.write_1h, 0.0)
  ) / 1000000)), 0.0)) * iif(count(*) > 1, ?2, 1.0)
from turns t left join price p on p.agent = t.agent and p.model = t.model
  and (p.since is null or t.started >= p.since) and (p.until is null or t.started < p.until)
  and (p.over is null or p.is_long = (t.largest_input_tokens is {_WHOLE} and {_WHOLE} > p.over))
where ?3 is null or t.session_id in (select value from json_each(?3))
group by t.session_id
"""
"""As pricing.cost_of has it at least, in the same order of the same operations. What a price is found by is text, as it
is in turns, so that SQLite makes an index of it."""
_MARKED = """
select id, max(cost_usd, 0.0) from sessions s where cost_usd is not null
  and (?1 is null or id in (select value from json_each(?1)))
  and not exists (select 1 from turns where session_id = s.id)
"""
