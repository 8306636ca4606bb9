"""The repositories that folders held when they were looked at, and the names of projects that follow; for showing only.

Both are rows of ``meta``, as JSON. Functions take the connection, never commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backstory.derive.naming import ProjectNames
from backstory.derive.projects import Repository, SeenPlace, names_of
from backstory.store.moves import VALUE_CHARS_MAX
from backstory.store.schema import fetch
from backstory.store.tables import sessions
from backstory.store.tables.sessions import PROJECT_NAMES, REPOSITORIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import apsw

    from backstory.store.moves import Moves


def known(db: apsw.Connection) -> dict[str, Repository]:
    """Return the repositories that were found, by the folder that a session had as the root of its worktree."""
    query = "select value from meta where key = ? and length(value) <= ?"
    found: object = db.execute(query, (REPOSITORIES, VALUE_CHARS_MAX)).get
    try:
        return {} if found is None else msgspec.json.decode(str(found), type=dict[str, Repository])
    except (msgspec.DecodeError, RecursionError):
        return {}


def roots(db: apsw.Connection) -> list[str]:
    """The roots of the worktrees that sessions of this machine began in."""
    rows = db.execute(
        "select distinct root from sessions where root is not null and elsewhere is null and imported is null "
        "order by root"
    )
    return [str(root) for (root,) in rows]


def note(db: apsw.Connection, found: Mapping[str, Repository], moves: Moves) -> None:
    """Keep the repositories that were found, and note the names of the projects of all sessions."""
    text = msgspec.json.encode(found).decode()
    if len(text) <= VALUE_CHARS_MAX:
        _write(db, REPOSITORIES, text)
    note_names(db, moves, upto=int(db.execute("select coalesce(max(id), 0) from sessions").get))


def note_names(db: apsw.Connection, moves: Moves, *, upto: int | None = None) -> None:
    """Note the names of the projects of all sessions; ``moves``: as their folders are to be read.

    ``upto``: git was asked about the folders of sessions up to this id; None: as it was noted before.
    """
    commits = {moves.here(root): each.commits for root, each in known(db).items()}
    before = sessions.project_names(db).upto
    names = ProjectNames(known=names_of(_places(db, moves), commits), upto=before if upto is None else upto)
    text = msgspec.json.encode(names).decode()
    if len(text) > VALUE_CHARS_MAX:
        # Every session then says its own, and the next ingest does not compute them again.
        text = msgspec.json.encode(ProjectNames(upto=names.upto)).decode()
    _write(db, PROJECT_NAMES, text)


def _places(db: apsw.Connection, moves: Moves) -> list[SeenPlace]:
    # Of sessions in one folder some may have begun before it was moved.
    began = ", created" if moves else ""
    rows = fetch(
        db,
        tuple[str | None, str | None, str | None, str | None, int, int, bool, str],
        "select project, repository, root, cwd, count(*), max(coalesce(last_active, 0)), "
        "elsewhere is null and imported is null, min(created) from sessions "
        f"group by project, repository, root, cwd, elsewhere is null and imported is null{began}",
    )
    return [
        SeenPlace(
            _here(moves, project, at), repository, _here(moves, root, at), _here(moves, cwd, at), count, last, own
        )
        for project, repository, root, cwd, count, last, own, at in rows
    ]


def _here(moves: Moves, path: str | None, began: str) -> str | None:
    return path and moves.here(path, began)


def _write(db: apsw.Connection, key: str, value: str) -> None:
    db.execute("insert or replace into meta(key, value) values (?, ?)", (key, value))
