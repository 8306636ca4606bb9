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
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from tests.support.piloted import Piloted

    Shows: TypeAlias = Callable[[Piloted], Awaitable[None]]
    Then: TypeAlias = Callable[[str, Piloted], Awaitable[None]]
    Where: TypeAlias = tuple[Path, Mapping[str, str]]

GOLDEN = ROOT / "tests" / "tui" / "golden_looks"
SIZES = ((80, 24), (160, 50), (60, 15))
THEMES = ("dark", "light")


async def question(seen: Piloted) -> None:
    """A question before something is done, in that session."""
    await seen.press("C")
    await seen.until_seen("y yes", "n no")


async def answered(seen: Piloted) -> None:
    """The session again, with nothing done."""
    await seen.press("n")
    await seen.until_gone("y yes")


async def nothing_found(seen: Piloted) -> None:
    """A filter that no title fits."""
    await seen.press("f")
    await seen.type("zebra")
    await seen.until_seen("Nothing found.")


async def begun(seen: Piloted) -> None:
    """A prompt for a new session."""
    await seen.until_seen("8 sessions")
    await seen.press("n")
    await seen.until_seen("A new session")


async def listed(seen: Piloted) -> None:
    """The list again, as it was at first."""
    await seen.press("escape")
    await seen.until_seen("8 sessions", "> ")
    await seen.until_gone("A new session", "Next session")


async def unfiltered(seen: Piloted) -> None:
    """The list again, without that filter."""
    await seen.press(*["backspace"] * len("zebra"), "escape")
    await seen.until_seen("8 sessions", "> ")


LOOKS: dict[str, dict[str, Shows]] = {
    "list": {
        "palette": pictures.palette, "-palette": listed, "new": begun, "-new": listed, "nothing-found": nothing_found,
        "-nothing": unfiltered, "sessions": pictures.sessions, "search": pictures.searching,
    },
    "session": {
        "session": pictures.session, "keys": pictures.keys, "-keys": pictures.closed, "question": question,
        "-question": answered, "prompt": pictures.prompt, "-prompt": pictures.closed, "at-work": pictures.at_work,
    },
    "reports": {
        "standup": pictures.standup, "costs": pictures.costs, "activity": pictures.activity, "tips": pictures.tips,
    },
    "branches": {
        "branches": pictures.branches, "line": pictures.line, "-line": pictures.left, "compared": pictures.compared,
    },
}  # fmt: skip
"""What is looked at in a screen that is open, one after the other; a name with a minus is a way there."""


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

    def open(self, walk: str, size: tuple[int, int], then: Then, names: Collection[str] = ()) -> None:
        """Open a screen, go through what is looked at in it, and do something with each, or with these."""
        cwd, environ = self._branched if walk == "branches" else self._usual
        # What another screen left unsent would be in the field.
        shutil.rmtree(Path(environ["BACKSTORY_HOME"]).joinpath(*DRAFTS), ignore_errors=True)
        wanted = names or [each for each in LOOKS[walk] if not each.startswith("-")]
        steps = [*LOOKS[walk]]

        async def opened() -> None:
            async with screen(cwd, environ, size=size) as seen:
                for name in steps[: max(map(steps.index, wanted)) + 1]:
                    await LOOKS[walk][name](seen)
                    await seen.settled()
                    if name in wanted:
                        await then(name, seen)

        piloted(opened)

    def looks(
        self, walk: str, size: tuple[int, int], themes: Sequence[str] = THEMES, names: Collection[str] = ()
    ) -> dict[str, Look]:
        """Open a screen, and look at what is in it in each theme, by its name."""
        found: dict[str, Look] = {}

        async def take(name: str, seen: Piloted) -> None:
            drawn, texts, colours = dict[str, str](), list[str](), set[str]()
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
            assert len(set(texts)) == 1, f"{name} has another text in another theme"
            found[name] = Look(texts[0], drawn, colours)

        self.open(walk, size, take, names)
        return found


def golden(name: str, size: tuple[int, int]) -> Path:
    """Return the file of a look."""
    return GOLDEN / f"{name}-{size[0]}x{size[1]}.txt"


def main() -> None:
    """Write what tests compare with."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else None
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as root:
        looked = Looked(Path(root), folder)
        for size, walk in product(SIZES, LOOKS):
            for name, look in looked.looks(walk, size).items():
                golden(name, size).write_text(look.golden, "utf-8")


if __name__ == "__main__":
    main()
