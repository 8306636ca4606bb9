"""Upper bounds of the costs of sessions, in two statements for all: of a list by cost only the dearest are computed.

A bound is what all turns of a session and of its subagents cost by themselves. Where none of them is a copy or included
in another's cost, that is what the session costs, to the last digit. Never commits.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from backstory import errors
from backstory.ask.costs import price_table
from backstory.model import Relation
from backstory.store import schema
from backstory.store.schema import fetch
from backstory.store.tables.session_filter import HEADING
from backstory.store.tables.sessions import CostBounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import apsw

    from backstory.derive.pricing import PriceTable, Rates
    from backstory.store.database import Database

DAY_MS = 86_400_000
PARTS_READ = 4
"""If more than one of so many sessions is asked for, all turns are read in their order."""
ROUNDING = 1.000000001
"""Sums of many numbers may differ in their last digits."""


def beside_keys(db: apsw.Connection, prices: PriceTable) -> CostBounds:
    """Return the most that sessions cost where a key of a list does not say it.

    These are open keys, sessions with subagents, and where keys were worked out by other prices all sessions.
    """
    of_all = _noted(db) != _mark(prices)
    opened = fetch(db, tuple[int], f"select session_id from list_keys {'' if of_all else 'where heading is null'}")
    own = _own(db, prices, [each for (each,) in opened])
    if parents := _parents(db):
        kept = {each for pair in parents for each in pair}.difference(own, *opened)
        keys = fetch(db, tuple[int, float], _KEPT, (schema.json_list(kept),)) if kept else []
        own = _with_subagents(own | dict(keys), parents)
    return CostBounds(of_all, msgspec.json.encode(list(own.items())).decode())


def bounds(db: apsw.Connection, prices: PriceTable, wanted: Sequence[int]) -> dict[int, float]:
    """Return the most that each of these sessions costs, with its subagents; those of unknown cost are left out."""
    parents = _parents(db)
    return _with_subagents(_own(db, prices, [*wanted, *(child for child, _ in parents)]), parents)


def _with_subagents(own: dict[int, float], parents: Sequence[tuple[int, int]]) -> dict[int, float]:
    above: dict[int, list[int]] = {}
    for child, parent in parents:
        above.setdefault(child, []).append(parent)
    found = dict(own)
    for child in above:
        if (usd := own.get(child)) is not None:
            for each in _ancestors(child, above):
                found[each] = (found.get(each, 0.0) + usd) * ROUNDING
    return found


# keys of lists --------------------------------------------------------------------------------------------------------


PRICES = "list_prices"
"""In meta: the prices that the keys of lists were worked out by."""
RULES = 2
"""Raised with the statements below: keys of another number do not count."""
OPEN_MAX = 200
"""The most keys that stay open: these are worked out whenever they are asked for."""
KEYS_AT_ONCE = 50_000


def settle(store: Database) -> None:
    """Work out the keys of lists that changes of sessions left open, where they are many, or all if prices changed."""
    if not store.ask_or(False, _may_be_due):
        return
    try:
        prices = price_table(store.prices_file)
    except errors.ConfigBroken:
        # Every list says so.
        return
    if store.ask(are_due, prices):
        while store.change(fill, prices):
            pass


def are_due(db: apsw.Connection, prices: PriceTable) -> bool:
    """Return True if many keys are open, or any was worked out by other prices."""
    return _noted(db) not in (None, _mark(prices)) or bool(db.execute(_ARE_MANY, (OPEN_MAX,)).get)


def fill(db: apsw.Connection, prices: PriceTable, most: int = KEYS_AT_ONCE) -> bool:
    """Work out some keys that are open; return True if there are more."""
    if _noted(db) != (mark := _mark(prices)):
        db.execute("update list_keys set heading = null where heading is not null")
        db.execute("insert or replace into meta(key, value) values (?, ?)", (PRICES, mark))
    opened = fetch(db, tuple[int], "select session_id from list_keys where heading is null limit ?", (most,))
    usd = _own(db, prices, [each for (each,) in opened])
    db.executemany(_FILL, [(usd.get(each), each) for (each,) in opened])
    return len(opened) == most


def _may_be_due(db: apsw.Connection) -> bool:
    return _noted(db) is not None or bool(db.execute(_ARE_MANY, (OPEN_MAX,)).get)


def _noted(db: apsw.Connection) -> str | None:
    found: str | None = db.execute("select value from meta where key = ?", (PRICES,)).get
    return found


def _mark(prices: PriceTable) -> str:
    return f"{RULES} {prices.mark}"


_ARE_MANY = "select count(*) > ?1 from (select 1 from list_keys where heading is null limit ?1 + 1)"
_KEPT = (
    "select session_id, 1.0 * most_usd from list_keys where session_id in (select value from json_each(?)) "
    "and most_usd is not null"
)
_FILL = (
    f"update list_keys set most_usd = ?, heading = (select {HEADING} from sessions s where s.id = session_id) "
    "where session_id = ?"
)


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
    if not wanted:
        return {}
    are_all = len(wanted) * PARTS_READ > int(db.execute("select count(*) from sessions").get)
    ids = None if are_all else schema.json_list(wanted)
    models = fetch(db, tuple[str, str], _MODELS, (ids,))
    rows = [row for agent, model in models for row in _price_rows(agent, model, prices)]
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
_MODELS = (
    "select distinct agent, model from turns where model is not null "
    "and (?1 is null or session_id in (select value from json_each(?1)))"
)
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
