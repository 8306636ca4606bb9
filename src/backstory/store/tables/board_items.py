"""The items of a context board: who wrote what about a repository and a branch. Functions never commit.

A removed item keeps its row, empty, so that an older copy of the store does not bring it back. How many sessions could
have read an item is counted when it is asked for: storing a session writes nothing here.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from backstory import errors
from backstory.bounds import TIME_MAX_MS, iso
from backstory.conversation import board
from backstory.conversation.board import BoardItem, BoardKey, Src
from backstory.store import schema
from backstory.store.schema import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import apsw

    from backstory.store.moves import Moves

_COUNTED = (
    "s.relation is null and s.elsewhere is null and "
    "iif(s.branch is null or s.branch in ('', 'HEAD') or (length(s.branch) in (40, 64) and "
    "s.branch not glob '*[^0-9a-f]*'), 'default', s.branch) = ?2"
)
"""Sessions of a branch that count: none that go on with others, subagents', nor any taken from an untrusted store."""
_BEGAN = f"select s.created, '' from sessions s where s.repository = ?1 and {_COUNTED}"
_BEGAN_IN_FOLDERS = (
    "select s.created, coalesce(s.root, s.cwd, s.project) from sessions s where s.repository is null "
    f"and coalesce(s.root, s.cwd, s.project) in (select value from json_each(?1)) and {_COUNTED}"
)
_THIS = "repository = ? and branch = ? and src = ? and name = ? and not removed"


class NewItem(NamedTuple):
    """An item to be written, cleaned and within its limits. ``author``: the agent that writes; None: a person."""

    src: Src
    name: str
    description: str
    content: str
    author: str | None


class ItemCopy(NamedTuple):
    """An item on its way to another store: all of its row."""

    repository: str
    branch: str
    src: Src
    name: str
    description: str
    content: str
    author: str | None
    read_count: int
    created: int
    changed: int
    removed: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key that it is filed under."""
        return self.repository, self.branch, self.src, self.name

    @property
    def said(self) -> tuple[str, str, str]:
        """Its text and its author."""
        return self.description, self.content, self.author or ""

    @property
    def is_valid(self) -> bool:
        """True if it is as ours are made; another program may have written anything."""
        texts = (*self.key, *self.said)
        numbers = (self.read_count, self.created, self.changed)
        return (
            all(isinstance(each, str) for each in texts)
            and all(isinstance(each, int) and 0 <= each <= TIME_MAX_MS for each in numbers)
            and self.src in (board.AGENT, board.USER)
            and self.removed in (0, 1)
            and board.is_name(self.name)
            and len(self.content) <= board.CONTENT_CHARS_MAX
            and len(self.description) <= board.DESCRIPTION_CHARS_MAX
            and bool(self.content) != bool(self.removed)
        )


_COLUMNS = ", ".join(ItemCopy._fields)


def of_board(db: apsw.Connection, key: BoardKey, moves: Moves) -> list[BoardItem]:
    """The items of a board: agents' and then people's, each by name. A board goes along with a folder that is moved."""
    found: dict[tuple[str, str], ItemCopy] = {}
    for each in _recorded(db, key, moves):
        filed = each.src, each.name
        found[filed] = merged(found[filed], each) if filed in found else each
    items = [each for _, each in sorted(found.items()) if not each.removed]
    began = _began(db, key, moves) if items else []
    return [_item(each, key, len(began) - bisect_left(began, iso(each.created) or "")) for each in items]


def _item(row: ItemCopy, key: BoardKey, count: int) -> BoardItem:
    return BoardItem(
        repository=key.repository, branch=key.branch, src=row.src, name=row.name, description=row.description,
        content=row.content, author=row.author, read_count=row.read_count, count=count, created=row.created,
        changed=row.changed,
    )  # fmt: skip


def _recorded(db: apsw.Connection, key: BoardKey, moves: Moves) -> list[ItemCopy]:
    """The rows of a board, also those that were recorded for the folder that it was in before."""
    folder = key.folder
    names = [key.repository, *(f"{board.LOCAL}{each}" for each in moves.earlier(folder or ""))]
    sql = f"select {_COLUMNS} from context_items where branch = ? and repository in (select value from json_each(?))"
    rows = [each for each in fetch(db, ItemCopy, sql, (key.branch, schema.json_list(names))) if each.is_valid]
    if folder is None or not moves:
        return rows
    # Another project may lie today where this one lay when the item was written.
    return [each for each in rows if moves.here(each.repository.removeprefix(board.LOCAL), iso(each.created)) == folder]


def _began(db: apsw.Connection, key: BoardKey, moves: Moves) -> list[str]:
    """Return the times when the sessions of a board began, the earliest first."""
    folder = key.folder
    if folder is None:
        rows = fetch(db, tuple[str, str], _BEGAN, (key.repository, key.branch))
        return sorted(at for at, _ in rows)
    folders = schema.json_list([folder, *moves.earlier(folder)])
    rows = fetch(db, tuple[str, str], _BEGAN_IN_FOLDERS, (folders, key.branch))
    return sorted(at for at, path in rows if moves.here(path, at) == folder)


def gather(db: apsw.Connection, key: BoardKey, moves: Moves) -> None:
    """File the rows of a board, before it is changed, under the folder that it is in now."""
    rows = _recorded(db, key, moves) if moves and key.folder is not None else []
    for row in rows:
        if row.repository != key.repository:
            db.execute(
                "delete from context_items where repository = ? and branch = ? and src = ? and name = ?", row.key
            )
            adopt(db, [row._replace(repository=key.repository)])


def boards(db: apsw.Connection, moves: Moves) -> list[BoardKey]:
    """The boards that hold anything."""
    sql = "select distinct repository, branch, created from context_items where not removed"
    rows = fetch(db, tuple[str, str, int], sql)
    return sorted({_key_now(*row, moves) for row in rows}, key=lambda key: (key.repository, key.branch))


def _key_now(repository: str, branch: str, created: int, moves: Moves) -> BoardKey:
    folder = BoardKey(repository).folder
    return BoardKey(repository if folder is None else f"{board.LOCAL}{moves.here(folder, iso(created))}", branch)


def count_read(db: apsw.Connection, key: BoardKey, src: Src, name: str) -> None:
    """Count that an item was read."""
    db.execute(
        f"update context_items set read_count = read_count + 1 where {_THIS}",
        (*_where(key), src, name),
    )


def put(db: apsw.Connection, key: BoardKey, new: NewItem, now: int) -> bool:
    """Write an item, or write it anew: its counts stay. Returns whether it is new; raises BoardFull.

    The board was gathered.
    """
    where = (*_where(key), new.src, new.name)
    is_known = db.execute(f"select 1 from context_items where {_THIS}", where).get
    count = "select count(*) from context_items where repository = ? and branch = ? and not removed"
    if not is_known and (items := int(db.execute(count, _where(key)).get)) >= board.ITEMS_MAX:
        raise errors.BoardFull(key.repository, key.branch, items)
    db.execute(
        "insert into context_items(repository, branch, src, name, description, content, author, created, changed) "
        "values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8) on conflict do update set description = ?5, content = ?6, "
        "author = ?7, changed = max(?8, changed + 1), read_count = iif(removed, 0, read_count), "
        # Later than before by the clock or by one: a merge takes the copy with the greater time.
        "created = iif(removed, max(?8, changed + 1), created), removed = 0",
        (*where, new.description, new.content, new.author, now),
    )
    return not is_known


def remove(db: apsw.Connection, items: Iterable[BoardItem], now: int) -> None:
    """Remove items: nothing of what they say stays."""
    db.executemany(
        "update context_items set removed = 1, description = '', content = '', author = null, read_count = 0, "
        f"changed = max(?, changed + 1) where {_THIS}",
        [(now, each.repository, each.branch, each.src, each.name) for each in items],
    )


def prune(db: apsw.Connection, key: BoardKey, keep: int, moves: Moves, now: int) -> list[BoardItem]:
    """Remove agents' items until ``keep`` are left, or none of agents is; returns those."""
    gone = board.to_prune(of_board(db, key, moves), keep)
    remove(db, gone, now)
    return gone


def copies(db: apsw.Connection) -> list[ItemCopy]:
    """Every item of every board, removed ones too, for another store; none of a row that breaks the rules."""
    rows = fetch(db, ItemCopy, f"select {_COLUMNS} from context_items order by repository, branch, src, name")
    return [each for each in rows if each.is_valid]


def adopt(db: apsw.Connection, theirs: Iterable[ItemCopy]) -> int:
    """Take over what was written or removed later in another store; returns how many items that changed.

    A board may have more items than fit then: it takes no new one until there is room.
    """
    known = {each.key: each for each in copies(db)}
    changed = 0
    for other in theirs:
        mine = known.get(other.key)
        later = other if mine is None else merged(mine, other)
        if other.is_valid and later != mine:
            _write(db, later)
            changed += mine is not None or not other.removed
    return changed


def merged(mine: ItemCopy, other: ItemCopy) -> ItemCopy:
    """Return the copy of an item that was changed later, in whichever order they meet.

    Reads that were counted in both are not added: what was read since a copy was made cannot be told from it.
    """
    # All fields are part of the order, so that both stores choose the same copy of one moment.
    later = max(mine, other, key=lambda each: (each.changed, each.removed, *each.said, each.created, each.read_count))
    if mine.removed or other.removed or mine.created != other.created:
        return later
    return later._replace(read_count=max(mine.read_count, other.read_count))


def _write(db: apsw.Connection, item: ItemCopy) -> None:
    places = ", ".join("?" * len(item))
    db.execute(f"insert or replace into context_items({_COLUMNS}) values ({places})", item)


def _where(key: BoardKey) -> Sequence[str]:
    return (key.repository, key.branch)
