"""What was done in the sessions of a list: turns, and what a person would report of them. Each turn counts once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from backstory.store.derived_tables import StoredRef
    from backstory.store.work import DoneDeed, WorkTurn
    from backstory.workspace.listing import Listing
    from backstory.workspace.sessions import ListedSession, SessionFilter


class SessionWork(Struct, frozen=True, kw_only=True):
    """A session with its own turns, and what was done in them, subagents' deeds with it.

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
        turns, deeds = store.work(session)
        copied = met & {each.uid for each in turns}
        met |= {each.uid for each in turns}
        mine = [each for each in turns if each.uid not in copied and _is_in(wanted, each.started)]
        done = (each for each in deeds if each.turn_uid not in copied and _is_before(wanted.until, each.at))
        if mine:
            found[session.uid] = SessionWork(
                session=value, turns=tuple(mine), deeds=tuple(done), refs=tuple(store.refs(session)),
                root=session.worktree or session.cwd,
            )  # fmt: skip
    return tuple(found[session.uid] for _, session, _ in placed if session.uid in found)


def _is_in(wanted: SessionFilter, at: int | None) -> bool:
    if at is None:
        return wanted.since is None and wanted.until is None
    return (wanted.since is None or at >= wanted.since) and (wanted.until is None or at < wanted.until)


def _is_before(until: int | None, at: int | None) -> bool:
    return until is None or at is None or at < until
