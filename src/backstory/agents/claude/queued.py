"""Words typed while the agent works: put in a queue, and given to it at once (``remove``), as a prompt of their own
(``dequeue``, a record of the user follows), or taken back to be edited (``popAll``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.agents.claude import prompts, steer
from backstory.model import Event, UserMessage

if TYPE_CHECKING:
    from backstory.agents.claude.records import Record
    from backstory.agents.claude.state import State

_QUEUED_MAX = 100
_GIVEN_MAX = 16
_ABSORBED = "absorbed_mid_turn"


class Queue:
    """Follows the records of the queue: which words are in it, and which the agent was given."""

    def __init__(self, state: State) -> None:
        self._state = state

    def was_given(self, words: str) -> bool:
        """Return True if an event already says that the agent was given these words while it worked."""
        return words in self._state.given

    def is_given_here(self, record: Record) -> bool:
        """Return True if the record holds words that the agent was given while it worked, rather than a prompt."""
        given = record.attachment if isinstance(record.attachment, dict) else {}
        source = str(given.get("source_uuid", ""))
        return steer.is_own(record.uuid or "") or steer.is_own(source) or source in self._state.absorbed

    def read(self, record: Record) -> list[Event]:
        queued, words = self._state.queued, record.content if isinstance(record.content, str) else ""
        match record.operation:
            case "enqueue":
                queued.append(words)
                del queued[:-_QUEUED_MAX]
            case "popAll":
                queued.clear()
            case "dequeue" if queued:
                queued.pop(0)
            case "remove":
                oldest = queued.pop(0) if queued else ""
                return self._given_at_once(record, words or oldest)
        return []

    def _given_at_once(self, record: Record, words: str) -> list[Event]:
        if record.reason is not None and record.reason != _ABSORBED:
            return []
        if isinstance(record.command_uuid, str):
            # This build logs them again where the agent was given them.
            self._state.absorbed = [*self._state.absorbed, record.command_uuid][-_GIVEN_MAX:]
            return []
        if not words.strip() or self.was_given(words):
            return []
        self._state.given = [*self._state.given, words][-_GIVEN_MAX:]
        return [prompts.untyped_event(words) or UserMessage(content=words)]
