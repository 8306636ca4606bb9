"""A test of many cases fails with each case that does, and with no other."""

from __future__ import annotations

import pytest

from tests.support.every import every


@every("number", [1, 2, 3], ids=["one", "two", "three"])
def is_even(number: int) -> None:
    assert number % 2 == 0


@every("low", [1, 2])
@every("high", [2, 3])
def is_less(low: int, high: int) -> None:
    assert low < high


def test_each_case_that_fails_is_named() -> None:
    with pytest.raises(AssertionError) as failed:
        is_even()
    said = str(failed.value)
    assert said.startswith("2 of 3: ")
    assert [name in said for name in ("one", "two", "three")] == [True, False, True]
    assert "assert (3 % 2) == 0" in said


def test_of_two_each_case_is_run_with_each_of_the_other() -> None:
    with pytest.raises(AssertionError) as failed:
        is_less()
    assert "assert 2 < 2" in str(failed.value)
    assert str(failed.value).startswith("1 of 2: ")


def test_a_test_without_cases_is_refused() -> None:
    with pytest.raises(AssertionError, match="there are no cases"):
        every("number", [])(is_even)
