"""Text is broken between words, by the columns that a terminal needs for it; nothing of it is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.cli.output import clean, columns, one_line, spans, wrapped
from tests.support.every import every


@every(
    ("text", "width", "lines"),
    [
        ("", 10, [""]),
        ("one two three", 13, ["one two three"]),
        ("one two three", 12, ["one two", "three"]),
        ("one two three", 7, ["one two", "three"]),
        ("one two   three", 8, ["one two", "three"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("a abcdefghij", 4, ["a", "abcd", "efgh", "ij"]),
        ("    indented words", 12, ["    indented", "words"]),
        ("    indentedwords", 8, ["    inde", "ntedword", "s"]),
        ("one\n\ntwo", 5, ["one", "", "two"]),
        ("blanks at the end    ", 17, ["blanks at the end"]),
        ("\tx", 10, ["    x"]),
        ("漢字漢字", 5, ["漢字", "漢字"]),
        ("ab 漢字漢字漢字", 9, ["ab 漢字漢", "字漢字"]),
        ("漢", 1, ["漢"]),
        ("e\u0301e\u0301e\u0301", 2, ["e\u0301e\u0301", "e\u0301"]),
        ("👩\u200d💻👩\u200d💻", 5, ["👩\u200d💻", "👩\u200d💻"]),
        ("שלום עולם", 6, ["שלום", "עולם"]),
        ("a\x1b[31mb", 5, ["a\\x1b", "[31mb"]),
    ],
)
def test_lines_are_broken_between_words(text: str, width: int, lines: list[str]) -> None:
    assert wrapped(text, width) == lines


@given(st.text(st.sampled_from("ab 漢e\u0301👩\u200dש\ufe0f-"), max_size=60), st.integers(2, 20))
def test_no_line_is_too_wide_and_no_letter_is_lost(text: str, width: int) -> None:
    parts = [text[start:end] for start, end in spans(text, width)]
    assert "".join(parts).replace(" ", "") == text.replace(" ", "")
    for part in parts:
        assert columns(part) <= width or "\u200d" in part


def test_a_line_of_a_megabyte_is_broken_at_once() -> None:
    assert len(wrapped("word " * 200_000, 80)) == 12_500
    assert len(wrapped("漢字 " * 200_000, 80)) > 10_000


@pytest.mark.parametrize(
    ("text", "wide"),
    [("abc", 3), ("漢字", 4), ("🎉", 2), ("e\u0301", 1), ("👩\u200d💻", 4), ("❤\ufe0f", 1), ("שלום", 4)],
)
def test_columns_are_those_of_a_terminal(text: str, wide: int) -> None:
    assert columns(text) == wide


def test_a_title_is_cut_by_columns_and_ends_in_no_joiner() -> None:
    assert one_line("👩\u200d💻👩\u200d💻", 4) == "👩…"
    assert one_line("漢字漢字", 6) == "漢字…"
    assert columns(one_line("漢" * 10_000, 40)) <= 40
    assert clean("a\u202eb") == "a\\u202eb"
