"""What is known of a run's turn from its stream and from the agent's own log, together."""

from __future__ import annotations

from msgspec.structs import replace

from backstory.store.intake.run_facts import TurnFacts, improved

NOTHING = TurnFacts(*[None] * 13)
COUNTS = {"input": 10, "output": 7, "cache_read": 2, "largest_input": 9, "reasoning": 1}
LOG = replace(NOTHING, model="gpt-5.5", api_latency_ms=30, tokens_source="reported", **COUNTS)
STREAM = replace(NOTHING, input=10, output=7, cache_read=2, tokens_source="reported")


def test_a_turn_of_which_nothing_is_known_takes_all_and_says_where_from() -> None:
    assert improved(NOTHING, LOG) == replace(LOG, tokens_source="log")


def test_what_the_stream_counted_stays_and_what_it_did_not_count_is_taken() -> None:
    assert improved(STREAM, LOG) == replace(LOG, tokens_source="reported")


def test_of_a_log_that_counts_otherwise_no_count_is_taken() -> None:
    better = improved(STREAM, replace(LOG, output=8))
    assert (better.output, better.largest_input, better.reasoning) == (7, None, None)
    assert better.model == "gpt-5.5"


def test_counts_that_came_from_the_log_follow_it() -> None:
    once = improved(NOTHING, LOG)
    assert improved(once, replace(LOG, output=9)).output == 9


def test_a_run_that_was_cut_off_takes_its_cost_and_latency() -> None:
    better = improved(NOTHING, replace(LOG, cost_usd=0.5, cost_source="reported"))
    assert (better.cost_usd, better.cost_source, better.api_latency_ms) == (0.5, "reported", 30)


def test_a_cost_and_a_latency_that_the_stream_reported_stay() -> None:
    known = replace(STREAM, cost_usd=0.1, cost_source="reported", api_latency_ms=20)
    better = improved(known, replace(LOG, cost_usd=0.5, cost_source="reported"))
    assert (better.cost_usd, better.api_latency_ms) == (0.1, 20)


def test_the_model_that_answered_is_taken_for_the_one_that_was_asked_for() -> None:
    assert improved(replace(STREAM, model="opus"), replace(LOG, model="claude-opus-5-5")).model == "claude-opus-5-5"
    assert improved(replace(STREAM, model="opus"), replace(LOG, model=None)).model == "opus"


def test_taking_the_same_again_changes_nothing() -> None:
    for known in (NOTHING, STREAM, LOG):
        once = improved(known, LOG)
        assert improved(once, LOG) == once
