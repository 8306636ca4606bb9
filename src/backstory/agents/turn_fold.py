"""The work that readers of all agents' logs share: the present turn, open calls, counts of unknown records.

An agent's reader inherits ``TurnFold`` and adds ``read``; its state adds to ``TurnState`` what else it must remember.
Agents differ in how they say that a turn ended, what makes it longer and which one a prompt follows: that is theirs.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from backstory import ids
from backstory.model import SessionFacts, ToolCall, ToolResult, Turn, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import LogIdentity

CALLS_OPEN_MAX = 2_000
"""The most calls that are remembered; the result of an older one does not say of which tool it is."""


class UnknownCounts(Counter[str]):
    """The number of records of each type that the adapter does not understand. See ``contract.LogReader.unknown``."""

    def emit(self, kind: str) -> Unknown:
        """Count one more, and return the event that says so."""
        self[kind] += 1
        return Unknown(type=kind)


class OpenCall(Struct, array_like=True):
    """The facts of a call that its result, which comes later and names no tool, needs."""

    name: str = ""
    tool: str = ""
    path: str | None = None
    has_failed: bool = False
    """True if a record between the two said so."""

    def result(self, call_id: str, content: str, *, is_error: bool) -> ToolResult:
        return ToolResult(
            tool_use_id=call_id,
            tool_name=self.name,
            tool=self.tool,
            file_path=self.path,
            content=content,
            is_error=is_error or self.has_failed,
        )


class OpenCalls(Struct):
    """The calls whose results are still to come, by their ids."""

    by_id: dict[str, OpenCall] = field(default_factory=dict)

    def open(self, call_id: str, name: str, tool: str, path: str | None, given: dict[str, Any]) -> ToolCall:
        remember(self.by_id, call_id, OpenCall(name, tool, path), CALLS_OPEN_MAX)
        return ToolCall(tool_use_id=call_id, tool_name=name, tool=tool, file_path=path, input=given)

    def close(self, call_id: str) -> OpenCall:
        """The call that a result answers; an empty one when it is not known."""
        return self.by_id.pop(call_id, None) or OpenCall()


class TurnState(Struct, kw_only=True):
    """The state of every reader between two readings; bounded, whatever the log's size."""

    session: SessionFacts = field(default_factory=SessionFacts)
    turn: Turn | None = None
    """The turn that began last."""
    turns_seen: int = 0
    calls: OpenCalls = field(default_factory=OpenCalls)


State = TypeVar("State", bound=TurnState)
K = TypeVar("K")
V = TypeVar("V")


class TurnFold(Generic[State]):
    """A ``contract.LogReader`` without its ``read``."""

    def __init__(self, agent: str, identity: LogIdentity, state: bytes | None, kind: type[State]) -> None:
        """``kind``: the class of the state that is stored, ``TurnState`` or one that adds to it."""
        self._agent, self._native_id = agent, identity.native_id
        self._state = msgspec.json.decode(state, type=kind) if state else kind()
        self._touched: dict[str, Turn] = {}
        self.unknown = UnknownCounts()

    @property
    def session(self) -> SessionFacts:
        return self._state.session

    def touched(self) -> Iterator[Turn]:
        turns, self._touched = self._touched, {}
        return iter(turns.values())

    def state(self) -> bytes:
        return msgspec.json.encode(self._storable())

    def _storable(self) -> State:
        """The state as it is stored: a reader that remembers more than its state does adds it here."""
        turn = self._state.turn
        return self._state if turn is None else msgspec.structs.replace(self._state, turn=without_prompt(turn))

    def _begin_turn(
        self, native_id: str, prompt: str, at: int | None, seq: int, parent: tuple[str | None, int | None] | None = None
    ) -> Turn:
        """Begin a turn whose prompt is the record at ``seq``, and return it.

        ``parent``: the turn, by its uid, and the record that it follows; by default the end of the turn before.
        Without a ``native_id`` it is known by its session's, and by how many turns began before it there.
        """
        state, (parent_uid, parent_seq) = self._state, parent or end_of(self._state.turn)
        state.turns_seen += 1
        state.turn = Turn(
            uid=ids.turn_uid(self._agent, native_id or f"{self._native_id}/{state.turns_seen}"),
            agent=self._agent,
            native_id=native_id,
            first_seq=seq,
            last_seq=seq,
            parent_uid=parent_uid,
            parent_seq=parent_seq,
            prompt=prompt,
            started=at,
        )
        self._touched[state.turn.uid] = state.turn
        return state.turn

    def _turn_at(self, seq: int) -> Turn | None:
        """The turn that the record at ``seq`` belongs to, when that is the one that began last."""
        turn = self._state.turn
        if turn is not None:
            # As _touch does, without the cost of a call for each record.
            if seq > turn.last_seq:
                turn.last_seq = seq
            self._touched[turn.uid] = turn
        return turn

    def _touch(self, turn: Turn, seq: int) -> None:
        """Note that the record at ``seq`` belongs to a turn. Records may keep lower numbers of an earlier reading."""
        if seq > turn.last_seq:
            turn.last_seq = seq
        self._touched[turn.uid] = turn


def remember(known: dict[K, V], key: K, value: V, most: int) -> None:
    """Note a value in a state, which stays bounded: where there are more than ``most``, the oldest one is forgotten."""
    known[key] = value
    if len(known) > most:
        del known[next(iter(known))]


def without_prompt(turn: Turn) -> Turn:
    """A turn as a state holds it: its prompt is in the store already."""
    return msgspec.structs.replace(turn, prompt="")


def end_of(turn: Turn | None) -> tuple[str | None, int | None]:
    """Return the place behind a turn: the turn, by its uid, and its last record."""
    return (turn.uid, turn.last_seq) if turn is not None else (None, None)


def lengthen(turn: Turn, at: int | None) -> None:
    """Note that a turn went on until ``at``, in ms since 1970, if not longer."""
    if at is not None and (turn.ended is None or at > turn.ended):
        turn.ended = at


# latency --------------------------------------------------------------------------------------------------------------
# The time of the model in a turn, for an agent that writes only a running total when its process ends.


class Total(Struct):
    """A running total as last written, and how many turns had begun by then."""

    total_ms: int | None = field(default=None, name="told_ms")
    turns: int = 0

    def grown_ms(self, total_ms: int | None, turns: int, *, is_anew: bool = False) -> int | None:
        """Return the turn's part of a new total since it began; None if that is not one turn, or unknown.

        ``is_anew``: the total was counted from zero. A total that has not grown is no measurement: agents do not
        count requests that failed or were cut off.
        """
        before_ms, is_one = self.total_ms, turns - self.turns == 1
        if is_anew or (before_ms is None and turns == 1):
            before_ms = 0
        self.total_ms, self.turns = total_ms, turns
        if total_ms is None or before_ms is None or not is_one or total_ms <= before_ms:
            return None
        return total_ms - before_ms
