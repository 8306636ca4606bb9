"""A terminal's screen, as far as the picker uses one: text at places, cleared lines, the other screen. Nothing else.

On the other screen a sequence that it does not know fails, so that none leaves the picker unseen.
"""

from __future__ import annotations

import re
import unicodedata

_SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")
KNOWN_MODES = {"7", "25", "1049", "2004"}


class Painted:
    """The cells of a screen that bytes are fed to."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.modes: dict[str, bool] = {}
        self.styles: set[str] = set()
        self._style = ""
        self._styled: dict[tuple[int, int], str] = {}
        self._rest = b""
        self._lines: list[list[str]] = []
        self._main = self._empty()
        self.at = (0, 0)
        self._lines = self._empty()

    def _empty(self) -> list[list[str]]:
        return [[" "] * self.columns for _ in range(self.rows)]

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._lines, self.at = self._empty(), (0, 0)

    def feed(self, data: bytes) -> None:
        text = (self._rest + data).decode("utf-8", "surrogateescape")
        self._rest = b""
        while text:
            if text[0] != "\x1b":
                end = text.find("\x1b")
                self._put(text[: end if end >= 0 else len(text)])
                text = text[end:] if end >= 0 else ""
                continue
            found = _SEQUENCE.match(text)
            if found is None:
                if len(text) < 12:
                    self._rest = text.encode("utf-8", "surrogateescape")
                    return
                raise AssertionError(f"an unknown sequence: {text[:12]!r}")
            self._obey(*found.groups())
            text = text[found.end() :]

    def _obey(self, private: str, numbers: str, name: str) -> None:
        row, _ = self.at
        match (private, name):
            case ("?", "h" | "l") if numbers in KNOWN_MODES:
                self.modes[numbers] = name == "h"
                if numbers == "1049":
                    self._lines = self._empty()
            case ("", "H"):
                there = [int(each or 1) for each in numbers.split(";")]
                self.at = min(there[0], self.rows) - 1, there[1] - 1
            case ("", "J"):
                self._lines = self._empty()
            case ("", "K"):
                self._lines[row] = [" "] * self.columns
                self._styled = {place: style for place, style in self._styled.items() if place[0] != row}
            case ("", "m"):
                self.styles.add(numbers)
                self._style = "" if numbers == "0" else f"{self._style}\x1b[{numbers}m"
            case _ if self.modes.get("1049"):
                raise AssertionError(f"an unknown sequence: {private}{numbers}{name}")
            case _:
                return

    def _put(self, text: str) -> None:
        row, column = self.at
        for letter in text:
            if letter in "\r\n":
                row, column = (row, 0) if letter == "\r" else (min(row + 1, self.rows - 1), column)
                continue
            wide = 0 if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Cf") else 1
            wide = 2 if unicodedata.east_asian_width(letter) in "WF" else wide
            if wide == 0:
                self._lines[row][max(column - 1, 0)] += letter
                continue
            # Without wrapping, what is too long is written over the last column.
            place = min(column, self.columns - wide)
            if row < self.rows and place >= 0:
                self._lines[row][place : place + wide] = [letter, *[""] * (wide - 1)]
                self._styled[row, place] = self._style
            column = place + wide
        self.at = row, column

    def lines(self) -> list[str]:
        return ["".join(line).rstrip() for line in self._lines]

    def text(self) -> str:
        return "\n".join(self.lines())

    def coloured(self) -> str:
        """The text with the codes of its colours."""
        rows = ([(cell, self._styled.get((n, at), "")) for at, cell in enumerate(line) if cell] for n, line in
                enumerate(self._lines))  # fmt: skip
        cells = ((f"{style}{cell}\x1b[0m" if style else cell for cell, style in row) for row in rows)
        return "\n".join("".join(row).rstrip() for row in cells)
