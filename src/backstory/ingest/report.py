"""The result of an ingest, in figures and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from backstory.store.intake import append

if TYPE_CHECKING:
    from backstory.ingest.discover import Looked

REASONS = {
    append.EMPTY: "it is empty",
    append.NOT_UNDERSTOOD: "no record of this agent is in its beginning",
    append.FORGOTTEN: "removed by you; `backstory ingest --forgotten` brings it back",
}
"""The store's reasons for files that gave nothing, or not all, in words."""


class Problem(Struct, frozen=True):
    """A log that could not be read, and why."""

    path: str
    reason: str


class Tally(Struct, kw_only=True):
    """The figures of one agent's logs."""

    logs_seen: int = 0
    logs_read: int = 0
    bytes_read: int = 0
    companions_read: int = 0
    """Small files beside logs that were new or changed."""
    sessions_new: int = 0
    sessions_updated: int = 0
    listed_new: int = 0
    """New sessions that ``list --all`` shows: no subagent's, no run's own log."""
    listed_updated: int = 0
    events_new: int = 0


class Report(Struct, kw_only=True):
    """The result of an ingest."""

    by_agent: dict[str, Tally] = field(default_factory=dict)
    unknown_records: dict[str, int] = field(default_factory=dict)
    errors: list[Problem] = field(default_factory=list)
    looked: list[Looked] = field(default_factory=list)
    gave_nothing: list[Problem] = field(default_factory=list)
    not_understood: list[Problem] = field(default_factory=list)
    """Files that are kept, now or before, though nobody understands them or not all of them can be read."""

    left: list[str] = field(default_factory=list)
    """Logs that there was no time to read to their end."""
    postponed: list[str] = field(default_factory=list)
    """Logs of runs that are not stored yet: they are read after that."""
    runs_matched: int = 0
    """The number of runs that were read together with the agents' own logs of them."""

    def total(self, name: str) -> int:
        """A figure of all agents together."""
        return sum(getattr(tally, name) for tally in self.by_agent.values())


def told_in_words(reason: str) -> str:
    return "; ".join(REASONS.get(each, each) for each in reason.split("; "))
