"""The functions of the store that write what was read of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.store import claims, derived_tables, lineage, logs, slices, turns

if TYPE_CHECKING:
    from types import ModuleType


WRITING: list[tuple[ModuleType, str]] = [
    (slices, "write"),
    (slices, "_insert_session"),
    (slices, "_insert_log"),
    (slices, "_clear_replaced"),
    (slices, "_write_turns"),
    (slices, "insert_events"),
    (slices, "next_event_id"),
    (slices, "index_texts"),
    (slices, "_keep_bytes"),
    (slices, "_update_session"),
    (slices, "repository_name"),
    (turns, "upsert"),
    (turns, "note_answers"),
    (turns, "sum_up"),
    (turns, "follow"),
    (logs, "insert_chunks"),
    (logs, "insert_runs"),
    (logs, "remember_place"),
    (derived_tables, "write"),
    (claims, "renamed"),
    (claims, "take_usage"),
    (lineage, "link_copies"),
]
