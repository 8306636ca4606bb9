"""The turns of a log, and which one each follows: a prompt names the record before it, and records form a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.agents.claude import prompts, steer
from backstory.agents.turn_fold import end_of, lengthen
from backstory.model import (
    AssistantText,
    Command,
    Compacted,
    Error,
    Event,
    Hook,
    Outcome,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.agents.claude.records import Record
    from backstory.agents.claude.state import State

_HEADS_MAX = 2_000
_RECENT_ANCHORS = 16
_BESIDE = (Hook, Command, Compacted)


def parent_of_prompt(state: State, anchor: str | None) -> tuple[str | None, int | None]:
    """The turn and the record that a prompt follows; ``anchor``: the one above its record."""
    parent = end_of(state.turn)
    if anchor is not None:
        # Two prompts after the same anchor are two branches of one conversation.
        parent = state.heads.setdefault(anchor, parent)
        if len(state.heads) > _HEADS_MAX:
            state.heads.pop(next(iter(state.heads)))
    return parent


def note_end(turn: Turn, last: Event, at: int | None) -> None:
    """Note how the turn stands after its last event."""
    # A notice or a command typed later, such as what a resume writes or /compact, does not make the turn longer.
    if not isinstance(last, _BESIDE):
        lengthen(turn, at)
    match last:
        case AssistantText():
            turn.outcome = Outcome.COMPLETED
        case Error(code="interrupted"):
            turn.outcome = Outcome.CANCELLED
        case Error():
            turn.outcome = Outcome.FAILED
        case ToolCall() | ToolResult() | Thinking() | UserMessage():
            turn.outcome = None


class Anchors:
    """The anchor of each record: the nearest prompt or answer at or above it."""

    def __init__(self, state: State, earlier: Callable[[], dict[str, str | None]] | None) -> None:
        """``earlier``: the anchors of the records read before this state was kept, which holds the last ones only."""
        self._state = state
        self._earlier = earlier
        self.known = dict(state.recent)

    def recent(self) -> dict[str, str | None]:
        return dict(list(self.known.items())[-_RECENT_ANCHORS:])

    def note(self, uuid: str, anchor: str | None) -> None:
        self.known[uuid] = self._state.last_anchor = anchor

    def above(self, parent: str | None) -> str | None:
        """The anchor of a record by its parent; a missing parent is the record before."""
        if parent is None:
            return self._state.last_anchor
        if parent not in self.known and self._earlier is not None:
            earlier, self._earlier = self._earlier, None
            self.known = earlier() | self.known
        return self.known.get(parent, self._state.last_anchor)


# queued ---------------------------------------------------------------------------------------------------------------
# Words typed while the agent works: put in a queue, and given to it at once (``remove``), as a prompt of their own
# (``dequeue``, a record of the user follows), or taken back to be edited (``popAll``).


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
