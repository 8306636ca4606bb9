"""Sessions that repeat turns of others: which was forked from which, and which counts them. Never commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.model import Relation
from backstory.store import kinds
from backstory.store.rows import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

IS_REPEATED = f"""(s.relation is '{Relation.RETOLD}' and exists (
  select 1 from turns t join turns c on c.uid = t.uid join sessions o on o.id = c.session_id
  where t.session_id = s.id and o.owner is null and o.relation is not '{Relation.RETOLD}' and not exists (
    select 1 from turns m where m.session_id = s.id and not exists (
      select 1 from turns h where h.session_id = o.id and h.uid = m.uid))))"""
"""A session ``s`` that was retold, all of whose turns one agent's own log has: that one is listed."""


def is_later(other: str, mine: str) -> str:
    """SQL: whether the session ``mine`` comes behind ``other``, which has a turn of it, too: the one that counts it."""
    retold = f"relation is '{Relation.RETOLD}'"
    return f"({other}.{retold}, {other}.uid) < ({mine}.{retold}, {mine}.uid)"


def link_copies(db: apsw.Connection, turn_uids: Iterable[str]) -> None:
    """Sessions that share turns are forks of one another; those that have any of these get their parents."""
    sharing = fetch(
        db,
        tuple[int],
        "select distinct session_id from turns where uid in (select uid from turns "
        "where uid in (select value from json_each(?)) group by uid having count(*) > 1) order by session_id",
        (kinds.json_list(turn_uids),),
    )
    for (session_id,) in sharing:
        _link_fork(db, session_id)


def _link_fork(db: apsw.Connection, session_id: int) -> None:
    """A session that repeats another's turns, and began later, was forked from it: from the one it shares most with.

    This looks at what is shared and at nothing else, so that the order in which logs come makes no difference.
    """
    original = db.execute(
        "select o.id from sessions s join turns t on t.session_id = s.id join turns c on c.uid = t.uid "
        "join sessions o on o.id = c.session_id where s.id = ? and o.uid < s.uid "
        "and coalesce(o.relation, '') not in (?, ?) "
        "and (s.relation is null or s.relation = ? and s.parent_identity is null) "
        "group by o.id order by count(*) desc, o.uid limit 1",
        (session_id, Relation.SUBAGENT, Relation.RETOLD, Relation.FORK),
    ).fetchone()
    if original:
        db.execute(
            "update sessions set parent_id = ?, relation = ? where id = ?", (original[0], Relation.FORK, session_id)
        )
