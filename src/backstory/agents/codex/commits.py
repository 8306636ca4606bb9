"""What stands below the message of a commit: who helped. It names no session."""

from __future__ import annotations

AUTHORS = frozenset({"noreply@openai.com"})


class Commits:
    """See ``contract.CommitPart``."""

    def names_session(self, key: str) -> bool:
        return False

    def session_id(self, key: str, value: str) -> str | None:
        return None

    def is_author(self, email: str) -> bool:
        return email.lower() in AUTHORS
