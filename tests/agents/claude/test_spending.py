"""What turns cost: tokens, money, time."""

from __future__ import annotations

import pytest

from tests.support.claude_records import (
    answer,
    control,
    ended,
    ended_process,
    said,
    spent,
    user,
)


def test_the_usage_of_a_message_told_by_each_block_counts_once_at_its_largest() -> None:
    (turn,) = said(user("go"), spent("m1", 1), spent("m1", 30), spent("m1", 20), spent("m2", 7)).in_order()
    tokens = turn.tokens
    assert (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write) == (20, 37, 10, 6)


def test_output_is_a_lower_bound_until_every_message_has_a_reason_to_stop() -> None:
    one, other = spent("m1", 1), spent("m2", 7)
    (turn,) = said(user("go"), one, ended("m1", 30), other).in_order()
    assert (turn.tokens.output, turn.tokens_source) == (37, "partial")
    (turn,) = said(user("go"), one, ended("m1", 30), other, ended("m2", 7)).in_order()
    assert turn.tokens_source == "reported"


def test_a_block_that_comes_after_the_end_of_its_message_opens_it_no_more() -> None:
    (turn,) = said(user("go"), ended("m1", 30), spent("m1", 30)).in_order()
    assert turn.tokens_source == "reported"


def test_many_messages_without_an_end_stay_a_lower_bound_in_bounded_space() -> None:
    (turn,) = said(user("go"), *(spent(f"m{n}", 1) for n in range(100)), ended("m99", 5)).in_order()
    assert (turn.tokens.output, turn.tokens_source) == (104, "partial")


def test_a_message_id_used_for_two_requests_counts_twice() -> None:
    (turn,) = said(user("go"), spent("m1", 5, requestId="r1"), spent("m1", 6, requestId="r2")).in_order()
    assert turn.tokens.output == 11


@pytest.mark.parametrize(("usage", "counted"), [({"output_tokens": 7}, (None, 7)), ({"input_tokens": 5}, (5, None))])
def test_a_request_that_lacks_input_or_output_makes_the_turn_at_least_the_rest(
    usage: dict[str, int], counted: tuple[int | None, int | None]
) -> None:
    lacking = answer("…", message={"id": "m1", "usage": usage, "stop_reason": "end_turn"})
    (turn,) = said(user("go"), lacking).in_order()
    assert (turn.tokens.input, turn.tokens.output, turn.tokens_source) == (*counted, "partial")
    (turn,) = said(user("go"), lacking, ended("m2", 30)).in_order()
    least = (10 + usage.get("input_tokens", 0), 30 + usage.get("output_tokens", 0))
    assert (turn.tokens.input, turn.tokens.output, turn.tokens_source) == (*least, "partial")


def test_a_total_that_cannot_be_kept_leaves_the_cost_of_its_turn_unknown() -> None:
    first, second = said(
        user("a"), answer("1"), control("cost-state", totalCostUSD=1.0), control("cost-state", totalCostUSD=-1),
        control("cost-state", totalCostUSD=2.0), user("b"), answer("2"), control("cost-state", totalCostUSD=3.0),
    ).in_order()  # fmt: skip
    assert [(first.cost_usd, first.cost_source), (second.cost_usd, second.cost_source)] == [
        (None, None), (1.0, "reported"),
    ]  # fmt: skip


def test_a_cost_of_one_answer_that_cannot_be_kept_leaves_that_of_the_turn_unknown() -> None:
    costs = ([0.25, -1.0, 0.5], [0.25, 0.5])
    found = [said(user("a"), *(answer("1", costUSD=each) for each in those)).in_order()[0] for those in costs]
    assert [(turn.cost_usd, turn.cost_source) for turn in found] == [(None, None), (0.75, "reported")]


def test_without_usage_the_tokens_are_unknown() -> None:
    (turn,) = said(user("go"), answer("ok")).in_order()
    assert (turn.tokens.output, turn.tokens_source) == (None, None)


def test_a_running_total_of_the_cost_is_shared_out_by_its_differences() -> None:
    first, second = said(
        user("a"), answer("1"), control("cost-state", totalCostUSD=0.25), control("cost-state", totalCostUSD=0.5),
        user("b"), answer("2"), control("cost-state", totalCostUSD=0.75),
    ).in_order()  # fmt: skip
    assert (first.cost_usd, second.cost_usd, second.cost_source) == (0.5, 0.25, "reported")


def test_a_first_total_after_several_turns_may_be_a_parents_and_counts_for_none() -> None:
    what = said(user("a"), answer("1"), user("b"), answer("2"), control("cost-state", totalCostUSD=9.0))
    assert [turn.cost_usd for turn in what.in_order()] == [None, None]


def test_a_turn_in_which_the_first_total_came_is_not_said_to_cost_what_came_later() -> None:
    what = said(
        user("a"), answer("1"), user("b"), answer("2"), control("cost-state", totalCostUSD=9.0),
        control("cost-state", totalCostUSD=9.0), control("cost-state", totalCostUSD=9.5),
        user("c"), answer("3"), control("cost-state", totalCostUSD=10.0),
    )  # fmt: skip
    assert [(turn.cost_usd, turn.cost_source) for turn in what.in_order()] == [
        (None, None), (None, None), (0.5, "reported"),
    ]  # fmt: skip


def test_how_long_the_model_took_is_by_how_much_the_sessions_total_grew() -> None:
    first, second = [user("one"), answer("1"), ended_process(143)], [user("two"), answer("2"), ended_process(167)]
    assert [turn.api_latency_ms for turn in said(*first, *second).in_order()] == [143, 24]


def test_a_total_of_several_turns_says_of_none_how_long_the_model_took() -> None:
    both = [user("one"), answer("1"), user("two"), answer("2"), ended_process(500)]
    more = [user("three"), answer("3"), user("four"), answer("4"), ended_process(900)]
    turns = said(*both, *more, user("five"), answer("5"), ended_process(930)).in_order()
    assert [turn.api_latency_ms for turn in turns] == [None, None, None, None, 30]


@pytest.mark.parametrize("total_ms", [143, 10])
def test_a_total_that_did_not_grow_measured_nothing(total_ms: int) -> None:
    again = [user("two"), ended_process(total_ms), user("three"), ended_process(total_ms + 7)]
    turns = said(user("one"), answer("1"), ended_process(143), *again).in_order()
    assert [turn.api_latency_ms for turn in turns] == [143, None, 7]
