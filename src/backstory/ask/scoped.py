"""Sessions of a store that an asker may see: those that a filter lets through, with their subagents. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backstory.ask.known_values import called
from backstory.derive.naming import main_folder
from backstory.model import Relation
from backstory.store import schema
from backstory.store.tables import session_filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from backstory.derive.naming import ProjectNames
    from backstory.store.moves import Moves
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


def of_project(db: apsw.Connection, typed: str, names: ProjectNames, moves: Moves | None) -> list[str]:
    """The uids of the sessions of a project: by the name that lists show, the end of it, or its folder as it is now."""
    wanted, found, places = typed.rstrip("/").casefold() or typed, list[str](), dict[tuple[str | None, ...], bool]()
    rows = db.execute(
        f"select json_group_array(uid), {'created' if moves else 'null'}, project, repository, root, cwd "
        "from sessions group by 2, 3, 4, 5, 6"
    )
    for uids, created, *recorded in rows:
        place = _moved(recorded, str(created), moves)
        if place not in places:
            places[place] = _is_of_project(wanted, place, names)
        found += msgspec.json.decode(str(uids)) if places[place] else ()
    return found


def _moved(place: list[Any], created: str, moves: Moves | None) -> tuple[str | None, ...]:
    return tuple(each and moves.here(each, created) for each in place) if moves else tuple(place)


def _is_of_project(wanted: str, place: tuple[str | None, ...], names: ProjectNames) -> bool:
    project, repository, root, cwd = place
    name = names.of(project, repository, root, cwd).name.casefold()
    # Of a worktree that an agent made, also the folder in which it lies.
    folders = [each.casefold() for each in (project, root, cwd, main_folder(project or cwd or "")) if each]
    return name == wanted or name.endswith(f"/{wanted}") or wanted in folders


def of_tool(db: apsw.Connection, typed: str) -> list[str]:
    """The uids of the sessions that called a tool, or whose subagents did; every call is read."""
    wanted = typed.casefold()
    found = {session_id for session_id, names in called(db) if wanted in map(str.casefold, names)}
    rows = db.execute(
        "with recursive above(id) as (select value from json_each(?) union select s.parent_id from sessions s "
        "join above on s.id = above.id where s.relation = ?) select uid from sessions where id in above",
        (schema.json_list(sorted(found)), Relation.SUBAGENT.value),
    )
    return [str(uid) for (uid,) in rows]


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
