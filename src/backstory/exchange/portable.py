"""One session's rows as lines of a JSON export, some at a time. Functions take the connection and change nothing.

A session may grow while it is read: ``Extent`` says what of it is written, and later rows are cut to that.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from backstory.bounds import iso
from backstory.exchange import copying
from backstory.exchange.json_lines import (
    BoardLine,
    BranchLine,
    LogLine,
    PrunedPart,
    RemovedLine,
    RowLine,
    SessionLine,
    SummaryLine,
    TurnLine,
    ms_of,
)
from backstory.lazy import lazy_module
from backstory.store import schema
from backstory.store.codec import CodecError
from backstory.store.schema import fetch
from backstory.store.tables import board_items, decisions, sessions
from backstory.store.tables.board_items import ItemCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    import apsw

    from backstory.exchange.json_lines import PrunedWord
    from backstory.store.tables import pruned
else:
    pruned = lazy_module("backstory.store.tables.pruned")

R = TypeVar("R", bound=RowLine)
LINES: dict[str, type[RowLine]] = {
    "sessions": SessionLine, "logs": LogLine, "turns": TurnLine, "branches": BranchLine, "compactions": SummaryLine,
}  # fmt: skip
"""The tables whose rows are lines."""
_TABLES = {line: table for table, line in LINES.items()}
_NAMES = {"parent_identity": "parent", "leaf_uid": "leaf_turn", "turn_uid": "turn", "read_to": "length"}
"""Columns that a line has under another name."""
_MADE = {"logs": ("tail_hash", "frames")}
"""Columns that are made anew of the bytes."""
_TIMES = frozenset({"last_active", "modified", "started", "ended", "removed", "leaf_at", "created", "moved"})
_FLAGS = frozenset({"completed", "undone"})
_ALWAYS = frozenset({"leaf_uid", "undone"})
"""Decided columns that are taken over from a file that nobody trusts: which branch it calls the current one."""
_TYPES: dict[str, type | tuple[type, ...]] = {"integer": int, "real": (int, float), "text": str, "blob": str}


class Extent(Struct, frozen=True, kw_only=True):
    """The part of a session that is written: its line, and its logs by their ids, each to its length then."""

    session: SessionLine
    logs: dict[int, LogLine]


def extent(db: apsw.Connection, session_id: int) -> Extent | None:
    """A session as it is now; None where it is gone."""
    rows = _rows(db, "sessions", "id = ?", (session_id,), "context_chars", "context_limit")
    if not rows:
        return None
    row = rows[0]
    git_branches = fetch(
        db, tuple[str], "select branch from session_branches where session_id = ? order by branch", (session_id,)
    )
    session = SessionLine(
        **row,
        branches=[name for (name,) in git_branches],
        context=decisions.context_of(db, row["uid"]),
        decided=decisions.times(db, row["uid"]),
        pruned=_pruned(db, session_id),
    )
    rows = _rows(db, "logs", "session_id = ? order by id", (session_id,), "id")
    asked = (
        "select exists (select 1 from logs l where session_id = ? and not (typeof(read_to) = 'integer' and read_to "
        "between 0 and coalesce((select max(start + length) from chunks where log_id = l.id), 0)))"
    )
    if db.execute(asked, (session_id,)).get:
        raise CodecError(f"a log of session {session_id} has not the length that it is said to have")
    logs = {each.pop("id"): LogLine(log=number, **each) for number, each in enumerate(rows, 1)}
    return Extent(session=session, logs=logs)


def _pruned(db: apsw.Connection, session_id: int) -> PrunedPart | None:
    note = pruned.noted(db, session_id)
    if note is None:
        return None
    what = cast("list[PrunedWord]", note.words)
    return PrunedPart(what=what, at=iso(note.at) or "", next_seq=note.next_seq)


def turns(db: apsw.Connection, session_id: int, after: int, limit: int, since: int = 0) -> list[tuple[int, TurnLine]]:
    """The turns of a session behind the one with the id ``after`` that go on to a record, each with its id."""
    answer = "(select answer from turn_texts where turn_id = turns.id) as answer"
    where = "session_id = ? and id > ? and last_seq >= ? order by id limit ?"
    rows = _rows(db, "turns", where, (session_id, after, since, limit), "id", answer)
    return [(row.pop("id"), TurnLine(**row)) for row in rows]


def turn_uids(db: apsw.Connection, ids: Collection[int]) -> list[tuple[int, str]]:
    """The uids of turns with these ids, each with its id."""
    return fetch(
        db, tuple[int, str], "select id, uid from turns where id in (select value from json_each(?))",
        (schema.json_list(ids),),
    )  # fmt: skip


def branches(db: apsw.Connection, session_id: int) -> list[BranchLine]:
    """Return the names that people gave the branches of a session."""
    return [
        BranchLine(**({"created": ""} | row))
        for row in _rows(db, "branches", "session_id = ? order by id", (session_id,))
    ]


def summaries(db: apsw.Connection, session_id: int, after: int, limit: int) -> list[tuple[int, SummaryLine]]:
    """The summaries of a session behind the one with the id ``after``, each with its id."""
    where = "session_id = ? and id > ? order by id limit ?"
    rows = _rows(db, "compactions", where, (session_id, after, limit), "id")
    return [(row.pop("id"), SummaryLine(**row)) for row in rows]


def removed(db: apsw.Connection) -> list[RemovedLine]:
    """The sessions that people removed, and when."""
    rows = fetch(db, tuple[str, int], "select uid, at from forgotten order by uid")
    return [RemovedLine(uid=uid, at=iso(at) or "") for uid, at in rows]


def board_lines(db: apsw.Connection) -> list[BoardLine]:
    """The items of every board, and what is left of removed ones."""
    return [
        BoardLine(
            **each._asdict()
            | {"created": iso(each.created), "changed": iso(each.changed), "removed": bool(each.removed)}
        )
        for each in board_items.copies(db)
    ]


def item_of(line: BoardLine) -> ItemCopy:
    """A line as an item. Raises ValueError for one that is not as ours are made."""
    fields: dict[str, Any] = {name: getattr(line, name) for name in ItemCopy._fields}
    times = {"created": ms_of(line.created), "changed": ms_of(line.changed)}
    item = ItemCopy(**fields | times | {"removed": int(line.removed)})
    if not item.is_valid:
        raise ValueError("it is no item of a board: its name or its text is not as they are made")
    return item


def session_ids(db: apsw.Connection) -> list[int]:
    """Every session of a store, also one that lists do not show."""
    return [session_id for (session_id,) in fetch(db, tuple[int], "select id from sessions order by id")]


def families(db: apsw.Connection, wanted: Iterable[int]) -> list[int]:
    """Sessions with those of their subagents, and the agents' own logs of their runs, each once."""
    return list(dict.fromkeys(each for session_id in wanted for each, _ in sessions.doomed(db, session_id)))


def fields(table: str) -> tuple[str, ...]:
    """Return the names that lines give the columns of a row, in a field or in their ``more``."""
    return tuple(_NAMES.get(each.name, each.name) for each in _written(table))


def masked(line: R, mask: Callable[[str], str]) -> R:
    """A line without secrets in the texts of which ``schema.sql`` does not say that they are plain."""
    hidden = {_NAMES.get(name, name) for name in _masked_columns(_TABLES[type(line)])}
    said: dict[str, Any] = {name: mask(text) for name in hidden if isinstance(text := getattr(line, name, None), str)}
    more = {name: mask(text) if name in hidden and isinstance(text, str) else text for name, text in line.more.items()}
    if isinstance(line, SessionLine):
        said["branches"] = [mask(name) for name in line.branches]
        said["context"] = {mask(key): mask(value) for key, value in line.context.items()}
    return replace(line, **said, more=more)


def row_of(line: RowLine, *, trusted: bool) -> dict[str, Any]:
    """The columns that a line says, but for keys; without ``trusted`` none of those that people decided.

    Raises ValueError for a time that is none, and for a value that is not of its column's kind.
    """
    row = {}
    for column in _written(_TABLES[type(line)]):
        name = _NAMES.get(column.name, column.name)
        if column.fate == schema.DECIDED and not trusted and name not in _ALWAYS:
            continue
        if name in line.__struct_fields__:
            row[column.name] = _stored(column, getattr(line, name))
        elif name in line.more:
            if not isinstance(line.more[name], _TYPES[column.kind]):
                raise ValueError(f"{name} is no {column.kind}")
            row[column.name] = _stored(column, line.more[name])
    return row


@cache
def _written(table: str) -> tuple[schema.Column, ...]:
    """The columns of a row that its line has, under their names or in its ``more``."""
    found = copying.names(table, _MADE.get(table, ()))
    return tuple(each for each in schema.columns()[table] if each.name in found)


@cache
def _masked_columns(table: str) -> tuple[str, ...]:
    plain = schema.plain_texts(table) - {"native_id"}
    return (*(each.name for each in _written(table) if each.kind == "text" and each.name not in plain), "answer")


def _rows(db: apsw.Connection, table: str, where: str, values: tuple[Any, ...], *beside: str) -> list[dict[str, Any]]:
    """Rows by the names of their line's fields; what is NULL, below 0 or infinite is left out."""
    fields = LINES[table].__struct_fields__
    columns = [*beside, *(each.name for each in _written(table))]
    names = [_NAMES.get(name, name) for name in (each.split(" as ")[-1] for each in columns)]
    given = []
    for row in db.execute(f"select {', '.join(columns)} from {table} where {where}", values).fetchall():
        line: dict[str, Any] = {"more": {}}
        for name, value in zip(names, row, strict=True):
            if value is None or (isinstance(value, int | float) and not 0 <= value < math.inf):
                continue
            (line if name in fields or name == "id" else line["more"])[name] = _said(name, value)
        given.append(line)
    return given


def _said(name: str, value: Any) -> Any:
    if name in _TIMES and isinstance(value, int):
        return iso(value)
    if isinstance(value, bytes):
        return value.hex()
    return bool(value) if name in _FLAGS else value


def _stored(column: schema.Column, value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and column.kind == "integer":
        return ms_of(value)
    return bytes.fromhex(value) if isinstance(value, str) and column.kind == "blob" else value
