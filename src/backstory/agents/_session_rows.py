"""Sessions that stand as rows in a database: each becomes lines of JSON, one a row, as if it were a log.

A row is told by the names of its columns, whatever the version, and a column that is not known is told like the others.
A line is ``{"table", "timestamp", "row"}``. Only a session's ``updated_at`` is left out, which changes by itself.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec

from backstory import ids
from backstory.agents import SessionRows, UnreadableDatabase

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from pathlib import Path

VERSION_MAX = 8
SECTIONS = ("overview", "history", "work_done", "technical_details", "important_files", "next_steps")
_TABLES = {
    "turns": "turn_index",
    "session_files": "turn_index",
    "session_refs": "turn_index",
    "assistant_usage_events": "turn_index",
    "checkpoints": "checkpoint_number",
}
"""Tables with rows of a session, and the column that they are told by."""
_TIMES = ("timestamp", "created_at", "first_seen_at")
_LAST = 2**31
"""Where a row stands that names no turn."""


def sessions_in(database: Path, not_these: Container[str]) -> Iterator[SessionRows]:
    """The sessions of a database that nobody writes, but for ``not_these``; raises UnreadableDatabase."""
    try:
        with closing(sqlite3.connect(database, isolation_level=None)) as db:
            db.text_factory = lambda text: text.decode("utf-8", "replace")
            db.row_factory = sqlite3.Row
            db.execute("begin")
            _check(db)
            known = [table for table in _TABLES if _has(db, table, "session_id")]
            # The list first: one statement stays open at a time.
            for session in db.execute("select * from sessions order by id").fetchall():
                native_id = session["id"]
                if isinstance(native_id, str) and native_id and native_id not in not_these:
                    yield SessionRows(native_id=native_id, content=_lines(db, session, known))
    except (sqlite3.Error, UnicodeError) as refused:
        # Of a damaged schema even the words that say so may be no text.
        is_text = isinstance(refused, sqlite3.Error)
        raise UnreadableDatabase(str(refused) if is_text else "it is malformed") from refused


def _check(db: sqlite3.Connection) -> None:
    if not (_has(db, "sessions", "id") and _has(db, "turns", "session_id")):
        raise UnreadableDatabase("it has no sessions with turns")
    has_version = _has(db, "schema_version", "version")
    version = db.execute("select max(version) from schema_version").fetchone()[0] if has_version else None
    if isinstance(version, int) and version > VERSION_MAX:
        raise UnreadableDatabase(f"its version is {version}; versions up to {VERSION_MAX} are known")


def _has(db: sqlite3.Connection, table: str, column: str) -> bool:
    found = db.execute("select count(*) from pragma_table_info(?) where name = ?", (table, column)).fetchone()
    return bool(found[0])


def _lines(db: sqlite3.Connection, session: sqlite3.Row, tables: list[str]) -> bytes:
    rows: list[tuple[int, int, str, dict[str, Any]]] = []
    for place, table in enumerate(tables):
        for row in db.execute(f"select * from {table} where session_id = ?", (session["id"],)).fetchall():
            told = dict(row)
            at = told.get(_TABLES[table])
            # Of a checkpoint it is not told in which turn it was made.
            is_told = table != "checkpoints" and isinstance(at, int)
            rows.append((at if is_told and at is not None else _LAST, place, table, told))
    rows.sort(key=lambda each: (each[0], each[1], _number(each[3].get(_TABLES[each[2]])), _number(each[3].get("id"))))
    first = {name: value for name, value in dict(session).items() if name != "updated_at"}
    return b"".join([_line("sessions", first), *(_line(table, told) for _, _, table, told in rows)])


def _line(table: str, row: dict[str, Any]) -> bytes:
    times = (iso for name in _TIMES if (iso := _iso(row.get(name))))
    return msgspec.json.encode({"table": table, "timestamp": next(times, None), "row": row}) + b"\n"


def _iso(value: Any) -> str | None:
    """A time as RFC 3339: SQLite's own form, which some rows have, says UTC without saying so."""
    if not isinstance(value, str):
        return None
    iso = value if "T" in value else f"{value.strip().replace(' ', 'T')}Z"
    return iso if ids.parse_time_ms(iso) is not None else None


def _number(value: Any) -> int:
    return value if isinstance(value, int) else _LAST


def session_of(line: bytes) -> str | None:
    """The id of the session whose first line this is."""
    if not line.startswith(b'{"table":"sessions"'):
        return None
    try:
        row = msgspec.json.decode(line)["row"]
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
        return None
    found = row.get("id") if isinstance(row, dict) else None
    return found if isinstance(found, str) and found else None


def checkpoint_text(row: dict[str, Any]) -> str:
    """A checkpoint's row as the summary that it was made of."""
    told = [(name, row.get(name)) for name in SECTIONS] + [("checkpoint_title", row.get("title"))]
    return "\n".join(f"<{name}>{text}</{name}>" for name, text in told if isinstance(text, str) and text.strip())
