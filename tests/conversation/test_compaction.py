"""Compaction as values: where the boundary is, what is asked, which texts count as a summary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.conversation.compaction import (
    EXCHANGES_KEPT,
    Exchange,
    boundary,
    problem_with,
    retention,
    steps,
    summary_prompt,
)
from backstory.conversation.context import CLOSE, OPEN
from tests.support.every import every

GOOD = "The parser in src/parse.py was rewritten because it lost escapes. " * 10


def exchanges(*chars: int) -> list[Exchange]:
    return [Exchange(last_seq=10 * n, chars=each) for n, each in enumerate(chars, 1)]


def test_the_last_three_exchanges_stay() -> None:
    found = boundary(exchanges(100, 100, 100, 100, 100), 10_000)
    assert found is not None
    assert (found.after_seq, found.summarized, found.kept) == (20, 2, 3)


@pytest.mark.parametrize(("count", "kept"), [(2, 1), (3, 2), (4, 3), (9, 3)])
def test_fewer_stay_where_there_are_no_more(count: int, kept: int) -> None:
    found = boundary(exchanges(*[100] * count), 10_000)
    assert found is not None
    assert (found.kept, found.summarized) == (kept, count - kept)


def test_a_single_exchange_has_no_boundary() -> None:
    assert boundary(exchanges(500_000), 400_000) is None
    assert boundary([], 400_000) is None


def test_fewer_stay_where_those_alone_are_over_half_the_limit() -> None:
    found = boundary(exchanges(10, 900, 300, 300), 1_000)
    assert found is not None
    assert found.kept == 1


def test_the_last_exchange_stays_however_large_it_is() -> None:
    found = boundary(exchanges(10, 10, 5_000), 1_000)
    assert found is not None
    assert (found.kept, found.after_seq, found.kept_chars) == (1, 20, 5_000)


@given(st.lists(st.integers(min_value=1, max_value=1_000), min_size=2, max_size=12), st.integers(1, 3_000))
def test_a_boundary_parts_the_exchanges_and_keeps_one_to_three(chars: list[int], limit: int) -> None:
    found = boundary(exchanges(*chars), limit)
    assert found is not None
    assert found.summarized + found.kept == len(chars)
    assert 1 <= found.kept <= EXCHANGES_KEPT
    assert found.kept == 1 or found.kept_chars <= limit // 2


@given(st.lists(st.text(max_size=200), max_size=20), st.integers(1, 100))
def test_steps_are_small_enough_and_lose_nothing(blocks: list[str], limit: int) -> None:
    pieces = list(steps(blocks, limit))
    assert all(len(piece) <= limit for piece in pieces)
    assert "".join(pieces).replace("\n", "") == "".join(blocks).replace("\n", "")


def test_history_stands_in_the_prompt_between_its_own_tags() -> None:
    asked = summary_prompt("## User\nhello")
    assert asked.startswith(f"{OPEN}\n## User\nhello\n{CLOSE}\n")
    assert "2,000 to 4,000 characters" in asked


def test_a_good_summary_has_no_problem() -> None:
    assert problem_with(GOOD, ["/home/x/src/parse.py"]) is None
    assert problem_with(GOOD, []) is None


@every(
    "text",
    [
        "",
        "Too short.",
        "x" * 12_001,
        "x" * 10_000_000,
        "I won't summarise this session. " + "Please ask for something else. " * 20,
        "I don\u2019t have access to the history. " + "Please paste it here. " * 20,
        "My apologies, but this is beyond what may be done. " * 10,
        "It looks like the history is missing. " * 20,
        "Failed to authenticate. API Error: 401 " + "x" * 500,
        "API Error: 529 overloaded " + "please try again " * 40,
        "Invalid API key · Please run /login " + "." * 600,
        "Claude AI usage limit reached|1760000000 " + "." * 600,
        "I'm sorry, but I can't help with summarising this. " * 12,
        "I cannot summarise this conversation. " * 15,
    ],
)
def test_what_is_no_summary_does_not_count(text: str) -> None:
    assert problem_with(text, []) is not None


def test_a_summary_that_names_no_file_of_its_span_does_not_count() -> None:
    assert problem_with(GOOD, ["/home/x/other.py"]) == "it names none of the files that were touched"


def test_a_summary_may_speak_of_an_error_that_happened() -> None:
    assert problem_with(f"{GOOD} An API Error: 529 was met and retried.", []) is None


@pytest.mark.parametrize("beginning", ["Rate limiting was added. ", "Not logged in users were sent to /login. "])
def test_a_summary_may_begin_with_words_that_errors_begin_with(beginning: str) -> None:
    assert problem_with(beginning + GOOD, []) is None


def test_retention_counts_what_is_still_named() -> None:
    found = retention(GOOD, {"files": ["/a/src/parse.py", "/a/gone.py"], "commands": []})
    assert [(each.kind, each.named, each.total) for each in found] == [("files", 1, 2)]
