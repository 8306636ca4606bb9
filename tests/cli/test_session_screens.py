"""A session on the screen: as it was at three widths, whole lines, nothing cut in a pipe, and speed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from backstory.cli.output import columns
from tests.support.screens import PICTURE_COLUMNS, PICTURES, WIDTHS, plain, words_of_picture
from tests.support.session_screens import GOLDEN, OLD, PLAN, REGENERATE, SCREENS, SESSION, SessionMachine, screens

if TYPE_CHECKING:
    from tests.support.screens import Machine

pytestmark = pytest.mark.slow

OTHER = f"It changed. If that was meant, run `{REGENERATE}` and look at every difference."
COLOURS_READ_ON_ALL_BACKGROUNDS = {"0", "1", "2", "31", "32"}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> SessionMachine:
    return SessionMachine(tmp_path_factory.mktemp("screens"))


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("width", WIDTHS)
def test_screens_are_as_they_were(machine: SessionMachine, width: int) -> None:
    for name, shown in screens(machine, width):
        assert plain(shown) == golden(f"{name}-{width}"), f"{name} at {width} columns. {OTHER}"


def test_a_pipe_gets_no_colour_and_whole_lines(machine: SessionMachine) -> None:
    shown = machine.piped("show", SESSION)
    assert shown == golden("show-piped"), OTHER
    assert "\x1b" not in shown
    assert f"{'deeply/' * 12}gateway.py" in shown
    assert "One person's script must not lock everybody out of the login, which is what the limit of all" in shown


@pytest.mark.parametrize("width", [*WIDTHS, 160, 400])
def test_no_line_is_wider_than_the_terminal_or_than_a_person_reads(machine: SessionMachine, width: int) -> None:
    for name, shown in screens(machine, width):
        most = width if name.startswith("tree") else min(width, 120)
        assert max(map(columns, plain(shown).splitlines())) <= most, name


@pytest.mark.parametrize("name", SCREENS)
def test_a_picture_shows_the_screen_as_it_is(name: str) -> None:
    svg = (PICTURES / f"{name}.svg").read_text("utf-8")
    lines = ("".join(line.split()) for line in golden(f"{name}-{PICTURE_COLUMNS}").splitlines())
    assert words_of_picture(svg) == [line for line in lines if line], OTHER


def test_every_file_is_of_a_screen() -> None:
    named = {f"{name}-{width}" for name in SCREENS for width in WIDTHS}
    assert {path.stem for path in GOLDEN.iterdir()} == named | {"show-piped"}


def test_colours_can_be_read_on_light_and_on_dark(machine: SessionMachine) -> None:
    for name, shown in screens(machine, 100):
        used = {code for codes in re.findall(r"\x1b\[([0-9;]*)m", shown) for code in codes.split(";")}
        assert used <= COLOURS_READ_ON_ALL_BACKGROUNDS, name


def test_without_colour_a_screen_says_the_same(machine: SessionMachine) -> None:
    for words in SCREENS.values():
        shown = machine.shown(*words, NO_COLOR="1")
        assert "\x1b" not in shown
        assert shown == plain(machine.shown(*words))


def test_in_full_nothing_is_folded_and_each_result_stands_for_itself(machine: SessionMachine) -> None:
    full = machine.piped("show", SESSION, "--full")
    assert all(line in full for line in PLAN.split("\n"))
    assert all(f"- {line}" in full for line in OLD.split("\n")[:1])
    assert "@13      File created successfully at: who.py" in full
    assert "line 84" in full
    assert "more" not in full


def test_in_json_nothing_depends_on_the_terminal(machine: SessionMachine) -> None:
    piped = machine.piped("show", SESSION, "--json")
    assert machine.shown("show", SESSION, "--json", width=40) == piped
    kinds = [each["kind"] for each in json.loads(piped)["events"]]
    assert kinds.count("ToolCall") == kinds.count("ToolResult") == 6


def test_what_came_of_a_call_stands_on_its_line() -> None:
    shown = [" ".join(line.split()) for line in golden("show-100").splitlines()]
    for line in (
        "@3 ● Read limits.py 84 lines", "@4 ● Bash pytest -q tests/test_limits.py -k 'not slow' exit 1, ~4.0 s",
        "@10 ● Edit limits.py +2 −3", "@12 ● Write who.py 3 lines", "@14 ● Bash pytest -q ok, ~4.0 s",
    ):  # fmt: skip
        assert line in shown, line
    # The agent's remark that a file was written says nothing more.
    assert not [line for line in shown if line.startswith("@13")]


def test_a_legend_is_for_people(machine: Machine) -> None:
    assert golden("tree-80").endswith("> here   * on the way\n")
    assert golden("tree-records-80").endswith("> here   U: prompt   A: answer   → tool\n")
    assert "on the way" not in machine.piped("tree", SESSION)
    assert machine.piped("tree", "--records", SESSION) == machine.piped("scan", SESSION)
    assert machine.piped("tree", "--records", "--json", SESSION) == machine.piped("scan", "--json", SESSION)
