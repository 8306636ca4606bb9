"""Read-only SQL, with the full form of events that a store alone cannot give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.export.full_form import FullForms

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.model import Event
    from backstory.store import Store


def full_form_of(store: Store) -> Callable[[int, int, int | None], Event | None]:
    """The whole event at a place (session's id, record, part; None: its first part), for ``event_full``."""
    forms = FullForms(store)

    def full_form(session_id: int, seq: int, part: int | None) -> Event | None:
        found = store.events(session_id, after=(seq, -1 if part is None else part - 1), limit=1)
        if not found or found[0].seq != seq or part not in (None, found[0].part):
            return None
        return forms.expand(found[0])

    return full_form
