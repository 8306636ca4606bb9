"""The kept state of a log's reader, so that reading new records costs no more than their length."""

from __future__ import annotations

from msgspec import field

from backstory.agents import turn_fold
from backstory.agents.claude.records import Counted
from backstory.agents.turn_fold import TurnState


class State(TurnState, kw_only=True):
    """The state of a reader between two readings: bounded, whatever the log's size."""

    title_rank: int = 0
    usage: dict[str, Counted] = field(default_factory=dict)
    """The counts of the turn's last messages so far, by message and request."""
    unfinished: dict[str, bool] = field(default_factory=dict)
    """Messages of the turn whose final count has not come, in order; some of them, where there are many."""
    finished: list[str] = field(default_factory=list)
    """The last messages of the turn whose final count has come."""
    last_anchor: str | None = None
    recent: dict[str, str | None] = field(default_factory=dict)
    """The anchors of the last records, by their uuids; see ``turns.Anchors``."""
    heads: dict[str, tuple[str | None, int | None]] = field(default_factory=dict)
    """The uid and last record of the turn that prompts after an anchor follow."""
    last_total_cost: float | None = field(default=None, name="cost_seen")
    """The session's running total when it was last logged."""
    turn_without_base: str = ""
    """The uid of the turn in which the first total came, where that may hold what other turns cost."""
    latency: turn_fold.Total = field(default_factory=turn_fold.Total)
    plans: dict[str, str] = field(default_factory=dict)
    """Plans whose calls have no result yet, by their ids."""
    queued: list[str] = field(default_factory=list)
    """Words typed while the agent works, which it was not yet given."""
    given: list[str] = field(default_factory=list, name="told")
    """The last of those that it was given during a turn; newer builds log them a second time."""
    absorbed: list[str] = field(default_factory=list)
    """The ids of words that it was given so, which the log will hold later."""
    command: tuple[str, str, int | None] | None = None
    """A command's uuid, as typed, and when: a prompt if the model is given what follows it."""
