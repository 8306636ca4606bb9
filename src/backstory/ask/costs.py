"""Costs of turns and sessions, computed when they are asked for: nothing of them is kept. Never commits.

A reported cost wins over a computed one. A turn that several sessions hold counts in the earliest that knows what it
used. What a subagent used is part of its parent's cost, and where that was reported, it is in it already.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache, lru_cache, partial
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
    CostKind,
    Price,
    Prices,
    PriceTable,
    cost_of,
    prices_from,
    total,
)
from backstory.model import PARTIAL, Relation, Tokens
from backstory.store import schema
from backstory.store.intake import claims, written

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    import apsw

    from backstory.model import Turn

SHIPPED = Path(__file__).parent.parent / "derive" / "prices.json"
BYTES_MAX = 1024 * 1024
SESSIONS_KEPT_MAX = 256
"""The most sessions whose costs a question keeps: rows of several may come in turn."""
SESSIONS_AT_ONCE = 500
SUBAGENTS_DEPTH_MAX = 50
DAY_MS = 86_400_000
NOTHING = Tokens()


class TurnCost(Struct, frozen=True, kw_only=True):
    """The cost of a turn. ``counts``: it is part of its session's cost."""

    id: int
    uid: str
    cost: Cost
    counts: bool


@cache
def _shipped() -> Prices:
    return prices_from(msgspec.json.decode(SHIPPED.read_bytes()))


def price_table(own: Path | None = None) -> PriceTable:
    """The prices that come with the program, and those in a person's own file. Raises ConfigBroken."""
    return _table(own, None if own is None else _read(own))


@lru_cache(maxsize=4)
def _table(file: Path | None, data: bytes | None) -> PriceTable:
    """The same table while the file says the same, so that answers that were computed with it can be known."""
    return PriceTable(_shipped(), None if file is None or data is None else _own(file, data))


def _read(file: Path) -> bytes | None:
    try:
        with file.open("rb") as opened:
            data = opened.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as refused:
        raise errors.ConfigBroken(file, refused.strerror or str(refused)) from refused
    if len(data) > BYTES_MAX:
        raise errors.ConfigBroken(file, f"it is larger than {BYTES_MAX >> 20} MB")
    return data


def _own(file: Path, data: bytes) -> Prices:
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
    """Return the cost of a turn, stored or not, that is no subagent's and whose output is not partial."""
    price = prices.price(turn.agent, turn.model, _day(turn.started))
    is_exact = turn.cost_source == REPORTED
    return cost_of(turn.tokens, price, source=turn.tokens_source, reported=turn.cost_usd, is_exact=is_exact)


def of_summary(
    prices: PriceTable, agent: str | None, model: str | None, at: str | None, tokens: Tokens, usd: float | None
) -> Cost:
    """Return the cost of making a summary: as its agent reported, else by what that took. ``at``: ISO 8601."""
    return cost_of(tokens, prices.price(agent or "", model, at and at[:10]), reported=usd)


def by_turn(db: apsw.Connection, prices: PriceTable, session_id: int) -> dict[str, Cost]:
    """The cost of each turn of a session, by its uid."""
    return {each.uid: each.cost for each in Costs(db, prices).turns(session_id)}


def of_turns(db: apsw.Connection, prices: PriceTable, session_id: int, uids: Iterable[str]) -> dict[str, Cost]:
    """The cost of some turns of a session, by their uids."""
    return Costs(db, prices).some_turns(session_id, uids)


def by_session(db: apsw.Connection, prices: PriceTable, session_ids: Iterable[int]) -> dict[int, Cost]:
    """The costs of sessions with their subagents, by their ids; a copied turn counts where it was first."""
    return Costs(db, prices, estimates=False).sessions(session_ids)


class Costs:
    """The questions about cost to one connection. However many sessions are asked for together, it is a few statements.

    ``estimates``: also what a lower bound may come to. ``shown_as`` is claims.shown_as, where the names of its tables
    mean something else on the connection.
    """

    def __init__(
        self,
        db: apsw.Connection,
        prices: PriceTable,
        *,
        estimates: bool = True,
        shown_as: Callable[[Collection[int]], dict[int, int]] | None = None,
    ) -> None:
        self._db, self._prices, self._estimates = db, prices, estimates
        self._shown_as = shown_as or partial(claims.shown_as_each, db)
        self._kept: dict[int, list[TurnCost]] = {}
        self._price_of: dict[tuple[str, str | None, int | None], Price | None] = {}
        self._owners = bool(db.execute("select exists (select 1 from main.sessions where owner is not null)").get)

    @property
    def has_owners(self) -> bool:
        """True if a store owns any session: only then there are runs, and logs of runs."""
        return self._owners

    def turns(self, session_id: int) -> list[TurnCost]:
        """Every turn of a session, in the order of their prompts."""
        return self._of([session_id])[session_id]

    def some_turns(self, session_id: int, uids: Iterable[str]) -> dict[str, Cost]:
        """Some turns of a session, by their uids."""
        rows: list[Any] = self._db.execute(_SOME_TURNS, (session_id, schema.json_list(uids))).fetchall()
        chars = dict(self._db.execute(_SOME_CHARS, (session_id, schema.json_list(uids))))
        is_included = bool(self.included([session_id]))
        return {row[2]: self.of_row(row, chars.get(row[1], 0), is_included) for row in rows}

    def turn(self, session_id: int, turn_id: int) -> Cost:
        """One turn."""
        return next((each.cost for each in self.turns(session_id) if each.id == turn_id), UNKNOWN)

    def sessions(self, wanted: Iterable[int]) -> dict[int, Cost]:
        """Return the costs of these sessions, each with its subagents; one without turns as it was marked."""
        asked, found = list(wanted), dict[int, Cost]()
        for start in range(0, len(asked), SESSIONS_AT_ONCE):
            found |= self._together(asked[start : start + SESSIONS_AT_ONCE])
        return found

    def _together(self, wanted: list[int]) -> dict[int, Cost]:
        families = self._families(wanted)
        turns = self._of({each for family in families.values() for each in family})
        marked: dict[int, float | None] = dict(self._rows(_MARKED, wanted))
        costs = {root: [each for member in family for each in turns[member]] for root, family in families.items()}
        return {
            root: total(each.cost for each in known if each.counts)
            if known
            else cost_of(NOTHING, None, reported=marked.get(root))
            for root, known in costs.items()
        }

    def _rows(self, sql: str, ids: Iterable[int], *more: object) -> list[Any]:
        """The rows of a question about sessions, whose ids are its first parameter."""
        return self._db.execute(sql, (schema.json_list(sorted(ids)), *more)).fetchall()

    def _of(self, wanted: Collection[int]) -> dict[int, list[TurnCost]]:
        """The turns of each of these sessions."""
        known = {each: self._kept[each] for each in wanted if each in self._kept}
        if new := [each for each in wanted if each not in known]:
            read = self._read(new)
            self._kept |= read
            for old in list(self._kept)[: max(len(self._kept) - SESSIONS_KEPT_MAX, 0)]:
                del self._kept[old]
            known |= read
        return known

    def _read(self, wanted: list[int]) -> dict[int, list[TurnCost]]:
        rows = self._rows(_TURNS, wanted)
        included, copies = self.included(wanted), self._copies(wanted)
        chars = self.chars(wanted) if self._estimates and any(row[-3] == PARTIAL for row in rows) else {}
        found: dict[int, list[TurnCost]] = {each: [] for each in wanted}
        for row in rows:
            session_id, turn_id, uid, _, model, _, *counted, _, _, _, _ = row
            cost = self.of_row(row, chars.get(turn_id, 0), session_id in included)
            counts_here = turn_id not in copies and not is_free(model, cost, counted, row[-3])
            found[session_id].append(TurnCost(id=turn_id, uid=uid, cost=cost, counts=counts_here))
        return found

    def of_row(self, row: Sequence[Any], chars: int, is_included: bool) -> Cost:
        """Return the cost of a turn, given as a row of three columns and its ``PAID_COLUMNS``.

        ``chars``: the length of its output. ``is_included``: it is a subagent's whose parent's cost was reported.
        """
        (
            _,
            _,
            _,
            agent,
            model,
            started,
            read,
            wrote,
            cache_read,
            cache_write,
            cache_write_1h,
            largest,
            source,
            usd,
            by,
        ) = row
        if usd is not None:
            return cost_of(NOTHING, None, reported=usd, is_exact=by == REPORTED)
        if is_included:
            return INCLUDED
        tokens = Tokens(
            input=read, output=wrote, cache_read=cache_read, cache_write=cache_write, cache_write_1h=cache_write_1h,
            largest_input=largest,
        )  # fmt: skip
        return cost_of(tokens, self._price(agent, model, started), source=source, chars=chars)

    def of_summary(
        self, agent: str, model: str | None, at: int | None, read: int | None, wrote: int | None,
        cache_read: int | None, cache_write: int | None, usd: float | None,
    ) -> Cost:  # fmt: skip
        """Return the cost of a summary, given what it took and what its agent said that it cost."""
        if usd is not None:
            return cost_of(NOTHING, None, reported=usd, is_exact=True)
        tokens = Tokens(input=read, output=wrote, cache_read=cache_read, cache_write=cache_write)
        return cost_of(tokens, self._price(agent, model, at))

    def _price(self, agent: str, model: str | None, started: int | None) -> Price | None:
        key = (agent, model, None if started is None else started // DAY_MS)
        if key not in self._price_of:
            self._price_of[key] = self._prices.price(agent, model, _day(started))
        return self._price_of[key]

    def chars(self, wanted: Iterable[int]) -> dict[int, int]:
        """Return the number of characters that the model wrote in each turn of these sessions."""
        return dict(self._rows(_CHARS, wanted))

    def _copies(self, wanted: list[int]) -> set[int]:
        """The turns that count in an earlier session, which knows what they used."""
        rows = self._rows(_COPIES, wanted)
        hidden = self.shown_as({other for _, other in rows})
        return {turn_id for turn_id, other in rows if other not in hidden}

    def shown_as(self, session_ids: Collection[int]) -> dict[int, int]:
        """Map those of these sessions that are only the log of a run to the session of the run."""
        return self._shown_as(session_ids) if session_ids and self._owners else {}

    def _families(self, wanted: list[int]) -> dict[int, list[int]]:
        """Each session and its subagents, theirs too."""
        families: dict[int, list[int]] = {each: [] for each in wanted}
        of_logs = _OF_THEIR_LOGS if self._owners else ""
        for root, member in self._rows(_FAMILIES.format(of_logs=of_logs), wanted, Relation.SUBAGENT):
            families[root].append(member)
        return families

    def included(self, wanted: Collection[int]) -> set[int]:
        """Those that are a subagent of a turn, their own or one above, whose cost was reported."""
        found, at = set[int](), {each: each for each in wanted}
        for _ in range(SUBAGENTS_DEPTH_MAX):
            parents = {
                child: (parent, began)
                for child, parent, began in self._rows(_PARENTS, set(at.values()), Relation.SUBAGENT)
            }
            at = {each: child for each, child in at.items() if child in parents}
            if not at:
                break
            shown = self.shown_as({parent for parent, _ in parents.values()})
            above = {child: (shown.get(parent, parent), began) for child, (parent, began) in parents.items()}
            asked = [[child, parent, began] for child, (parent, began) in above.items()]
            reported = {
                child for child, is_so in self._db.execute(_REPORTED, (msgspec.json.encode(asked).decode(),)) if is_so
            }
            found |= {each for each, child in at.items() if child in reported}
            at = {each: above[child][0] for each, child in at.items() if child not in reported}
        return found


def is_free(model: str | None, cost: Cost, counted: Iterable[int | None], source: str | None) -> bool:
    """True if there is nothing to pay for a turn: no model is named, and none of its tokens (``counted``) is known.

    An agent may count the tokens of a run and not name its model, and a count that was lost (``source``) is no zero.
    """
    return model is None and cost.kind is CostKind.UNKNOWN and source != PARTIAL and not any(counted)


def _day(ms: int | None) -> str | None:
    at = bounds.time_ms(ms)
    return None if at is None else datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d")


PAID_COLUMNS = (
    "agent, model, started, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, "
    "cache_write_1h_tokens, largest_input_tokens, tokens_source, cost_usd, cost_source"
)
"""The columns that the cost of a turn depends on."""
_IDS = "(select value from json_each(?1))"
_TURNS = f"""
select session_id, id, uid, {PAID_COLUMNS}
from main.turns where session_id in {_IDS} order by session_id, first_seq, id
"""
_SOME_TURNS = f"""
select session_id, t.id, uid, {PAID_COLUMNS} from json_each(?2)
cross join main.turns t on uid = value and session_id = ?1
"""
_COPIES = f"""
select t.id, o.session_id from main.turns t join main.turns o on o.uid = t.uid and o.id <> t.id
join main.sessions s on s.id = t.session_id join main.sessions os on os.id = o.session_id
where t.session_id in {_IDS} and {written.precedes("o", "os", "t", "s")}
  and (o.tokens_source is not null or o.cost_usd is not null or {written.is_written("o")} < {written.is_written("t")})
"""
_CHARS = f"""
select turn_id, sum(char_len) from main.events
where session_id in {_IDS} and turn_id is not null and kind in {schema.FROM_MODEL} group by turn_id
"""
_SOME_CHARS = f"""
select t.id, sum(e.char_len) from json_each(?2) cross join main.turns t on t.uid = value and t.session_id = ?1
cross join main.events e on e.session_id = t.session_id and e.seq between t.first_seq and t.last_seq
where e.turn_id = t.id and e.kind in {schema.FROM_MODEL} group by t.id
"""
_MARKED = f"select id, cost_usd from main.sessions where id in {_IDS}"
_FAMILIES = """
with recursive family(root, id) as (
  select value, value from json_each(?1)
  union select f.root, s.id from family f join main.sessions s on s.parent_id = f.id where s.relation = ?2
  {of_logs}
)
select root, id from family
"""
_OF_THEIR_LOGS = f"""
union select f.root, c.id from family f cross join main.turns r on r.session_id = f.id
  cross join main.sessions s on s.native_id = r.native_id and s.id <> r.session_id
  cross join main.sessions c on c.parent_id = s.id where c.relation = ?2 and {claims.CLAIMED}
"""
"""A run's subagents are those of the agent's own log of it. SQLite would begin with all sessions that no store owns."""
_PARENTS = f"""
select s.id, s.parent_id, (select min(started) from main.turns where session_id = s.id)
from main.sessions s where s.id in {_IDS} and s.relation = ?2 and s.parent_id is not null
"""
_REPORTED = """
select a.value ->> 0, (select cost_usd is not null from main.turns
  where session_id = a.value ->> 1 and (a.value ->> 2 is null or started is null or started <= a.value ->> 2)
  order by first_seq desc, id desc limit 1)
from json_each(?1) a
"""
"""For a subagent, the last turn of its parent that began before it."""
