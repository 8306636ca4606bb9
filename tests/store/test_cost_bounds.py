"""What sessions cost at most, by SQL: never less than they cost, and to the digit where nothing else counts."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import apsw
import msgspec
import pytest

from backstory.ask import cost_bounds, costs
from backstory.derive import naming
from backstory.derive.pricing import Price, Prices, PriceTable, prices_from
from backstory.store import open_store
from backstory.store.tables import sessions, turns
from backstory.store.tables.session_filter import ListFilter
from backstory.store.tables.sessions import Part
from tests.support.clock import NOW

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS = 86_400_000
OWN = Prices(
    price=[
        Price(models=["changes"], input=1.1, output=5.3, cache_read=0.11, cache_write=1.3, until="2026-11-21"),
        Price(models=["changes"], input=0.7, output=3.3, cache_write=0.9, cache_write_1h=1.7, since="2026-11-22"),
    ]
)
SHIPPED = prices_from(msgspec.json.decode(costs.SHIPPED.read_bytes()))
MODELS = ("claude-sonnet-4-5-20250929", "claude-opus-4-6", "gpt-5.5", "changes", "nobody-knows", None)
AGENTS = ("claude", "codex", "copilot")


class Filled:
    """A store with made-up rows, and what its sessions cost."""

    def __init__(self, root: Path) -> None:
        self.store = open_store(root / "store.db", shared=True, now=lambda: NOW)
        self.store.create_session("")
        self.db = apsw.Connection(str(self.store.path))
        self.db.execute("delete from sessions")
        self.prices = PriceTable(OWN, SHIPPED)

    def session(self, session_id: int, **values: Any) -> None:
        row = {"id": session_id, "uid": f"{session_id:026}", "last_active": NOW - session_id * 1000, "owner": None}
        self._insert("sessions", row | values)

    def turn(self, session_id: int, seq: int, **values: Any) -> None:
        at = {"session_id": session_id, "uid": f"t{session_id}-{seq}", "first_seq": seq, "last_seq": seq}
        used = {"agent": "claude", "model": MODELS[0], "started": NOW, "input_tokens": 3, "output_tokens": 7}
        self._insert("turns", at | used | values)

    def bounds(self) -> dict[int, float]:
        ids = [session_id for (session_id,) in self.db.execute("select id from sessions")]
        return cost_bounds.bounds(self.db, self.prices, ids)

    def by_cost(self) -> list[tuple[str, Any]]:
        """The uids of a list by what its sessions cost at most, each with that."""
        part = Part(sort="cost", bounds=cost_bounds.beside_keys(self.db, self.prices))
        found = sessions.listed(self.db, ListFilter(subagents=True), part)
        return [(each.uid, at.value and pytest.approx(at.value, rel=1e-6)) for at, each in found]

    def costs(self) -> dict[int, float | None]:
        ids = [session_id for (session_id,) in self.db.execute("select id from sessions")]
        found = costs.Costs(self.db, self.prices, estimates=False).sessions(ids)
        return {session_id: cost.low_usd for session_id, cost in found.items()}

    def _insert(self, table: str, row: dict[str, Any]) -> None:
        places = ", ".join("?" for _ in row)
        self.db.execute(f"insert into {table}({', '.join(row)}) values ({places})", tuple(row.values()))


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    return Filled(tmp_path)


def tokens(chance: random.Random) -> dict[str, int | None]:
    def some(most: int) -> int | None:
        return chance.choice([None, 0, chance.randrange(most), chance.randrange(most)])

    counted = {"input_tokens": some(300_000), "output_tokens": some(9_000), "cache_read_tokens": some(400_000),
               "cache_write_tokens": some(50_000), "cache_write_1h_tokens": some(50_000)}  # fmt: skip
    whole = sum(counted[name] or 0 for name in ("input_tokens", "cache_read_tokens", "cache_write_tokens"))
    return {**counted, "largest_input_tokens": chance.choice([None, whole, whole // 2])}


def fill(filled: Filled, chance: random.Random, sessions: int = 40) -> None:
    """Sessions of every kind: runs and the agents' logs of them, subagents of both, copies, none that has no turn."""
    for number in range(1, sessions + 1):
        is_own = chance.random() < 0.2
        filled.session(
            number,
            owner="here" if is_own else None,
            number=number if is_own else None,
            native_id=None if is_own else f"n{number % 20}",
            # Also in circles, which a store from elsewhere may hold.
            parent_id=chance.randrange(1, number + 1) if chance.random() < 0.5 else None,
            relation=chance.choice(["subagent", "subagent", "fork"]),
            cost_usd=chance.choice([None, 0.5]),
        )
        for turn in range(chance.choice([0, 1, 1, 1, 2, 5])):
            more = {"native_id": f"n{chance.randrange(20)}"} if is_own else {}
            filled.turn(
                number,
                turn,
                uid=f"t{chance.randrange(60)}-{turn}",
                agent=chance.choice(AGENTS),
                model=chance.choice(MODELS),
                started=chance.choice([None, NOW - DAY_MS, NOW - 1, NOW, NOW + 5 * DAY_MS]),
                cost_usd=chance.choice([None, None, None, 0.01, 0.0]),
                cost_source=chance.choice([None, "reported"]),
                tokens_source=chance.choice([None, "reported", "partial"]),
                **tokens(chance),
                **more,
            )


@pytest.mark.parametrize("seed", range(60))
def test_no_session_costs_more_than_it_may(filled: Filled, seed: int) -> None:
    fill(filled, random.Random(seed))
    bounds = filled.bounds()
    for session_id, usd in filled.costs().items():
        assert usd is None or bounds[session_id] >= usd, session_id


@pytest.mark.parametrize("seed", range(20))
def test_a_turn_by_itself_costs_what_it_may_to_the_last_digit(filled: Filled, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(1, 40):
        started = chance.choice([None, NOW - DAY_MS, NOW])
        filled.session(number)
        filled.turn(number, 0, model=chance.choice(MODELS), started=started, **tokens(chance))
    assert filled.bounds() == {each: usd for each, usd in filled.costs().items() if usd is not None}


def test_nothing_is_said_of_a_session_of_which_nobody_knows_what_it_costs(filled: Filled) -> None:
    filled.session(1)
    filled.turn(1, 0, model="nobody-knows")
    filled.session(2)
    filled.turn(2, 0, agent="copilot", model=MODELS[0])
    filled.session(3)
    assert filled.bounds() == {}


def test_what_a_subagent_of_a_run_costs_counts_where_the_run_is(filled: Filled) -> None:
    filled.session(1, owner="here", number=1)
    filled.turn(1, 0, native_id="n", uid="t")
    filled.session(2, native_id="n")
    filled.turn(2, 0, uid="t", native_id="n", input_tokens=None, output_tokens=None)
    filled.session(3, parent_id=2, relation="subagent")
    filled.turn(3, 0, input_tokens=1_000_000)
    usd = filled.costs()[1]
    assert usd == pytest.approx(3.0, rel=0.01)
    assert filled.bounds()[1] == pytest.approx(usd, rel=1e-6)


def test_the_same_is_said_of_few_sessions_as_of_all(filled: Filled) -> None:
    fill(filled, random.Random(3), sessions=80)
    bounds = filled.bounds()
    for wanted in ([7], [11, 12, 13]):
        few = cost_bounds.bounds(filled.db, filled.prices, wanted)
        assert [few.get(each) for each in wanted] == pytest.approx([bounds.get(each) for each in wanted])


def add_title_functions(db: apsw.Connection) -> None:
    """Add the functions of SQL that a store's own connections have."""
    db.create_scalar_function("folded", lambda *title: naming.folded(*title), 1)
    db.create_scalar_function("saying", lambda *of: turns.saying(db, *of), 2)


@pytest.mark.parametrize("seed", range(4))
def test_a_list_by_what_sessions_cost_at_most_is_the_same_with_keys_and_without(filled: Filled, seed: int) -> None:
    chance = random.Random(seed)
    fill(filled, chance)
    open_list = filled.by_cost()
    add_title_functions(filled.db)
    cost_bounds.fill(filled.db, filled.prices)
    assert filled.by_cost() == open_list
    filled.db.execute("update list_keys set heading = null where session_id % 3 = 0")
    assert filled.by_cost() == open_list


def test_keys_by_other_prices_do_not_count(filled: Filled) -> None:
    fill(filled, random.Random(1))
    add_title_functions(filled.db)
    cost_bounds.fill(filled.db, PriceTable(OWN))
    assert cost_bounds.are_due(filled.db, filled.prices)
    others = filled.by_cost()
    cost_bounds.fill(filled.db, filled.prices)
    assert (filled.by_cost(), cost_bounds.are_due(filled.db, filled.prices)) == (others, False)
