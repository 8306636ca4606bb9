"""Bytes become the same lines, however they come."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.agents import jsonl
from backstory.agents.jsonl import LineReader, lines_of

if TYPE_CHECKING:
    from backstory.agents.jsonl import Line

DATA = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"}\n", b"}", b"long" * 5]), max_size=30).map(b"".join)
CUTS = st.lists(st.integers(0, 200), max_size=8)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = sorted({0, len(data), *(place for place in places if place < len(data))})
    return [data[start:end] for start, end in itertools.pairwise(at)]


def read(reader: LineReader, blocks: list[bytes]) -> list[Line]:
    return [line for block in blocks for line in reader.lines(block)]


@given(data=DATA, places=CUTS)
def test_lines_are_the_same_however_the_bytes_are_cut(data: bytes, places: list[int]) -> None:
    reader = LineReader()
    found = read(reader, cut(data, places))
    assert [line for _, _, line in found] == data.split(b"\n")[:-1]
    assert [data[start:stop] for start, stop, _ in found] == [(line or b"") + b"\n" for *_, line in found]
    assert (reader.unfinished, reader.read_to) == (data.split(b"\n")[-1], len(data))
    assert b"".join(line or b"" for *_, line in lines_of(cut(data, places))) == data.replace(b"\n", b"")


@given(data=DATA, places=CUTS, gone_on=st.integers(0, 200))
def test_reading_goes_on_from_a_line_that_was_begun(data: bytes, places: list[int], gone_on: int) -> None:
    for end in (lambda: None, lambda: re.compile(rb".*}\Z", re.DOTALL), Headed):
        whole = LineReader(record_end=end())
        found = read(whole, [data])
        first = LineReader(record_end=end())
        begun = read(first, cut(data[:gone_on], places))
        second = LineReader(first.start, first.unfinished or b"", record_end=end())
        assert begun + read(second, cut(data[gone_on:], places)) == found
        assert (second.start, second.unfinished) == (whole.start, whole.unfinished)


class Headed:
    """Records that begin with a line with a brace, but for one behind an empty line."""

    _was_empty = False

    def begins(self, line: bytes) -> bool:
        was_empty, self._was_empty = self._was_empty, not line
        return b"{" in line and not was_empty


def test_a_record_of_several_lines_begins_where_its_document_says() -> None:
    reader = LineReader(record_end=Headed())
    assert read(reader, [b"{1\n2\n{", b"3\n", b"\n{4\n{5", b"\n"]) == [(0, 5, b"{1\n2"), (5, 12, b"{3\n\n{4")]
    assert (reader.start, reader.unfinished, reader.read_to) == (12, b"{5\n", 15)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_record_of_several_lines_over_the_limit_is_never_held(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(jsonl, "LINE_BYTES_MAX", 5)
    data = b"{1234\n{2345\n6\n{1\n2\n{4567\n8\n"
    reader = LineReader(record_end=Headed())
    found = read(reader, [data[at : at + size] for at in range(0, len(data), size)])
    assert found == [(0, 6, b"{1234"), (6, 14, None), (14, 19, b"{1\n2")]
    assert (reader.start, reader.unfinished, reader.read_to) == (19, None, len(data))
    goes_on = LineReader(reader.start, carried=reader.read_to - reader.start, record_end=Headed())
    assert read(goes_on, [b"9\n{", b"1\n"]) == [(19, len(data) + 2, None)]


def test_a_record_of_several_lines_ends_where_its_document_says() -> None:
    reader = LineReader(record_end=re.compile(rb"}"))
    assert read(reader, [b"{\n1\n", b"}\n{\n", b"}", b"\n["]) == [(0, 6, b"{\n1\n}"), (6, 10, b"{\n}")]
    assert (reader.start, reader.unfinished) == (10, b"[")


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_line_over_the_limit_is_never_held(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(jsonl, "LINE_BYTES_MAX", 5)
    data = b"12345\n123456\n1\n1234567"
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    reader = LineReader()
    assert read(reader, blocks) == [(0, 6, b"12345"), (6, 13, None), (13, 15, b"1")]
    assert (reader.start, reader.unfinished, reader.read_to) == (15, None, 22)
    assert reader._pieces == []
    assert list(lines_of(blocks))[-1] == (15, 22, None)


def test_the_beginning_of_a_line_may_be_too_long_to_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "LINE_BYTES_MAX", 5)
    reader = LineReader(10, carried=6)
    assert read(reader, [b"7\n8\n"]) == [(10, 18, None), (18, 20, b"8")]
