"""Marks of sessions: a short hash of each, which is another one when something of the session changed. Reads only.

A mark is quick: it is of the session's row and of what is summed up beside it. A history is thorough: it is of all that
a session had up to a point, by which it is known whether it only went on since.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from backstory.store import schema
from backstory.store.schema import fetch
from backstory.store.tables.decisions import DECIDED
from backstory.store.tables.logs import COPY, JSON
from backstory.store.tables.plan import CONTEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import apsw

MARK_CHARS = 24
REMOVED = "removed "
"""The mark of a session that a person removed, before the time in ms."""
TAIL_BYTES = 4_096
ROWS_AT_ONCE = 2_000
UID_CHARS = 26


class MarkedSession(NamedTuple):
    """A session, or one that a person removed: then its id is 0."""

    id: int
    uid: str
    mark: str


class LogState(NamedTuple):
    """A log of a session. ``about``: its facts that stay the same while it grows."""

    id: int
    read_to: int
    tail_hash: bytes | None
    about: tuple[Any, ...]


def marks(db: apsw.Connection) -> list[MarkedSession]:
    """Return the marks of all sessions, then of those that people removed.

    Those of stores from elsewhere have none, nor have those that were pruned in part: who has the whole keeps it.
    """
    parts: dict[int, tuple[str, list[Any]]] = {}
    by_uid: dict[str, list[Any]] = {}
    for session_id, uid, *row in db.execute(_sessions()):
        parts[session_id] = uid, [row]
        by_uid[uid] = parts[session_id][1]
    for number, asked in enumerate(_BESIDE):
        for session_id, *row in db.execute(asked):
            if session_id in parts:
                parts[session_id][1].append((number, row))
    for prefix in (DECIDED, CONTEXT):
        for key, value in db.execute(_META, (prefix, prefix + "￿")):
            if (found := by_uid.get(key[len(prefix) :][:UID_CHARS])) is not None:
                found.append((key, value))
    found = [MarkedSession(session_id, uid, _hashed(rows)) for session_id, (uid, rows) in parts.items()]
    gone = fetch(db, tuple[str, int], "select uid, at from forgotten order by uid")
    return [*found, *(MarkedSession(0, uid, f"{REMOVED}{at}") for uid, at in gone)]


def version(db: apsw.Connection) -> tuple[int, int]:
    """Return a value that is another one once anybody wrote."""
    return db.data_version(), db.total_changes()


def states(db: apsw.Connection) -> tuple[list[tuple[str, bool]], list[str]]:
    """Return the identity of every session, and whether it came by an import; and those that people removed."""
    here = fetch(db, tuple[str, int], "select substr(uid, 11), imported is not null from sessions")
    gone = fetch(db, tuple[str], "select substr(uid, 11) from forgotten")
    return [(identity, bool(imported)) for identity, imported in here], [identity for (identity,) in gone]


def with_bytes(db: apsw.Connection) -> list[str]:
    """Return the identity of every session that has a log of its own bytes, not one that was made of its events."""
    asked = (
        "select substr(uid, 11) from sessions s where exists "
        f"(select 1 from logs where session_id = s.id and kind not in ('{JSON}', '{COPY}{JSON}'))"
    )
    return [identity for (identity,) in fetch(db, tuple[str], asked)]


def log_states(db: apsw.Connection, session_id: int) -> list[LogState]:
    """Return the logs of a session, in the order in which an export numbers them."""
    asked = (
        "select id, read_to, tail_hash, agent, kind, native_id, turn_uid, generation, first_hash from logs "
        "where session_id = ? order by id"
    )
    rows: list[tuple[Any, ...]] = db.execute(asked, (session_id,)).fetchall()
    return [LogState(row[0], row[1], row[2], row[3:]) for row in rows]


def events_behind(db: apsw.Connection, session_id: int, point: tuple[int, int]) -> int:
    """Return the number of events of a session behind a point."""
    asked = "select count(*) from events where session_id = ? and (seq, part) > (?, ?)"
    return int(db.execute(asked, (session_id, *point)).get)


def sidecars_mark(db: apsw.Connection, session_id: int) -> str:
    """Return a hash of the files beside the logs of a session; '' where there are none."""
    asked = (
        "select l.id, c.name, c.mtime_ns, c.sha256 from logs l join sidecars c on c.log_id = l.id "
        "where l.session_id = ? order by l.id, c.name"
    )
    found = [tuple(row[1:]) for row in db.execute(asked, (session_id,))]
    return _hashed(found) if found else ""


def history(
    db: apsw.Connection,
    session_id: int,
    upto: tuple[int, int],
    lengths: Sequence[int],
    tail: Callable[[int, int], bytes],
) -> str:
    """Return a hash of all that a session has up to an event, and up to these lengths of its first logs; '' without.

    ``tail`` gives the bytes of a log before a length. A turn that goes on behind the event is no part of it.
    """
    hashed = hashlib.sha256()
    logs = log_states(db, session_id)
    if len(logs) < len(lengths) or any(log.read_to < length for log, length in zip(logs, lengths, strict=False)):
        return ""
    for log, length in zip(logs, lengths, strict=False):
        known = log.tail_hash if log.read_to == length else None
        digest = known if known is not None else hashlib.sha256(tail(log.id, length)).digest()
        hashed.update(repr((log.about, length, digest)).encode())
    for turn in _turns(db, session_id, upto[0]):
        hashed.update(repr(turn).encode())
    for text, data in _events(db, session_id, upto, [log.id for log in logs]):
        hashed.update(text.encode())
        hashed.update(data)
    return hashed.hexdigest()[:MARK_CHARS]


def _turns(db: apsw.Connection, session_id: int, before: int) -> Iterator[tuple[Any, ...]]:
    columns = ", ".join(schema.names("turns", schema.KEPT, schema.DECIDED))
    asked = f"select {columns} from turns where session_id = ? and last_seq < ? order by id"
    yield from db.execute(asked, (session_id, before))


def _events(
    db: apsw.Connection, session_id: int, upto: tuple[int, int], log_ids: Sequence[int]
) -> Iterator[tuple[str, bytes]]:
    """Yield the rows of many events as one text, and their content as one piece: each by itself would take longer."""
    number = f"case e.log_id {' '.join(f'when {each} then {n}' for n, each in enumerate(log_ids))} end"
    asked = (
        "select e.seq, e.part, e.data, format('%d %d %s %s %s %s %s %s %s %d|', e.seq, e.part, t.uid, e.at, e.kind, "
        f"e.char_len, e.position, e.length, {number if log_ids else 'null'}, length(e.data)) "
        "from events e left join turns t on t.id = e.turn_id where e.session_id = ? and (e.seq, e.part) > (?, ?) "
        "and (e.seq, e.part) <= (?, ?) order by e.seq, e.part limit ?"
    )
    after = (-1, 0)
    while rows := db.execute(asked, (session_id, *after, *upto, ROWS_AT_ONCE)).fetchall():
        yield "".join([str(row[3]) for row in rows]), b"".join([_blob(row[2]) for row in rows])
        after = int(str(rows[-1][0])), int(str(rows[-1][1]))


def _blob(value: Any) -> bytes:
    return value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")


def _sessions() -> str:
    columns = ", ".join(name for name in schema.names("sessions", schema.KEPT, schema.DECIDED) if name != "uid")
    return f"select id, uid, {columns} from sessions where elsewhere is null {_IS_WHOLE}"


_IS_WHOLE = "and not exists (select 1 from pruned where session_id = sessions.id and log_id = 0)"
_META = "select key, value from meta where key >= ? and key < ? order by key"
_BESIDE = (
    "select session_id, kind, agent, native_id, turn_uid, generation, read_to, parsed_to from logs order by id",
    "select session_id, count(*), sum(first_seq), max(first_seq) from turns group by session_id",
    "select session_id, uid, removed from turns where removed is not null order by session_id, uid",
    "select session_id, name, leaf_uid, leaf_seq, moved from branches order by id",
    "select session_id, count(*), sum(undone), sum(after_seq) from compactions group by session_id",
    "select l.session_id, count(*), sum(c.size), max(c.mtime_ns) from sidecars c join logs l on l.id = c.log_id "
    "group by l.session_id",
)
"""Beside the row of a session: its logs, turns, branches, summaries and files, each as far as an index says it."""


def _hashed(rows: Sequence[Any]) -> str:
    return hashlib.sha256(repr(rows).encode("utf-8", "surrogatepass")).hexdigest()[:MARK_CHARS]
