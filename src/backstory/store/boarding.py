"""The context board of a store: items about repositories and branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from backstory.conversation.board import BoardKey
from backstory.lazy_module import lazy_module
from backstory.store.branching import Branching
from backstory.store.database import believed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import apsw

    from backstory.conversation.board import BoardItem
    from backstory.store import board_items
    from backstory.store.board_items import ItemCopy, NewItem
    from backstory.store.moves import Moves
else:
    board_items = lazy_module("backstory.store.board_items")

R = TypeVar("R")


class Boarding(Branching):
    """The methods of a store about its boards."""

    def board(self, key: BoardKey) -> list[BoardItem]:
        """The items of a board: agents' and then people's, each by name."""
        return self._believed(lambda db: board_items.of_board(db, key, self.moves))

    def boards(self) -> list[BoardKey]:
        """The boards that hold anything."""
        return self._believed(lambda db: board_items.boards(db, self.moves))

    def board_copies(self) -> list[ItemCopy]:
        """Every item of every board, removed ones too, for another store."""
        return self._believed(board_items.copies)

    def _believed(self, question: Callable[[apsw.Connection], list[R]]) -> list[R]:
        """Rows of a store; none of one that is not there yet. Another program may have written anything."""
        nothing: list[R] = []
        with believed(self.path):
            return self._read_if_begun(question, nothing)

    def take_board_items(self, theirs: Sequence[ItemCopy]) -> int:
        """Take over what was written or removed later in another store that is trusted; returns how many changed."""
        known = {each.key: each for each in self.board_copies()} if theirs else {}
        if all(each.key in known and board_items.merged(known[each.key], each) == known[each.key] for each in theirs):
            return 0
        return self._write(lambda db: board_items.adopt(db, theirs), decided=True)

    def put_board_item(self, key: BoardKey, new: NewItem) -> bool:
        """Write an item, or write it anew; returns whether it is new. Raises BoardFull."""
        now, moves = self._now(), self.moves
        return self._write(lambda db: board_items.put(db, _gathered(db, key, moves), new, now), decided=True)

    def count_board_read(self, item: BoardItem) -> None:
        """Count that an item was read."""
        moves = self.moves
        key = BoardKey(item.repository, item.branch)
        self._change(lambda db: board_items.count_read(db, _gathered(db, key, moves), item.src, item.name))

    def remove_board_items(self, items: Sequence[BoardItem]) -> None:
        """Remove items, for good."""
        now, moves = self._now(), self.moves

        def remove(db: apsw.Connection) -> None:
            for key in {BoardKey(each.repository, each.branch) for each in items}:
                _gathered(db, key, moves)
            board_items.remove(db, items, now)

        self._change(remove, decided=True)

    def prune_board(self, key: BoardKey, keep: int) -> list[BoardItem]:
        """Remove the agents' items with the fewest reads per session until ``keep`` are left; returns those."""
        now, moves = self._now(), self.moves
        return self._change(lambda db: board_items.prune(db, _gathered(db, key, moves), keep, moves, now), decided=True)


def _gathered(db: apsw.Connection, key: BoardKey, moves: Moves) -> BoardKey:
    """The key of a board whose rows are all filed under it."""
    board_items.gather(db, key, moves)
    return key
