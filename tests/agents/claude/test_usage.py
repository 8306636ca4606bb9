"""How long Claude's caches hold what was written, and how large its largest request was, as its logs tell them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from backstory.agents.claude.records import Usage, add_record, larger_counts, tokens_of, tokens_of_run
from backstory.model import Tokens


def usage(written: int = 0, short: Any = None, long: Any = None, *, input_: int = 10) -> Usage:
    """As it is decoded from a log."""
    told: dict[str, Any] = {"input_tokens": input_, "output_tokens": 1, "cache_creation_input_tokens": written}
    if short is not None:
        told["cache_creation"] = {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long}
    return msgspec.json.decode(msgspec.json.encode(told), type=Usage)


def counted(*messages: Usage) -> Tokens:
    """What several messages come to, one record each."""
    tokens = Tokens()
    for each in messages:
        _, tokens = add_record(tokens, None, each)
    return tokens


def test_the_part_that_is_held_for_an_hour_is_summed_up() -> None:
    tokens = counted(usage(10, 7, 3), usage(5, 0, 5), usage(2, 2, 0), usage())
    assert (tokens.cache_write, tokens.cache_write_1h) == (17, 8)


def test_one_message_that_tells_no_periods_makes_the_sum_unknown() -> None:
    tokens = counted(usage(10, 7, 3), usage(5), usage(5, 0, 5))
    assert (tokens.cache_write, tokens.cache_write_1h) == (20, None)


@pytest.mark.parametrize(("short", "long"), [(0, 0), (9, 0), ("much", 3), (-7, 17)])
def test_periods_that_do_not_add_up_to_what_was_written_tell_nothing(short: Any, long: Any) -> None:
    assert counted(usage(10, short, long)).cache_write_1h is None


def test_a_value_in_the_periods_place_spoils_no_other_count() -> None:
    told = msgspec.json.decode(
        b'{"input_tokens": 3, "cache_creation_input_tokens": 2, "cache_creation": 5}', type=Usage
    )
    assert tokens_of(told) == Tokens(input=3, cache_write=2)


def test_records_of_one_message_count_once() -> None:
    before, tokens = add_record(Tokens(), None, usage(10, 0, 10))
    after, same = add_record(tokens, before, usage(10, 0, 10))
    assert (after, same) == (before, tokens)
    assert (tokens.cache_write_1h, tokens.largest_input) == (10, 20)


def test_the_largest_request_holds_what_came_from_caches_and_went_into_them() -> None:
    assert counted(usage(90, 90, 0), usage(input_=50)).largest_input == 100


def test_a_log_that_goes_on_from_a_version_that_knew_less_stays_unknown() -> None:
    tokens = Tokens(input=10, output=1, cache_read=0, cache_write=4)
    now, more = add_record(tokens, (10, 1, 0, 4), usage(6, 0, 6))
    assert now == (10, 1, 0, 6, 6)
    assert (more.cache_write, more.cache_write_1h, more.largest_input) == (6, None, None)


def test_of_a_run_the_messages_tell_the_largest_request_unless_one_was_not_streamed() -> None:
    messages = [Tokens(input=10, cache_write=5, cache_write_1h=5), Tokens(input=20, cache_write=0, cache_write_1h=0)]
    same = Tokens(input=30, cache_write=5, cache_write_1h=5)
    assert tokens_of_run(messages, [same]) == Tokens(input=30, cache_write=5, cache_write_1h=5, largest_input=20)
    more = tokens_of_run(messages, [Tokens(input=90, cache_write=50)])
    assert more == Tokens(input=90, cache_write=50)


def test_of_two_countings_the_period_is_that_of_the_larger() -> None:
    start, end = Tokens(input=5, cache_write=7, cache_write_1h=7), Tokens(output=9)
    assert larger_counts(start, end) == Tokens(input=5, output=9, cache_write=7, cache_write_1h=7)
    assert larger_counts(start, Tokens(cache_write=8)).cache_write_1h is None
