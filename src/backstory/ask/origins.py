"""The project of every session of a store, and the session that it comes from. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backstory.store.schema import fetch

if TYPE_CHECKING:
    import apsw


class SessionOrigin(NamedTuple):
    """A session. ``project``: its project's key; ``parent``: the identity in the uid of the one that it comes from.

    ``elsewhere``: the store from elsewhere that it was taken from. ``root``: its worktree's, as this machine had it.
    """

    id: int
    uid: str
    project: str | None
    parent: str | None
    relation: str | None
    elsewhere: str | None
    root: str | None
    cwd: str | None
    turns: int
    events: int


def origins(db: apsw.Connection) -> list[SessionOrigin]:
    """Every session, also those that lists do not show."""
    return [
        SessionOrigin(*row)
        for row in fetch(
            db,
            tuple[int, str, str | None, str | None, str | None, str | None, str | None, str | None, int, int],
            _ORIGINS,
        )
    ]


def forgotten(db: apsw.Connection) -> list[str]:
    """The identities of sessions that people removed."""
    return [identity for (identity,) in fetch(db, tuple[str], "select substr(uid, 11) from forgotten")]


_ORIGINS = """
select id, uid, project, parent_identity, relation, elsewhere, root, cwd,
  (select count(*) from turns t where t.session_id = s.id), (select count(*) from events e where e.session_id = s.id)
from sessions s order by id
"""
