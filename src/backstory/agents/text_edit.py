"""Changes of a text, each at its place: what no edit covers stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable


class NotEditable(Exception):
    """A text that cannot be changed as wanted, and why, to be said behind "it"."""


class TextEdit(Struct, frozen=True):
    """The characters from ``start`` to ``end`` give way to ``text``."""

    start: int
    end: int
    text: str = ""


def applied(text: str, edits: Iterable[TextEdit]) -> str:
    """A text with edits, whose places are those of the text before. They do not overlap."""
    for each in sorted(edits, key=lambda each: each.start, reverse=True):
        text = text[: each.start] + each.text + text[each.end :]
    return text


def newline_of(text: str) -> str:
    """Return the line end of a text."""
    return "\r\n" if "\r\n" in text else "\n"
