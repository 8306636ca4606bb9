"""Sessions of a store that an asker may see: those that a filter lets through, with their subagents. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.model import Relation
from backstory.store import schema
from backstory.store.tables import session_filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from backstory.store.tables.session_filter import Selection


def ids(db: apsw.Connection, wanted: Selection, among: Sequence[int] | None = None) -> frozenset[int]:
    """The ids of the sessions that a filter lets through, and of their subagents; ``among``: only of these.

    A subagent that worked in another project than its parent counts for that one alone.
    """
    conditions, values = session_filter.conditions(wanted)
    where = f"where {' and '.join(conditions)}" if conditions else ""
    sql = (
        f"with recursive seen(id) as (select s.id from sessions s {where} union select s.id from sessions s "
        "join seen on s.parent_id = seen.id and s.relation = ? join sessions p on p.id = seen.id "
        "where s.project is null or s.project is p.project) select id from seen"
    )
    values.append(Relation.SUBAGENT.value)
    if among is not None:
        sql += " where id in (select value from json_each(?))"
        values.append(schema.json_list(among))
    return frozenset(int(str(found)) for (found,) in db.execute(sql, values))


def with_subagents(db: apsw.Connection, session_ids: Sequence[int]) -> frozenset[int]:
    """These sessions, and their subagents."""
    rows = db.execute(
        "with recursive seen(id) as (select value from json_each(?) union select s.id from sessions s "
        "join seen on s.parent_id = seen.id and s.relation = ?) select id from seen",
        (schema.json_list(session_ids), Relation.SUBAGENT.value),
    )
    return frozenset(int(str(found)) for (found,) in rows)


def grown_in(db: apsw.Connection, folder: str, since_ms: int) -> str | None:
    """The uid of the session of a folder whose log was written last, if that was since then."""
    found: str | None = db.execute(
        "select s.uid from sessions s join logs l on l.session_id = s.id where s.cwd = ? and l.kind = 'file' "
        "and s.relation is not ? and l.modified >= ? order by l.modified desc, s.id desc limit 1",
        (folder, Relation.SUBAGENT.value, since_ms),
    ).get
    return found
