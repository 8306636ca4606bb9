"""A store of its own that an import is put into before anything of it is taken over: it is whole then, and checked.

It lies in a folder that goes with it, so it is written without care for a crash.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from backstory.store import Store, event_rows
from backstory.store.database import believed

if TYPE_CHECKING:
    import apsw

ROWS_AT_ONCE = 5_000
BYTES_AT_ONCE = 16 * 1024 * 1024

_COLUMNS = {
    "sessions": (
        "id, uid, owner, number, name, title, worktree, project, repository, branch, cwd, root, created, last_active, "
        "completed, duration_ms, cost_usd, native_id, parent_identity, relation, leaf_uid, leaf_seq, leaf_at, "
        "next_seq"
    ),
    "session_branches": "session_id, branch",
    "meta": "key, value",
    "logs": (
        "id, session_id, turn_uid, agent, kind, native_id, path, root_chars, relpath, modified, first_hash, tail_hash, "
        "read_to, parsed_to, tail_seq, generation, frames, cwd, told_to"
    ),
    "numbers": "log_id, start, stop, first_seq, records",
    "chunks": "log_id, start, length, sha256, data",
    "sidecars": "log_id, name, size, mtime_ns, sha256, data",
    "turns": (
        "id, session_id, uid, parent_uid, parent_seq, first_seq, last_seq, agent, model, native_id, prompt, started, "
        "ended, outcome, stop_reason, api_latency_ms, duration_ms, input_tokens, output_tokens, cache_read_tokens, "
        "cache_write_tokens, cache_write_1h_tokens, largest_input_tokens, reasoning_tokens, tokens_source, cost_usd, "
        "cost_source, prefix_chars, prefix_sha256, removed, context_window"
    ),
    "turn_texts": "turn_id, answer",
    "branches": "session_id, name, leaf_uid, leaf_seq, created, moved",
    "compactions": (
        "session_id, after_seq, summary, created, agent, undone, model, input_tokens, output_tokens, "
        "cache_read_tokens, cache_write_tokens, cost_usd, duration_ms"
    ),
}
"""The tables that are filled, and of each the columns in the order of a row; the parents first."""


class Rows(Struct):
    """Rows on their way, by their table; of ``events`` with the session, see ``event_rows.insert``."""

    tables: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    events: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    counts: list[tuple[int | None, int | None, int]] = field(default_factory=list)
    """How full contexts are, which is said once all is there that it is counted from."""
    rows: int = 0
    bytes: int = 0

    def add(self, table: str, *row: Any, size: int = 0) -> None:
        """Add a row. ``size``: its bytes, where it may have many."""
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
        """Whether they are so many that they should be written."""
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
    for table, columns in _COLUMNS.items():
        if found := rows.tables.get(table):
            places = ", ".join("?" * (columns.count(",") + 1))
            db.executemany(f"insert into {table}({columns}) values ({places})", found)
    for session_id, events in groupby(rows.events, key=itemgetter(0)):
        event_rows.insert(db, session_id, [row for _, row in events])
    db.executemany("update sessions set context_chars = ?, context_limit = ? where id = ?", rows.counts)
