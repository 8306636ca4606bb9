"""The summaries of a session, each with what it stands for, for faces that show them where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.store import compactions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.model import Turn
    from backstory.workspace.located import LocatedSession


class ShownSummary(Struct, frozen=True, kw_only=True):
    """A stored summary: it stands behind the record ``after_seq``, for all records up to there from ``first_seq`` on.

    What agents' own logs have of summaries is shown as the records that they are.
    """

    after_seq: int
    first_seq: int
    exchanges: int
    """How many prompts there are up to it, with what followed each."""
    summary: str
    agent: str | None
    created: str | None
    in_force: bool
    """True if the next context begins with it."""


def shown_summaries(located: LocatedSession, turns: Sequence[Turn]) -> tuple[ShownSummary, ...]:
    """The summaries of a session that were not taken back, in the order of what they cover. ``turns``: all it has."""
    store, session = located.store, located.session
    if not store.ask(compactions.has_any, session.id):
        return ()
    in_force = store.ask(compactions.in_force, session.id)
    stored = [each for each in store.ask(compactions.of_session, session.id) if each.id is not None]
    paths = {each.after_seq: list(_path_to(turns, each.after_seq)) for each in stored}
    return tuple(
        ShownSummary(
            after_seq=each.after_seq,
            first_seq=min((turn.first_seq for turn in paths[each.after_seq]), default=1),
            exchanges=sum(bool(turn.prompt) for turn in paths[each.after_seq]),
            summary=each.summary,
            agent=each.agent,
            created=each.created,
            in_force=in_force is not None and each.id == in_force.id,
        )
        for each in stored
    )


def _path_to(turns: Sequence[Turn], seq: int) -> Iterator[Turn]:
    """The turns that lead to a record, the last first."""
    by_uid = {turn.uid: turn for turn in turns}
    at = next((turn for turn in turns if turn.first_seq <= seq <= turn.last_seq), None)
    while at is not None:
        yield at
        at = by_uid.pop(at.parent_uid or "", None)
