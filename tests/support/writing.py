"""The functions of the store that write what was read of a log."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from backstory.store.intake import append, claims, derived_tables, run_facts
from backstory.store.tables import event_rows, logs, turns

if TYPE_CHECKING:
    from types import ModuleType

# Its name in the package is a stand-in, which cannot be patched.
lineage = import_module("backstory.store.tables.lineage")

WRITING: list[tuple[ModuleType, str]] = [
    (append, "write"),
    (append, "_insert_session"),
    (append, "_insert_log"),
    (append, "_clear_replaced"),
    (append, "_write_turns"),
    (append, "insert_events"),
    (event_rows, "next_event_id"),
    (event_rows, "index_texts"),
    (append, "_keep_bytes"),
    (append, "_update_session"),
    (append, "repository_name"),
    (turns, "upsert"),
    (turns, "note_answers"),
    (turns, "sum_up"),
    (turns, "follow"),
    (logs, "insert_chunks"),
    (logs, "insert_seq_ranges"),
    (logs, "remember_stamp"),
    (derived_tables, "write"),
    (claims, "renamed"),
    (run_facts, "take"),
    # Its package has a stand-in for it, in which nothing can be replaced.
    (import_module("backstory.store.tables.lineage"), "link_copies"),
]
