"""Screens are what they were at three widths, fit any terminal, and docs/screens shows them as they are."""

from __future__ import annotations

import re

import pytest

from backstory.cli.output import columns
from tests.support.every import every
from tests.support.screens import (
    GOLDEN,
    LONG_TITLE,
    PICTURE_COLUMNS,
    PICTURES,
    REGENERATE,
    SCREENS,
    WIDTHS,
    Machine,
    picker,
    plain,
    screens,
    words_of_picture,
)
from tests.support.session_screens import SCREENS as SESSION_SCREENS

pytestmark = pytest.mark.slow

OTHER = f"It changed. If that was meant, run `{REGENERATE}` and look at every difference."
COLOURS_READ_ON_ALL_BACKGROUNDS = {"0", "1", "2", "31", "32"}
"""Plain, bold, dim, red, green: nothing yellow or white, which a white background hides."""


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Machine, str]:
    """The machine, and what its first ingest showed."""
    machine = Machine(tmp_path_factory.mktemp("screens"))
    return machine, plain(machine.shown("ingest", width=PICTURE_COLUMNS))


@pytest.fixture(scope="module")
def machine(first: tuple[Machine, str]) -> Machine:
    return first[0]


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("width", WIDTHS)
def test_screens_are_as_they_were(machine: Machine, width: int) -> None:
    for name, shown in screens(machine, width):
        assert plain(shown) == golden(f"{name}-{width}"), f"{name} at {width} columns. {OTHER}"


def test_the_first_ingest_is_as_it_was(first: tuple[Machine, str]) -> None:
    assert first[1] == golden(f"ingest-first-{PICTURE_COLUMNS}"), OTHER


def test_the_picker_is_as_it_was(machine: Machine) -> None:
    assert plain(picker(machine)) == golden(f"picker-{PICTURE_COLUMNS}"), OTHER


def test_a_piped_list_is_as_it_was(machine: Machine) -> None:
    assert machine.piped("list", "--all") == golden("list-piped"), OTHER


@pytest.mark.parametrize("width", [*WIDTHS, 160, 400])
def test_no_line_is_wider_than_the_terminal(machine: Machine, width: int) -> None:
    for name, shown in screens(machine, width):
        lines = plain(shown).splitlines()
        assert lines, name
        assert max(map(columns, lines)) <= width, name


@every("name", [*SCREENS, "ingest-first", "picker"])
def test_a_picture_shows_the_screen_as_it_is(name: str) -> None:
    svg = (PICTURES / f"{name}.svg").read_text("utf-8")
    lines = ("".join(line.split()) for line in golden(f"{name}-{PICTURE_COLUMNS}").splitlines())
    assert words_of_picture(svg) == [line for line in lines if line], OTHER
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", ""), "a picture fetches nothing"


def test_every_file_is_of_a_screen() -> None:
    named = {f"{name}-{width}" for name in SCREENS for width in WIDTHS}
    named |= {f"ingest-first-{PICTURE_COLUMNS}", f"picker-{PICTURE_COLUMNS}", "list-piped"}
    assert {path.stem for path in GOLDEN.iterdir()} == named
    pictures = {*SCREENS, *SESSION_SCREENS, "ingest-first", "picker", "moving"}
    assert {path.stem for path in PICTURES.iterdir()} == pictures


def test_colours_can_be_read_on_light_and_on_dark(machine: Machine) -> None:
    for name, shown in screens(machine, 100):
        used = {code for codes in re.findall(r"\x1b\[([0-9;]*)m", shown) for code in codes.split(";")}
        assert used <= COLOURS_READ_ON_ALL_BACKGROUNDS, name


def test_without_colour_a_screen_says_the_same(machine: Machine) -> None:
    for words in (("list", "--all"), ("search", "rate", "limit"), ()):
        shown = machine.shown(*words, NO_COLOR="1")
        assert "\x1b" not in shown
        assert shown == plain(machine.shown(*words))


def test_a_pipe_gets_every_field_whole_and_no_heading(machine: Machine) -> None:
    rows = [line.split("\t") for line in machine.piped("list", "--all").splitlines()]
    assert {len(row) for row in rows} == {10}
    assert all(len(row[0]) == 26 for row in rows), "whole uids, which work in any folder"
    longest = max((row[2] for row in rows), key=len)
    assert LONG_TITLE.startswith(longest) and len(longest) == 200, "as much of it as is kept for a title"
    own = [line.split("\t") for line in machine.piped("list").splitlines()]
    assert [(row[1], row[2]) for row in own] == [
        ("S2", "Fix the failing test in calc.py"), ("S1", "Why is the sky blue?")
    ]  # fmt: skip


def test_what_no_session_has_takes_no_room(machine: Machine) -> None:
    assert "claude" not in golden("list-100")
    assert "acme" not in golden("list-100")
    assert "–" not in golden("list-all-100")


def test_days_are_headings_unless_the_list_is_sorted_by_something_else() -> None:
    assert golden("list-all-100").startswith("today\n")
    assert not golden("list-sorted-100").startswith(("today", "November"))
    assert "November" not in golden("list-sorted-100")


def test_where_the_store_is_stands_only_in_an_explanation(machine: Machine) -> None:
    assert "store.db" not in golden("ingest-first-100") + golden("ingest-80")
    assert "Store: ~/backstory/store.db" in plain(machine.shown("ingest", "--explain", width=200))
