"""What turns and sessions cost, computed when it is asked for: nothing of it is kept. Never commits.

A reported cost wins over a computed one. A turn that several sessions hold counts in the earliest that knows what it
used. What a subagent used is part of its parent's cost, and where that was reported, it is in it already.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory import bounds, errors
from backstory.derive.pricing import (
    INCLUDED,
    REPORTED,
    UNKNOWN,
    Cost,
    Kind,
    Prices,
    PriceTable,
    cost_of,
    prices_from,
    total,
)
from backstory.model import PARTIAL, Relation, Tokens
from backstory.store import claims, kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import apsw

    from backstory.model import Turn

SHIPPED = Path(__file__).parent.parent / "derive" / "prices.json"
BYTES_MAX = 1024 * 1024
SESSIONS_KEPT_MAX = 256
"""Of so many sessions a question keeps the costs: rows of several may come in turn."""
SUBAGENTS_DEPTH_MAX = 50


class TurnCost(Struct, frozen=True, kw_only=True):
    """What a turn cost. ``counts``: it is part of its session's cost."""

    id: int
    uid: str
    cost: Cost
    counts: bool


@cache
def _shipped() -> Prices:
    return prices_from(msgspec.json.decode(SHIPPED.read_bytes()))


def price_table(own: Path | None = None) -> PriceTable:
    """The prices that come with the program, and those in a person's own file. Raises ConfigBroken."""
    return PriceTable(_shipped(), _own(own) if own is not None else None)


def _own(file: Path) -> Prices | None:
    try:
        with file.open("rb") as opened:
            data = opened.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as refused:
        raise errors.ConfigBroken(file, refused.strerror or str(refused)) from refused
    if len(data) > BYTES_MAX:
        raise errors.ConfigBroken(file, f"it is larger than {BYTES_MAX >> 20} MB")
    import tomllib  # only where there is a file

    try:
        return prices_from(_with_days(tomllib.loads(data.decode())))
    except (ValueError, RecursionError, msgspec.MsgspecError) as refused:
        raise errors.ConfigBroken(file, f"{refused!s:.200}") from refused


def _with_days(values: Any) -> Any:
    """TOML has dates of its own, which are days as text here."""
    if isinstance(values, dict):
        return {key: _with_days(each) for key, each in values.items()}
    if isinstance(values, list):
        return [_with_days(each) for each in values]
    return values if isinstance(values, str | int | float) else str(values)


def of_turn(turn: Turn, prices: PriceTable) -> Cost:
    """What a turn cost, stored or not, that is no subagent's and whose output is not partial."""
    price = prices.price(turn.agent, turn.model, _day(turn.started))
    is_exact = turn.cost_source == REPORTED
    return cost_of(turn.tokens, price, source=turn.tokens_source, reported=turn.cost_usd, is_exact=is_exact)


class Costs:
    """What is asked of one connection.

    ``estimates``: also what a lower bound may come to. ``shown_as`` is claims.shown_as, where the names of its tables
    mean something else on the connection.
    """

    def __init__(
        self,
        db: apsw.Connection,
        prices: PriceTable,
        *,
        estimates: bool = True,
        shown_as: Callable[[int], int] | None = None,
    ) -> None:
        self._db, self._prices, self._estimates = db, prices, estimates
        self._shown_as = shown_as or partial(claims.shown_as, db)
        self._kept: dict[int, list[TurnCost]] = {}
        self._owners = bool(db.execute("select exists (select 1 from main.sessions where owner is not null)").get)

    def turns(self, session_id: int) -> list[TurnCost]:
        """Every turn of a session, in the order of their prompts."""
        if session_id not in self._kept:
            if len(self._kept) >= SESSIONS_KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            self._kept[session_id] = self._turns(session_id)
        return self._kept[session_id]

    def turn(self, session_id: int, turn_id: int) -> Cost:
        """One turn."""
        return next((each.cost for each in self.turns(session_id) if each.id == turn_id), UNKNOWN)

    def session(self, session_id: int) -> Cost:
        """A session with its subagents; one without turns as it was marked."""
        found = [each for family in self._family(session_id) for each in self.turns(family)]
        if not found:
            marked = self._db.execute("select cost_usd from main.sessions where id = ?", (session_id,)).get
            return cost_of(Tokens(), None, reported=marked)
        return total(each.cost for each in found if each.counts)

    def sessions(self, wanted: Iterable[int]) -> dict[int, Cost]:
        """What these sessions cost, each with its subagents."""
        return {each: self.session(each) for each in wanted}

    def _turns(self, session_id: int) -> list[TurnCost]:
        is_included = self._is_included(session_id)
        copies = self._copies(session_id)
        rows: list[Any] = self._db.execute(_TURNS, (session_id,)).fetchall()
        chars = self._chars(session_id) if self._estimates and any(row[-3] == PARTIAL for row in rows) else {}
        found = []
        for turn_id, uid, agent, model, started, *counts, source, usd, usd_source in rows:
            tokens = Tokens(**dict(zip(_COUNTS, counts, strict=True)))
            cost = INCLUDED
            if usd is not None:
                cost = cost_of(tokens, None, reported=usd, is_exact=usd_source == REPORTED)
            elif not is_included:
                price = self._prices.price(agent, model, _day(started))
                cost = cost_of(tokens, price, source=source, chars=chars.get(turn_id, 0))
            # Without a model nothing was asked of one, so there is nothing to pay.
            is_free = model is None and cost.kind is Kind.UNKNOWN
            found.append(TurnCost(id=turn_id, uid=uid, cost=cost, counts=turn_id not in copies and not is_free))
        return found

    def _copies(self, session_id: int) -> set[int]:
        """The turns that count in an earlier session, which knows what they used."""
        rows: list[Any] = self._db.execute(_COPIES, (session_id,)).fetchall()
        if not rows or not self._owners:
            return {turn_id for turn_id, _ in rows}
        return {turn_id for turn_id, other in rows if self._shown_as(other) == other}

    def _chars(self, session_id: int) -> dict[int, int]:
        rows: list[Any] = self._db.execute(_CHARS, (session_id,)).fetchall()
        return dict(rows)

    def _family(self, session_id: int) -> list[int]:
        """A session and its subagents, theirs too."""
        family, asked = [session_id], 0
        while asked < len(family):
            parents = [family[asked], *(claims.logs_of(self._db, family[asked]) if self._owners else ())]
            for parent in parents:
                rows: list[Any] = self._db.execute(_SUBAGENTS, (parent, Relation.SUBAGENT)).fetchall()
                family += [child for (child,) in rows if child not in family]
            asked += 1
        return family

    def _is_included(self, session_id: int) -> bool:
        """Whether this is a subagent of a turn, its own or one above, whose cost was reported."""
        for _ in range(SUBAGENTS_DEPTH_MAX):
            parent: Any = self._db.execute(_PARENT, (session_id, Relation.SUBAGENT)).fetchone()
            if parent is None:
                return False
            began = self._db.execute(_BEGAN, (session_id,)).get
            session_id = self._shown_as(parent[0]) if self._owners else parent[0]
            if self._db.execute(_REPORTED, (session_id, began)).get:
                return True
        return False


def _day(ms: int | None) -> str | None:
    at = bounds.time_ms(ms)
    return None if at is None else datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d")


_COUNTS = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "largest_input")
_TURNS = """
select id, uid, agent, model, started, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
  cache_write_1h_tokens, largest_input_tokens, tokens_source, cost_usd, cost_source
from main.turns where session_id = ? order by first_seq, id
"""
_COPIES = """
select t.id, o.session_id from main.turns t join main.turns o on o.uid = t.uid and o.id <> t.id
join main.sessions s on s.id = t.session_id join main.sessions os on os.id = o.session_id
where t.session_id = ? and os.uid < s.uid and (o.tokens_source is not null or o.cost_usd is not null)
"""
_CHARS = f"""
select turn_id, sum(char_len) from main.events
where session_id = ? and turn_id is not null and kind in {kinds.FROM_MODEL} group by turn_id
"""
_SUBAGENTS = "select id from main.sessions where parent_id = ? and relation = ? order by id"
_PARENT = "select parent_id from main.sessions where id = ? and relation = ? and parent_id is not null"
_BEGAN = "select min(started) from main.turns where session_id = ?"
_REPORTED = """
select cost_usd is not null from main.turns where session_id = ?1 and (?2 is null or started is null or started <= ?2)
order by first_seq desc, id desc limit 1
"""
"""Of a subagent the last turn of its parent that began before it."""
