"""Sessions that hold turns of another one, as continuations and forks do. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import ids
from backstory.store import schema
from backstory.store.intake import claims
from backstory.store.schema import fetch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import apsw


class CopyHolder(Struct, frozen=True, kw_only=True):
    """A session that has turns in common with others."""

    uid: str
    label: str
    """Its name, else its number, else the start of its uid."""
    shared: int
    """The number of those turns."""
    parent: str | None
    """The identity of the session it comes from: the last 16 characters of its uid."""


def turn_uids(db: apsw.Connection, session_ids: Iterable[int]) -> set[str]:
    """The uids of all turns of some sessions."""
    rows = db.execute(
        "select uid from turns where session_id in (select value from json_each(?))", (schema.json_list(session_ids),)
    )
    return {str(uid) for (uid,) in rows}


def turn_uids_of(db: apsw.Connection, uids: Sequence[str]) -> set[str]:
    """The uids of the turns of these sessions, as far as they are here."""
    rows = db.execute(
        "select uid from turns where session_id in "
        "(select id from sessions where uid in (select value from json_each(?)))",
        (schema.json_list(uids),),
    )
    return {str(uid) for (uid,) in rows}


def holders(db: apsw.Connection, wanted: Collection[str]) -> list[CopyHolder]:
    """The sessions that have any of these turns; not the agents' own logs of runs, which go with the runs."""
    return fetch(
        db,
        CopyHolder,
        "select s.uid, coalesce(nullif(s.name, ''), 'S' || s.number, substr(s.uid, 1, 12)), count(*), "
        "coalesce(substr(p.uid, 11), s.parent_identity) from turns t join sessions s on s.id = t.session_id "
        "left join sessions p on p.id = s.parent_id where t.uid in (select value from json_each(?)) "
        f"and not {claims.CLAIMED} group by s.id order by s.uid",
        (schema.json_list(wanted),),
    )


def split(removed: Iterable[str], found: Iterable[CopyHolder]) -> tuple[list[CopyHolder], list[CopyHolder]]:
    """Holders that come from removed sessions, and the others: those that the removed ones' turns came from.

    ``removed``: uids. What comes from a copy is a copy, too.
    """
    gone = {ids.session_identity(uid) for uid in removed}
    rest = {each.uid: each for each in found if ids.session_identity(each.uid) not in gone}
    copies: list[CopyHolder] = []
    # A copy of a copy names only its own parent.
    while more := [each for each in rest.values() if each.parent in gone]:
        copies += more
        gone |= {ids.session_identity(each.uid) for each in more}
        rest = {uid: each for uid, each in rest.items() if ids.session_identity(uid) not in gone}
    return copies, list(rest.values())
