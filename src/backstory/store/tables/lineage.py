"""Sessions that repeat turns of others: which was forked from which, or continues it. Never commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backstory.model import Relation
from backstory.store import schema
from backstory.store.intake import written
from backstory.store.schema import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import apsw

IS_REPEATED = f"""(s.relation is '{Relation.RETOLD}' and exists (
  select 1 from turns t join turns c on c.uid = t.uid join sessions o on o.id = c.session_id
  where t.session_id = s.id and o.owner is null and o.relation is not '{Relation.RETOLD}' and not exists (
    select 1 from turns m where m.session_id = s.id and not exists (
      select 1 from turns h where h.session_id = o.id and h.uid = m.uid))))"""
"""A session ``s`` that was retold, all of whose turns one agent's own log has: that one is listed."""


def link_copies(db: apsw.Connection, turn_uids: Iterable[str]) -> None:
    """Sessions that share turns come from one another; those that have any of these get their parents."""
    _link(
        db,
        "select distinct session_id from turns where uid in (select uid from turns "
        "where uid in (select value from json_each(?)) group by uid having count(*) > 1)",
        schema.json_list(turn_uids),
    )


def link_copies_of(db: apsw.Connection, session_id: int) -> None:
    """The same for the turns of a session, however many it has."""
    _link(
        db,
        "select distinct c.session_id from turns t join turns c on c.uid = t.uid where t.session_id = ?1 "
        "and exists (select 1 from turns where uid = t.uid and session_id <> ?1)",
        session_id,
    )


class _Holder(NamedTuple):
    """A session that holds turns of others."""

    id: int
    uid: str
    may_be_linked: bool
    may_be_parent: bool
    parent_id: int | None
    relation: str | None


class _Alike(NamedTuple):
    """Sessions that hold the same of the turns that are shared, so that any of them shares as much with another.

    ``written`` is 1 for a turn that we wrote into their logs, else 0.
    """

    written: dict[str, int]
    sessions: list[_Holder]


def _link(db: apsw.Connection, wanted: str, *values: object) -> None:
    """Link sessions that repeat others' turns, each to the one it shares most with, of those that precede it.

    ``wanted``: SQL for the ids of these sessions. If we wrote those turns into its log a session continues the other
    one, else it was forked from that. This looks at what is shared and at nothing else, so that the order in which logs
    come makes no difference. Copies are many and mostly alike, so they are compared by kind, not in pairs.
    """
    linked = {each for (each,) in fetch(db, tuple[int], wanted, values)}
    if not linked:
        return
    alike = _alike(db, linked)
    for kind in alike:
        # Sorted once for each kind: ten thousand forks of one session are one kind or a few.
        above = sorted(_shared(kind, alike), key=lambda each: each[0])
        for session in kind.sessions:
            # What a log or a person said about the parent is never guessed anew.
            if session.id in linked and session.may_be_linked:
                _set_parent(db, session, above)


def _alike(db: apsw.Connection, linked: set[int]) -> list[_Alike]:
    """The holders of all turns that these sessions share with any, by kind."""
    rows = fetch(db, tuple[int, str, int], _SHARED, (schema.json_list(sorted(linked)),))
    held: dict[int, dict[str, int]] = {}
    for session_id, uid, is_written in rows:
        held.setdefault(session_id, {})[uid] = is_written
    found: dict[frozenset[tuple[str, int]], _Alike] = {}
    for holder in fetch(db, _Holder, _HOLDERS, (schema.json_list(held),)):
        turns = held[holder.id]
        found.setdefault(frozenset(turns.items()), _Alike(turns, [])).sessions.append(holder)
    return list(found.values())


def _shared(kind: _Alike, others: list[_Alike]) -> Iterator[tuple[tuple[int, int, str], _Holder]]:
    """The first possible parent of each kind that shares turns, to be sorted: the most turns, then the most written."""
    for other in others:
        first = next((each for each in other.sessions if each.may_be_parent), None)
        common = kind.written.keys() & other.written.keys()
        if first is not None and common:
            written_here = sum(kind.written[uid] - other.written[uid] for uid in common)
            yield (-len(common), -written_here, first.uid), first


def _set_parent(db: apsw.Connection, session: _Holder, above: list[tuple[tuple[int, int, str], _Holder]]) -> None:
    # What it was linked to may have turned out to be written of it: then it comes from none.
    parent_id: int | None = None
    relation = session.relation if session.parent_id is None else None
    for (_, written_less, uid), parent in above:
        # The smaller uid is the older session, so that the links cannot go in a circle.
        if (written_less, uid) < (0, session.uid):
            parent_id, relation = parent.id, Relation.CONTINUATION if written_less else Relation.FORK
            break
    if (parent_id, relation) != (session.parent_id, session.relation):
        db.execute("update sessions set parent_id = ?, relation = ? where id = ?", (parent_id, relation, session.id))


_MAY_BE_LINKED = (
    f"s.elsewhere is null and (s.relation is null or s.relation in ('{Relation.FORK}', '{Relation.CONTINUATION}') "
    "and s.parent_identity is null)"
)
"""A session ``s`` of ours of which no log and no person said what it comes from."""
_SHARED = f"""
with shared(uid) as materialized (
  select c.uid from (select distinct uid from turns where session_id in (select value from json_each(?))) u
  cross join turns c on c.uid = u.uid group by c.uid having count(*) > 1
)
select t.session_id, t.uid, {written.is_written("t")} from shared u cross join turns t on t.uid = u.uid
"""
_HOLDERS = f"""
select s.id, s.uid, {_MAY_BE_LINKED},
  s.elsewhere is null and coalesce(s.relation, '') not in ('{Relation.SUBAGENT}', '{Relation.RETOLD}'),
  s.parent_id, s.relation
from sessions s where s.id in (select value from json_each(?)) order by s.uid
"""
