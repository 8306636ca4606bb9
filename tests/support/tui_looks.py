"""Each screen as it is drawn, in every size and theme: its text, and how many cells have which style.

``python -m tests.support.tui_looks`` writes what tests compare with; with a folder also a picture of each as SVG there.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from textual.command import CommandPalette

from backstory.cli.tui.sent import DRAFTS
from tests.support import tui_pictures as pictures
from tests.support.piloted import piloted, screen
from tests.support.screens import ROOT
from tests.support.session_screens import SessionMachine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from tests.support.piloted import Piloted

    Shows: TypeAlias = Callable[[Piloted], Awaitable[None]]
    Where: TypeAlias = tuple[Path, Mapping[str, str]]

GOLDEN = ROOT / "tests" / "tui" / "golden_looks"
SIZES = ((80, 24), (160, 50), (60, 15))
THEMES = ("dark", "light")


async def tips(seen: Piloted) -> None:
    """The tips of all time: there is nothing to say."""
    await seen.until_seen("8 sessions")
    await seen.press("R", "4", "+", "+")
    await seen.until_seen("[4 Tips]", "all time")
    await seen.until_gone("reading …")


async def question(seen: Piloted) -> None:
    """A question before something is done."""
    await pictures.session(seen)
    await seen.press("C")
    await seen.until_seen("y yes", "n no")


async def line(seen: Piloted) -> None:
    """A field of one line: for the name of a branch."""
    await pictures.branches(seen)
    await seen.press("n")
    await seen.until_seen("Esc leave it")


async def nothing_found(seen: Piloted) -> None:
    """A filter that no title fits."""
    await seen.until_seen("8 sessions")
    await seen.press("f")
    await seen.type("zebra")
    await seen.until_seen("Nothing found.")


async def begun(seen: Piloted) -> None:
    """A prompt for a new session."""
    await seen.until_seen("8 sessions")
    await seen.press("n")
    await seen.until_seen("A new session")


LOOKS: dict[str, Shows] = {
    **pictures.PICTURED, "tips": tips, "question": question, "nothing-found": nothing_found, "new": begun,
}  # fmt: skip


BRANCHED: dict[str, Shows] = {**pictures.BRANCHED, "line": line}
NAMES = (*LOOKS, *BRANCHED)


async def themed(seen: Piloted, name: str) -> None:
    """Have another theme; the palette has the one that it was opened in."""
    is_palette = isinstance(seen.app.screen, CommandPalette)
    if is_palette:
        await seen.press("escape")
    seen.app.theme = name
    await seen.settled()
    if is_palette:
        await pictures.palette(seen)
        await seen.settled()


def styles(seen: Piloted) -> str:
    """The styles on the screen, the most frequent one first, with the number of their cells."""
    cells = Counter[str]()
    for segment in (each for strip in seen.strips() for each in strip):
        cells[str(segment.style)] += segment.cell_length
    return "\n".join(
        f"{count:>6} {each}" for each, count in sorted(cells.items(), key=lambda each: (-each[1], each[0]))
    )


class Look(NamedTuple):
    """A screen in one size: its text, its styles by theme, and the colours of the last theme."""

    text: str
    styles: dict[str, str]
    colours: set[str]

    @property
    def golden(self) -> str:
        """The look as a file holds it."""
        return "\n".join([self.text, *(f"-- {theme}\n{styles}" for theme, styles in self.styles.items()), ""])


class Looked:
    """Opens screens of the machines that pictures are of. ``folder``: where a picture of each goes, as SVG."""

    def __init__(self, root: Path, folder: Path | None = None) -> None:
        machine = SessionMachine(root / "home")
        self._usual: Where = (machine.project, machine.environ)
        self._branched: Where = pictures.branched(root / "branches")
        self._folder = folder

    def open(self, name: str, size: tuple[int, int], then: Callable[[Piloted], Awaitable[None]]) -> None:
        """Open a screen, and do something with it."""
        cwd, environ = self._branched if name in BRANCHED else self._usual
        # What another screen left unsent would be in the field.
        shutil.rmtree(Path(environ["BACKSTORY_HOME"]).joinpath(*DRAFTS), ignore_errors=True)

        async def opened() -> None:
            async with screen(cwd, environ, size=size) as seen:
                await {**LOOKS, **BRANCHED}[name](seen)
                await seen.settled()
                await then(seen)

        piloted(opened)

    def look(self, name: str, size: tuple[int, int], themes: Iterable[str] = THEMES) -> Look:
        """Open a screen, and look at it in each theme."""
        drawn, texts, colours = dict[str, str](), list[str](), set[str]()

        async def take(seen: Piloted) -> None:
            for theme in themes:
                await themed(seen, theme)
                texts.append(seen.shown())
                drawn[theme] = styles(seen)
                of_cells = [each.style for strip in seen.strips() for each in strip if each.style is not None]
                used = {colour for each in of_cells for colour in (each.color, each.bgcolor)}
                colours.update(each.name for each in used if each is not None and not each.is_default)
                if self._folder is not None:
                    named = f"{name}-{size[0]}x{size[1]}-{theme}{'-plain' * seen.app.no_color}.svg"
                    (self._folder / named).write_text(seen.app.export_screenshot(title=name), "utf-8")

        self.open(name, size, take)
        assert len(set(texts)) == 1, f"{name} has another text in another theme"
        return Look(texts[0], drawn, colours)


def golden(name: str, size: tuple[int, int]) -> Path:
    """Return the file of a look."""
    return GOLDEN / f"{name}-{size[0]}x{size[1]}.txt"


def main() -> None:
    """Write what tests compare with."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else None
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as root:
        looked = Looked(Path(root), folder)
        for size, name in product(SIZES, NAMES):
            golden(name, size).write_text(looked.look(name, size).golden, "utf-8")


if __name__ == "__main__":
    main()
