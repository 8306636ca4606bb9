"""Names of Vibe's folders and files, and its name here."""

from __future__ import annotations

from pathlib import PurePath

from backstory.lazy import lazy_regex

NAME = "vibe"
SESSIONS = PurePath("logs", "session")
UNIFIED = "unified"
"""The folder of version 3; beside it lie sessions of version 2, a folder each."""
HEAD, META, STATE, MANIFEST = "CURRENT", "meta.json", "projection-state.json", "manifest.json"
JOURNAL, GENERATIONS = "journal/", "generations/"
OLD_LOG = "messages.jsonl"
"""The log of a session of version 2: its bytes are kept, and it is not read."""
SESSION_ID = lazy_regex(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
