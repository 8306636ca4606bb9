"""A moving picture of a terminal: keys that are typed, what a terminal shows then, and an SVG that plays it.

``python -m tests.support.moving`` writes the picture of README.md (``docs/screens/moving.svg``): a search, the picker,
and a session that its own client opens again. The client is the real one, in a namespace without a network.
"""

from __future__ import annotations

import copy
import fcntl
import html
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyte
from msgspec import Struct

from backstory.cli.output import columns
from tests.support.real_clients import STUB, clients, namespace, why_not
from tests.support.stories import PICTURES, Machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

COLUMNS, ROWS = 88, 24
PICTURE = PICTURES / "moving.svg"
REGENERATE = "python -m tests.support.moving"
KEY_MS, READ_MS = 70, 2600
"""How long a key that is typed is seen, and a screen that is to be read."""
WAIT_S, SETTLED_S = 60, 0.4
CELL, LINE, LEFT, TOP = 8.4, 18.0, 14.0, 40.0
"""Of the picture, in px: a column, a line, and where the first of each begins."""
FAINT, OTHER_SCREEN, BLANK = "faint", 1049, "\N{NO-BREAK SPACE}"
NAMES = {"brown": "yellow", "brightbrown": "brightyellow"}
DARK = {
    "ground": "#1b1d23", "default": "#d6d8dd", "faint": "#868b96", "black": "#1b1d23", "red": "#f0737c",
    "green": "#8cc570", "yellow": "#e2b35e", "blue": "#6cabf0", "magenta": "#c58ae6", "cyan": "#5fc1c9",
    "white": "#d6d8dd",
}  # fmt: skip
LIGHT = {
    "ground": "#fbfbfa", "default": "#2b2e36", "faint": "#737884", "black": "#2b2e36", "red": "#b3261e",
    "green": "#3a7d2c", "yellow": "#8a6100", "blue": "#1f5fb8", "magenta": "#8431a8", "cyan": "#11727c",
    "white": "#5b606c",
}  # fmt: skip
"""What each colour of a terminal is, in a browser with dark and with light pages."""


class Run(Struct, frozen=True):
    """Letters of one style: the column of the first, how many columns they take, and the classes of the style."""

    column: int
    width: int
    text: str
    classes: tuple[str, ...]


Line = tuple[Run, ...]


class Frame(Struct, frozen=True):
    """What a terminal shows, line by line, and for how many ms."""

    lines: tuple[Line, ...]
    ms: int


class _Screen(pyte.Screen):
    """pyte's screen, which also knows faint letters and the other screen of a program that takes all of it."""

    _behind: tuple[Any, Any] | None = None

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        if OTHER_SCREEN in modes and kwargs.get("private"):
            self._behind = copy.deepcopy(self.buffer), copy.copy(self.cursor)
            self.erase_in_display(2)
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        if OTHER_SCREEN in modes and kwargs.get("private") and self._behind:
            self.buffer, self.cursor = self._behind
            self.dirty.update(range(self.lines))
        super().reset_mode(*modes, **kwargs)

    def select_graphic_rendition(self, *attrs: int, **kwargs: Any) -> None:
        super().select_graphic_rendition(*attrs, **kwargs)
        if 2 in attrs and 38 not in attrs and 48 not in attrs:
            self.cursor.attrs = self.cursor.attrs._replace(fg=FAINT)
        elif 22 in attrs and self.cursor.attrs.fg == FAINT:
            self.cursor.attrs = self.cursor.attrs._replace(fg="default")


class Film:
    """A terminal that is typed into, and the frames that were taken of it."""

    def __init__(self, words: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._screen = _Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self.frames: list[Frame] = []
        self._process = subprocess.Popen(
            [*words], cwd=cwd, env=dict(environ), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(WAIT_S)
        os.close(self._ours)

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def until(self, *words: str) -> None:
        """Read until all of these are shown."""
        end = time.monotonic() + WAIT_S
        while not all(each in self.text for each in words):
            if time.monotonic() > end:
                raise AssertionError(f"{words} did not come:\n{self.text}")
            if select.select([self._ours], [], [], 0.05)[0]:
                self._stream.feed(os.read(self._ours, 65536))

    def type(self, keys: str) -> None:
        """Type, and take a frame after each key that is echoed."""
        for number, key in enumerate(keys, 1):
            os.write(self._ours, key.encode())
            self.until(keys[:number])
            self.take(KEY_MS)

    def press(self, key: str) -> None:
        os.write(self._ours, key.encode())

    def take(self, ms: int = READ_MS) -> None:
        """Take a frame of what is shown now; of a screen that is to be read, when it has all come."""
        while ms > KEY_MS and select.select([self._ours], [], [], SETTLED_S)[0]:
            self._stream.feed(os.read(self._ours, 65536))
        lines = tuple(_runs(self._screen.buffer[row]) for row in range(ROWS))
        if self.frames and self.frames[-1].lines == lines:
            self.frames[-1] = Frame(lines, self.frames[-1].ms + ms)
        else:
            self.frames.append(Frame(lines, ms))


def _runs(cells: Any) -> Line:
    """The letters of one line, together where they have one style."""
    found = []
    for style, group in groupby(range(COLUMNS), lambda column: _classes(cells[column])):
        places = [*group]
        text = "".join(cells[column].data for column in places)
        if text.strip() or "on" in " ".join(style):
            found.append(Run(places[0], len(places), text, style))
    return tuple(found)


def _classes(cell: Any) -> tuple[str, ...]:
    """The classes of a cell: its colour, its ground, and what else is said of its letters."""
    fg, bg = (NAMES.get(each, each) for each in (cell.fg, cell.bg))
    fg, bg = (each.removeprefix("bright") for each in (fg, bg))
    bg = "ground" if bg == "default" else bg
    if cell.reverse:
        fg, bg = bg, fg
    found = [_named(fg)]
    if bg != "ground":
        found.append(f"on-{_named(bg)}")
    return (*found, *(name for name, has in (("bold", cell.bold), ("under", cell.underscore)) if has))


def _named(colour: str) -> str:
    """A colour of the terminal as it is, any other as the nearest of them, so that a page may be light or dark."""
    if colour in DARK:
        return colour
    try:
        red, green, blue = (int(colour[at : at + 2], 16) for at in (0, 2, 4))
    except ValueError:
        return "default"
    high, low = max(red, green, blue), min(red, green, blue)
    if high - low < 40:
        return "faint" if 70 < high < 190 else "default" if high >= 190 else "ground"
    names = {(1, 0, 0): "red", (0, 1, 0): "green", (0, 0, 1): "blue", (1, 1, 0): "yellow", (1, 0, 1): "magenta"}
    middle = (high + low) / 2
    return names.get((int(red > middle), int(green > middle), int(blue > middle)), "cyan")


def svg(frames: Sequence[Frame], title: str) -> str:
    """The frames one after another, for ever; where motion is not wanted, the last one."""
    numbers: dict[Line, int] = {}
    for frame in frames:
        for line in filter(None, frame.lines):
            numbers.setdefault(line, len(numbers))
    width, high = round(COLUMNS * CELL + 2 * LEFT), round(ROWS * LINE + TOP + LEFT)
    reel = "\n".join(_frame(frame, numbers, number * high) for number, frame in enumerate(frames))
    defs = "\n".join(_line(line, number) for line, number in numbers.items())
    classes = "\n".join(_CLASS.format(name=name) for name in DARK)
    return _FORMAT.format(
        width=width, high=high, title=html.escape(title), defs=defs, reel=reel, steps=_steps(frames, high),
        seconds=f"{sum(each.ms for each in frames) / 1000:.2f}", last=(len(frames) - 1) * high, dark=_colours(DARK),
        light=_colours(LIGHT), classes=classes, size=CELL / 0.6,
    )  # fmt: skip


def _frame(frame: Frame, numbers: Mapping[Line, int], top: int) -> str:
    used = (f'<use href="#l{numbers[line]}" y="{TOP + row * LINE:g}"/>' for row, line in enumerate(frame.lines) if line)
    return f'<g transform="translate({LEFT:g},{top})">{"".join(used)}</g>'


def _line(line: Line, number: int) -> str:
    parts = []
    for run in line:
        x, width = f"{run.column * CELL:.1f}", f"{run.width * CELL:.1f}"
        ground = next((each for each in run.classes if each.startswith("on-")), None)
        if ground:
            parts.append(f'<rect class="{ground}" x="{x}" width="{width}" height="{LINE:g}"/>')
        # Browsers would make one blank of several.
        letters = run.text.rstrip()
        if letters.strip():
            start = len(letters) - len(letters.lstrip())
            shown = f"{(run.column + start) * CELL:.1f}"
            length = columns(letters.lstrip()) * CELL
            names = " ".join(each for each in run.classes if each != ground)
            parts.append(
                f'<text class="{names}" x="{shown}" y="{LINE * 0.76:.1f}" textLength="{length:.1f}" '
                f'lengthAdjust="spacingAndGlyphs">{html.escape(letters.lstrip()).replace(" ", BLANK)}</text>'
            )
    return f'<g id="l{number}">{"".join(parts)}</g>'


def pictured(line: Line) -> str:
    """Return a line as every picture has it."""
    return _line(line, 0).partition(">")[2]


def _steps(frames: Sequence[Frame], high: int) -> str:
    whole, now, found = sum(each.ms for each in frames), 0, []
    for number, frame in enumerate(frames):
        found.append(f"{100 * now / whole:.3f}% {{ transform: translateY({-number * high}px) }}")
        now += frame.ms
    return "\n".join(found)


def _colours(theme: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in theme.items())


_CLASS = ".{name} {{ fill: var(--{name}) }} .on-{name} {{ fill: var(--{name}) }}"
_FORMAT = """\
<svg viewBox="0 0 {width} {high}" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}">
<style>
svg {{ {dark} font: {size:g}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace }}
@media (prefers-color-scheme: light) {{ svg {{ {light} }} }}
{classes}
.bold {{ font-weight: bold }} .under {{ text-decoration: underline }}
.reel {{ animation: play {seconds}s step-end infinite }}
@media (prefers-reduced-motion: reduce) {{ .reel {{ animation: none; transform: translateY(-{last}px) }} }}
@keyframes play {{
{steps}
}}
</style>
<defs>
{defs}
</defs>
<rect class="on-ground" stroke="rgba(128,128,128,0.4)" x="0.5" y="0.5" width="{width}" height="{high}" rx="8"/>
<g class="reel">
{reel}
</g>
<g transform="translate(20,20)">
<circle r="6" fill="#ff5f57"/><circle cx="20" r="6" fill="#febc2e"/><circle cx="40" r="6" fill="#28c840"/>
</g>
</svg>
"""


# the picture of README.md ---------------------------------------------------------------------------------------------


FOUND, TITLE_WORD = "stale comment", "telemetry"
NEXT, ANSWER = "Now update the stale comment", "The comment says now that telemetry is off by default."
FOLDER_OF_LOG = b"/Users/gtrrz-victor/wks/cli"
"""Where the session of the picture was begun, on the machine of its author."""
KEY = "dummy"


class Stage(Machine):
    """The machine of the stories. Its sessions began in ``~/cli``; if Claude's real client is there, it has that."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        project = self.home / "cli"
        for log in self.home.rglob("*.jsonl"):
            log.write_bytes(log.read_bytes().replace(FOLDER_OF_LOG, bytes(project)))
            # A log that was written just now could be open in its client.
            os.utime(log, (0, 0))
        if program := clients().get("claude"):
            self.program("claude").unlink()
            self.program("claude").symlink_to(program)
        settings = {
            "hasCompletedOnboarding": True, "theme": "dark", "autoUpdates": False, "numStartups": 20,
            "customApiKeyResponses": {"approved": [KEY], "rejected": []},
            "projects": {str(project): {"hasTrustDialogAccepted": True}},
        }  # fmt: skip
        (self.home / ".claude.json").write_text(json.dumps(settings))
        self.typed("backstory ingest")

    def film(self) -> Film:
        """A shell without a network, beside a model that gives one answer."""
        scenario, requests = self.home.parent / "scenario.json", self.home.parent / "requests"
        scenario.write_text(json.dumps({"turns": [{"text": ANSWER}]}))
        stub = [sys.executable, str(STUB), "--scenario", str(scenario), "--log", str(requests)]
        line = "export PS1='$ ' ANTHROPIC_BASE_URL=http://127.0.0.1:$STUB_PORT; exec bash --norc --noprofile"
        quiet = ("AUTOUPDATER", "ERROR_REPORTING", "TELEMETRY")
        environ = self.environ() | {f"DISABLE_{each}": "1" for each in quiet} | {
            "ANTHROPIC_API_KEY": KEY, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1",
        }  # fmt: skip
        return Film([*(namespace() or []), *stub, "--", "bash", "-c", line], self.home, environ)


def find(film: Film) -> None:
    """Search from the shell, then look for a session in the picker."""
    film.until("$ ")
    film.take(600)
    film.type(f"backstory search {FOUND}")
    film.press("\r")
    film.until("resume: ")
    film.take()
    film.type("backstory")
    film.press("\r")
    film.until("1 session ", "@2 ")
    film.take(READ_MS // 2)
    for end in range(1, len(TITLE_WORD) + 1):
        film.press(TITLE_WORD[end - 1])
        film.until(f"> {TITLE_WORD[:end]}")
        film.take(KEY_MS)
    film.until("1 title", "1 in texts", "@37 · turn")
    film.take(READ_MS // 2)
    film.press("\t")
    film.until("every project", "1 title", "2 in texts", "@37 · turn")
    film.take()


def go_on(film: Film) -> None:
    """Open the session in its own client, and say something."""
    film.press("\x12")
    film.until("? for shortcuts")
    film.take()
    film.type(NEXT)
    film.press("\r")
    film.until(ANSWER)
    film.take(2 * READ_MS)


def main() -> None:
    """Write the picture anew. Exits with a sentence where the real client cannot be run."""
    if why := why_not():
        sys.exit(why)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, Stage(Path(folder)).film() as film:
        find(film)
        go_on(film)
        PICTURE.write_text(svg(film.frames, "A search, the picker, and the session in its own client"), "utf-8")


if __name__ == "__main__":
    main()
