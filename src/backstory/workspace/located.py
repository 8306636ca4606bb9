"""A session, and the store it was found in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.ids import LABEL_LENGTH, session_keys

if TYPE_CHECKING:
    from backstory.store import Session, Store


class LocatedSession(Struct, frozen=True):
    """A session and the store it was found in. ``is_conflict``: the machine's store knows its uid from elsewhere."""

    store: Store
    session: Session
    is_conflict: bool = False

    @property
    def label(self) -> str:
        """The name of the session in a sentence and on a command line: its number, else the start of its uid."""
        return self.session.shown_number or self.session.uid[:LABEL_LENGTH]

    @property
    def keys(self) -> dict[str, Any]:
        """The keys by which JSON names it."""
        return session_keys(self.session.uid, self.label)
