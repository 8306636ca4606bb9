"""Calls that touched a file, and their sessions. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.store import schema
from backstory.store.schema import fetch
from backstory.store.tables import session_filter

if TYPE_CHECKING:
    from collections.abc import Collection

    import apsw

    from backstory.store.moves import Moves


class Touch(Struct, frozen=True):
    """A call that read or changed a file: its session's id, the file, its record, what it did, when, in which turn.

    ``action``: read, edit, create, delete or rename; ``at``: ms since 1970.
    """

    session_id: int
    path: str
    seq: int
    action: str
    at: int | None
    turn_uid: str | None
    prompt: str | None


TOUCHES_MAX = 20_000
"""The newest touches of a file are looked at, no more than these."""


def touches(db: apsw.Connection, path: str, session_ids: Collection[int], moves: Moves | None) -> list[Touch]:
    """The touches of a file or folder in these sessions, the newest first; each call once, where it was made first."""
    patterns = session_filter.patterns_of([path, *(moves.earlier(path) if moves else [])])
    named, renamed = (" or ".join(f"{column} glob ?" for _ in patterns) for column in ("file_path", "to_path"))
    ids = schema.json_list(session_ids)
    # Crossed, so that the few files are found first: without statistics all touches would be looked through.
    rows = fetch(
        db,
        Touch,
        f"with files(id) as materialized (select id from session_files where ({named}) "
        "and session_id in (select value from json_each(?)) union "
        f"select file_id from file_touches where to_path is not null and ({renamed})) "
        "select f.session_id, f.file_path, t.seq, t.action, e.at, u.uid, u.prompt from files n "
        "cross join session_files f on f.id = n.id "
        "cross join file_touches t on t.file_id = f.id "
        "cross join events e on e.session_id = f.session_id and e.seq = t.seq and e.part = t.part "
        "left join turns u on u.id = e.turn_id "
        "where f.session_id in (select value from json_each(?)) and u.removed is null "
        "order by e.at desc, f.session_id, t.seq desc limit ?",
        (*patterns, ids, *patterns, ids, TOUCHES_MAX),
    )
    first: dict[tuple[str | None, str, int | None, str], int] = {}
    for each in rows:
        key = each.turn_uid, each.path, each.at, each.action
        first[key] = min(first.get(key, each.session_id), each.session_id)
    return [each for each in rows if first[each.turn_uid, each.path, each.at, each.action] == each.session_id]
