"""Names of Gemini CLI's folders, and its name here."""

from __future__ import annotations

NAME = "gemini"
TMP, CHATS = "tmp", "chats"
OLD_ENDING = ".json"
"""The ending of logs of 2025, a document each: their bytes are kept, and they are not read."""
