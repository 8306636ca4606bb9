"""What git says of files and commits, as values. ``projects/git_history.py`` asks it. Times are in ms since 1970."""

from __future__ import annotations

from msgspec import Struct

UNCOMMITTED = "0" * 40
"""What git calls the commit of a line that is in the file and not committed yet."""


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
        """Whether it joins others, whose changes are theirs."""
        return len(self.parents) > 1


class FileChange(Struct, frozen=True, kw_only=True):
    """What a commit did to a file. ``added``: lines with their numbers behind it; ``removed``: their texts.

    ``old_path``: what the file was called before, if that was something else. ``is_binary``: no lines are known.
    """

    commit: str
    authored: int
    committed: int
    path: str
    old_path: str | None = None
    added: tuple[tuple[int, str], ...] = ()
    removed: tuple[str, ...] = ()
    is_binary: bool = False
