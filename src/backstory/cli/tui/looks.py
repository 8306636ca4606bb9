"""Looks of the screen: its colours, and the line that is in its place where the terminal is too small."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.screen import ModalScreen
from textual.theme import BUILTIN_THEMES

from backstory.cli import output
from backstory.cli.tui import COLUMNS_LEAST, LINES_LEAST
from backstory.cli.tui.strips import note_lines, strip_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.geometry import Size
    from textual.strip import Strip
    from textual.theme import Theme

BASES = {"dark": "textual-dark", "light": "textual-light", "terminal": "ansi-dark"}
"""The values of ``screen.theme``, and the themes of Textual that they are made of."""
OF_TERMINAL = {
    **{f"{of}-cursor-{part}": "ansi_default" for of in ("block", "input") for part in ("foreground", "background")},
    **{f"{of}-cursor-text-style": "reverse" for of in ("block", "input")},
    **{f"{of}-selection-{part}": "ansi_default" for of in ("screen", "input") for part in ("foreground", "background")},
}
"""A cursor is in reverse: any two colours might be those of a terminal, and a person may want none."""


def is_without_colours() -> bool:
    """Return True if the person wants no colours."""
    return "NO_COLOR" in os.environ


def themes() -> Iterator[Theme]:
    """Yield the themes by their names in the settings. Where no colours are wanted each one is the terminal's."""
    for name, base in BASES.items():
        found = BUILTIN_THEMES[BASES["terminal"] if is_without_colours() else base]
        yield replace(found, name=name, variables=found.variables | (OF_TERMINAL if found.ansi else {}))


def next_theme(name: str) -> str:
    """Return the name of the theme after another one."""
    names = list(BASES)
    return names[(names.index(name) + 1) % len(names)]


def is_too_small(size: Size) -> bool:
    """Return True if the screens have no room."""
    return size.width < COLUMNS_LEAST or size.height < LINES_LEAST


class TooSmall(ModalScreen[None]):
    """A sentence over everything while the terminal is too small; what is under it stays as it is."""

    CSS = "TooSmall { background: $background; }"
    BINDINGS: ClassVar = [Binding("q,ctrl+q", "app.leave")]

    def render_line(self, y: int) -> Strip:
        """Return a line."""
        columns = self.size.width
        said = f"{columns} columns and {self.size.height} lines: the screen needs {COLUMNS_LEAST} and {LINES_LEAST}."
        lines = [*note_lines(said, max(columns, 1)), output.style("q leave", dim=True)]
        return strip_of(lines[y] if y < len(lines) else "", columns).apply_style(self.rich_style)
