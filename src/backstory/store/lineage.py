"""Sessions that repeat turns of others: which was forked from which, or continues it. Never commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.model import Relation
from backstory.store import kinds, written
from backstory.store.rows import fetch, fetch_one

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

IS_REPEATED = f"""(s.relation is '{Relation.RETOLD}' and exists (
  select 1 from turns t join turns c on c.uid = t.uid join sessions o on o.id = c.session_id
  where t.session_id = s.id and o.owner is null and o.relation is not '{Relation.RETOLD}' and not exists (
    select 1 from turns m where m.session_id = s.id and not exists (
      select 1 from turns h where h.session_id = o.id and h.uid = m.uid))))"""
"""A session ``s`` that was retold, all of whose turns one agent's own log has: that one is listed."""


def link_copies(db: apsw.Connection, turn_uids: Iterable[str]) -> None:
    """Sessions that share turns come from one another; those that have any of these get their parents."""
    sharing = fetch(
        db,
        tuple[int],
        "select distinct session_id from turns where uid in (select uid from turns "
        "where uid in (select value from json_each(?)) group by uid having count(*) > 1) order by session_id",
        (kinds.json_list(turn_uids),),
    )
    for (session_id,) in sharing:
        _link(db, session_id)


def link_copies_of(db: apsw.Connection, session_id: int) -> None:
    """The same for the turns of a session, however many it has."""
    sharing = fetch(
        db,
        tuple[int],
        "select distinct c.session_id from turns t join turns c on c.uid = t.uid where t.session_id = ?1 "
        "and exists (select 1 from turns where uid = t.uid and session_id <> ?1) order by 1",
        (session_id,),
    )
    for (each,) in sharing:
        _link(db, each)


def _link(db: apsw.Connection, session_id: int) -> None:
    """Link a session that repeats another's turns to the one it shares most with, of those that precede it.

    If we wrote those turns into its log it continues the other one, else it was forked from that. This looks at what is
    shared and at nothing else, so that the order in which logs come makes no difference.
    """
    found = fetch_one(
        db,
        tuple[int, int],
        f"select o.id, {_WRITTEN_HERE} > 0 from sessions s join turns t on t.session_id = s.id "
        "join turns c on c.uid = t.uid and c.id <> t.id join sessions o on o.id = c.session_id "
        f"where s.id = ? and coalesce(o.relation, '') not in (?, ?) and o.elsewhere is null and {_MAY_BE_LINKED} "
        f"group by o.id having (-{_WRITTEN_HERE}, o.uid) < (0, s.uid) "
        f"order by count(*) desc, {_WRITTEN_HERE} desc, o.uid limit 1",
        (session_id, Relation.SUBAGENT, Relation.RETOLD),
    )
    if found is not None:
        original, is_written = found
        relation = Relation.CONTINUATION if is_written else Relation.FORK
        db.execute("update sessions set parent_id = ?, relation = ? where id = ?", (original, relation, session_id))
        return
    # What it was linked to may have turned out to be written of it.
    db.execute(
        "update sessions as s set parent_id = null, relation = null "
        f"where id = ? and parent_id is not null and {_MAY_BE_LINKED}",
        (session_id,),
    )


_WRITTEN_HERE = f"sum({written.is_written('t')} - {written.is_written('c')})"
"""How many of the turns that two sessions share we wrote into the log of the first, and not into that of the other."""
_MAY_BE_LINKED = (
    f"s.elsewhere is null and (s.relation is null or s.relation in ('{Relation.FORK}', '{Relation.CONTINUATION}') "
    "and s.parent_identity is null)"
)
"""A session ``s`` of ours of which no log and no person said what it comes from."""
