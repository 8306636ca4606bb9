"""The lines that an edit changed, file by file and coloured, in pieces that a page shows below or beside each other."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from backstory.derive.essence import changed_lines, first_text
from backstory.model import Tool
from backstory.web.colour import grammar_of
from backstory.web.markup import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from markupsafe import Markup

    from backstory.model import ToolCall
    from backstory.web.colour import Grammar, Palette

WRITTEN_KEYS = ("content", "file_text", "contents")


class Hunk(NamedTuple):
    """Lines that were taken away, and those that took their place."""

    removed: list[Markup]
    added: list[Markup]


class ChangedFile(NamedTuple):
    """The changes of a file. ``path``: '' where the call names it already."""

    path: str
    hunks: list[Hunk]


def changes_of(call: ToolCall, palette: Palette, most: int) -> tuple[tuple[ChangedFile, ...], bool]:
    """The changes of a call, of at most so many lines, and True if it has more.

    Of a call that writes a file these are all of its lines, where the call holds them.
    """
    found = [(sign, plain(text)) for sign, text in changed_lines(call)] or list(written(call))
    files, path = list[ChangedFile](), ""
    for is_path, lines in groupby(found[:most], key=lambda each: not each[0]):
        if is_path:
            *empty, path = [text for _, text in lines]
            files += [ChangedFile(each, []) for each in empty]
        else:
            files.append(ChangedFile(path, _hunks(lines, grammar_of(path or call.file_path or ""), palette)))
            path = ""
    if path:
        files.append(ChangedFile(path, []))
    return tuple(files), len(found) > most


def _hunks(lines: Iterable[tuple[str, str]], grammar: Grammar | None, palette: Palette) -> list[Hunk]:
    listed = list(lines)
    # Each side is coloured as one text: a line of it may be in the midst of a comment.
    sides = {sign: iter(palette.lines(_joined(listed, sign), grammar)) for sign in "-+"}
    found, last = list[Hunk](), ""
    for sign, _ in listed:
        if not last or (sign, last) == ("-", "+"):
            found.append(Hunk([], []))
        (found[-1].removed if sign == "-" else found[-1].added).append(next(sides[sign]))
        last = sign
    return found


def _joined(lines: Iterable[tuple[str, str]], sign: str) -> str:
    return "\n".join(text for each, text in lines if each == sign)


def written(call: ToolCall) -> Iterator[tuple[str, str]]:
    """The lines of a file that a call writes anew, where the call holds them."""
    if call.tool == Tool.WRITE and isinstance(call.input, dict):
        text = first_text(call.input, WRITTEN_KEYS)
        yield from (("+", plain(line)) for line in text.removesuffix("\n").split("\n") if text)
