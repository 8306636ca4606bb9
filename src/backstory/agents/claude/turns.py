"""The turns of a log, and which one each follows: a prompt names the record before it, and records form a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory import ids
from backstory.agents.claude.places import NAME
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
    from collections.abc import Callable, Iterator

    from backstory.agents.claude.state import State

_HEADS_MAX = 2_000
_RECENT_ANCHORS = 16


class Turns:
    """The turn that goes on, and those that changed."""

    def __init__(self, native_id: str, state: State) -> None:
        self.state = state
        self._native_id = native_id
        self._touched: dict[str, Turn] = {}

    def begin(self, native_id: str, prompt: str, at: int | None, seq: int, anchor: str | None) -> None:
        """Begin a turn at the record ``seq``; ``anchor``: the one above that record."""
        state = self.state
        before = state.turn
        parent: tuple[str | None, int | None] = (before.uid, before.last_seq) if before else (None, None)
        if anchor is not None:
            # Two prompts after the same anchor are two branches of one conversation.
            parent = state.heads.setdefault(anchor, parent)
            if len(state.heads) > _HEADS_MAX:
                state.heads.pop(next(iter(state.heads)))
        state.turn = Turn(
            uid=ids.turn_uid(NAME, native_id or f"{self._native_id}/{state.turns_seen + 1}"),
            agent=NAME,
            native_id=native_id,
            first_seq=seq,
            last_seq=seq,
            parent_uid=parent[0],
            parent_seq=parent[1],
            prompt=prompt,
            started=at,
        )
        state.turns_seen += 1
        state.usage, state.unfinished, state.finished = {}, {}, []

    def extend_to(self, seq: int) -> Turn | None:
        """The turn that goes on, which now reaches to this record."""
        turn = self.state.turn
        if turn is not None:
            turn.last_seq = seq
            self.touch(turn)
        return turn

    def touch(self, turn: Turn) -> None:
        """Note that a turn changed."""
        self._touched[turn.uid] = turn

    def touched(self) -> Iterator[Turn]:
        """The turns that changed since this was asked."""
        turns, self._touched = self._touched, {}
        return iter(turns.values())

    def note_end(self, turn: Turn, events: list[Event], at: int | None) -> None:
        """Note how the turn stands after these events: the last event says how it ended."""
        # A notice or a command typed later, such as what a resume writes or /compact, does not make the turn longer.
        if at is not None and not isinstance(events[-1], Hook | Command | Compacted):
            turn.ended = at if turn.ended is None else max(turn.ended, at)
        match events[-1]:
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
