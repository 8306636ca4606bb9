"""Rows of events, and what the search index holds of them. Functions take the connection, never commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from backstory.derive.index_text import Scope, index_text
from backstory.model import Parts
from backstory.store import schema
from backstory.store.intake import coverage
from backstory.store.schema import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

FIRST_EVENT_ID = 1
COLUMNS = "seq, part, turn_id, at, kind, data, char_len, log_id, position, length"
"""The columns of an event's row, without the event's id and its session's."""
_FAR = 1 << 40
"""More than any record has parts."""
SUMMARY = "summary"
"""The mark of a row of the index that is no event's."""
EventKey = tuple[int, int]
"""The key of an event: its record's number, and its place in the record."""
Text = tuple[int, int, str | None, str]
"""The searched text of an event: the event's id, its record's number, the scope, the text."""


class WaitingTexts(Struct):
    """Texts of events that were stored, to be indexed when nothing else is left to write.

    Any statement that may fail half-way makes FTS5 write what it holds as a segment of its own, and it has room for
    no more than 2,000: texts that go in one after the other become one segment, however many sessions they are of.
    """

    texts: list[tuple[int, list[Text]]] = field(default_factory=list)

    def index(self, db: apsw.Connection) -> None:
        """Put all of them into the index."""
        for session_id, texts in self.texts:
            index_texts(db, session_id, texts)
        self.texts.clear()


class ReadyTexts(Struct):
    """The same of events whose texts a table of an attached store, ``table``, has as they are to be indexed."""

    table: str
    events: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Rows of events in their order: the session here, the first and last id there, what to add to an id there."""

    @property
    def count(self) -> int:
        """The number of events that wait."""
        return sum(last - first + 1 for _, first, last, _ in self.events)

    def index(self, db: apsw.Connection) -> None:
        """Put all of them into the index, unless their session is not to be indexed."""
        for session_id, first, last, shift in self.events:
            if coverage.is_indexed(db, session_id):
                db.execute(
                    "insert into search_index(rowid, content, session_id, source_type, source_id, scope) "
                    f"select event_id + ?1, content, ?2, null, seq, scope from {self.table} where event_id between ?3 "
                    "and ?4 and exists (select 1 from main.events where id = event_id + ?1)",
                    (shift, session_id, first, last),
                )
        self.events.clear()


def delete_events(db: apsw.Connection, where: str, values: tuple[object, ...]) -> None:
    """Delete events and what the index holds of them; ``where`` is a condition on events."""
    # Before the events: afterwards nobody knows which rows of the index were theirs.
    db.execute(f"delete from search_index where rowid in (select id from events where {where})", values)
    db.execute(f"delete from events where {where}", values)


def delete_of_session(db: apsw.Connection, session_id: int) -> None:
    """Delete the events of a session, and all that the index holds of it."""
    delete_events(db, "session_id = ?", (session_id,))
    delete_other_rows(db, session_id)


def delete_other_rows(db: apsw.Connection, session_id: int) -> None:
    """Delete what the index holds of a session beside its events."""
    rows = db.execute(schema.OTHER_ROWS, (session_id,)).fetchall()
    db.executemany("delete from search_index where rowid = ?", rows)


def delete_summaries(db: apsw.Connection, where: str, values: tuple[object, ...]) -> None:
    """Delete what the index holds of summaries; ``where`` is a condition on compactions."""
    rows = db.execute(f"select -id from compactions where {where}", values).fetchall()
    db.executemany("delete from search_index where rowid = ?", rows)


def delete_sections(db: apsw.Connection, where: str, values: tuple[object, ...]) -> None:
    """Delete what the index holds of checkpoints, before they go; ``where`` is a condition on checkpoints."""
    row = f"{schema.SECTION_ROWS} - checkpoints.id * {schema.SECTIONS_MAX} - n.value"
    rows = db.execute(f"select {row} from checkpoints, {schema.SECTIONS} n where {where}", values).fetchall()
    db.executemany("delete from search_index where rowid = ?", rows)


def delete_files(db: apsw.Connection, where: str, values: tuple[object, ...]) -> None:
    """Delete what the index holds of files beside logs, before they go; ``where`` is a condition on sidecars."""
    rows = db.execute(f"select {schema.FILE_ROWS} - id from sidecars where {where}", values).fetchall()
    db.executemany("delete from search_index where rowid = ?", rows)


def index_summaries(db: apsw.Connection, session_id: int, texts: list[tuple[int, int, str]]) -> None:
    """Put summaries into the search index: the id, the last record that it covers, the text of each.

    Their rows are below those of events, which have ids from 1 on. Nothing of a session that is not to be indexed.
    """
    if not texts or not coverage.is_indexed(db, session_id):
        return
    insert_index_rows(
        db,
        [
            (-row_id, index_text(text, Scope.SYSTEM), session_id, SUMMARY, after_seq, Scope.SYSTEM)
            for row_id, after_seq, text in texts
        ],
    )


def insert_index_rows(db: apsw.Connection, rows: list[tuple[object, ...]]) -> None:
    """Put rows into the index: the rowid, the text, the session, the source's type and id, the scope."""
    db.executemany(
        "insert into search_index(rowid, content, session_id, source_type, source_id, scope) values (?, ?, ?, ?, ?, ?)",
        rows,
    )


def number_parts(db: apsw.Connection, session_id: int) -> None:
    """Number the parts of a session's events as today; see ``model.Parts``."""
    asked = "select seq, min(part) from events where session_id = ? and part < 0 group by seq"
    for seq, first in fetch(db, tuple[int, int], asked, (session_id,)):
        shift = Parts().of(seq, first) - first
        # No two events of a record have one part, not even while they are moved.
        for by in (shift + _FAR, -_FAR):
            db.execute("update events set part = part + ? where session_id = ? and seq = ?", (by, session_id, seq))


def insert(db: apsw.Connection, session_id: int, rows: Iterable[tuple[Any, ...]]) -> int:
    """Store events: their columns from ``seq`` to ``length``; gives the id of the first, which the others count on."""
    # Ids without gaps let the caller name each event, with no statement for each.
    first_id = next_event_id(db)
    db.executemany(
        f"insert into events(id, session_id, {COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(first_id + n, session_id, *row) for n, row in enumerate(rows)],
    )
    return first_id


def next_event_id(db: apsw.Connection) -> int:
    """An id that no event ever had: the index may still hold rows of events that other programs deleted."""
    last = db.execute("select seq from sqlite_sequence where name = 'events'").fetchone()
    return int(last[0]) + 1 if last else FIRST_EVENT_ID


def index_texts(db: apsw.Connection, session_id: int, texts: list[Text]) -> None:
    """Put texts of events into the search index, unless their session is not to be indexed."""
    if not texts or not coverage.is_indexed(db, session_id):
        return
    db.executemany(
        "insert into search_index(rowid, content, session_id, source_type, source_id, scope) "
        "values (?, ?, ?, null, ?, ?)",
        [(event_id, text, session_id, seq, scope) for event_id, seq, scope, text in texts],
    )
