"""Last messages of a session's subagents, for the results of the calls that started them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from backstory.export.full_form import FullForms
from backstory.model import AssistantText, Relation
from backstory.store.tables import events

if TYPE_CHECKING:
    from backstory.derive.secrets import Redactor
    from backstory.store import Session, Store

ID_CHARS_MIN = 6
"""A shorter id may stand in a text by chance."""


class SubagentAnswers:
    """The subagents of one session, by their own ids, which the results of calls name."""

    def __init__(self, store: Store, session: Session, redactor: Redactor | None) -> None:
        self._store, self._session, self._redactor = store, session, redactor
        self._forms = FullForms(store)

    def named_in(self, text: str) -> str | None:
        """Return the last message of the subagent that a result names; None if there is no name or no message."""
        for own_id, child in self._children.items():
            if own_id in text:
                answer = self._last_answer(child)
                return self._redactor.text(answer) if answer and self._redactor is not None else answer
        return None

    @cached_property
    def _children(self) -> dict[str, Session]:
        found = {}
        for child in self._store.children(self._session):
            own_id = (child.native_id or "").rpartition("/")[2]
            if child.relation == Relation.SUBAGENT and len(own_id) >= ID_CHARS_MIN:
                found[own_id] = child
        return found

    def _last_answer(self, child: Session) -> str | None:
        said = [each for each in self._store.ask(events.outline, child.id) if each.kind == AssistantText.kind]
        if not said:
            return None
        for stored in self._store.ask(events.of_records, child.id, [said[-1].seq]):
            event = self._forms.expand(stored)
            if isinstance(event, AssistantText) and stored.part == said[-1].part:
                return event.text.strip() or None
        return None
