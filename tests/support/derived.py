"""What a store derived of each session, in comparable form."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from pathlib import Path

TABLES = {
    "search_index": "select s.uid, c.c4, c.c3 from search_index_content c join sessions s on s.id = c.c1",
    "turn_texts": "select s.uid, x.answer, '' from turn_texts x join turns t on t.id = x.turn_id "
    "join sessions s on s.id = t.session_id",
    "session_files": "select s.uid, f.file_path, f.action from session_files f join sessions s on s.id = f.session_id",
    "file_touches": "select s.uid, f.file_path, x.seq from file_touches x join session_files f on f.id = x.file_id "
    "join sessions s on s.id = f.session_id",
    "session_refs": "select s.uid, r.ref_value, r.seq from session_refs r join sessions s on s.id = r.session_id",
    "call_results": "select s.uid, e.seq, x.is_error from call_results x join events e on e.id = x.call_id "
    "join sessions s on s.id = e.session_id",
    "checkpoints": "select s.uid, k.checkpoint_number, k.overview from checkpoints k "
    "join sessions s on s.id = k.session_id",
}
"""Every derived table that holds something of what was said or done, each row with its session's uid."""
KEPT = {
    "sessions": "select uid, title from sessions",
    "turns": "select s.uid, t.uid, t.prompt, t.input_tokens, t.output_tokens, t.cost_usd, t.model from turns t "
    "join sessions s on s.id = t.session_id",
    "events": "select s.uid, e.seq, e.part, e.kind, e.char_len from events e join sessions s on s.id = e.session_id",
    "chunks": "select s.uid, c.start, c.sha256 from chunks c join logs l on l.id = c.log_id "
    "join sessions s on s.id = l.session_id",
}
"""What stays of a session from which nothing is derived."""


def rows(store: Path, tables: dict[str, str]) -> dict[str, list[tuple[Any, ...]]]:
    with closing(apsw.Connection(str(store))) as db:
        return {name: sorted(db.execute(sql).fetchall(), key=repr) for name, sql in tables.items()}


def derived(store: Path) -> dict[str, list[tuple[Any, ...]]]:
    return rows(store, TABLES)


def kept(store: Path) -> dict[str, list[tuple[Any, ...]]]:
    return rows(store, KEPT)


def uids(store: Path) -> dict[str, set[str]]:
    """The sessions that each derived table has a row of."""
    return {name: {str(row[0]) for row in found} for name, found in derived(store).items()}
