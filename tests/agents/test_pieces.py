"""A log that grows is read in pieces; what it says must not depend on where they were cut."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.every import every
from tests.support.reading import Told, case_name, case_told, cases, lines_of, log_of, told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ODD_VALUES: list[Any] = [
    None,
    True,
    -1,
    1.5,
    float("inf"),
    "",
    "x",
    "\ud800",
    [],
    {},
    [None],
    ["a"],
    [{"type": 3}],
    {"a": {}},
]


@cache
def whole(folder: Path) -> Told:
    return case_told(folder)


@pytest.mark.parametrize("folder", cases(), ids=case_name)
@given(data=st.data())
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_a_log_read_in_pieces_says_the_same_as_read_whole(folder: Path, data: st.DataObject) -> None:
    lines = len(lines_of(log_of(folder).read_bytes()))
    cuts = data.draw(st.sets(st.integers(1, max(1, lines - 1)), max_size=12), label="new readers after lines")
    assert case_told(folder, sorted(cuts)) == whole(folder)


@every("folder", cases(), ids=case_name)
def test_a_log_read_line_by_line_says_the_same_as_read_whole(folder: Path) -> None:
    lines = len(lines_of(log_of(folder).read_bytes()))
    assert case_told(folder, range(1, lines)) == whole(folder)


@pytest.mark.parametrize("folder", cases(), ids=case_name)
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_a_log_with_odd_values_is_read_to_its_end_and_the_same_in_pieces(folder: Path, data: st.DataObject) -> None:
    lines = list(lines_of(log_of(folder).read_bytes()))
    for at in data.draw(st.sets(st.integers(0, len(lines) - 1), min_size=1, max_size=12), label="odd lines"):
        lines[at] = _with_odd_value(lines[at], data)
    odd, cut = b"\n".join(lines), data.draw(st.integers(1, max(1, len(lines) - 1)), label="new reader after")
    agent, log = folder.parent.name, log_of(folder)
    assert told(agent, odd, log, [cut]) == told(agent, odd, log)


def _with_odd_value(line: bytes, data: st.DataObject) -> bytes:
    try:
        record = json.loads(line)
    except ValueError:
        return line
    spots = list(_spots(record))
    holder, key = spots[data.draw(st.integers(0, len(spots) - 1), label="place")]
    holder[key] = data.draw(st.sampled_from(ODD_VALUES), label="value")
    return json.dumps(record).encode()


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a record that holds a value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _spots(value[key])
