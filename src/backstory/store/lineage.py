"""Sessions that repeat turns of others: which was forked from which. Never commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.model import Relation
from backstory.store import kinds
from backstory.store.rows import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw


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
        _link_fork(db, each)


def _link_fork(db: apsw.Connection, session_id: int) -> None:
    """A session that repeats another's turns, and began later, was forked from it: from the one it shares most with.

    This looks at what is shared and at nothing else, so that the order in which logs come makes no difference.
    """
    original = db.execute(
        "select o.id from sessions s join turns t on t.session_id = s.id join turns c on c.uid = t.uid "
        "join sessions o on o.id = c.session_id where s.id = ? and o.uid < s.uid and o.relation is not ? "
        "and (s.relation is null or s.relation = ? and s.parent_identity is null) "
        "group by o.id order by count(*) desc, o.uid limit 1",
        (session_id, Relation.SUBAGENT, Relation.FORK),
    ).fetchone()
    if original:
        db.execute(
            "update sessions set parent_id = ?, relation = ? where id = ?", (original[0], Relation.FORK, session_id)
        )
