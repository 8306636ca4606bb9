"""The part of a text that shows why it was found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.search.snippet import snippet

FILLER = "lorem ipsum dolor sit amet " * 40


def marked(text: str, query: str) -> list[str]:
    line, marks = snippet(text, query)
    return [line[start:end] for start, end in marks]


def test_the_words_that_were_found_are_marked() -> None:
    assert snippet("fix the login page", "login") == ("fix the login page", [(8, 13)])


def test_every_place_of_every_word_is_marked() -> None:
    assert marked("log in, then log out", "out log") == ["log", "log", "out"]


def test_case_and_accents_make_no_difference() -> None:
    assert marked("Café CAFE cafe", "café") == ["Café", "CAFE", "cafe"]


def test_a_word_inside_another_is_not_marked() -> None:
    assert marked("blogging about a log", "log") == ["log"]


def test_the_start_of_a_word_is_enough_with_a_star() -> None:
    assert marked("logging the log", "log*") == ["logging", "log"]


def test_what_was_typed_in_one_is_marked_in_one() -> None:
    assert marked("see login.ts (line 3)", "login.ts") == ["login.ts"]


def test_punctuation_is_no_part_of_a_word() -> None:
    assert marked("see (login), ts", "login ts") == ["login", "ts"]


def test_words_in_scripts_without_spaces_are_marked_inside_longer_runs() -> None:
    assert marked("私は東京に住む", "東京") == ["東京"]


def test_a_word_is_marked_between_letters_of_such_scripts_and_beside_signs() -> None:
    assert marked("東京rename한국 😀rename", "rename") == ["rename", "rename"]


def test_a_phrase_does_not_reach_over_such_letters() -> None:
    assert marked("rate東limit", '"rate limit"') == ["rate", "limit"]


def test_signs_that_were_typed_are_preferred_to_the_word_alone() -> None:
    line, marks = snippet(f"a C here {FILLER} and C++ there {FILLER}", "C++")
    assert [line[start:end] for start, end in marks] == ["C++"]


def test_a_phrase_is_marked_where_it_stands_together() -> None:
    assert marked("limit the rate: rate limit", '"rate limit"') == ["rate limit"]


def test_a_phrase_that_stands_nowhere_together_is_shown_by_its_words() -> None:
    assert marked("limit the rate", '"rate limit"') == ["limit", "rate"]


def test_a_part_of_an_identifier_is_marked() -> None:
    assert marked("call getUserName() now", "user name") == ["User", "Name"]


def test_letters_inside_a_part_of_an_identifier_are_not_marked() -> None:
    assert marked("call getUserName() now", "ser") == []


def test_an_identifier_is_marked_in_every_way_to_write_it() -> None:
    assert marked("call get_user_name", "getUserName") == ["get_user_name"]


def test_an_accent_of_its_own_makes_no_difference() -> None:
    assert marked("cafe\u0301 noir", "café") == ["café"]


def test_syllables_of_hangul_are_no_accents() -> None:
    assert marked("한국어 문서", "한국") == ["한국"]


def test_an_open_quote_is_no_sign_to_look_for() -> None:
    assert marked("a rate here", '"rate') == ["rate"]


def test_the_excerpt_stands_where_the_words_come_together() -> None:
    line, marks = snippet(f"rate {FILLER} the rate limit was hit {FILLER}", "rate limit")
    assert "the rate limit was hit" in line
    assert [line[start:end] for start, end in marks] == ["rate", "limit"]


def test_an_excerpt_says_that_there_is_more_on_either_side() -> None:
    line, _ = snippet(f"{FILLER} needle {FILLER}", "needle")
    assert line.startswith("…")
    assert line.endswith("…")


def test_an_excerpt_is_one_line() -> None:
    line, _ = snippet("one\n\n\ttwo  needle\r\nthree", "needle")
    assert line == "one two needle three"


def test_without_a_place_the_beginning_is_shown() -> None:
    line, marks = snippet(FILLER, "needle")
    assert FILLER.startswith(line)
    assert marks == []


@pytest.mark.parametrize("query", ["", "!!!", '"', "*"])
def test_a_query_without_words_marks_nothing(query: str) -> None:
    assert marked("some text", query) == []


@given(st.text(), st.text(max_size=20), st.integers(min_value=1, max_value=100))
def test_marks_lie_inside_the_excerpt_in_order(text: str, query: str, around: int) -> None:
    line, marks = snippet(text, query, around)
    places = [place for mark in marks for place in mark]
    assert places == sorted(places)
    assert all(0 <= place <= len(line) for place in places)
    assert line == line.strip() and "\n" not in line


@given(st.text(alphabet="ab \n", max_size=300), st.sampled_from(["a", "b", "ab"]))
def test_whatever_is_marked_is_a_word_that_was_asked_for(text: str, query: str) -> None:
    assert all(word == query for word in marked(text, query))


@given(st.text(alphabet="ab \n", max_size=300), st.sampled_from(["a", "b", "ab"]))
def test_a_word_that_is_there_is_marked(text: str, query: str) -> None:
    assert bool(marked(text, query)) == (query in text.split())
