"""Answers of git about files and commits, as values. ``projects/git_history.py`` asks. Times: ms since 1970."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

UNCOMMITTED = "0" * 40
"""The id that git gives the commit of a line that is in the file and not committed yet."""
_HUNK = lazy_regex(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class BlamedLine(Struct, frozen=True, kw_only=True):
    """A line of a file. ``number`` is from 1; ``commit``: that it came with; ``path``: the file it was in there."""

    number: int
    text: str
    commit: str
    path: str


class Commit(Struct, frozen=True, kw_only=True):
    """A commit. ``authored``: when its change was made; ``committed``: when this commit was, also by a rebase."""

    hash: str
    parents: tuple[str, ...]
    author: str
    email: str
    authored: int
    committed: int
    message: str

    @property
    def subject(self) -> str:
        """The first line of its message."""
        return self.message.strip().partition("\n")[0]

    @property
    def is_merge(self) -> bool:
        """True if it joins others, whose changes are theirs."""
        return len(self.parents) > 1


class FileChange(Struct, frozen=True, kw_only=True):
    """The change of a file by a commit.

    ``old_path``: what the file was called before, if that was something else. ``is_binary``: no lines are known.
    ``hunks``: git's difference without context, as one text: its lines as values take ten times the memory.
    """

    commit: str
    authored: int
    committed: int
    path: str
    old_path: str | None = None
    hunks: str = ""
    is_binary: bool = False

    def added(self) -> Iterator[tuple[int, str]]:
        """The lines that it added, with their numbers behind it."""
        number = 0
        for line in _lines(self.hunks):
            if line.startswith("+"):
                yield number, line[1:].removesuffix("\r")
                number += 1
            elif (found := _HUNK.match(line)) is not None:
                number = int(found.group(1))

    def removed(self) -> Iterator[str]:
        """The texts of the lines that it took away."""
        return (line[1:].removesuffix("\r") for line in _lines(self.hunks) if line.startswith("-"))


def _lines(text: str) -> Iterator[str]:
    """The lines of a text, one at a time. Only line feeds end a line here: a text may hold any other sign."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    if start < len(text):
        yield text[start:]
