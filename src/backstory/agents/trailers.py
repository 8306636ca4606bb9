"""Reads the lines that agents write below the message of a commit: who helped, and the session, named by its id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable

_ID = lazy_regex(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Trailers:
    """A ``contract.CommitPart``. ``author``: a regular expression of the agent's address; ``session_keys``: in small
    letters."""

    def __init__(self, author: str, session_keys: Iterable[str] = ()) -> None:
        self._author, self._session_keys = lazy_regex(author, re.IGNORECASE), frozenset(session_keys)

    def names_session(self, key: str) -> bool:
        return key.lower() in self._session_keys

    def session_id(self, key: str, value: str) -> str | None:
        return value.lower() if self.names_session(key) and _ID.fullmatch(value) else None

    def is_author(self, email: str) -> bool:
        return self._author.fullmatch(email) is not None
