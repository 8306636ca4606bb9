"""Facts derived from events, in their tables: files, refs, results of calls, checkpoints. Never commits.

Times, turns and places are those of the events. A row says what came first; writing it again changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.derive.checkpoints import SECTIONS, texts_of, title_of
from backstory.lazy import lazy_module
from backstory.store import schema
from backstory.store.intake import coverage
from backstory.store.schema import fetch, fetch_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import apsw

    from backstory.derive.facts import DerivedFacts, FoundCheckpoint, FoundResult, FoundTouch
    from backstory.model import FoundRef
    from backstory.store.tables import event_rows, side_texts
else:
    event_rows = lazy_module("backstory.store.tables.event_rows")
    side_texts = lazy_module("backstory.store.tables.side_texts")

TABLES_VERSION = 15
"""Raised with derived.sql, also by a table for which no log is read again."""
VERSION = 15
"""Raised with what is put into these tables; logs that were derived before it are derived anew."""
ACTIONS = "read edit delete rename create"
"""The actions on a file; of several a later word here counts."""
PATHS_AT_ONCE = 500


def write(
    db: apsw.Connection,
    session_id: int,
    found: DerivedFacts,
    turn_ids: dict[str, int],
    event_ids: Mapping[tuple[int, int], int] | None = None,
) -> None:
    """Store what was found in a piece of a session's log. ``turn_ids``: turns.id by turn uid.

    ``event_ids``: events.id by (seq, part) of events that are known; the others are looked up. Nothing is stored of a
    session that is not covered.
    """
    # Asked here, where the rows are written, so that no way in can forget the rule.
    if not coverage.is_covered(db, session_id):
        return
    if found.results:
        _write_results(db, session_id, found.results, event_ids or {})
    if found.touches:
        _write_touches(db, session_id, found.touches, turn_ids)
    if found.refs:
        _write_refs(db, session_id, found.refs, turn_ids)
    for checkpoint in found.checkpoints:
        _write_checkpoint(db, session_id, checkpoint)
    if found.checkpoints:
        side_texts.index_sections(db, session_id)


class StoredRef(Struct, frozen=True):
    """A pull request, issue or commit, and the record and turn that name it first. Its fields are columns."""

    type: str
    value: str
    host: str | None
    repository: str | None
    seq: int
    turn_id: int | None
    created_at: int | None
    """Its time, in ms since 1970."""


def refs_of(db: apsw.Connection, session_ids: Sequence[int]) -> dict[int, list[StoredRef]]:
    """Return the refs of each session that has any, in the order of its first records."""
    return fetch_by(
        db,
        StoredRef,
        "select session_id, ref_type, ref_value, host, repository, seq, turn_id, created_at from session_refs "
        "where session_id in (select value from json_each(?)) order by session_id, seq, id",
        (schema.json_list(session_ids),),
    )


class StoredCheckpoint(Struct, frozen=True):
    """A summary that an agent put in the place of its own history. Fields are columns; None: it has no such text."""

    number: int
    seq: int | None
    """The record of it; None where a file beside the log is all that says it."""
    title: str | None
    overview: str | None
    history: str | None
    work_done: str | None
    technical_details: str | None
    important_files: str | None
    next_steps: str | None
    created_at: int | None


def checkpoints_of(db: apsw.Connection, session_id: int) -> list[StoredCheckpoint]:
    """The summaries that agents made in a session, in their order."""
    return fetch(
        db,
        StoredCheckpoint,
        f"select checkpoint_number, seq, title, {', '.join(SECTIONS)}, created_at from checkpoints "
        "where session_id = ? order by checkpoint_number",
        (session_id,),
    )


def clear(db: apsw.Connection, session_id: int) -> None:
    """Remove all that is derived from a session's events."""
    for table in ("session_files", "session_refs"):
        db.execute(f"delete from {table} where session_id = ?", (session_id,))
    event_rows.delete_sections(db, "session_id = ? and seq is not null", (session_id,))
    # The others were made from files beside the log, which deriving does not read again.
    db.execute("delete from checkpoints where session_id = ? and seq is not null", (session_id,))
    # Where a session of ours was is known from its runs, not from its records; nor do imported events say it.
    for table in ("session_branches", "session_values"):
        db.execute(
            f"delete from {table} where session_id in (select id from sessions where id = ?1 and owner is null) "
            "and exists (select 1 from logs where session_id = ?1 and kind in ('file', 'copy file'))",
            (session_id,),
        )
    db.execute(
        "delete from call_results where call_id in (select id from events where session_id = ? "
        f"and kind in {schema.CALLS})",
        (session_id,),
    )


def note_values(db: apsw.Connection, session_id: int, values: Mapping[str, str] | None) -> None:
    """Note what a log says of its session beside what has a column."""
    if values:
        db.executemany(
            "insert or replace into session_values(session_id, key, value) values (?, ?, ?)",
            [(session_id, key, value) for key, value in values.items()],
        )


def note_branches(db: apsw.Connection, session_id: int, names: list[str]) -> None:
    """Note git branches that a session was on."""
    db.executemany(
        "insert or ignore into session_branches(session_id, branch) values (?, ?)",
        [(session_id, name) for name in names],
    )


def _write_results(
    db: apsw.Connection, session_id: int, results: list[FoundResult], event_ids: Mapping[tuple[int, int], int]
) -> None:
    known = [each for each in results if each.call in event_ids and each.result in event_ids]
    db.executemany(
        "insert or replace into call_results(call_id, result_id, is_error, exit_code) values (?, ?, ?, ?)",
        [(event_ids[each.call], event_ids[each.result], each.is_error, each.exit_code) for each in known],
    )
    if len(known) < len(results):
        # A call may have been read long before its result.
        db.executemany(
            "insert or replace into call_results(call_id, result_id, is_error, exit_code) select c.id, r.id, ?, ? "
            "from events c, events r where c.session_id = ? and c.seq = ? and c.part = ? "
            "and r.session_id = c.session_id and r.seq = ? and r.part = ?",
            [(each.is_error, each.exit_code, session_id, *each.call, *each.result) for each in results],
        )


def _write_touches(db: apsw.Connection, session_id: int, touches: list[FoundTouch], turn_ids: dict[str, int]) -> None:
    rows, known = [], dict[str, tuple[int, int]]()
    for touch in touches:
        path = touch.path
        rank, seq = ACTIONS.find(touch.action), touch.where.seq
        known_rank, first_seq = known.get(path, (-1, seq + 1))
        # A file is touched again and again; what adds nothing needs no row.
        if rank > known_rank or seq < first_seq:
            where = touch.where
            turn_id = turn_ids.get(where.turn_uid or "")
            rows.append((session_id, path, touch.tool_name, touch.action, turn_id, seq, where.at))
            known[path] = max(rank, known_rank), min(seq, first_seq)
    db.executemany(_TOUCHED, rows)
    file_ids: dict[str, int] = {}
    every = list(known)
    # SQLite binds 32,766 values at most, and a session may touch more files.
    for start in range(0, len(every), PATHS_AT_ONCE):
        paths = every[start : start + PATHS_AT_ONCE]
        among = ", ".join("?" * len(paths))
        found = fetch(
            db,
            tuple[str, int],
            f"select file_path, id from session_files where session_id = ? and file_path in ({among})",
            (session_id, *paths),
        )
        file_ids |= dict(found)
    db.executemany(
        "insert or replace into file_touches(file_id, seq, part, action, to_path) values (?, ?, ?, ?, ?)",
        [(file_ids[touch.path], touch.where.seq, touch.where.part, touch.action, touch.to) for touch in touches],
    )


_TOUCHED = (
    "insert into session_files(session_id, file_path, tool_name, action, turn_id, first_seq, first_seen_at) "
    "values (?, ?, ?, ?, ?, ?, ?) on conflict(session_id, file_path) do update set "
    f"action = case when instr('{ACTIONS}', excluded.action) > instr('{ACTIONS}', action) "
    "then excluded.action else action end, "
    # Batches need not come in order: an older log of the session may be read later.
    "tool_name = iif(excluded.first_seq < first_seq, excluded.tool_name, tool_name), "
    "turn_id = iif(excluded.first_seq < first_seq, excluded.turn_id, turn_id), "
    "first_seen_at = iif(excluded.first_seq < first_seq, excluded.first_seen_at, first_seen_at), "
    "first_seq = min(excluded.first_seq, first_seq)"
)


def _write_refs(db: apsw.Connection, session_id: int, refs: list[FoundRef], turn_ids: dict[str, int]) -> None:
    own = db.execute("select repository from sessions where id = ?", (session_id,)).get
    db.executemany(
        "insert into session_refs(session_id, ref_type, ref_value, host, repository, turn_id, seq, created_at) "
        "values (?, ?, ?, ?, ?, ?, ?, ?) on conflict(session_id, ref_type, ref_value) do update set "
        "host = coalesce(host, excluded.host), repository = coalesce(repository, excluded.repository), "
        "turn_id = iif(excluded.seq < seq, excluded.turn_id, turn_id), "
        "created_at = iif(excluded.seq < seq, excluded.created_at, created_at), seq = min(excluded.seq, seq)",
        [
            (
                session_id, each.ref.type, _value(each, own), each.ref.host, each.ref.repository or own,
                turn_ids.get(each.where.turn_uid or ""), each.where.seq, each.where.at,
            )
            for each in refs
        ],
    )  # fmt: skip
    # A session that names its repository has had the short form from the beginning.
    if own is None:
        _join_refs(db, session_id)


def _join_refs(db: apsw.Connection, session_id: int) -> None:
    """Make one ref of ``158`` and ``owner/repo#158``, for the repository that a session without one names first."""
    for short, whole in fetch(db, tuple[int, int], _SAME_REFS, (session_id,)):
        db.execute(
            "update session_refs set (turn_id, created_at, seq) = "
            "(select turn_id, created_at, seq from session_refs where id = ?1) "
            "where id = ?2 and seq > (select seq from session_refs where id = ?1)",
            (short, whole),
        )
        db.execute("delete from session_refs where id = ?", (short,))


_SAME_REFS = """
select b.id, q.id from session_refs b join session_refs q on q.session_id = b.session_id and q.ref_type = b.ref_type
  and q.ref_value = q.repository || '#' || b.ref_value
where b.session_id = ?1 and b.repository is null and q.repository = (select repository from session_refs
  where session_id = ?1 and repository is not null and instr(ref_value, '#') order by seq, id limit 1)
"""
"""The refs of which one is a number alone, and the other has it with the repository."""


def _value(found: FoundRef, own: Any) -> str:
    """A ref's value: short where it is of the session's own repository."""
    repository, value = found.ref.repository, found.ref.value
    if repository and own and repository.lower() == str(own).lower():
        return value.rpartition("@" if found.ref.type == "commit" else "#")[2]
    return value


def _write_checkpoint(db: apsw.Connection, session_id: int, checkpoint: FoundCheckpoint) -> None:
    where = checkpoint.where
    number = db.execute(
        "select coalesce((select checkpoint_number from checkpoints where session_id = ?1 and seq = ?2), "
        "(select coalesce(max(checkpoint_number), 0) + 1 from checkpoints where session_id = ?1))",
        (session_id, where.seq),
    ).get
    columns = ("title", *SECTIONS)
    values = [title_of(checkpoint.summary), *texts_of(checkpoint.summary)]
    updates = ", ".join(f"{name} = coalesce(excluded.{name}, {name})" for name in ("seq", "created_at", *columns))
    db.execute(
        f"insert into checkpoints(session_id, checkpoint_number, seq, created_at, {', '.join(columns)}) "
        f"values (?, ?, ?, ?, {', '.join('?' * len(columns))}) "
        f"on conflict(session_id, checkpoint_number) do update set {updates}",
        (session_id, number, where.seq, where.at, *values),
    )
