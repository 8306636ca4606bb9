"""Authorship of a file, a commit or a pull request: the calls and records that show it. Never commits.

What a person removed counts for nothing, nor what is shown elsewhere: each turn is found where it is shown. A run that
phrased a report names what others did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.derive.naming import main_folder
from backstory.derive.phrasing import phrasing_condition
from backstory.model import Relation, event_from_json
from backstory.store import codec, schema
from backstory.store.intake import claims
from backstory.store.schema import fetch
from backstory.store.tables import events
from backstory.store.tables.events import StoredEvent
from backstory.store.tables.session_filter import of_ref

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

PATHS_MAX = 500
"""The most paths of files with the same name that are looked at."""
ROOTS_MAX = 2_000
"""The most folders of a project's sessions that are looked at: worktrees, clones, what was moved."""


class Doing(Struct, frozen=True, kw_only=True):
    """A record of a turn, and whose it is. Times in ms since 1970. ``parent_id``: of a subagent, whom it works for."""

    session_id: int
    session_uid: str
    parent_id: int | None
    agent: str | None
    turn_uid: str | None
    turn_seq: int | None
    """The record of the turn's prompt."""
    seq: int
    at: int | None


class FileTouch(Struct, frozen=True, kw_only=True):
    """A call that changed a file, by its path as recorded. ``is_error``: the call failed, which may be in part."""

    doing: Doing
    path: str
    call: StoredEvent
    is_error: bool


def touches_of(db: apsw.Connection, paths: Sequence[str]) -> list[FileTouch]:
    """The calls that edited, made or renamed one of these files, in order of their times."""
    codecs: dict[int, codec.EventCodec] = {}
    return [_touch(db, codecs, row) for row in db.execute(_TOUCHES, (schema.json_list(paths),)).fetchall()]


def _touch(db: apsw.Connection, codecs: dict[int, codec.EventCodec], row: Sequence[Any]) -> FileTouch:
    *doing, path, is_error, event_id, part, turn_id, char_len, log_id, position, length, data = row
    whose = Doing(**dict(zip(Doing.__struct_fields__, doing, strict=True)))
    event = event_from_json(codec.unpack_event(db, codecs, data))
    call = StoredEvent(
        id=event_id, seq=whose.seq, part=part, turn_id=turn_id, at=whose.at, kind=event.kind, char_len=char_len,
        log_id=log_id, position=position, length=length, event=event,
    )  # fmt: skip
    return FileTouch(doing=whose, path=path, call=call, is_error=bool(is_error))


def touches_below(db: apsw.Connection, roots: Sequence[str], names: Sequence[str]) -> list[FileTouch]:
    """The calls that changed a file, by its names below these folders, in order of their times."""
    paths = [f"{root.rstrip('/')}/{name}" for root in roots for name in names]
    return touches_of(db, [*paths, *earlier_names(db, paths)])


def paths_called(db: apsw.Connection, name: str) -> list[str]:
    """The paths of files that sessions changed in any folder, by their name below it."""
    return [str(path) for (path,) in db.execute(_CALLED, (f"/{name}", PATHS_MAX))]


def earlier_names(db: apsw.Connection, paths: Sequence[str]) -> list[str]:
    """The paths from which sessions moved files to one of these."""
    rows = db.execute(_EARLIER, (schema.json_list(paths),))
    return [str(path) for (path,) in rows]


def naming_commit(db: apsw.Connection, commit: str) -> list[Doing]:
    """The first record of each session that names a commit, by its hash or the start of it."""
    starts = [commit[:length] for length in range(7, len(commit) + 1)]
    return fetch(db, Doing, f"{_NAMING} and r.ref_type = 'commit' and r.ref_value in (select value from json_each(?))"
                 f" {_IN_TIME}", (schema.json_list(starts),))  # fmt: skip


def commits_of(db: apsw.Connection, session_uid: str) -> list[Doing]:
    """The first record of each commit that a session or one of its subagents names, in order of their times."""
    own = "r.ref_type = 'commit' and (s.uid = ?1 or s.parent_id = (select id from sessions where uid = ?1))"
    return fetch(db, Doing, f"{_NAMING} and {own} {_IN_TIME}", (session_uid,))


def naming_pull_request(db: apsw.Connection, typed: str, repository: str | None, folders: Sequence[str]) -> list[Doing]:
    """The first record of each session that names a pull request: ``#12``, ``owner/repo#12`` or a URL.

    ``repository``: owner/name, where what was typed has none; without one, the sessions of these folders are meant.
    """
    sentence, values = of_ref(typed)
    if repository is not None:
        place, more = "lower(r.repository) = ?", [repository.lower()]
    elif folders:
        among = "(select value from json_each(?))"
        place, more = f"(s.root in {among} or s.cwd in {among})", [schema.json_list(folders)] * 2
    else:
        place, more = "1", []
    # The condition is on the table by its columns alone.
    condition = f"r.id in (select id from session_refs where {sentence}) and r.ref_type = 'pr' and {place}"
    return fetch(db, Doing, f"{_NAMING} and {condition} {_IN_TIME}", (*values, *more))


def calls_at(db: apsw.Connection, session_id: int, seq: int) -> list[tuple[StoredEvent, StoredEvent]]:
    """The calls of a record that returned something, each with its result."""
    pairs = fetch(db, tuple[int, int], _CALLS, (session_id, seq))
    found = ((events.get(db, call_id), events.get(db, result_id)) for call_id, result_id in pairs)
    return [(call, result) for call, result in found if call is not None and result is not None]


def sessions_with(db: apsw.Connection, native_id: str) -> list[int]:
    """The sessions that an agent calls by this id: those of its logs, and of our runs with it."""
    rows = db.execute(
        "select id from sessions where native_id = ?1 and relation is not ?2 union "
        "select session_id from logs where agent <> 'api' and native_id = ?1 and turn_uid is not null",
        (native_id, Relation.UNREAD.value),
    )
    return [int(str(session_id)) for (session_id,) in rows]


def at_work(db: apsw.Connection, session_id: int, at: int) -> Doing | None:
    """The turn of a session that was at work at a time: the last one that had begun."""
    found = fetch(db, Doing, _AT_WORK, (session_id, at))
    return found[0] if found else None


def roots_of(db: apsw.Connection, project: str | None, folders: Sequence[str]) -> list[str]:
    """The folders that sessions of a project were in, as recorded: its root on this or another machine, or in a clone.

    Of the repositories below one of ``folders`` only the worktrees that agents put there are the project's.
    """
    rows = db.execute(_ROOTS, (project, schema.json_list(folders), ROOTS_MAX))
    roots = [str(root) for (root,) in rows if root]
    inside = tuple(f"{folder.rstrip('/')}/" for folder in folders)
    return [each for each in roots if not each.startswith(inside) or main_folder(each) in folders]


_DOING = f"s.id, s.uid, iif(s.relation is '{Relation.SUBAGENT}', s.parent_id, null), t.agent, t.uid, t.first_seq"
_SHOWN = (
    f"t.removed is null and not {claims.HIDDEN} "
    f"and not (t.id is not null and {claims.MAY_BE_SHOWN_ELSEWHERE} and {claims.SHOWN_ELSEWHERE})"
)
_TOUCHES = f"""
with wanted as (select value as path from json_each(?1)),
  touched as (
    select f.session_id, f.file_path as path, x.seq, x.part from session_files f join file_touches x on x.file_id = f.id
    where f.file_path in (select path from wanted) and x.action in ('edit', 'create', 'rename')
    union select f.session_id, x.to_path, x.seq, x.part from file_touches x join session_files f on f.id = x.file_id
    where x.to_path is not null and x.to_path in (select path from wanted)
  )
select {_DOING}, e.seq, e.at, x.path, coalesce(c.is_error, 0),
  e.id, e.part, e.turn_id, e.char_len, e.log_id, e.position, e.length, e.data
from touched x join sessions s on s.id = x.session_id
  join events e on e.session_id = x.session_id and e.seq = x.seq and e.part = x.part
  left join turns t on t.id = e.turn_id left join call_results c on c.call_id = e.id
where e.at is not null and {_SHOWN} order by e.at, s.uid, e.seq, e.part
"""
_CALLED = """
select distinct f.file_path from session_files f
where f.action <> 'read' and substr(f.file_path, -length(?1)) = ?1 order by f.id desc limit ?2
"""
_EARLIER = """
select distinct f.file_path from file_touches x join session_files f on f.id = x.file_id
where x.to_path is not null and x.to_path in (select value from json_each(?))
"""
_NAMING = f"""
select {_DOING}, r.seq, r.created_at
from session_refs r join sessions s on s.id = r.session_id left join turns t on t.id = r.turn_id
where {_SHOWN} and not {phrasing_condition("t.prompt")}
"""
_IN_TIME = "order by r.created_at, s.uid"
_CALLS = f"""
select e.id, c.result_id from events e join call_results c on c.call_id = e.id
where e.session_id = ? and e.seq = ? and e.kind in {schema.CALLS} order by e.part
"""
_AT_WORK = f"""
select {_DOING}, t.first_seq, t.started from turns t join sessions s on s.id = t.session_id
where s.id = ? and t.removed is null and t.started <= ? order by t.started desc, t.first_seq desc limit 1
"""
_ROOTS = """
select distinct root from (
  select coalesce(s.root, nullif(s.worktree, ''), s.cwd) as root from sessions s
  where s.project = ?1 or s.project in (select value from json_each(?2)) or s.cwd in (select value from json_each(?2))
  union select nullif(s.worktree, '') from sessions s where s.project = ?1
  union select s.root from sessions s join json_each(?2) f on substr(s.root, 1, length(f.value) + 1) = f.value || '/'
) limit ?3
"""
