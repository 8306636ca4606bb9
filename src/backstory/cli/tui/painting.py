"""Bytes for the terminal: of the cells only those that are others than it shows, of their styles only what changes."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.cells import get_character_cell_size
from rich.color import ColorSystem
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.app import App

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.color import Color
    from rich.console import Console
    from rich.style import Style
    from textual.message_pump import MessagePump
    from textual.screen import Screen
    from textual.strip import Strip
    from textual.timer import Timer

Looks: TypeAlias = "tuple[str, str, str]"
"""The codes of a style: of its attributes, its colour and its background."""
Cell: TypeAlias = "tuple[str, Looks]"
"""A cell's text, '' for the second column of a wide letter, and its style."""

PLAIN: Looks = ("", "39", "49")
NOWHERE = (-1, -1)
ATTRIBUTES = {
    "bold": "1", "dim": "2", "italic": "3", "underline": "4", "blink": "5", "reverse": "7", "strike": "9",
}  # fmt: skip
SEEN_ON_BLANKS = frozenset({"4", "5", "7", "9"})
ANY = "any"
"""The attributes and the colour of a blank on which they are not seen."""
HELD_S = 0.2
"""The most time for which nothing is painted because more is to come."""
BETWEEN = 8
"""Cells that stay are painted again where there are so few of them between two that do not: a place costs as much."""


class Painted:
    """The cells that a terminal shows, as far as they are known."""

    def __init__(self) -> None:
        self._lines: dict[int, list[Cell | None]] = {}

    def forget(self) -> None:
        """Take nothing for known any more: somebody else has painted there, or the size is another."""
        self._lines = {}

    def sequences(self, update: LayoutUpdate | ChopsUpdate, system: ColorSystem) -> Iterator[str]:
        """Yield what a terminal has to be sent to show an update, the style at last as it is without any."""
        looks, at = PLAIN, NOWHERE
        for y, x, strip in _pieces(update):
            cells = list(_cells(strip, system))
            line = self._lines.setdefault(y, [])
            line.extend([None] * (x + len(cells) - len(line)))
            before, line[x : x + len(cells)] = line[x : x + len(cells)], cells
            for start, end in _changed(before, cells):
                if at != (y, x + start):
                    yield f"\x1b[{y + 1};{x + start + 1}H"
                # Behind letters that terminals measure differently it is not known where it is.
                at = (y, x + end) if all(len(text) == 1 for text, _ in cells[start:end]) else NOWHERE
                for wanted, run in groupby(cells[start:end], key=lambda cell: cell[1]):
                    style = _fitting(looks, wanted)
                    yield f"{_turned(looks, style)}{''.join(text for text, _ in run)}"
                    looks = style
        yield _turned(looks, PLAIN)


class PaintingApp(App[None]):
    """An application that sends the terminal what differs from what it shows: the line to it may be slow."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.painted = Painted()
        self._holding: Timer | None = None
        self.is_back = False
        """True from the moment at which the terminal was taken until its size is told."""

    def _display(self, screen: Screen[object], renderable: Any) -> None:
        if self._holding is not None:
            return
        if isinstance(renderable, CompositorUpdate):
            renderable = Repaint(self.painted, renderable)
        super()._display(screen, renderable)

    def hold(self) -> None:
        """Paint nothing until what comes is whole, or for a moment: its parts would each be sent, and taken back."""
        if self._holding is None:
            self._holding = self.set_timer(HELD_S, self.let_go)

    def let_go(self) -> None:
        """Paint what is there now."""
        if self._holding is not None:
            self._holding.stop()
            self._holding = None
            # Its moment may be over when all screens are gone.
            if self.screen_stack:
                self.screen.refresh()


def hold(node: MessagePump) -> None:
    """Have nothing painted until ``let_go``, or for a moment."""
    if isinstance(node.app, PaintingApp):
        node.app.hold()


def let_go(node: MessagePump) -> None:
    """Have what is there painted."""
    if isinstance(node.app, PaintingApp):
        node.app.let_go()


class Repaint(CompositorUpdate):
    """An update of which only what differs from the cells before is painted."""

    def __init__(self, painted: Painted, update: CompositorUpdate) -> None:
        self._painted, self._update = painted, update

    def render_segments(self, console: Console) -> str:
        """Return what the terminal has to be sent."""
        if isinstance(self._update, LayoutUpdate | ChopsUpdate):
            system = console._color_system or ColorSystem.TRUECOLOR
            return "".join(self._painted.sequences(self._update, system))
        self._painted.forget()
        return self._update.render_segments(console)


def _pieces(update: LayoutUpdate | ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    """Yield the strips of an update, each with its line and its first column."""
    if isinstance(update, LayoutUpdate):
        for y, strips in enumerate(update.strips, update.region.y):
            x = update.region.x
            for strip in strips:
                yield y, x, strip
                x += strip.cell_length
        return
    for y in dict.fromkeys(y for y, _, _ in update.spans):
        # A line is drawn whole where any of it is to be: what stays the same is sent to nobody.
        for x, part in update.chops[y].items():
            if part is not None:
                yield y, x, part


def _cells(strip: Strip, system: ColorSystem) -> Iterator[Cell]:
    """Yield the cells of a strip. Letters whose columns terminals may see otherwise are in the first cell of theirs."""
    for segment in strip:
        text, style, _ = segment
        looks = PLAIN if style is None else _looks(style, system)
        if text.isspace() and not SEEN_ON_BLANKS.intersection(looks[0].split(";")):
            looks = (ANY, ANY, looks[2])
        if text.isascii() or all(map(_is_sure, text)):
            yield from ((letter, looks) for letter in text)
        else:
            yield text, looks
            yield from repeat(("", looks), segment.cell_length - 1)


@lru_cache(maxsize=4096)
def _is_sure(letter: str) -> bool:
    """True for a letter that every terminal shows in one column, at its place."""
    return get_character_cell_size(letter) == 1 and unicodedata.bidirectional(letter) not in ("R", "AL")


def _changed(before: Sequence[Cell | None], cells: Sequence[Cell]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a line that have to be painted, each as its first cell and the one behind its last."""
    if before == cells:
        return
    if not all(each is not None and len(each[0]) == 1 for each in (*before, *cells)):
        yield 0, len(cells)
        return
    start = end = -1
    for n, (old, new) in enumerate(zip(before, cells, strict=True)):
        if old == new:
            continue
        if start >= 0 and n - end > BETWEEN:
            yield start, end
            start = -1
        start, end = n if start < 0 else start, n + 1
    yield start, end


@lru_cache(maxsize=1024)
def _looks(style: Style, system: ColorSystem) -> Looks:
    """The codes of a style."""

    def codes(colour: Color | None, *, is_foreground: bool) -> str:
        return "" if colour is None else ";".join(colour.downgrade(system).get_ansi_codes(is_foreground))

    return (
        ";".join(code for name, code in ATTRIBUTES.items() if getattr(style, name)),
        codes(style.color, is_foreground=True) or PLAIN[1],
        codes(style.bgcolor, is_foreground=False) or PLAIN[2],
    )


@lru_cache(maxsize=1024)
def _fitting(old: Looks, new: Looks) -> Looks:
    """The style to paint with behind another one: of a blank only the background is seen."""
    if new[0] != ANY:
        return new
    return (*(("", PLAIN[1]) if SEEN_ON_BLANKS.intersection(old[0].split(";")) else old[:2]), new[2])


@lru_cache(maxsize=1024)
def _turned(old: Looks, new: Looks) -> str:
    """The sequence that changes a style to another one."""
    if old == new:
        return ""
    if new == PLAIN:
        return "\x1b[0m"
    codes = [now for now, before in zip(new, old, strict=True) if now != before]
    if old[0] and old[0] != new[0]:
        # An attribute ends with all that there is.
        codes = ["0", *(now for now, before in zip(new, PLAIN, strict=True) if now != before)]
    return f"\x1b[{';'.join(codes)}m"
