"""Events while prompts run: values that every face draws, and the JSON lines of each.

``Started``, ``Shown``, ``Steered`` and ``Ended`` are of one turn, in this order; the others come between turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct

from backstory import model
from backstory.derive.pricing import cost_as_json
from backstory.ids import session_keys
from backstory.runs.stream import Shown
from backstory.store.tables.queue import QueuedKind

if TYPE_CHECKING:
    from backstory.conversation.compaction import KeptFacts
    from backstory.derive.pricing import Cost
    from backstory.model import Permissions, Tokens, ToolCall, Turn, UserMessage
    from backstory.store import Session
    from backstory.store.tables.queue import QueuedPrompt
    from backstory.workspace.runs.running import Meter

__all__ = [
    "Compacting",
    "Continued",
    "Ended",
    "Metered",
    "Notice",
    "Queued",
    "RunEvent",
    "SessionAwaited",
    "Shown",
    "Started",
    "Steered",
    "SummaryMade",
    "Whole",
    "as_json",
    "compacted_fields",
]


class Queued(Struct, frozen=True, kw_only=True):
    """A prompt or a message was queued, because its session runs or because nothing was to be started."""

    session: str
    """The name of the session in a sentence."""
    prompt: QueuedPrompt
    position: int
    """Its place among the session's queued prompts, from 1."""
    is_running: bool
    holder: str = ""
    """The runner of the session, if that is no process of this machine."""
    is_heard: bool = False
    """True if the agent that runs takes messages while it works."""

    @property
    def is_message(self) -> bool:
        """True if it reaches the agent that runs, rather than the next run."""
        return self.prompt.kind == QueuedKind.STEER and self.is_heard


class Started(Struct, frozen=True, kw_only=True):
    """A turn begins."""

    session: Session
    number: int
    agent: str
    prompt: QueuedPrompt | None = None
    """The prompt, where it was queued; None where it is the one that was submitted."""
    offered: tuple[str, ...] = ()
    """The notes of the board that the agent is offered, by name."""


class Steered(Struct, frozen=True, kw_only=True):
    """The running agent has received a message."""

    message: UserMessage


class Whole(Struct, frozen=True, kw_only=True):
    """The sums over all turns of a session."""

    turns: int
    duration_ms: int | None
    cost: Cost


class Ended(Struct, frozen=True, kw_only=True):
    """A turn is over."""

    session: Session
    turn: Turn
    number: int | None
    """Its number, if it is stored in its session."""
    tools: int
    error: str | None
    cost: Cost
    is_asked: bool
    """True if it is what the caller asked for, and no other prompt of the queue."""
    refused: tuple[ToolCall, ...] = ()
    """Calls that the agent's permissions refused."""
    permissions: Permissions | None = None
    context_chars: int = 0
    context_max: int = 0
    meter: Meter | None = None
    """The fill of the session's context now; None if the turn is not stored here."""
    whole: Whole | None = None
    """The sums of the whole session; None likewise."""
    offered: tuple[str, ...] = ()
    """The notes of the board that its agent was offered, by name."""
    was_elsewhere: bool = False
    """True if another process ran it; then what it refused and its context are not known."""

    @property
    def outcome(self) -> model.Outcome:
        """The end of the run."""
        return model.Outcome(self.turn.outcome or model.Outcome.CRASHED)


class Metered(Struct, frozen=True, kw_only=True):
    """The context that the next run would receive has grown while a turn runs; only where it is shown otherwise."""

    session: Session
    meter: Meter


class SessionAwaited(Struct, frozen=True, kw_only=True):
    """A session is waited for; repeated while that lasts, so that a face can leave at any time."""

    session: str
    prompt: QueuedPrompt | None = None
    """The prompt that waits for its turn, if that is a prompt."""


class Notice(Struct, frozen=True):
    """A sentence for the person who asked. ``is_failure``: a prompt was not run, for this reason."""

    text: str
    is_failure: bool = False


class Compacting(Struct, frozen=True, kw_only=True):
    """A summary is being made: step ``step`` of ``steps``, by this agent."""

    session: Session
    agent: str
    exchanges: int
    step: int
    steps: int


class SummaryMade(Struct, frozen=True, kw_only=True):
    """A summary was stored; or not, since a newer one is in force or the branch it is of was removed meanwhile."""

    session: Session
    after_seq: int
    summary: str
    exchanges: int
    is_stored: bool
    retention: tuple[KeptFacts, ...]
    tokens: Tokens
    cost: Cost
    model: str | None = None
    duration_ms: int | None = None


class Continued(Struct, frozen=True, kw_only=True):
    """A turn that was stopped for a summary continues, as another turn of the same session."""

    session: Session
    stopped: Turn
    """The turn that was stopped."""


RunEvent: TypeAlias = (
    "Queued | Started | Shown | Steered | Ended | Metered | SessionAwaited | Notice | Compacting | SummaryMade"
    " | Continued"
)


def as_json(event: RunEvent) -> list[dict[str, Any]]:
    """An event as the lines of ``run --json``, each whole. Parts of an answer, waiting and sentences are for people."""
    match event:
        case Queued(prompt=prompt):
            names = {"kind": "Queued", **session_keys(prompt.session_uid, event.session), "turn_uid": prompt.uid}
            return [{**names, "what": prompt.kind, "position": event.position}]
        case Started(prompt=prompt) if prompt is not None:
            return [{"kind": model.UserMessage.kind, "content": prompt.content, "turn_uid": prompt.uid}]
        case Shown():
            return [_event_fields(each) for each in event.events if not isinstance(each, model.Complete)]
        case Steered():
            return [_event_fields(event.message)]
        case Ended():
            return [_ended_fields(event)]
        case Compacting():
            names = {"kind": "Compacting", **_keys(event.session)}
            return [{**names, "agent": event.agent, "step": event.step, "steps": event.steps}]
        case SummaryMade():
            return [{"kind": "Compacted", **compacted_fields(event)}]
        case Continued():
            return [{"kind": "Continued", **_keys(event.session), "turn_uid": event.stopped.uid}]
    return []


def _keys(session: Session) -> dict[str, Any]:
    return session_keys(session.uid, session.shown_number)


def compacted_fields(event: SummaryMade) -> dict[str, Any]:
    """Return the result of a compaction, as ``compact --json`` prints it."""
    return {
        **_keys(event.session),
        "after_seq": event.after_seq,
        "summary": event.summary,
        "exchanges": event.exchanges,
        "is_stored": event.is_stored,
        "tokens": msgspec.to_builtins(event.tokens),
        **cost_as_json(event.cost),
        "model": event.model,
        "duration_ms": event.duration_ms,
        "retention": msgspec.to_builtins(event.retention),
    }


def _event_fields(event: model.Event) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(event)
    return {"kind": event.kind, **{name: value for name, value in fields.items() if name != "kind"}}


def _ended_fields(event: Ended) -> dict[str, Any]:
    session, turn, cost = event.session, event.turn, event.cost
    fields = {
        "kind": model.Complete.kind,
        **_keys(session),
        "turn_uid": turn.uid,
        "outcome": turn.outcome,
        "success": turn.outcome == model.Outcome.COMPLETED,
        "error": event.error,
        "agent": turn.agent,
        "model": turn.model,
        "duration_ms": turn.duration_ms,
        **cost_as_json(cost),
        "tokens": turn.tokens,
        "tools": event.tools,
    }
    if event.was_elsewhere:
        return fields
    if event.meter is not None:
        fields |= {"context_used": event.meter.used, "context_limit": event.meter.limit}
    if (whole := event.whole) is not None:
        fields |= {"session_duration_ms": whole.duration_ms, "session_cost_usd": whole.cost.usd}
    refused = [{"tool_name": call.tool_name, "input": call.input} for call in event.refused]
    context = {"context_chars": event.context_chars, "context_max": event.context_max, "board": list(event.offered)}
    return {**fields, "refused": refused, **context}
