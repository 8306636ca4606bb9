"""What is sent to the terminal: it shows what Textual's own updates would show, for fewer bytes."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import get_character_cell_size
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from backstory.cli.tui.painting import Painted, PaintingApp, Repaint

if TYPE_CHECKING:
    from textual._compositor import CompositorUpdate

COLUMNS, ROWS, CUT = 12, 3, 5
CONSOLE = Console(color_system="truecolor", width=COLUMNS)
NAMED = ("bold red", "red on blue", "default on blue", "reverse", "dim on #102030", "bold", "underline")
STYLES = [None, *map(Style.parse, NAMED)]
SEQUENCES = re.compile(r"\x1b\[([0-9;]*)([Hm])|(.)", re.S)
Shown: TypeAlias = "dict[tuple[int, int], tuple[str, str, str, frozenset[str]]]"


def shown(sent: str, before: Shown) -> Shown:
    """The cells of a terminal after bytes: letters, colour, background and attributes."""
    cells, row, column = dict(before), 0, 0
    colour, ground, attributes = "39", "49", frozenset[str]()
    for numbers, name, letter in SEQUENCES.findall(sent):
        if letter:
            if letter == " " and not attributes & {"4", "7"}:
                cells[row, column] = (letter, "", ground, frozenset())
            elif letter != "\n":
                cells[row, column] = (letter, colour, ground, attributes)
            if letter != "\n":
                column += get_character_cell_size(letter)
        elif name == "H":
            row, column = (int(each) - 1 for each in numbers.split(";"))
        else:
            for code in re.findall(r"[34]8;2;\d+;\d+;\d+|\d+", numbers):
                if code == "0":
                    colour, ground, attributes = "39", "49", frozenset()
                elif code.startswith("3"):
                    colour = code
                elif code.startswith("4") and code != "4":
                    ground = code
                else:
                    attributes |= {code}
    return cells


LINE = st.lists(
    st.tuples(st.text("ab ✓日", min_size=1, max_size=4), st.sampled_from(STYLES)), max_size=6
).map(lambda parts: Strip([Segment(*part) for part in parts]).adjust_cell_length(COLUMNS))  # fmt: skip
SCREEN = st.lists(LINE, min_size=ROWS, max_size=ROWS)


def whole(lines: list[Strip]) -> LayoutUpdate:
    return LayoutUpdate([line.divide([CUT, COLUMNS]) for line in lines], Region(0, 0, COLUMNS, ROWS))


def part(lines: list[Strip], row: int) -> ChopsUpdate:
    """A line that is to be drawn again from its third column."""
    chops = [dict(zip((0, CUT), line.divide([CUT, COLUMNS]), strict=True)) for line in lines]
    return ChopsUpdate(chops, [(row, 2, COLUMNS)], [[CUT, COLUMNS]] * ROWS)


@given(st.lists(st.tuples(SCREEN, st.integers(-1, ROWS - 1)), min_size=1, max_size=5))
@settings(deadline=None)
def test_a_terminal_shows_what_textual_would_have_it_show(screens: list[tuple[list[Strip], int]]) -> None:
    painted, now = Painted(), screens[0][0]
    ours: Shown = {}
    for lines, row in [(now, -1), *screens]:
        now = lines if row < 0 else [*now[:row], lines[row], *now[row + 1 :]]
        update: CompositorUpdate = whole(lines) if row < 0 else part(lines, row)
        ours = shown(Repaint(painted, update).render_segments(CONSOLE), ours)
        assert ours == shown(whole(now).render_segments(CONSOLE), ours)


def drawn(painted: Painted, *lines: str) -> str:
    strips = [Strip([Segment(each, Style.parse("red on blue"))]) for each in lines]
    return Repaint(painted, whole(strips)).render_segments(CONSOLE)


def test_a_screen_that_stays_sends_nothing() -> None:
    painted = Painted()
    assert "same" in drawn(painted, "same line...")
    assert drawn(painted, "same line...") == ""


def test_of_a_line_only_the_cells_that_change_are_sent() -> None:
    painted = Painted()
    drawn(painted, "same line...")
    assert drawn(painted, "same lime...") == "\x1b[1;8H\x1b[31;44mm\x1b[0m"


def test_a_line_with_letters_that_terminals_measure_differently_is_sent_whole() -> None:
    painted = Painted()
    drawn(painted, "....:日本old")
    assert drawn(painted, "....:日本new") == "\x1b[1;6H\x1b[31;44m日本new\x1b[0m"


def test_what_another_program_painted_over_is_sent_again() -> None:
    painted = Painted()
    drawn(painted, "same line...")
    painted.forget()
    assert "same line..." in drawn(painted, "same line...")


def test_what_is_held_when_the_program_ends_is_let_go() -> None:
    async def test() -> PaintingApp:
        app = PaintingApp()
        async with app.run_test():
            app.hold()
        return app

    ended = asyncio.run(test())
    assert not ended.screen_stack
    ended.let_go()
