"""The items of a context board: who wrote what about a repository and a branch. Functions never commit.

A removed item keeps its row, empty, so that an older copy of the store does not bring it back. How many sessions could
have read an item is counted when it is asked for: storing a session writes nothing here.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from backstory import errors
from backstory.bounds import iso
from backstory.conversation import board
from backstory.conversation.board import BoardItem, BoardKey, Src
from backstory.store.rows import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import apsw

COUNTED = (
    "s.relation is null and s.elsewhere is null and "
    "iif(s.branch is null or s.branch in ('', 'HEAD') or (length(s.branch) in (40, 64) and "
    "s.branch not glob '*[^0-9a-f]*'), 'default', s.branch) = ?2"
)
"""Sessions of a branch that count: none that go on with others, subagents', nor any taken from an untrusted store."""
_BEGAN = (
    f"select s.created from sessions s where s.repository = ?1 and {COUNTED} union all "
    "select s.created from sessions s where s.repository is null and ?1 glob 'local:*' "
    f"and 'local:' || coalesce(s.root, s.cwd, s.project) = ?1 and {COUNTED}"
)
_LISTED = (
    "select src, name, description, content, author, read_count, created, changed from context_items "
    "where repository = ? and branch = ? and not removed order by src, name"
)
_THIS = "repository = ? and branch = ? and src = ? and name = ? and not removed"


class NewItem(NamedTuple):
    """What is to be written, cleaned and within its limits. ``author``: the agent that writes; None: a person."""

    src: Src
    name: str
    description: str
    content: str
    author: str | None


class _Row(NamedTuple):
    src: Src
    name: str
    description: str
    content: str
    author: str | None
    read_count: int
    created: int
    changed: int


def of_board(db: apsw.Connection, key: BoardKey) -> list[BoardItem]:
    """The items of a board: agents' and then people's, each by name."""
    rows = fetch(db, _Row, _LISTED, (key.repository, key.branch))
    if not rows:
        return []
    began = sorted(str(each) for (each,) in db.execute(_BEGAN, (key.repository, key.branch)))
    return [
        BoardItem(
            repository=key.repository,
            branch=key.branch,
            count=len(began) - bisect_left(began, iso(row.created) or ""),
            **row._asdict(),
        )
        for row in rows
    ]


def boards(db: apsw.Connection) -> list[BoardKey]:
    """The boards that hold anything."""
    sql = "select distinct repository, branch from context_items where not removed order by repository, branch"
    return fetch(db, BoardKey, sql)


def count_read(db: apsw.Connection, key: BoardKey, src: Src, name: str) -> None:
    """Count that an item was read."""
    db.execute(
        f"update context_items set read_count = read_count + 1 where {_THIS}",
        (*_where(key), src, name),
    )


def put(db: apsw.Connection, key: BoardKey, new: NewItem, now: int) -> bool:
    """Write an item, or write it anew: its counts stay. Returns whether it is new; raises BoardFull."""
    where = (*_where(key), new.src, new.name)
    is_known = db.execute(f"select 1 from context_items where {_THIS}", where).get
    count = "select count(*) from context_items where repository = ? and branch = ? and not removed"
    if not is_known and (items := int(db.execute(count, _where(key)).get)) >= board.ITEMS_MAX:
        raise errors.BoardFull(key.repository, key.branch, items)
    db.execute(
        "insert into context_items(repository, branch, src, name, description, content, author, created, changed) "
        "values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8) on conflict do update set description = ?5, content = ?6, "
        "author = ?7, changed = max(?8, changed + 1), read_count = iif(removed, 0, read_count), "
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


def prune(db: apsw.Connection, key: BoardKey, keep: int, now: int) -> list[BoardItem]:
    """Remove agents' items until ``keep`` are left, or none of agents is; returns those."""
    gone = board.to_prune(of_board(db, key), keep)
    remove(db, gone, now)
    return gone


def _where(key: BoardKey) -> Sequence[str]:
    return (key.repository, key.branch)
