"""The screen over a slow line: the bytes and the seconds of each step of a person."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.support.forked import COMMAND
from tests.support.going import DEADLINE_S
from tests.support.watched import Watched

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

QUIET_S = 0.06
"""Nothing more belongs to a step when nothing came for so long."""
AT_ONCE = 256
"""Bytes that a slow line takes at once."""


class Step(NamedTuple):
    """A step that was taken: its name, the bytes that the screen sent, and the seconds until it was right."""

    name: str
    sent: int
    seconds: float


class SlowLine(Watched):
    """``backstory tui`` in colour on a terminal, whose line takes so many bytes a second; None: as many as come."""

    def __init__(
        self, cwd: Path, environ: Mapping[str, str], *words: str, size: tuple[int, int], per_s: int | None = None
    ) -> None:
        columns, rows = size
        environ = {**environ, "COLORTERM": "truecolor"}
        super().__init__([*COMMAND, "tui", *words], cwd, environ, width=columns, rows=rows, has_colours=True)
        self.steps = list[Step]()
        self._per_s = per_s

    def step(self, name: str, keys: str, *words: str) -> None:
        """Type keys, wait until words are on the screen, or gone for ``!word``, then until nothing more comes."""
        began, sent, seconds = time.monotonic(), 0, -1.0
        self.type(keys)
        while True:
            shown = self.text
            if seconds < 0 and all((each.lstrip("!") in shown) is not each.startswith("!") for each in words):
                seconds = time.monotonic() - began
            left_s = QUIET_S if seconds >= 0 else began + DEADLINE_S - time.monotonic()
            if not select.select([self._ours], [], [], max(left_s, 0))[0]:
                break
            came = self.read(AT_ONCE if self._per_s else 1 << 16)
            time.sleep(came / self._per_s if self._per_s else 0)
            sent += came
        assert seconds >= 0, f"{name}: {words} in\n{self.screen.text()}"
        self.steps.append(Step(name, sent, seconds))

    def click(self, on: str, *words: str, name: str = "", times: int = 1) -> None:
        """Click on a text of the screen, the last place where it is, and wait as ``step`` does."""
        lines = self.screen.lines()
        row = max(n for n, line in enumerate(lines) if on in line)
        at = f"{lines[row].rindex(on) + 1};{row + 1}"
        self.step(name or on, f"\x1b[<0;{at}M\x1b[<0;{at}m" * times, *words)
