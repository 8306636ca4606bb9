"""Trees of messages that stand as rows in a database: each session becomes lines of JSON, one a record, like a log.

A row is written by the names of its columns, whatever the version, and an unknown column like the others.
A line is ``{"table", "timestamp", "row"}``; a message has its ``blocks`` with it, because they were written together.
Lines come in the order in which their rows were written, so that a database that grew only adds lines. For that, what
changes in place is written only where the other rows do not imply it: the session's state, and the message that the
next one follows. When that is not the last one written, its branch comes last. What a heartbeat writes is no history.
"""

from __future__ import annotations

import base64
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory import ids
from backstory.agents.contract import SessionRows, UnreadableDatabase, UnreadRows
from backstory.agents.foreign import TooLarge, left_out, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from backstory.agents.foreign import ForeignDatabase, Row

SESSION, CONTEXT, MESSAGES, BLOCKS, EVENTS = "session", "context", "messages", "content_blocks", "events"
QUEUE, CONSUMED, CONVERSATIONS, ITERATIONS = "queue_messages", "queue_consumed", "conversations", "work_iterations"
TOLD = frozenset({SESSION, CONTEXT, MESSAGES, BLOCKS, EVENTS, QUEUE, CONSUMED, CONVERSATIONS, ITERATIONS})
"""The tables of lines."""
CURRENT, STATE, NAME = "current_message", "session_state", "session_name"
CLOSED, IDLE = "closed", "idle"
FOLLOWUP = "followup"
TEXT_BYTES, BLOB, REAL = "text_base64", "blob_base64", "real"
"""The keys of values that JSON has no form for: bytes that should be text, others, and an infinite number."""
_DELIVERED_S = 5
"""Between taking a text from the queue and writing it as a message there is no more than this."""
_OF_SESSION = {"conversation_id": CONVERSATIONS, "session_id": "sessions"}
"""By which column a message says whose it is, where a file holds several sessions, and the table of these."""
_LOOSE = (EVENTS, QUEUE, ITERATIONS)
"""Tables of such a file whose rows may name none."""
_TABLES = (MESSAGES, BLOCKS, CONTEXT, EVENTS, QUEUE, CONVERSATIONS, "sessions", ITERATIONS)


class _NotText(Struct, frozen=True):
    """Bytes that were stored as text and are none."""

    data: bytes


class Database(Struct, frozen=True, kw_only=True):
    """A database that nobody writes, and what is known of it from its place."""

    path: Path
    queue: Path | None = None
    """The database beside it that texts wait in."""
    file_name: str
    stem: str
    folder: str | None = None
    """The project that it lies in."""


class _Tables:
    """The tables of a database and the one beside it."""

    def __init__(self, db: ForeignDatabase, queue: ForeignDatabase | None) -> None:
        self.db = db
        self.columns = {table: db.columns(table) for table in _TABLES}
        self.queue_db = db
        if queue is not None and (columns := queue.columns(QUEUE)):
            self.queue_db, self.columns[QUEUE] = queue, columns

    def has(self, table: str, column: str = "id") -> bool:
        return column in self.columns[table]

    def rows(self, table: str, owner: tuple[str, str] | None) -> list[Row]:
        """A table's rows in the order they were written, of one session where it says of which they are."""
        if not self.columns[table]:
            return []
        if owner is None:
            return self._found(table, "true")
        if not self.has(table, owner[0]):
            return []
        return self._found(table, f"t.{owner[0]} is ? collate binary", owner[1])

    def named(self, table: str, native_id: str) -> Row:
        """The row of a table that is this session's own."""
        found = self._found(table, "t.id is ? collate binary", native_id) if self.has(table) else []
        return found[0] if found else {}

    def loose(self, table: str, column: str) -> list[Row]:
        """A table's rows that name no session of the file's several."""
        if not self.columns[table]:
            return []
        return self._found(table, f"coalesce(t.{column}, '') = ''" if self.has(table, column) else "true")

    def distinct(self, table: str, column: str) -> list[Any]:
        return self._of(table).distinct(table, column)

    def begin_session(self) -> None:
        for db in (self.db, self.queue_db):
            db.begin_session()

    def left_out(self) -> list[str]:
        """Return the remarks about values that were left out."""
        return [left_out(db) for db in dict.fromkeys((self.db, self.queue_db)) if db.left_out]

    def _found(self, table: str, which: str, *values: Any) -> list[Row]:
        return self._of(table).rows(table, f"where {which} order by t.rowid", values)

    def _of(self, table: str) -> ForeignDatabase:
        return self.queue_db if table == QUEUE else self.db

    def owner_column(self) -> str | None:
        return next((column for column in _OF_SESSION if self.has(MESSAGES, column)), None)


class _Session(Struct, kw_only=True):
    """The rows of one session."""

    native_id: str
    owner: tuple[str, str] | None
    of: Row = field(default_factory=dict)
    """Its own row, where it has one."""
    messages: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    queue: list[Row] = field(default_factory=list)
    iterations: list[Row] = field(default_factory=list)
    context: dict[str, Any] = field(default_factory=dict)
    has_context: bool = False
    has_loose_blocks: bool = False
    """True if the blocks of messages that are gone are written with it."""


def sessions_in(database: Database) -> Iterator[SessionRows | UnreadRows]:
    """The sessions of a database; raises UnreadableDatabase."""
    with ExitStack() as both:
        db = both.enter_context(opened(database.path, _text))
        queue = both.enter_context(opened(database.queue, _text)) if database.queue is not None else None
        yield from _sessions(database, _Tables(db, queue))


def _text(data: bytes) -> str | _NotText:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _NotText(data)


def _sessions(database: Database, tables: _Tables) -> Iterator[SessionRows | UnreadRows]:
    if not tables.has(MESSAGES) and not tables.has(QUEUE):
        if not tables.db.is_empty:
            raise UnreadableDatabase("it has no messages")
        return
    column = tables.owner_column()
    owners = [None] if column is None else _owners(tables, column)
    all_ids = dict.fromkeys(owner[1] for owner in owners if owner is not None)
    for owner in owners:
        native_id = owner[1] if owner else database.stem
        tables.begin_session()
        try:
            session = _read(database, tables, owner)
            if owner is not None:
                _share(session, tables, all_ids)
            if session.messages or session.events or session.queue or session.iterations:
                yield SessionRows(native_id=session.native_id, content=_content(database, tables, session))
        except TooLarge as refused:
            yield UnreadRows(native_id=native_id, reason=str(refused))
        yield from (UnreadRows(native_id=native_id, reason=reason) for reason in tables.left_out())


def _owners(tables: _Tables, column: str) -> list[tuple[str, str]]:
    """Return the sessions with rows in a file of several: also those of which nothing else is left."""
    table = _OF_SESSION[column]
    found = [row["id"] for row in tables.rows(table, None)] if tables.has(table) else []
    for each in (MESSAGES, EVENTS, QUEUE, ITERATIONS):
        if tables.has(each, column):
            found += tables.distinct(each, column)
    owners = [(column, native_id) for native_id in dict.fromkeys(found) if isinstance(native_id, str) and native_id]
    loose = [row.get("id") for each in _LOOSE for row in tables.loose(each, column)]
    # Rows of no session at all are one, too.
    return owners or [(column, str(native_id)) for native_id in loose[:1]]


def _read(database: Database, tables: _Tables, owner: tuple[str, str] | None) -> _Session:
    session = _Session(native_id=owner[1] if owner else database.stem, owner=owner)
    session.messages = tables.rows(MESSAGES, owner)
    session.events = tables.rows(EVENTS, owner)
    session.queue = tables.rows(QUEUE, owner)
    session.has_context = tables.has(CONTEXT, "key") and tables.has(CONTEXT, "value")
    if session.has_context:
        rows = tables.rows(CONTEXT, None)
        session.context = {row["key"]: row["value"] for row in rows if isinstance(row["key"], str)}
    if owner is None:
        # A file that is not named after its session is known by its first row.
        rows = [*session.messages, *session.events, *session.queue]
        session.native_id = str(rows[0]["id"]) if rows and not is_ulid(database.stem) else database.stem
        return session
    table = _OF_SESSION[owner[0]]
    session.of = tables.named(table, owner[1])
    session.iterations = tables.rows(ITERATIONS, owner)
    return session


def _share(session: _Session, tables: _Tables, all_ids: Mapping[str, None]) -> None:
    """Give a session what it has of what a file of several holds: of what belongs to none the first has it.

    The file names one current message, and all else that it knows is of the session that began last.
    """
    is_first, last = session.native_id == next(iter(all_ids)), session.context.get("current_conversation")
    has_rest = session.native_id == last if isinstance(last, str) and last in all_ids else is_first
    mine = {row["id"] for row in session.messages}
    session.context = {
        key: value for key, value in session.context.items() if (value in mine if key == CURRENT else has_rest)
    }
    if is_first and session.owner is not None:
        column = session.owner[0]
        session.events = [*tables.loose(EVENTS, column), *session.events]
        session.queue = [*tables.loose(QUEUE, column), *session.queue]
        session.iterations = [*tables.loose(ITERATIONS, column), *session.iterations]
        session.has_loose_blocks = True


def is_ulid(text: str) -> bool:
    """Return True if a name is one that a session has: its random part may be anything."""
    return len(text) == ids.UID_LENGTH and all(letter in ids.ALPHABET for letter in text[:10])


# lines --------------------------------------------------------------------------------------------------------


def _content(database: Database, tables: _Tables, session: _Session) -> bytes:
    lines = [_header(database, session)]
    name = session.of.get("name", session.context.get(NAME))
    if name is not None:
        lines.append(_line(CONTEXT, {"key": NAME, "value": name}))
    beside = _beside(session)
    lines += beside.pop(None, [])
    blocks = _blocks(tables, session)
    follows = _follows(session, blocks)
    by_id = {row["id"]: n for n, row in enumerate(session.messages)}
    ordered = _ordered(session)
    for row in ordered:
        more: Row = {"blocks": [_row(block) for block in blocks.pop(row["id"], [])]}
        if row["id"] in follows:
            more["follows"] = follows[row["id"]]
        lines.append(_line(MESSAGES, row, row.get("created_at"), **more))
        lines += beside.pop(by_id[row["id"]], [])
    # Of a message that was deleted its blocks may be left.
    lines += [_line(BLOCKS, block) for left in blocks.values() for block in left]
    lines += [line for left in beside.values() for line in left]
    lines += _unimplied(session, ordered)
    return b"".join(lines)


def _header(database: Database, session: _Session) -> bytes:
    row: Row = {"id": session.native_id, "file": database.file_name}
    if database.folder is not None:
        row["cwd"] = database.folder
    created = session.of.get("created_at")
    if created is not None:
        row["created_at"] = created
    first = session.messages[0].get("created_at") if session.messages else None
    is_named = is_ulid(session.native_id)
    at = ids.decode(session.native_id[:10]) if is_named and session.owner is None else created
    return _line(SESSION, row, at if at is not None else first)


def _beside(session: _Session) -> dict[int | None, list[bytes]]:
    """Lines that are no messages, by the place of the message that they come after: the one they name, else by time."""
    places = {row["id"]: place for place, row in enumerate(session.messages)}
    times = list(accumulate((_seconds(row.get("created_at")) for row in session.messages), max))
    found: dict[int | None, list[bytes]] = {}
    for table, row, at in _happened(session):
        place = places.get(row.get("message_id")) if table == EVENTS else None
        if place is None:
            # In one second a text is queued before it is delivered, and a run notes a message after writing it.
            place = (bisect_left if table == QUEUE else bisect_right)(times, _seconds(at)) - 1
        found.setdefault(place if place >= 0 else None, []).append(_line(table, row, at))
    return found


def _happened(session: _Session) -> Iterator[tuple[str, Row, Any]]:
    for row in session.events:
        yield EVENTS, row, row.get("created_at")
    for row in session.queue:
        consumed = row.get("consumed_at")
        # That a text was taken is a line of its own: the line of the text stays as it was.
        yield QUEUE, {name: value for name, value in row.items() if name != "consumed_at"}, row.get("created_at")
        if consumed is not None:
            yield CONSUMED, {"id": row.get("id"), "consumed_at": consumed}, consumed
    for row in session.iterations:
        yield ITERATIONS, row, row.get("created_at")


def _blocks(tables: _Tables, session: _Session) -> dict[Any, list[Row]]:
    """The blocks of a session's messages by message, and of no message at all those that are written with it."""
    if not tables.has(BLOCKS):
        return {}
    loose = " or m.id is null" if session.has_loose_blocks else ""
    of = "" if session.owner is None else f"where m.{session.owner[0]} is ? collate binary{loose}"
    rows = tables.db.rows(
        BLOCKS,
        f"left join {MESSAGES} m on m.id = t.message_id {of} order by t.message_id, t.seq, t.rowid",
        (session.owner[1],) if session.owner else (),
    )
    return {key: list(found) for key, found in groupby(rows, key=lambda row: row["message_id"])}


def _ordered(session: _Session) -> list[Row]:
    """Messages in the order in which they were written, but the branch that goes on last."""
    messages, current = session.messages, session.context.get(CURRENT)
    if not messages or current is None or messages[-1]["id"] == current:
        return messages
    parents = {row["id"]: row.get("parent_id") for row in messages}
    children = Counter(parents.values())
    if current not in parents or current in children:
        return messages
    branch, at = {current}, parents[current]
    while at in parents and at not in branch and children[at] == 1:
        branch.add(at)
        at = parents[at]
    return [row for row in messages if row["id"] not in branch] + [row for row in messages if row["id"] in branch]


def _follows(session: _Session, blocks: Mapping[Any, list[Row]]) -> dict[Any, Any]:
    """Follow-ups that were taken from the queue at once stand side by side, though each was sent after the other:
    of every one but the first, the message that it follows."""
    taken = [row for row in session.queue if row.get("message_type") == FOLLOWUP and row.get("consumed_at") is not None]
    contents = {row.get("content"): _seconds(row["consumed_at"]) for row in taken}

    def was_taken(row: Row) -> bool:
        texts = [block.get("content") for block in blocks.get(row["id"], []) if block.get("block_type") == "text"]
        at = contents.get(texts[0]) if len(texts) == 1 else None
        return at is not None and 0 <= _seconds(row.get("created_at")) - at <= _DELIVERED_S

    found: dict[Any, Any] = {}
    if len(contents) > 1:
        parents = {row.get("parent_id") for row in session.messages}
        for before, row in pairwise(session.messages):
            are_siblings = row.get("parent_id") is not None and before.get("parent_id") == row["parent_id"]
            if are_siblings and before["id"] not in parents and was_taken(before) and was_taken(row):
                found[row["id"]] = before["id"]
    return found


def _unimplied(session: _Session, ordered: list[Row]) -> Iterator[bytes]:
    """Yield facts of a whole session that do not follow from the lines before, with messages in this order."""
    context, last = session.context, ordered[-1]["id"] if ordered else None
    if (session.has_context and context.get(CURRENT) != last) and (session.owner is None or CURRENT in context):
        yield _line(CONTEXT, {"key": CURRENT, "value": context.get(CURRENT)})
    changes = (row.get("details") for row in session.events if row.get("event_type") == "state_change")
    implied = state_after(changes) if ordered is session.messages else None
    if session.has_context and session.owner is None and context.get(STATE) != implied:
        yield _line(CONTEXT, {"key": STATE, "value": context.get(STATE)})
    for key, value in context.items():
        if key not in (CURRENT, STATE, NAME, "current_conversation"):
            yield _line(CONTEXT, {"key": key, "value": value})
    if session.of.get("closed_at") is not None:
        closed = {name: session.of.get(name) for name in ("id", "state", "closed_at")}
        yield _line(CONVERSATIONS, closed, closed["closed_at"])


def state_after(changes: Iterable[Any]) -> str | None:
    """The state that a session is left in after these changes, given as JSON: at its end no change says so."""
    state = None
    for each in changes:
        try:
            details = msgspec.json.decode(each) if isinstance(each, str) else None
        except (msgspec.DecodeError, RecursionError):
            continue
        found = details.get("to_state") if isinstance(details, dict) else None
        state = found if isinstance(found, str) else state
    return CLOSED if state == IDLE else state


def _line(table: str, row: Row, at: Any = None, **more: Any) -> bytes:
    said = {"table": table, "timestamp": _iso(at, row.get("id")), "row": _row(row), **more}
    return msgspec.json.encode(said) + b"\n"


def _row(row: Row) -> Row:
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, _NotText):
        return {TEXT_BYTES: base64.b64encode(value.data).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {REAL: str(value)}
    return {BLOB: base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _iso(at: Any, native_id: Any) -> str | None:
    """A time as RFC 3339. Rows have whole seconds, and some of their ids the milliseconds of the same moment."""
    ms = at_ms(at, native_id)
    try:
        moment = None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment else None


def at_ms(at: Any, native_id: Any) -> int | None:
    """The time of a row in ms since 1970; None where it has none."""
    ms = ids.parse_time_ms(at) if isinstance(at, int) else None
    if ms is not None and isinstance(native_id, str) and is_ulid(native_id):
        exact = ids.decode(native_id[:10])
        return exact if exact // 1000 == ms // 1000 else ms
    return ms


def _seconds(value: Any) -> int:
    return value if isinstance(value, int) else 0
