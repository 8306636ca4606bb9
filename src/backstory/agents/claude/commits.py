"""What stands below the message of a commit: who helped, and the session.

Web and remote sessions name the address of a page, whose id no log has.
"""

from __future__ import annotations

from backstory.lazy_regex import lazy_regex

KEYS = frozenset({"claude-session", "x-claude-session"})
AUTHORS = frozenset({"noreply@anthropic.com"})
_ID = lazy_regex(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Commits:
    """See ``contract.CommitPart``."""

    def names_session(self, key: str) -> bool:
        return key.lower() in KEYS

    def session_id(self, key: str, value: str) -> str | None:
        is_id = self.names_session(key) and _ID.fullmatch(value)
        return value.lower() if is_id else None

    def is_author(self, email: str) -> bool:
        return email.lower() in AUTHORS
