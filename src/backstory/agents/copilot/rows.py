"""Sessions that stand as rows in a database: each becomes lines of JSON, one a row, as if it were a log.

A row is written by the names of its columns, whatever the version, and an unknown column like the others.
A line is ``{"table", "timestamp", "row"}``. Only a session's ``updated_at`` is left out, which changes by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backstory import ids
from backstory.agents.contract import SessionRows, UnreadableDatabase, UnreadRows
from backstory.agents.foreign import TooLarge, left_out, opened
from backstory.derive.checkpoints import SECTIONS

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from pathlib import Path

    from backstory.agents.foreign import ForeignDatabase, Row

VERSION_MAX = 8
_TABLES = {
    "turns": "turn_index",
    "session_files": "turn_index",
    "session_refs": "turn_index",
    "assistant_usage_events": "turn_index",
    "checkpoints": "checkpoint_number",
}
"""Tables with rows of a session, and the column that orders them."""
_TIMES = ("timestamp", "created_at", "first_seen_at")
_LAST = 2**31
"""The place of a row that names no turn."""


def sessions_in(database: Path, not_these: Container[str]) -> Iterator[SessionRows | UnreadRows]:
    """The sessions of a database that nobody writes, but for ``not_these``; raises UnreadableDatabase."""
    with opened(database, _text) as db:
        _check(db)
        known = [table for table in _TABLES if "session_id" in db.columns(table)]
        named = db.distinct("sessions", "id")
        if nameless := sum(not (isinstance(native_id, str) and native_id) for native_id in named):
            yield UnreadRows(reason=f"{nameless} of its sessions have ids that are no text")
        for native_id in named:
            if isinstance(native_id, str) and native_id and native_id not in not_these:
                yield from _session(db, native_id, known)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _check(db: ForeignDatabase) -> None:
    if not ("id" in db.columns("sessions") and "session_id" in db.columns("turns")):
        raise UnreadableDatabase("it has no sessions with turns")
    versions = db.distinct("schema_version", "version") if "version" in db.columns("schema_version") else []
    version = max((each for each in versions if isinstance(each, int)), default=0)
    if version > VERSION_MAX:
        raise UnreadableDatabase(f"its version is {version}; versions up to {VERSION_MAX} are known")


def _session(db: ForeignDatabase, native_id: str, tables: list[str]) -> Iterator[SessionRows | UnreadRows]:
    db.begin_session()
    try:
        found = db.rows("sessions", "where t.id = ? collate binary limit 1", (native_id,))
        if not found:
            # It was stored as bytes that are no text, so nothing that names it is found either.
            yield UnreadRows(native_id=native_id, reason="its id is no text")
        for session in found:
            yield SessionRows(native_id=native_id, content=_lines(db, session, tables))
    except TooLarge as refused:
        yield UnreadRows(native_id=native_id, reason=str(refused))
    if db.left_out:
        yield UnreadRows(native_id=native_id, reason=left_out(db))


def _lines(db: ForeignDatabase, session: Row, tables: list[str]) -> bytes:
    rows: list[tuple[int, int, str, Row]] = []
    for place, table in enumerate(tables):
        for row in db.rows(table, "where t.session_id = ? collate binary", (session["id"],)):
            at = row.get(_TABLES[table])
            # A checkpoint does not name the turn in which it was made.
            is_timed = table != "checkpoints" and isinstance(at, int)
            rows.append((at if is_timed and at is not None else _LAST, place, table, row))
    rows.sort(key=lambda each: (each[0], each[1], _number(each[3].get(_TABLES[each[2]])), _number(each[3].get("id"))))
    first = {name: value for name, value in session.items() if name != "updated_at"}
    return b"".join([_line("sessions", first), *(_line(table, row) for _, _, table, row in rows)])


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
    sections = [(name, row.get(name)) for name in SECTIONS] + [("checkpoint_title", row.get("title"))]
    return "\n".join(f"<{name}>{text}</{name}>" for name, text in sections if isinstance(text, str) and text.strip())
