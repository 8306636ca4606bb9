"""Attempts in the sessions of a list: their turns, and calls with how each ended. Each turn counts once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.ask import attempts as stored_attempts
from backstory.derive.phrasing import phrases_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.ask.attempts import Attempt
    from backstory.ask.work import WorkTurn
    from backstory.workspace.history.listing import Listing
    from backstory.workspace.history.sessions import ListedSession, SessionFilter


class SessionAttempts(Struct, frozen=True, kw_only=True):
    """A session with its own turns of the time that was asked for, and what was tried in them, also by subagents.

    ``root``: the folder that its paths are below.
    """

    session: ListedSession
    turns: tuple[WorkTurn, ...]
    attempts: tuple[Attempt, ...]
    root: str | None


def tried_in(
    listing: Listing, wanted: SessionFilter, report: Callable[[int, int], None]
) -> tuple[SessionAttempts, ...]:
    """Return the attempts in listed sessions, the first begun first; ``report``: (done, total) sessions.

    A turn that phrased a report is left out.
    """
    placed = listing.placed(wanted)
    found, met = list[SessionAttempts](), set[str]()
    # The original of a copied turn has the smaller uid.
    for number, (store, session, value) in enumerate(sorted(placed, key=lambda each: each[1].uid)):
        report(number, len(placed))
        turns, attempts = store.ask(stored_attempts.of_session, session.id)
        worked = [each for each in turns if each.uid not in met and not phrases_report(each.prompt)]
        mine = [each for each in worked if wanted.is_in_time(each.started)]
        foreign = {each.uid for each in turns} - {each.uid for each in mine}
        met |= {each.uid for each in turns}
        if mine:
            found.append(
                SessionAttempts(
                    session=value, turns=tuple(mine), root=session.worktree or session.cwd,
                    attempts=tuple(
                        each for each in attempts
                        if each.turn_uid not in foreign
                        and (each.session_uid == session.uid or wanted.is_in_time(each.at))
                    ),
                )
            )  # fmt: skip
    return tuple(found)
