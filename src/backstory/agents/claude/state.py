"""What is kept of a log that goes on, so that reading what was appended costs no more than that."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from backstory.agents import _latency
from backstory.agents.claude import usage_of_messages
from backstory.model import SessionFacts, Turn


class State(Struct, kw_only=True):
    """What a reader needs to go on: bounded, whatever the log's size."""

    session: SessionFacts = field(default_factory=SessionFacts)
    title_rank: int = 0
    turn: Turn | None = None
    turns_seen: int = 0
    usage: dict[str, usage_of_messages.Counted] = field(default_factory=dict)
    unfinished: dict[str, bool] = field(default_factory=dict)
    """Messages of the turn whose final count was not told, in order; some of them, where there are many."""
    finished: list[str] = field(default_factory=list)
    calls: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    last_anchor: str | None = None
    recent: dict[str, str | None] = field(default_factory=dict)
    heads: dict[str, tuple[str | None, int | None]] = field(default_factory=dict)
    cost_seen: float | None = None
    latency: _latency.Total = field(default_factory=_latency.Total)
    plans: dict[str, str] = field(default_factory=dict)
    """Plans whose call has no result yet."""
    queued: list[str] = field(default_factory=list)
    """Words typed while the agent works, which it was not yet given."""
    told: list[str] = field(default_factory=list)
    """The last of those that it was given in the midst of a turn; newer builds log them a second time."""
    absorbed: list[str] = field(default_factory=list)
    """The ids of words that were given to it so, which the log has still to tell."""
    command: tuple[str, str, int | None] | None = None
    """A command's uuid, as typed, and when: a prompt if what follows it is told to the model."""


decoder = msgspec.json.Decoder(State)
