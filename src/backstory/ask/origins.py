"""The project of every session of a store, and the session that it comes from. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backstory.store.schema import fetch

if TYPE_CHECKING:
    import apsw


class SessionOrigin(NamedTuple):
    """A session. ``project``: its project's key; ``parent``: the identity in the uid of the one that it comes from.

    ``elsewhere``: the store from elsewhere that it was taken from. ``root``: its worktree's, as this machine had it.
    ``imported``: 1 where it came from another machine; ``without_bytes``: 1 where it has none of its logs' bytes.
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
    imported: int
    without_bytes: int
    pruned: int
    """1 where it was pruned in part."""


def origins(db: apsw.Connection) -> list[SessionOrigin]:
    """Every session, also those that lists do not show."""
    return [
        SessionOrigin(*row)
        for row in fetch(
            db,
            tuple[
                int,
                str,
                str | None,
                str | None,
                str | None,
                str | None,
                str | None,
                str | None,
                int,
                int,
                int,
                int,
                int,
            ],
            _ORIGINS,
        )
    ]


class SessionTies(NamedTuple):
    """The store that owns a session, the identity of the session that it comes from, the branches that it was on."""

    owner: str | None
    parent: str | None
    branches: list[str]


def ties(db: apsw.Connection, session_id: int) -> SessionTies:
    """Return what ties a session to others, and to branches."""
    rows = fetch(db, tuple[str | None, str | None, str | None], _TIES, (session_id,))
    owner, parent, _ = rows[0]
    return SessionTies(owner, parent, sorted({branch for *_, branch in rows if branch}))


def forgotten(db: apsw.Connection) -> list[str]:
    """The uids of sessions that people removed."""
    return [uid for (uid,) in fetch(db, tuple[str], "select uid from forgotten")]


_TIES = """
select owner, parent_identity, branch from sessions where id = ?1 union all
select null, null, branch from session_branches where session_id = ?1
"""
_ORIGINS = """
select id, uid, project, parent_identity, relation, elsewhere, root, cwd,
  (select count(*) from turns t where t.session_id = s.id), (select count(*) from events e where e.session_id = s.id),
  imported is not null,
  imported is not null and exists (select 1 from logs where session_id = s.id and kind = 'json') and not exists
    (select 1 from logs where session_id = s.id and kind not in ('json', 'copy json')),
  exists (select 1 from pruned where session_id = s.id and log_id = 0)
from sessions s order by id
"""
