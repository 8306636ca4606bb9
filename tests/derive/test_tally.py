"""Sums over turns: what is known adds up, what is not is counted."""

from __future__ import annotations

from backstory import bounds
from backstory.derive.pricing import INCLUDED, UNKNOWN, Cost, CostKind, total
from backstory.derive.tally import CostTally, Group, GroupKey, Tally

EXACT = Cost(kind=CostKind.EXACT, usd=0.1, low_usd=0.1, high_usd=0.1)
BOUND = Cost(kind=CostKind.LOWER_BOUND, low_usd=1.0, high_usd=3.0)


def test_a_count_that_nobody_knows_adds_nothing_and_is_counted() -> None:
    group = Group()
    group.add_tokens(None, None, None, None)
    assert (group.figures.input, group.figures.without_tokens) == (None, 1)
    group.add_tokens(0, None, None, 7)
    group.add_tokens(5, None, None, None)
    known = group.figures
    assert (known.input, known.output, known.cache_write, known.without_tokens) == (5, None, 7, 1)


def test_a_cost_is_the_total_of_its_turns_with_the_sum_of_what_bounds_may_come_to() -> None:
    group = Group()
    for each in (EXACT, BOUND, INCLUDED, *[EXACT] * 9):
        group.add_cost(each)
    cost = group.figures.cost
    assert (cost.kind, cost.usd, cost.low_usd, cost.high_usd) == (CostKind.LOWER_BOUND, None, 2.0, 4.0)
    assert total([EXACT, BOUND, INCLUDED, *[EXACT] * 9]).low_usd == 2.0


def test_where_one_cost_is_unknown_nobody_knows_what_all_may_come_to() -> None:
    group = Group()
    for each in (EXACT, UNKNOWN):
        group.add_cost(each)
    cost = group.figures.cost
    assert (cost.kind, cost.low_usd, cost.high_usd, group.figures.without_cost) == (CostKind.LOWER_BOUND, 0.1, None, 1)


def test_sums_that_are_too_large_end_where_numbers_do() -> None:
    group = Group()
    for _ in range(3):
        group.add_tokens(bounds.INTEGER_MAX, 1, 1, 1)
        group.add_turn(bounds.INTEGER_MAX)
    assert (group.figures.input, group.figures.duration_ms) == (bounds.INTEGER_MAX, bounds.INTEGER_MAX)


def test_a_session_in_several_groups_counts_once_in_all() -> None:
    tally = Tally()
    for day, session in (("1", 1), ("2", 1), ("2", 2)):
        group = tally.group(GroupKey(value=day))
        group.add_session(session)
        group.add_turn(None)
    assert [each.figures.sessions for each in tally.groups.values()] == [1, 2]
    assert (tally.whole.figures.sessions, tally.whole.figures.turns) == (2, 3)
    assert (tally.whole.figures.duration_ms, tally.whole.figures.without_duration) == (None, 3)


def test_the_costs_of_very_many_groups_are_those_of_their_sums() -> None:
    tally, costs = Tally(), CostTally()
    given = [
        ("a", Cost(kind=CostKind.EXACT, usd=0.1, low_usd=0.1)),
        ("a", Cost(kind=CostKind.COMPUTED, usd=0.2, low_usd=0.2, high_usd=0.2)),
        ("b", Cost(kind=CostKind.LOWER_BOUND, low_usd=0.3, high_usd=0.5)),
        ("c", Cost()),
        ("d", INCLUDED),
    ]
    for value, cost in given:
        for each in (tally, costs):
            each.group(GroupKey(value=value)).add_cost(cost)
    for each in (tally, costs):
        each.group(GroupKey(value="e")).add_marked(Cost(kind=CostKind.EXACT, usd=1.0, low_usd=1.0), None)
    assert costs.costs() == {key.value: group.figures.cost for key, group in tally.groups.items()}
