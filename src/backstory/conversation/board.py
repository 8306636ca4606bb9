"""The context board: short notes about a repository and a branch, by agents and people; which rules they follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from backstory.bounds import iso
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Sequence

Src = Literal["agent", "user"]
AGENT: Src = "agent"
USER: Src = "user"

ITEMS_MAX = 25
"""A board with so many items takes no new one."""
ITEMS_WARN = 23
ITEMS_KEPT = 18
"""Pruning leaves so many items."""
CONTENT_CHARS_MAX = 4_000
"""Characters are Unicode code points, counted after ``cleaned``."""
DESCRIPTION_CHARS_MAX = 200
NAME_CHARS_MAX = 64
OFFER_SHARE_LEAST = 4
"""Notes are part of contexts that are at least so many times their size."""
DEFAULT_BRANCH = "default"
LOCAL = "local:"

_NAME = lazy_regex(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NO_WORD = lazy_regex(r"[^a-z0-9]+")
_CAMEL = lazy_regex(r"(?<=[a-z0-9])(?=[A-Z])")
_COMMIT = lazy_regex(r"[0-9a-f]{40}|[0-9a-f]{64}")
_CONTROL = lazy_regex(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_LINE_ENDS = lazy_regex(r"\r\n?|[\x85\u2028\u2029]")


class BoardKey(Struct, frozen=True):
    """The key of a board: ``owner/name`` or ``local:`` and a folder; a git branch or ``default``."""

    repository: str
    branch: str = DEFAULT_BRANCH

    @property
    def folder(self) -> str | None:
        """The folder that it is about; None where that is a repository with a name."""
        return self.repository.removeprefix(LOCAL) if self.repository.startswith(LOCAL) else None


class BoardItem(Struct, frozen=True, kw_only=True):
    """A note on a board. ``created`` and ``changed`` are ms since 1970."""

    repository: str
    branch: str
    src: Src
    name: str
    description: str
    content: str
    author: str | None
    """The agent that wrote it; None: a person."""
    read_count: int
    count: int
    """The number of sessions that began on this board since the item was made."""
    created: int
    changed: int

    @property
    def written_by(self) -> str:
        """The name of the agent that wrote it, ``agent`` where that is not known, ``user`` for a person."""
        return USER if self.src == USER else self.author or AGENT


class Offer(Struct, frozen=True):
    """The notes of a board that a run is offered: a text, and their names."""

    text: str = ""
    names: tuple[str, ...] = ()

    def within(self, context_chars: int) -> Offer:
        """It, if a context of so many characters has room for it and for the session."""
        return self if len(self.text) * OFFER_SHARE_LEAST <= context_chars else NO_OFFER


NO_OFFER = Offer()


def repository_key(repository: str | None, folder: str) -> str:
    """The first half of a board's key: the repository, else the folder.

    >>> repository_key("me/tool", "/home/me/tool"), repository_key(None, "/home/me/tool")
    ('me/tool', 'local:/home/me/tool')
    """
    return repository or f"{LOCAL}{folder}"


def branch_key(branch: str | None) -> str:
    """The second half of a board's key. A commit that is checked out by itself is no branch.

    >>> branch_key("main"), branch_key("HEAD"), branch_key(None)
    ('main', 'default', 'default')
    """
    return DEFAULT_BRANCH if not branch or branch == "HEAD" or _COMMIT.fullmatch(branch) else branch


def is_name(name: str) -> bool:
    """Return True if an item may be called so: kebab-case, at most 64 characters.

    >>> is_name("build-notes"), is_name("Build notes"), is_name("a--b")
    (True, False, False)
    """
    return len(name) <= NAME_CHARS_MAX and bool(_NAME.fullmatch(name))


def proposed_name(name: str) -> str:
    """A name like this one that an item may have; "" where nothing of it can be used.

    >>> proposed_name("Build notes!"), proposed_name("BuildNotes"), proposed_name("!!")
    ('build-notes', 'build-notes', '')
    """
    words = _NO_WORD.sub("-", _CAMEL.sub("-", name[:1_000]).lower()).strip("-")
    return words[:NAME_CHARS_MAX].strip("-")


def cleaned(text: str) -> str:
    """A content as it is kept: lines end with ``\\n``, without control characters, without blanks at its end.

    >>> cleaned("one\\r\\ntwo\\x1b[31m\\n\\n")
    'one\\ntwo[31m'
    """
    return _CONTROL.sub("", _LINE_ENDS.sub("\n", text)).rstrip()


def cleaned_line(text: str) -> str:
    """A description as it is kept: one line.

    >>> cleaned_line(" how it\\n is built ")
    'how it is built'
    """
    return " ".join(cleaned(text).split())


def to_prune(items: Sequence[BoardItem], keep: int = ITEMS_KEPT) -> list[BoardItem]:
    """Return the items to delete so that ``keep`` stay: agents' only, those with the fewest reads per session first.

    Of equal ones those go first that more sessions could have read, then those that changed longest ago.
    """
    agents = [each for each in items if each.src == AGENT]
    agents.sort(key=lambda each: (each.read_count / max(each.count, 1), -each.count, each.changed, each.name))
    return agents[: max(len(items) - keep, 0)]


def as_json(item: BoardItem) -> dict[str, Any]:
    """An item as ``--json`` prints it."""
    return {
        "repository": item.repository,
        "branch": item.branch,
        "src": item.src,
        "name": item.name,
        "description": item.description,
        "content": item.content,
        "author": item.author,
        "read_count": item.read_count,
        "session_count": item.count,
        "created": iso(item.created),
        "changed": iso(item.changed),
    }
