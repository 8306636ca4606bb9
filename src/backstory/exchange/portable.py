"""One session's rows as lines of a JSON export, some at a time. Functions take the connection and change nothing.

A session may grow while it is read: ``Extent`` says what of it is written, and later rows are cut to that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.bounds import iso
from backstory.exchange.json_lines import (
    BoardLine,
    BranchLine,
    LogLine,
    RemovedLine,
    SessionLine,
    SummaryLine,
    TurnLine,
    ms_of,
)
from backstory.store import board_items, decisions, kinds, sessions
from backstory.store.board_items import ItemCopy
from backstory.store.codec import CodecError
from backstory.store.rows import fetch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import apsw

_SESSION = (
    "uid, owner, number, name, title, worktree, project, repository, branch, cwd, root, created, last_active, "
    "completed, duration_ms, cost_usd, native_id, parent_identity as parent, relation, leaf_uid as leaf_turn, "
    "leaf_seq, leaf_at, next_seq, context_chars, context_limit"
)
_LOG = (
    "id, turn_uid as turn, agent, kind, native_id, path, root_chars, relpath, modified, read_to as length, parsed_to, "
    "first_hash, tail_seq, generation, cwd, told_to"
)
_TURN = (
    "t.id, uid, parent_uid, parent_seq, first_seq, last_seq, agent, model, native_id, prompt, answer, started, ended, "
    "outcome, stop_reason, api_latency_ms, duration_ms, input_tokens, output_tokens, cache_read_tokens, "
    "cache_write_tokens, cache_write_1h_tokens, largest_input_tokens, reasoning_tokens, context_window, tokens_source, "
    "cost_usd, cost_source, prefix_chars, prefix_sha256, removed"
)
_SUMMARY = (
    "after_seq, summary, created, agent, undone, model, input_tokens, output_tokens, cache_read_tokens, "
    "cache_write_tokens, cost_usd, duration_ms"
)
_TIMES = frozenset({"last_active", "modified", "started", "ended", "removed", "leaf_at"})
_FLAGS = frozenset({"completed", "undone"})


class Extent(Struct, frozen=True, kw_only=True):
    """What of a session is written: its line, its logs by their ids, each to its length then."""

    session: SessionLine
    logs: dict[int, LogLine]


def extent(db: apsw.Connection, session_id: int) -> Extent | None:
    """A session as it is now; None where it is gone."""
    rows = _rows(db, _SESSION, "from sessions where id = ?", (session_id,))
    if not rows:
        return None
    row = rows[0]
    git_branches = fetch(
        db, tuple[str], "select branch from session_branches where session_id = ? order by branch", (session_id,)
    )
    session = SessionLine(**row, branches=[name for (name,) in git_branches], decided=decisions.times(db, row["uid"]))
    rows = _rows(db, _LOG, "from logs where session_id = ? order by id", (session_id,))
    asked = (
        "select exists (select 1 from logs l where session_id = ? and not (typeof(read_to) = 'integer' and read_to "
        "between 0 and coalesce((select max(start + length) from chunks where log_id = l.id), 0)))"
    )
    if db.execute(asked, (session_id,)).get:
        raise CodecError(f"a log of session {session_id} has not the length that it is said to have")
    logs = {each.pop("id"): LogLine(log=number, **each) for number, each in enumerate(rows, 1)}
    return Extent(session=session, logs=logs)


def turns(db: apsw.Connection, session_id: int, after: int, limit: int) -> list[tuple[int, TurnLine]]:
    """The turns of a session behind the one with the id ``after``, each with its id."""
    rows = _rows(
        db,
        _TURN,
        "from turns t left join turn_texts x on x.turn_id = t.id where session_id = ? and t.id > ? "
        "order by t.id limit ?",
        (session_id, after, limit),
    )
    return [(row.pop("id"), TurnLine(**row)) for row in rows]


def turn_uids(db: apsw.Connection, ids: Collection[int]) -> list[tuple[int, str]]:
    """The uids of turns with these ids, each with its id."""
    return fetch(
        db, tuple[int, str], "select id, uid from turns where id in (select value from json_each(?))",
        (kinds.json_list(ids),),
    )  # fmt: skip


def branches(db: apsw.Connection, session_id: int) -> list[BranchLine]:
    """What people called the branches of a session."""
    rows = fetch(
        db,
        tuple[str, str, int | None, int, int | None],
        "select name, leaf_uid, leaf_seq, created, moved from branches where session_id = ? order by id",
        (session_id,),
    )
    return [
        BranchLine(name=name, leaf_turn=leaf_uid, leaf_seq=leaf_seq, created=iso(created) or "", moved=iso(moved))
        for name, leaf_uid, leaf_seq, created, moved in rows
    ]


def summaries(db: apsw.Connection, session_id: int, after: int, limit: int) -> list[tuple[int, SummaryLine]]:
    """The summaries of a session behind the one with the id ``after``, each with its id."""
    rows = _rows(
        db, f"id, {_SUMMARY}", "from compactions where session_id = ? and id > ? order by id limit ?",
        (session_id, after, limit),
    )  # fmt: skip
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


def _rows(db: apsw.Connection, columns: str, source: str, values: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Rows by the names of the lines' fields, their times as text; what is NULL, below 0 or infinite is left out."""
    names = [each.split(" as ")[-1].rpartition(".")[2] for each in columns.split(", ")]
    return [
        {
            name: _value(name, value)
            for name, value in zip(names, row, strict=True)
            if value is not None and not (isinstance(value, int | float) and not 0 <= value < math.inf)
        }
        for row in db.execute(f"select {columns} {source}", values).fetchall()
    ]


def _value(name: str, value: Any) -> Any:
    if name in _TIMES:
        return iso(value)
    if isinstance(value, bytes):
        return value.hex()
    return bool(value) if name in _FLAGS else value
