"""Rows of a file of sessions as lines of JSON, one a record, like a log.

A session begins with what never changes of it, then come the place of its file and what it is called, its events in
their order, and each summary behind the last event that it covers. So a session that grew only adds lines, but for a
new summary. Rows are written by the names of their columns, whatever the version, without the numbers that only count
inside the file. What changes in place and follows from the events, as the badge of a session does, is left out.

A session is known by when it was made and by its first prompt: its number there begins at 1 in every file.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory import ids
from backstory.agents.azureal.cells import Cells
from backstory.agents.azureal.places import VERSION
from backstory.agents.contract import SessionRows, UnreadableDatabase, UnreadRows
from backstory.agents.foreign import TooLarge, left_out, opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.agents.foreign import ForeignDatabase, Row

SESSION, PLACE, NAME, WORKTREE = "session", "place", "name", "worktree"
EVENTS, COMPACTIONS = "events", "compactions"
TABLES = frozenset({SESSION, PLACE, NAME, WORKTREE, EVENTS, COMPACTIONS})
"""The tables of lines."""
_IN_FILE = ("id", "session_id", "data")
"""Columns that are no part of a line's row: numbers of the file's own, and what the line has as its event."""
_DIGEST_CHARS = 12
_PROMPT = "UserMessage"


class Database(Struct, frozen=True, kw_only=True):
    """A file that nobody writes, and what is known of it from its place."""

    path: Path
    file_name: str
    folder: str | None = None
    """The worktree that it lies in."""


class _Session(Struct, kw_only=True):
    """The rows of one session."""

    number: int
    of: Row
    events: list[tuple[Row, bytes]]
    compactions: list[Row]


def sessions_in(database: Database) -> Iterator[SessionRows | UnreadRows]:
    """The sessions of a file; raises UnreadableDatabase."""
    with opened(database.path, _text) as db:
        if not db.columns(EVENTS):
            if not db.is_empty:
                raise UnreadableDatabase("it has no events")
            return
        yield from _Sessions(database, db).all()
        if (version := _version(db)) > VERSION:
            reason = f"its schema is {version}, of a later AZUREAL: what could be read was read, as in schema {VERSION}"
            yield UnreadRows(reason=reason, is_final=True)


def _text(data: bytes) -> str | bytes:
    """A text; as its bytes, where they are none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _version(db: ForeignDatabase) -> int:
    if not {"key", "value"} <= set(db.columns("meta")):
        return 1
    found = db.rows("meta", "where t.key = 'schema_version'")
    value = found[0]["value"] if found else None
    return int(value) if isinstance(value, int | str) and str(value).isascii() and str(value).isdecimal() else 1


class _Sessions:
    def __init__(self, database: Database, db: ForeignDatabase) -> None:
        self._database, self._db = database, db
        self._names: set[str] = set()

    def all(self) -> Iterator[SessionRows | UnreadRows]:
        own = self._own_rows()
        for number in self._numbers(own):
            self._db.begin_session()
            native_id = None
            try:
                session = self._read(number, own.get(number, {}))
                if session.events or session.compactions:
                    native_id = self._name(session)
                    yield SessionRows(native_id=native_id, content=_content(self._database, native_id, session))
            except TooLarge as refused:
                yield UnreadRows(native_id=f"S{number}", reason=str(refused))
            if self._db.left_out:
                yield UnreadRows(native_id=native_id, reason=left_out(self._db))

    def _own_rows(self) -> dict[int, Row]:
        if "id" not in self._db.columns("sessions"):
            return {}
        found = self._db.rows("sessions", "order by t.rowid")
        return {row["id"]: row for row in found if isinstance(row["id"], int)}

    def _numbers(self, own: dict[int, Row]) -> list[int]:
        """The sessions that anything is there of, also those whose own row is gone."""
        tables = [table for table in (EVENTS, COMPACTIONS) if "session_id" in self._db.columns(table)]
        named = {number for table in tables for number in self._db.distinct(table, "session_id")}
        return sorted(own.keys() | {number for number in named if isinstance(number, int)})

    def _read(self, number: int, own: Row) -> _Session:
        cells = Cells()
        events = [(row, cells.json(row.get("data"))) for row in self._of(EVENTS, number, "seq")]
        return _Session(
            number=number, of=own, events=events, compactions=self._of(COMPACTIONS, number, "after_seq"),
        )  # fmt: skip

    def _of(self, table: str, number: int, order: str) -> list[Row]:
        columns = self._db.columns(table)
        if "session_id" not in columns:
            return []
        by = f"t.{order}, " if order in columns else ""
        return self._db.rows(table, f"where t.session_id = ? order by {by}t.rowid", (number,))

    def _name(self, session: _Session) -> str:
        """Return the id of a session: the same in every copy of the file, and in no other session."""
        first = next((json for row, json in session.events if row.get("kind") == _PROMPT), None)
        rest = session.events[0][1] if session.events else str(session.compactions[0].get("summary")).encode()
        created = _plain(session.of.get("created"))
        digest = hashlib.sha256(f"{created}\0".encode() + (first if first is not None else rest)).hexdigest()
        when = "".join(letter for letter in created if letter.isdecimal() and letter.isascii())[:14]
        name = base = "-".join(filter(None, (when[:8], when[8:], digest[:_DIGEST_CHARS])))
        count = 1
        while name in self._names:
            count += 1
            name = f"{base}-{count}"
        self._names.add(name)
        return name


# lines --------------------------------------------------------------------------------------------------------


def _content(database: Database, native_id: str, session: _Session) -> bytes:
    lines = [*_header(database, native_id, session)]
    waiting = list(session.compactions)
    for row, json in session.events:
        lines.append(_event(row, json))
        seq = row.get("seq")
        while waiting and isinstance(seq, int) and _number(waiting[0].get("after_seq")) <= seq:
            lines.append(_compaction(waiting.pop(0)))
    lines += map(_compaction, waiting)
    return b"".join(lines)


def _header(database: Database, native_id: str, session: _Session) -> Iterator[bytes]:
    created = session.of.get("created")
    row: Row = {"id": native_id} | ({} if created is None else {"created": created})
    yield _line(SESSION, row, created)
    place: Row = {"file": database.file_name, "number": session.number}
    yield _line(PLACE, place | ({"cwd": database.folder} if database.folder is not None else {}))
    for table in (NAME, WORKTREE):
        value = session.of.get(table)
        if value is not None and value != "":
            yield _line(table, {"value": value})


def _event(row: Row, json: bytes) -> bytes:
    try:
        msgspec.json.decode(json)
    except (msgspec.DecodeError, RecursionError):
        return _line(EVENTS, _row(row), bytes=base64.b64encode(json).decode())
    if b"\n" in json or b"\r" in json:
        json = msgspec.json.format(json, indent=-1)
    return _line(EVENTS, _row(row), event=msgspec.Raw(json))


def _compaction(row: Row) -> bytes:
    return _line(COMPACTIONS, _row(row), row.get("created"))


def _row(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in _IN_FILE}


def _line(table: str, row: Row, at: Any = None, **more: Any) -> bytes:
    when = _iso(at)
    said = {"table": table, **({"timestamp": when} if when is not None else {}), "row": _storable(row), **more}
    return msgspec.json.encode(said) + b"\n"


def _storable(row: Row) -> Row:
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _iso(at: Any) -> str | None:
    """A time as SQLite writes it, which is in UTC, as RFC 3339."""
    text = _plain(at).strip()
    if ids.parse_time_ms(text) is not None:
        return text
    return f"{text.replace(' ', 'T')}Z" if len(text) == len("2026-03-15 12:00:00") and text[10] == " " else None


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
