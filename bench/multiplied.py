"""A large store, made of a small one: its sessions again and again, row by row, each copy a session of its own.

Every copy has other ids and earlier times; what was said in it is the same. That is ten times quicker than reading
so many logs. Nothing but a bench should write to a store like this.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import apsw

from backstory.derive import index_text
from backstory.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

EARLIER_MS = 3_600_000
"""A copy is so much older than the copy before."""
ANOTHER_UID = "substr({0}, 1, length({0}) - 6) || printf('%06X', :copy)"
EARLIER = f"{{0}} - {EARLIER_MS} * :copy"
CHANGED: dict[str, dict[str, str]] = {
    "events": {"id": "events", "session_id": "sessions", "turn_id": "turns", "log_id": "logs", "at": EARLIER},
    "turns": {"id": "turns", "session_id": "sessions", "uid": ANOTHER_UID, "parent_uid": ANOTHER_UID,
              "native_id": ANOTHER_UID, "started": EARLIER, "ended": EARLIER},
    "logs": {"id": "logs", "session_id": "sessions", "native_id": ANOTHER_UID, "path": "{0} || :copy",
             "path_hash": "null", "modified": EARLIER},
    "numbers": {"log_id": "logs"},
    "chunks": {"id": "chunks", "log_id": "logs"},
    "turn_texts": {"turn_id": "turns"},
    "call_results": {"call_id": "events", "result_id": "events"},
    "session_files": {"id": "session_files", "session_id": "sessions", "turn_id": "turns", "first_seen_at": EARLIER},
    "file_touches": {"file_id": "session_files"},
    "session_branches": {"session_id": "sessions"},
    "record_ids": {"id": "record_ids", "log_id": "logs"},
    "list_keys": {"session_id": "sessions"},
    # Last: triggers on the tables above change rows of sessions that are there.
    "sessions": {"id": "sessions", "uid": ANOTHER_UID, "native_id": ANOTHER_UID, "leaf_uid": ANOTHER_UID,
                 "last_active": EARLIER},
}  # fmt: skip
"""The columns that differ in a copy: the table whose rows they name, or how they are computed."""


def multiply(path: Path, copies: int) -> None:
    """Add so many copies of all that a store has."""
    with open_store(path) as store:
        texts = [
            (each.id, *searched, each.seq)
            for session in store.sessions()
            for each in store.events(session)
            if (searched := index_text.searchable(each.event))
        ]
    with closing(apsw.Connection(str(path))) as db:
        db.execute("pragma foreign_keys = 0; pragma synchronous = 0; pragma journal_mode = off")
        db.execute("pragma cache_size = -400000; create temp table texts(id, session_id, seq, scope, content)")
        db.executemany(
            "insert into texts select e.id, e.session_id, ?4, ?2, ?3 from events e where e.id = ?1",
            [(row, scope, index_text.index_text(text, scope), seq) for row, scope, text, seq in texts],
        )
        most = {table: db.execute(f"select coalesce(max(id), 0) from {table}").get for table in _numbered()}
        copying = [_copying(db, table, most) for table in CHANGED]
        for copy in range(1, copies + 1):
            with db:
                for statement in copying:
                    db.execute(statement, {"copy": copy, **most})
                db.execute(
                    "insert into search_index(rowid, content, session_id, source_type, source_id, scope) "
                    "select id + :copy * :events, content, session_id + :copy * :sessions, null, seq, scope from texts",
                    {"copy": copy, **most},
                )
        db.execute("pragma journal_mode = delete")


def _numbered() -> set[str]:
    return {what for columns in CHANGED.values() for what in columns.values() if what in CHANGED}


def _copying(db: apsw.Connection, table: str, most: dict[str, int]) -> str:
    """The statement that copies the first rows of a table."""
    named = [str(row[1]) for row in db.execute(f"pragma table_info({table})")]
    changed = {name: _changed(name, how) for name, how in CHANGED[table].items()}
    first = next(iter(CHANGED[table]))
    values = ", ".join(changed.get(name, name) for name in named)
    upto = most[CHANGED[table][first]]
    kind = "insert or replace" if table == "list_keys" else "insert"
    return f"{kind} into {table}({', '.join(named)}) select {values} from {table} where {first} <= {upto}"


def _changed(name: str, how: str) -> str:
    return f"{name} + :copy * :{how}" if how in CHANGED else how.format(name)
