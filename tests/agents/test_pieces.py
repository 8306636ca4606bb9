"""A log that grows is read in pieces; what it says must not depend on where they were cut."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .reading import Told, case_name, case_told, cases, lines_of, log_of


@cache
def whole(folder: Path) -> Told:
    return case_told(folder)


@pytest.mark.parametrize("folder", cases(), ids=case_name)
@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_log_read_in_pieces_says_the_same_as_read_whole(folder: Path, data: st.DataObject) -> None:
    lines = len(lines_of(log_of(folder).read_bytes()))
    cuts = data.draw(st.sets(st.integers(1, max(1, lines - 1)), max_size=12), label="new readers after lines")
    assert case_told(folder, sorted(cuts)) == whole(folder)


@pytest.mark.parametrize("folder", cases(), ids=case_name)
def test_a_log_read_line_by_line_says_the_same_as_read_whole(folder: Path) -> None:
    lines = len(lines_of(log_of(folder).read_bytes()))
    assert case_told(folder, range(1, lines)) == whole(folder)
