"""The context that a session's next run receives, and why it holds what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from backstory.conversation.board import NO_OFFER, Offer
from backstory.conversation.context import build_context, context_prefix, with_offer
from backstory.ids import session_keys
from backstory.store.tables import compactions

if TYPE_CHECKING:
    from backstory.conversation.context import Context
    from backstory.store.tables.compactions import Compaction
    from backstory.workspace.located import LocatedSession

NO_LIMIT = 1 << 60


State = Literal["sent", "in brief", "left out", "summarised"]
"""The fate of a turn in a context. A turn that a summary covers in part is sent as far as it is not covered."""


class ContextTurn(Struct, frozen=True, kw_only=True):
    """A turn of the current branch: how many characters it has in a context, whole, and whether it is sent."""

    turn: int
    chars: int
    sent: bool
    """True if it is sent whole, or cut if it is the only one."""
    prompt: str
    state: State


class SessionContext(Struct, frozen=True, kw_only=True):
    """The text of a session that its next run receives, in at most ``budget`` characters."""

    uid: str
    text: str
    budget: int
    turns: int
    turns_left_out: int
    turns_in_brief: int
    """Turns of which only prompts, decisions, edits, commands and failures are sent, shortened."""
    results_left_out: int
    """Results of tools that gave way because a summary is in force."""
    summary: Compaction | None
    """The summary that stands for the turns before them."""
    board: tuple[str, ...]
    """The notes of the board that stand before it, by name."""
    prefix_chars: int
    """The number of characters before the prompt, with the tags around the text."""
    explained: tuple[ContextTurn, ...] | None
    """Every turn, the oldest first; None where that was not asked for."""


def session_context(
    located: LocatedSession, budget: int, *, explain: bool, offer: Offer | None = None
) -> SessionContext:
    """The context of a session's next run, which is offered these notes."""
    store, session = located.store, located.session
    offered = (offer or NO_OFFER).within(budget)
    room = budget - len(offered.text)
    context = build_context(store.ask(compactions.history, session.id, room), budget_chars=room)
    text = with_offer(offered.text, context.text)
    summary = store.ask(compactions.in_force, session.id)
    return SessionContext(
        uid=session.uid,
        text=text,
        budget=budget,
        turns=context.turns,
        turns_left_out=context.turns_left_out,
        turns_in_brief=context.turns_in_brief,
        results_left_out=context.results_left_out,
        summary=summary,
        board=offered.names,
        prefix_chars=len(context_prefix(text)),
        explained=_explained(located, context, summary) if explain else None,
    )


def _explained(located: LocatedSession, context: Context, summary: Compaction | None) -> tuple[ContextTurn, ...]:
    """Every turn of the current branch, the oldest first; the newest are those that are sent."""
    history = located.store.context_turns(located.session, NO_LIMIT)
    numbers = {turn.uid: number for number, turn in enumerate(located.store.turns(located.session), 1)}
    covered = 0 if summary is None else summary.after_seq
    states = [_state(len(history) - n, each.turn.last_seq <= covered, context) for n, each in enumerate(history)]
    return tuple(
        ContextTurn(
            turn=numbers[each.turn.uid],
            chars=len(build_context([each], budget_chars=NO_LIMIT).text),
            sent=state == "sent",
            prompt=each.turn.prompt,
            state=state,
        )
        for each, state in zip(history, states, strict=True)
    )


def _state(from_end: int, is_covered: bool, context: Context) -> State:
    """Return the fate of a turn; ``from_end``: its number from the end, the last being 1."""
    if is_covered:
        return "summarised"
    if from_end <= context.turns:
        return "sent"
    return "in brief" if from_end <= context.turns + context.turns_in_brief else "left out"


def as_json(context: SessionContext) -> dict[str, Any]:
    """A context as ``context --json`` prints it."""
    fields = {
        **session_keys(context.uid),
        "context": context.text,
        "chars": len(context.text),
        "prefix_chars": context.prefix_chars,
        "budget": context.budget,
        "turn_count": context.turns,
        "turns_left_out": context.turns_left_out,
        "turns_in_brief": context.turns_in_brief,
        "results_left_out": context.results_left_out,
        "compaction": _summary_fields(context.summary),
        "board": list(context.board),
    }
    return fields if context.explained is None else fields | {"explained": context.explained}


def _summary_fields(summary: Compaction | None) -> dict[str, Any] | None:
    if summary is None:
        return None
    facts = {"after_seq": summary.after_seq, "chars": len(summary.summary), "agent": summary.agent}
    return facts | {"created": summary.created}
