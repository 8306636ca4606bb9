"""What was done in sessions: turns, and what calls did that a person would report. Each turn counts once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.derive.deeds import CHECKS, Deed, DeedKind, commands_of, succeeded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.model import ToolCall
    from backstory.store.derived_tables import StoredRef
    from backstory.store.work import WorkCall, WorkTurn
    from backstory.workspace.listing import Listing
    from backstory.workspace.sessions import ListedSession, SessionFilter


class DoneDeed(Struct, frozen=True, kw_only=True):
    """One thing that was done at a record. ``ok``: whether it went well; None where nobody knows."""

    kind: DeedKind
    text: str
    seq: int
    at: int | None
    ok: bool | None
    turn_uid: str | None


class SessionWork(Struct, frozen=True, kw_only=True):
    """A session with its turns up to a moment, and what was done in them, subagents' deeds with it.

    ``turns``: those that began in the time that was asked for; ``deeds``: of these and of earlier ones, in order.
    """

    session: ListedSession
    turns: tuple[WorkTurn, ...]
    deeds: tuple[DoneDeed, ...]
    refs: tuple[StoredRef, ...]
    root: str | None
    """The folder that paths are shown below."""


def done_in(listing: Listing, wanted: SessionFilter) -> tuple[SessionWork, ...]:
    """What was done in the sessions of a list, in its order; those without a turn of their own in the time left out."""
    placed = listing.placed(wanted)
    found, met = dict[str, SessionWork](), set[str]()
    # The original of a copied turn has the smaller uid.
    for store, session, value in sorted(placed, key=lambda each: each[1].uid):
        turns, calls = store.work([session.id], _is_check)
        mine = [each for each in turns if each.uid not in met and _is_in(wanted, each.started)]
        met |= {each.uid for each in turns}
        if mine:
            until = wanted.until
            deeds = (each for each in _deeds(calls, session.id) if until is None or each.at is None or each.at < until)
            found[session.uid] = SessionWork(
                session=value, turns=tuple(mine), deeds=tuple(deeds), refs=tuple(store.refs(session)),
                root=session.worktree or session.cwd,
            )  # fmt: skip
    return tuple(found[session.uid] for _, session, _ in placed if session.uid in found)


def _is_in(wanted: SessionFilter, at: int | None) -> bool:
    if at is None:
        return wanted.since is None and wanted.until is None
    return (wanted.since is None or at >= wanted.since) and (wanted.until is None or at < wanted.until)


def _is_check(call: ToolCall) -> bool:
    return any(each.kind in CHECKS for each in commands_of(call))


def _deeds(calls: Sequence[WorkCall], session_id: int) -> list[DoneDeed]:
    """What calls did, in the order of their records; where subagents have calls, too, in the order of time."""
    done = [each for call in calls for each in _of_call(call)]
    if any(each.session_id != session_id for each in calls):
        done.sort(key=lambda each: each.at or 0)
    return done


def _of_call(call: WorkCall) -> Iterator[DoneDeed]:
    commands = commands_of(call.call)
    edits = [Deed(kind=DeedKind.EDIT, text=path) for path in call.changed] if not call.is_error else []
    for deed in [*edits, *commands]:
        ok = None if call.is_error is None else not call.is_error
        if deed.kind in CHECKS:
            ok = succeeded(call.is_error, call.output)
        yield DoneDeed(kind=deed.kind, text=deed.text, seq=call.seq, at=call.at, ok=ok, turn_uid=call.turn_uid)
