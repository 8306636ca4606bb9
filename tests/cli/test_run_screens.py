"""A run, what runs and what is queued, on the screen: as they were at three widths, in lines that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.cli.output import columns
from tests.support.run_screens import ANSWERS, GOLDEN, NAMES, REGENERATE, screens
from tests.support.screens import WIDTHS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

OTHER = f"It changed. If that was meant, run `{REGENERATE}` and look at every difference."


@pytest.mark.parametrize("width", WIDTHS)
def test_screens_are_as_they_were_and_fit(tmp_path: Path, width: int) -> None:
    for name, shown in screens(tmp_path, width):
        assert shown == (GOLDEN / f"{name}-{width}.txt").read_text("utf-8"), f"{name} at {width} columns. {OTHER}"
        # An answer is printed as it comes, and what is to be typed is not broken: a terminal breaks both.
        lines = [line for line in shown.splitlines() if line not in ANSWERS and ": backstory " not in line]
        assert max(map(columns, lines)) <= max(width, 51), name


def test_every_file_is_of_a_screen() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {f"{name}-{width}" for name in NAMES for width in WIDTHS}
