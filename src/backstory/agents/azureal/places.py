"""The places of AZUREAL's sessions: a file in each worktree that it is used in."""

from __future__ import annotations

NAME = "azureal"
FOLDER, FILE = ".azureal", "sessions.azs"
ENDING = ".azs"
VERSION = 3
"""The schema that is known best; in 1 events are plain text, and 2 differs in columns that nothing needs."""
