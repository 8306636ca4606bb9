"""The context board of a store: items about repositories and branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from backstory.conversation.board import BoardKey
from backstory.lazy import lazy_module
from backstory.store.database import believed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import apsw

    from backstory.conversation.board import BoardItem
    from backstory.store.database import Database
    from backstory.store.moves import Moves
    from backstory.store.tables import board_items
    from backstory.store.tables.board_items import ItemCopy, NewItem
else:
    board_items = lazy_module("backstory.store.tables.board_items")

R = TypeVar("R")


def items(store: Database, key: BoardKey) -> list[BoardItem]:
    """The items of a board: agents' and then people's, each by name."""
    return _believed(store, lambda db: board_items.of_board(db, key, store.moves))


def boards(store: Database) -> list[BoardKey]:
    """The boards that hold anything."""
    return _believed(store, lambda db: board_items.boards(db, store.moves))


def copies(store: Database) -> list[ItemCopy]:
    """Every item of every board, removed ones too, for another store."""
    return _believed(store, board_items.copies)


def _believed(store: Database, question: Callable[[apsw.Connection], list[R]]) -> list[R]:
    """Rows of a store; none of one that is not there yet. Another program may have written anything."""
    with believed(store.path):
        return store.ask_or([], question)


def take(store: Database, theirs: Sequence[ItemCopy]) -> int:
    """Take over what was written or removed later in another store that is trusted; returns how many changed."""
    known = {each.key: each for each in copies(store)} if theirs else {}
    # To look costs a read, to write a sync, and mostly nothing was written there since.
    if all(each.key in known and board_items.merged(known[each.key], each) == known[each.key] for each in theirs):
        return 0
    store.begin()
    return store.decide(board_items.adopt, theirs)


def put(store: Database, key: BoardKey, new: NewItem) -> bool:
    """Write an item, or write it anew; returns whether it is new. Raises BoardFull."""
    now, moves = store.now(), store.moves
    store.begin()
    return store.decide(lambda db: board_items.put(db, _gathered(db, key, moves), new, now))


def count_read(store: Database, item: BoardItem) -> None:
    """Count that an item was read."""
    moves, key = store.moves, BoardKey(item.repository, item.branch)
    store.change(lambda db: board_items.count_read(db, _gathered(db, key, moves), item.src, item.name))


def remove(store: Database, gone: Sequence[BoardItem]) -> None:
    """Remove items, for good."""
    now, moves = store.now(), store.moves

    def remove_all(db: apsw.Connection) -> None:
        # In the same transaction as the removal: a row under an old folder would show the item again.
        for key in {BoardKey(each.repository, each.branch) for each in gone}:
            _gathered(db, key, moves)
        board_items.remove(db, gone, now)

    store.decide(remove_all)


def prune(store: Database, key: BoardKey, keep: int) -> list[BoardItem]:
    """Remove the agents' items with the fewest reads per session until ``keep`` are left; returns those."""
    now, moves = store.now(), store.moves
    return store.decide(lambda db: board_items.prune(db, _gathered(db, key, moves), keep, moves, now))


def _gathered(db: apsw.Connection, key: BoardKey, moves: Moves) -> BoardKey:
    """The key of a board whose rows are all filed under it."""
    board_items.gather(db, key, moves)
    return key
