"""The context that a session's next run receives, and why it holds what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.conversation.context import build_context, context_prefix

if TYPE_CHECKING:
    from backstory.conversation.context import Context
    from backstory.workspace.located import LocatedSession

NO_LIMIT = 1 << 60


class ContextTurn(Struct, frozen=True, kw_only=True):
    """A turn of the current branch: how many characters it has in a context, whole, and whether it is sent."""

    turn: int
    chars: int
    sent: bool
    prompt: str


class SessionContext(Struct, frozen=True, kw_only=True):
    """What a session's next run receives of it, in at most ``budget`` characters."""

    uid: str
    text: str
    budget: int
    turns: int
    turns_left_out: int
    prefix_chars: int
    """How many characters go before the prompt, with the tags around the text."""
    explained: tuple[ContextTurn, ...] | None
    """Every turn, the oldest first; None where that was not asked for."""


def session_context(located: LocatedSession, budget: int, *, explain: bool) -> SessionContext:
    """The context of a session's next run."""
    store, session = located.store, located.session
    context = build_context(store.context_history(session, budget), budget_chars=budget)
    return SessionContext(
        uid=session.uid,
        text=context.text,
        budget=budget,
        turns=context.turns,
        turns_left_out=context.turns_left_out,
        prefix_chars=len(context_prefix(context.text)),
        explained=_explained(located, context) if explain else None,
    )


def _explained(located: LocatedSession, context: Context) -> tuple[ContextTurn, ...]:
    """Every turn of the current branch, the oldest first; the newest are those that are sent."""
    history = located.store.context_turns(located.session, NO_LIMIT)
    numbers = {turn.uid: number for number, turn in enumerate(located.store.turns(located.session), 1)}
    return tuple(
        ContextTurn(
            turn=numbers[each.turn.uid],
            chars=len(build_context([each], budget_chars=NO_LIMIT).text),
            sent=n >= len(history) - context.turns,
            prompt=each.turn.prompt,
        )
        for n, each in enumerate(history)
    )


def as_json(context: SessionContext) -> dict[str, Any]:
    """A context as ``context --json`` prints it."""
    fields = {
        "uid": context.uid,
        "context": context.text,
        "chars": len(context.text),
        "prefix_chars": context.prefix_chars,
        "budget": context.budget,
        "turns": context.turns,
        "turns_left_out": context.turns_left_out,
    }
    return fields if context.explained is None else fields | {"explained": context.explained}
