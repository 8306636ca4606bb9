"""A session, and the store it was found in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

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
        return self.session.shown_number or self.session.uid[:12]
