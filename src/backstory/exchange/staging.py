"""A store of its own that an import is put into before anything of it is taken over: it is whole then, and checked.

It lies in a folder that goes with it, so it is written without care for a crash.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from backstory.store import Store
from backstory.store.database import believed
from backstory.store.tables import event_rows

if TYPE_CHECKING:
    import apsw

ROWS_AT_ONCE = 5_000
BYTES_AT_ONCE = 16 * 1024 * 1024


class Rows(Struct):
    """Rows on their way, by their table; of ``events`` with the session, see ``event_rows.insert``."""

    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    events: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    counts: list[tuple[int | None, int | None, int]] = field(default_factory=list)
    """Sizes of contexts, which are written once all is there that they are counted from."""
    rows: int = 0
    bytes: int = 0

    def add(self, table: str, size: int = 0, /, **row: Any) -> None:
        """Add a row, by the names of its columns. ``size``: its bytes, where it may have many."""
        self.tables.setdefault(table, []).append(row)
        self.rows += 1
        self.bytes += size

    def add_event(self, session_id: int, row: tuple[Any, ...], *, size: int) -> None:
        """Add the row of an event, from its column ``seq`` to ``length``."""
        self.events.append((session_id, row))
        self.rows += 1
        self.bytes += size

    def clear(self) -> None:
        """Remove all."""
        self.tables.clear()
        self.events.clear()
        self.counts.clear()
        self.rows = self.bytes = 0

    @property
    def is_full(self) -> bool:
        """True if they are so many that they should be written."""
        return self.rows >= ROWS_AT_ONCE or self.bytes >= BYTES_AT_ONCE


class Staging(Store):
    """The store; see the module."""

    def put(self, rows: Rows) -> None:
        """Write rows, and empty them. Raises StoreDamaged for rows that no store could hold."""

        def write(db: apsw.Connection) -> None:
            with believed(self.path):
                _write(db, rows)

        self._write(write)
        rows.clear()

    def drop_session(self, session_id: int) -> None:
        """Remove what would keep another copy of a session out; its other rows are never read."""

        def drop(db: apsw.Connection) -> None:
            db.execute("delete from logs where session_id = ?", (session_id,))
            db.execute("delete from sessions where id = ?", (session_id,))

        self._write(drop)

    def writer(self) -> apsw.Connection:
        is_new = self._writer is None
        db = super().writer()
        if is_new:
            # What belongs together comes in any order.
            db.execute("pragma foreign_keys = off")
            # Rows that no store could hold are taken back.
            db.execute("pragma journal_mode = memory")
            db.execute("pragma synchronous = off")
        return db


def _write(db: apsw.Connection, rows: Rows) -> None:
    for table, found in rows.tables.items():
        for columns, alike in groupby(found, key=tuple):
            values = ", ".join(f":{name}" for name in columns)
            db.executemany(f"insert into {table}({', '.join(columns)}) values ({values})", alike)
    for session_id, events in groupby(rows.events, key=itemgetter(0)):
        event_rows.insert(db, session_id, [row for _, row in events])
    db.executemany("update sessions set context_chars = ?, context_limit = ? where id = ?", rows.counts)
