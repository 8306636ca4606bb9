"""The context board of a repository and branch: short notes by agents and people, kept in the machine's store.

>>> board = workspace.board()                           # doctest: +SKIP
>>> board.add("build-notes", "Run make first.")         # doctest: +SKIP
>>> board.get("build-notes").content                    # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import errors
from backstory.conversation import board as rules
from backstory.conversation.board import NO_OFFER, BoardItem, BoardKey, Offer
from backstory.derive.naming import repository_name
from backstory.projects import git
from backstory.store.tables import boarding
from backstory.store.tables.board_items import NewItem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from backstory.conversation.board import Src
    from backstory.store import Store

__all__ = ["Added", "Board", "BoardItem", "BoardKey"]


class Added(Struct, frozen=True, kw_only=True):
    """The result of writing an item."""

    item: BoardItem
    is_new: bool
    """False: an item of this name was written anew; its counts stay."""
    items: int
    """The number of items that the board has now."""

    @property
    def warning(self) -> str | None:
        """A warning for the writer when a board is nearly full; else None."""
        if self.items < rules.ITEMS_WARN:
            return None
        return (
            f"The board has {self.items} of {rules.ITEMS_MAX} items. Remove what is no longer needed: "
            "backstory board prune"
        )


def key_of(folder: Path, repository: str | None = None, branch: str | None = None) -> BoardKey:
    """Return the key of a folder's board; ``repository`` and ``branch`` name another one.

    ``repository`` may be ``owner/name``, a remote's URL, ``local:FOLDER`` or a folder's path.
    """
    here = BoardKey(_repository_of(folder), rules.branch_key(git.current_branch(folder)))
    if repository is None:
        return BoardKey(here.repository, branch or here.branch)
    wanted = _repository_named(folder, repository)
    # A branch that is checked out here says nothing of another repository.
    return BoardKey(wanted, branch or (here.branch if wanted == here.repository else rules.DEFAULT_BRANCH))


def _repository_of(folder: Path) -> str:
    name = repository_name(git.project_key(str(folder)))
    return rules.repository_key(name, str(git.repository_root(folder) or folder))


def _repository_named(folder: Path, words: str) -> str:
    if words.startswith(rules.LOCAL):
        return words
    if words.startswith(("/", "~", ".")):
        return _repository_of((folder / words).resolve())
    return repository_name(words) or words


class Board:
    """A board. ``key`` says which; ``report`` receives sentences about problems that stop nothing."""

    def __init__(self, store: Store, key: BoardKey, report: Callable[[str], None] = lambda _: None) -> None:
        self.store, self.key, self._report = store, key, report

    @property
    def branches(self) -> list[str]:
        """The branches of the same repository whose boards have items."""
        return [each.branch for each in boarding.boards(self.store) if each.repository == self.key.repository]

    def items(self) -> list[BoardItem]:
        """All items: agents' and then people's, each by name. Listing is no read."""
        return boarding.items(self.store, self.key)

    def get(self, name: str, src: Src | None = None) -> BoardItem:
        """An item by its name, and by who wrote it where both an agent and a person wrote one; counts as a read.

        A store that cannot be written gives it, too, and says so. Raises BoardItemNotFound, BoardItemAmbiguous.
        """
        found = self.find(name, src)
        try:
            if self.store.is_elsewhere:
                raise errors.NotTrusted(self.store.path)
            boarding.count_read(self.store, found)
        except errors.BackstoryError as refused:
            self._report(f"This read was not counted: {errors.short_reason(refused)}")
            return found
        return next((each for each in self.items() if (each.src, each.name) == (found.src, found.name)), found)

    def offer(self, prompt: str) -> Offer:
        """The items that share words or paths with a prompt, for a run. This is no read.

        A store that nobody trusts offers nothing.
        """
        items = [] if self.store.is_elsewhere else boarding.items(self.store, self.key)
        if not items:
            return NO_OFFER
        from backstory.conversation.board_offer import offer

        return offer(items, prompt)

    def find(self, name: str, src: Src | None = None) -> BoardItem:
        """An item by its name; this is no read. Raises BoardItemNotFound, BoardItemAmbiguous."""
        items = self.items()
        found = [each for each in items if each.name == name and src in (None, each.src)]
        if not found:
            raise errors.BoardItemNotFound(name, [each.name for each in items], self.key.repository, self.key.branch)
        if len(found) > 1:
            raise errors.BoardItemAmbiguous(name)
        return found[0]

    def check_name(self, name: str) -> None:
        """Raises BoardNameUnusable where no item may be called so."""
        if not rules.is_name(name):
            raise errors.BoardNameUnusable(name, rules.proposed_name(name), rules.NAME_CHARS_MAX)

    def add(self, name: str, content: str, *, description: str = "", agent: str | None = None) -> Added:
        """Write an item, or write it anew: an agent's, or a person's if ``agent`` is None.

        Raises BoardNameUnusable, BoardTextUnusable, BoardFull.
        """
        self.check_name(name)
        new = NewItem(
            src=rules.USER if agent is None else rules.AGENT,
            name=name,
            description=_checked("description", rules.cleaned_line(description), rules.DESCRIPTION_CHARS_MAX),
            content=_checked("content", rules.cleaned(content), rules.CONTENT_CHARS_MAX),
            author=rules.cleaned_line(agent or "")[: rules.NAME_CHARS_MAX] or None,
        )
        if not new.content:
            raise errors.BoardTextUnusable("The item is empty. Give its text behind its name, or on stdin.")
        is_new = boarding.put(self.store, self.key, new)
        return Added(item=self.find(name, new.src), is_new=is_new, items=len(self.items()))

    def prune(self, keep: int = rules.ITEMS_KEPT) -> Sequence[BoardItem]:
        """Remove agents' items with the fewest reads per session until ``keep`` are left; returns those removed.

        People's items stay, so more than ``keep`` may be left.
        """
        return boarding.prune(self.store, self.key, keep) if self.items() else []

    def remove(self, name: str, src: Src | None = None) -> BoardItem:
        """Remove an item and return it. Raises BoardItemNotFound, BoardItemAmbiguous."""
        found = self.find(name, src)
        boarding.remove(self.store, [found])
        return found


def _checked(what: str, text: str, most: int) -> str:
    if len(text) > most:
        raise errors.BoardTextUnusable(
            f"The {what} has {len(text):,} characters; {most:,} fit. Shorten it, or make two items of it."
        )
    return text
