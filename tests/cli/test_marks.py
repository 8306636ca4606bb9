"""Badges of turns, and the colours of a context that fills."""

from __future__ import annotations

import pytest

from backstory.derive.moments import OUTCOMES, outcome_mark
from backstory.workspace.runs.running import METER_LEAST, Meter, meter_words


@pytest.mark.parametrize(
    ("used", "words", "colour"),
    [(0, "0 %", "green"), (599, "59 %", "green"), (600, "60 %", "yellow"), (899, "89 %", "yellow"),
     (900, "90 %", "red"), (1_000, "100 %", "red"), (9_000, "100 %", "red")],
)  # fmt: skip
def test_a_context_is_green_then_yellow_then_red(used: int, words: str, colour: str) -> None:
    assert meter_words(Meter(used=used, limit=1_000)) == (words, colour)


def test_beside_a_run_less_than_a_tenth_is_not_worth_a_word() -> None:
    assert meter_words(Meter(used=99, limit=1_000), METER_LEAST) == ("", "")
    assert meter_words(Meter(used=100, limit=1_000), METER_LEAST) == ("10 %", "green")


def test_what_is_not_known_is_not_shown() -> None:
    assert meter_words(None) == ("", "")
    assert Meter(used=5, limit=0).percent == 0


@pytest.mark.parametrize(
    ("outcome", "mark"),
    [("completed", "✓"), ("failed", "✗"), ("cancelled", "■"), ("crashed", "!"), (None, ""), ("running", "●")],
)
def test_each_outcome_has_its_badge(outcome: str | None, mark: str) -> None:
    assert outcome_mark(outcome)[0] == mark


def test_no_badge_is_hidden_by_a_background() -> None:
    assert {colour for _, colour in OUTCOMES.values()} <= {"green", "red", "magenta", "cyan"}


def test_what_was_stopped_for_a_summary_has_none() -> None:
    assert outcome_mark("cancelled", "compaction") == ("", "")
