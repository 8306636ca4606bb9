"""The screen on a terminal of its own, as a real process: what is typed, and what is painted after it."""

from __future__ import annotations

import os
import re
import select
import time
from typing import TYPE_CHECKING, Any

from tests.support.going import DEADLINE_S
from tests.support.painted import Painted
from tests.support.terminal import ROWS, Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TEXTUALS = re.compile(
    r"\x1b\[(?:0|[1-47](?:;[1-47])*)?(?:;?[34]8;[25](?:;\d+)+|;?\d{1,3})*m"  # a style
    r"|\x1b\[\d+;\d+H|\x1b\[H|\x1b\[\?\d+(?:;\d+)*[hl]|\x1b\[\?\d+\$p|\x1b\[[<>]?\d*u|\x1b\[\?u|\x1b\[=\d+;?\d*u"
    r"|\x1b\]22;[a-z]*(?:\x07|\x1b\\)|\r?\n|\x1b\[6n|\x1b\[c|\x1b\[>4;\d+m"
)
"""What Textual itself says to a terminal: styles, places, modes, the shape of the pointer, the end of a line."""
UNPAINTED = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[<=>?][0-9;$]*[a-z]|\x1b\[6n|\x1b\[c|\x07")
"""What paints nothing: modes, titles, questions."""
UNENDED = re.compile(rb"\x1b(?:\[[^A-Za-z]*|\][^\x07\x1b]*)?\Z")


class _Cells(Painted):
    """The cells of the terminal. ``touched``: the lines in which something was painted."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__(columns, rows)
        self.touched, self._waiting = set[int](), b""

    def feed(self, data: bytes) -> None:
        whole = UNPAINTED.sub(b"", self._waiting + data)
        found = UNENDED.search(whole)
        self._waiting = whole[found.start() :] if found else b""
        super().feed(whole[: found.start()] if found else whole)

    def _put(self, text: str) -> None:
        self.touched.add(self.at[0])
        super()._put(text)


class Watched(Terminal):
    """The screen on a terminal, key by key."""

    def __init__(self, *given: Any, width: int = 100, rows: int = ROWS, **how: Any) -> None:
        super().__init__(*given, width=width, rows=rows, **how)
        self.screen = _Cells(width, rows)

    def press(self, keys: str, *words: str) -> None:
        """Type keys, and wait until words are painted after them, or for ``!word`` until one is gone."""
        self.screen.touched.clear()
        self.type(keys)
        self.wait(*words)

    @property
    def came(self) -> str:
        """The lines in which something was painted after the last keys."""
        return " ".join(" ".join(self.screen.lines()[n] for n in sorted(self.screen.touched)).split())

    @property
    def text(self) -> str:
        """All words on the screen."""
        return " ".join(self.screen.text().split())

    def wait(self, *words: str) -> None:
        self._until(words, lambda: self.came)

    def until_shown(self, *words: str) -> None:
        """Wait until all words, and no ``!word``, are on the screen at once, whenever they were painted."""
        self._until(words, lambda: self.text)

    def _until(self, words: Sequence[str], where: Callable[[], str]) -> None:
        end = time.monotonic() + DEADLINE_S
        while not all(each[1:] not in self.text if each.startswith("!") else each in where() for each in words):
            ready, _, _ = select.select([self._ours], [], [], max(end - time.monotonic(), 0))
            assert ready, f"{words} in …{self.came}\n{self.screen.text()}"
            self.read()

    def read(self, most: int = 1 << 16) -> int:
        """Take what the screen sends, and return how many bytes that was."""
        data = os.read(self._ours, most)
        self._seen += data
        self.screen.feed(data)
        return len(data)
