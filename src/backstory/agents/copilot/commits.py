"""What stands below the message of a commit: who helped, and the session.

Of a session that is also in the cloud that may be its id there, which no log has.
"""

from __future__ import annotations

from backstory.lazy_regex import lazy_regex

KEYS = frozenset({"copilot-session"})
_ID = lazy_regex(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Commits:
    """See ``contract.CommitPart``."""

    def names_session(self, key: str) -> bool:
        return key.lower() in KEYS

    def session_id(self, key: str, value: str) -> str | None:
        is_id = self.names_session(key) and _ID.fullmatch(value)
        return value.lower() if is_id else None

    def is_author(self, email: str) -> bool:
        return email.lower().endswith("+copilot@users.noreply.github.com")
