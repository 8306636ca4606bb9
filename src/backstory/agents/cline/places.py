"""Names of Cline's folders and files, and its name here."""

from __future__ import annotations

NAME = "cline"
SESSIONS = "sessions"
ENDING = ".messages.json"
"""The ending of a log; beside that of a session lies ``<session>.json``, which says how it stands."""
