"""The screen on a terminal of its own, as a real process: what is typed, and what is painted after it."""

from __future__ import annotations

import os
import re
import select
import time

from tests.support.going import DEADLINE_S
from tests.support.terminal import Terminal

TEXTUALS = re.compile(
    r"\x1b\[(?:0|[1-47](?:;[1-47])*)?(?:;?[34]8;[25](?:;\d+)+|;?\d{1,3})*m"  # a style
    r"|\x1b\[\d+;\d+H|\x1b\[H|\x1b\[\?\d+(?:;\d+)*[hl]|\x1b\[\?\d+\$p|\x1b\[[<>]?\d*u|\x1b\[\?u|\x1b\[=\d+;?\d*u"
    r"|\x1b\]22;[a-z]*(?:\x07|\x1b\\)|\r?\n|\x1b\[6n|\x1b\[c|\x1b\[>4;\d+m"
)
"""What Textual itself says to a terminal: styles, places, modes, the shape of the pointer, the end of a line."""


class Watched(Terminal):
    """The screen on a terminal, key by key."""

    since = 0

    def press(self, keys: str, *words: str) -> None:
        """Type keys, and wait until words are painted after them."""
        self.since = len(self._seen)
        self.type(keys)
        self.wait(*words)

    @property
    def came(self) -> str:
        """What was painted after the last keys, without styles and places."""
        return " ".join(TEXTUALS.sub("", self._seen[self.since :].decode("utf-8", "replace")).split())

    def wait(self, *words: str) -> None:
        end = time.monotonic() + DEADLINE_S
        while not all(word in self.came for word in words):
            ready, _, _ = select.select([self._ours], [], [], max(end - time.monotonic(), 0))
            assert ready, f"{words} in …{self.came[-5000:]}"
            self._seen += os.read(self._ours, 65536)
