"""What tokens cost by a table of prices: by model and day, and never by a guess."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from backstory.ask.costs import price_table
from backstory.derive.pricing import (
    INCLUDED,
    UNKNOWN,
    Cost,
    CostKind,
    LongRates,
    Price,
    Prices,
    PriceTable,
    cost_of,
    prices_from,
    total,
)
from backstory.model import PARTIAL, Tokens
from tests.support.every import every

PRICE = Price(models=["m"], input=1, output=10, cache_read=0.1, cache_write=2)
LONG = Price(models=["m"], input=1, output=10, cache_read=0.1, cache_write=2, cache_write_1h=3)
USED = Tokens(input=1_000_000, output=100_000, cache_read=10_000_000, cache_write=1_000_000)


def table(*prices: Price, own: Prices | None = None, **more: Any) -> PriceTable:
    return PriceTable(Prices(price=list(prices), **more), own)


def priced(amount: float, **days: Any) -> Price:
    return Price(models=["m"], input=amount, output=amount, **days)


def test_each_kind_of_token_has_its_own_price() -> None:
    assert cost_of(USED, PRICE) == Cost(kind=CostKind.COMPUTED, usd=5.0, low_usd=5.0, high_usd=5.0)


def test_what_an_agent_reports_wins_over_what_its_tokens_would_cost() -> None:
    assert cost_of(USED, PRICE, reported=0.25) == Cost(kind=CostKind.EXACT, usd=0.25, low_usd=0.25, high_usd=0.25)
    assert cost_of(USED, PRICE, reported=0.0).kind is CostKind.EXACT


@pytest.mark.parametrize(("tokens", "price"), [(USED, None), (Tokens(), PRICE)])
def test_without_a_price_or_tokens_a_cost_is_unknown_and_not_nothing(tokens: Tokens, price: Price | None) -> None:
    assert cost_of(tokens, price) == UNKNOWN == Cost(kind=CostKind.UNKNOWN)


def test_output_that_was_not_counted_to_its_end_makes_a_lower_bound_with_an_estimate_beside_it() -> None:
    tokens = Tokens(input=1_000_000, output=5, largest_input=1_000_000)
    cost = cost_of(tokens, PRICE, source=PARTIAL, chars=301)
    assert (cost.kind, cost.usd) == (CostKind.LOWER_BOUND, None)
    assert cost.low_usd == pytest.approx(1.00005)
    assert cost.high_usd == pytest.approx(1 + 101 * 10 / 1e6)


def test_an_estimate_is_never_below_what_was_counted() -> None:
    cost = cost_of(Tokens(input=0, output=1_000, largest_input=0), PRICE, source=PARTIAL, chars=30)
    assert cost.low_usd == cost.high_usd == pytest.approx(0.01)


@pytest.mark.parametrize(("tokens", "source"), [
    (Tokens(input=1_000_000, output=5), PARTIAL), (Tokens(output=5, largest_input=7), PARTIAL),
    (Tokens(output=5), None), (Tokens(input=5), None),
])  # fmt: skip
def test_where_input_is_missing_nobody_estimates_what_it_cost(tokens: Tokens, source: str | None) -> None:
    cost = cost_of(tokens, PRICE, source=source, chars=301)
    assert (cost.kind, cost.high_usd) == (CostKind.LOWER_BOUND, None)


@pytest.mark.parametrize("tokens", [Tokens(input=1), Tokens(output=1)])
def test_where_input_or_output_is_unknown_a_cost_is_a_lower_bound(tokens: Tokens) -> None:
    assert cost_of(tokens, PRICE).kind is CostKind.LOWER_BOUND


def test_a_cache_that_may_have_been_written_for_an_hour_makes_a_lower_bound() -> None:
    cost = cost_of(USED, LONG)
    assert (cost.kind, cost.low_usd, cost.high_usd) == (CostKind.LOWER_BOUND, 5.0, 6.0)
    unwritten = Tokens(input=1_000_000, output=0, cache_write=0)
    assert cost_of(unwritten, LONG).kind is CostKind.COMPUTED


def test_tokens_that_have_no_price_of_their_own_make_a_lower_bound() -> None:
    assert cost_of(Tokens(input=0, output=0, cache_read=5), priced(1)).kind is CostKind.LOWER_BOUND


def test_a_price_counts_from_its_first_day_to_its_last() -> None:
    prices = table(priced(5, since="2026-07-09", until="2026-08-20"), priced(4, since="2026-08-21"))

    def of(day: str | None) -> float | None:
        found = prices.price("a", "m", day)
        return found.input if found else None

    days = ("2026-07-08", "2026-07-09", "2026-08-20", "2026-08-21", None)
    assert [of(day) for day in days] == [None, 5, 5, 4, None]


def test_a_dated_name_is_the_model_and_any_other_ending_is_not() -> None:
    prices = table(priced(1))
    known = [
        name for name in ("m", "m-20251101", "m-2025-11-01", "m-mini", "m-2", "n", "") if prices.price("a", name, None)
    ]
    assert known == ["m", "m-20251101", "m-2025-11-01"]


def test_an_agent_that_is_paid_in_credits_has_no_price_in_dollars() -> None:
    assert table(priced(1), credits=["c"]).price("c", "m", None) is None


def test_a_persons_own_prices_stand_in_for_all_of_the_model() -> None:
    own = Prices(price=[priced(9, since="2026-05-01")])
    prices = table(priced(1), Price(models=["other"], input=2, output=2), own=own)
    assert prices.price("a", "m", "2026-04-30") is None
    assert [prices.price("a", name, "2026-05-01").input for name in ("m", "other")] == [9, 2]  # type: ignore[union-attr]


def test_a_sum_is_as_exact_as_the_least_of_its_parts() -> None:
    exact, computed = cost_of(USED, None, reported=1.0), cost_of(USED, PRICE)
    bound = cost_of(Tokens(input=1_000_000), PRICE)
    assert total([exact, exact]) == Cost(kind=CostKind.EXACT, usd=2.0, low_usd=2.0)
    assert total([exact, computed]) == Cost(kind=CostKind.COMPUTED, usd=6.0, low_usd=6.0)
    assert total([exact, bound]) == Cost(kind=CostKind.LOWER_BOUND, low_usd=2.0)
    assert total([exact, UNKNOWN]) == Cost(kind=CostKind.LOWER_BOUND, low_usd=1.0)
    assert total([exact, INCLUDED]) == Cost(kind=CostKind.EXACT, usd=1.0, low_usd=1.0)
    assert total([UNKNOWN]) == total([INCLUDED]) == total([]) == UNKNOWN


@every(
    "row",
    [
        {"models": ["m"], "input": -1, "output": 1},
        {"models": ["m"], "input": 1, "output": float("inf")},
        {"models": ["m"], "input": 1},
        {"models": ["m"], "input": 1, "output": 1, "from": "soon"},
        {"models": ["m"], "input": 1, "output": 1, "cache": 1},
        {"models": ["m"], "input": 1, "output": 1, "long": {"over": 5, "input": -1}},
        {"models": ["m"], "input": 1, "output": 1, "long": {"over": -5}},
        {"models": ["m"], "input": 1, "output": 1, "long": {"input": 2}},
    ],
)
def test_prices_that_mean_nothing_are_refused(row: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        prices_from({"price": [row]})


def test_the_prices_that_are_shipped_name_their_source_and_leave_no_day_twice() -> None:
    prices = price_table()
    rows = [each for found in prices._prices.values() for each in found]
    assert rows and all(each.source.startswith("https://") for each in rows)
    for name, found in prices._prices.items():
        spans = sorted((each.since or "0", each.until or "9") for each in found)
        assert all(before[1] < after[0] for before, after in pairwise(spans)), name
    assert prices.price("copilot", "gpt-5-mini", None) is None
    assert prices.price("codex", "gpt-5-mini", None) is not None
    opus = prices.price("claude", "claude-opus-4-5-20251101", "2026-01-05")
    assert opus is not None and (opus.input, opus.output, opus.cache_read, opus.cache_write) == (5, 25, 0.5, 6.25)


def test_what_a_cache_holds_for_an_hour_has_its_price_and_the_rest_that_of_five_minutes() -> None:
    tokens = Tokens(input=0, output=0, cache_write=1_000_000, cache_write_1h=250_000)
    assert cost_of(tokens, LONG) == Cost(kind=CostKind.COMPUTED, usd=2.25, low_usd=2.25, high_usd=2.25)
    assert cost_of(tokens, PRICE).usd == 2.0


TIERED = Price(
    models=["m"], input=1, output=10, cache_read=0.1, long=LongRates(over=100, input=5, output=20, cache_read=1)
)
UNTOLD = Price(models=["m"], input=1, output=10, cache_read=0.1, long=LongRates(over=100))


@pytest.mark.parametrize("largest", [100, 60])
def test_requests_up_to_the_border_cost_the_lower_price_however_large_their_sum(largest: int) -> None:
    tokens = Tokens(input=1_000, output=0, cache_read=0, largest_input=largest)
    assert cost_of(tokens, TIERED).usd == pytest.approx(0.001)


def test_a_sum_below_the_border_holds_no_request_above_it() -> None:
    assert cost_of(Tokens(input=60, output=0, cache_read=40), TIERED).kind is CostKind.COMPUTED
    assert cost_of(Tokens(input=60, output=0, cache_read=41), TIERED).kind is CostKind.LOWER_BOUND


def test_all_tokens_of_a_single_request_above_the_border_cost_the_higher_price() -> None:
    tokens = Tokens(input=60, output=10, cache_read=41, largest_input=101)
    assert cost_of(tokens, TIERED).usd == pytest.approx((60 * 5 + 10 * 20 + 41 * 1) / 1e6)


def test_where_a_sum_hides_what_the_long_requests_were_a_cost_is_a_lower_bound_with_an_estimate() -> None:
    cost = cost_of(Tokens(input=200, output=10, cache_read=0, largest_input=150), TIERED)
    assert (cost.kind, cost.usd) == (CostKind.LOWER_BOUND, None)
    assert cost.low_usd == pytest.approx((200 * 1 + 10 * 10) / 1e6)
    assert cost.high_usd == pytest.approx((200 * 5 + 10 * 20) / 1e6)


def test_a_higher_price_that_is_not_known_makes_a_lower_bound_without_an_estimate() -> None:
    cost = cost_of(Tokens(input=200, output=0, largest_input=200), UNTOLD)
    assert (cost.kind, cost.high_usd) == (CostKind.LOWER_BOUND, None)
