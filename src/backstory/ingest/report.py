"""The result of an ingest, in figures and in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct, field

from backstory.errors import in_words, is_for_one_only
from backstory.ingest.sources import place_of
from backstory.store.intake import append, claims
from backstory.store.tables import logs, sessions

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.ingest.discover import Candidate, Looked
    from backstory.store import FileStamp, Store

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


class AgentTally(Struct, kw_only=True):
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


class IngestReport(Struct, kw_only=True):
    """The result of an ingest."""

    by_agent: dict[str, AgentTally] = field(default_factory=dict)
    unknown_records: dict[str, int] = field(default_factory=dict)
    errors: list[Problem] = field(default_factory=list)
    looked: list[Looked] = field(default_factory=list)
    gave_nothing: list[Problem] = field(default_factory=list)
    not_understood: list[Problem] = field(default_factory=list)
    """Files that are kept, now or before, though nobody understands them or not all of them can be read."""

    databases: dict[str, dict[str, int]] = field(default_factory=dict)
    """The files of databases that agents have open, with their mtimes (ns) before they were looked at, by agent."""
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


# notes ----------------------------------------------------------------------------------------------------------------
# Notes of an ingest about files: unchanged ones, those that gave nothing and why, those that could not be stored.


class IngestNotes:
    """The notes of one ingest: its report, and the files that the next one need not open."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.report = IngestReport()
        self._new_places: list[FileStamp] = []
        self._moved: list[tuple[int, str, str]] = []
        self._failed: set[str] = set()
        """Paths of what could not be stored."""
        self._ctimes: dict[str, int] = {}
        """Files without a change since an earlier version noted them, with their times."""
        self._not_understood: dict[str, str] = {}
        """Files that are kept but not wholly understood, each with the reason."""
        self._read_now: dict[str, int] = {}
        """The log's id of each path that was read, or compared, in this ingest."""
        self._sessions: dict[str, set[tuple[int, bool]]] = {}
        self._events: Counter[tuple[str, int]] = Counter()

    def _is_as_it_was(self, each: Candidate, seen: FileStamp | None) -> bool:
        """Return True if a file is as it was when it was ``seen``."""
        if seen is None or (seen.size, seen.mtime_ns, seen.inode, seen.device) != (
            each.size, each.mtime_ns, each.inode, each.device,
        ):  # fmt: skip
            return False
        if seen.ctime_ns is None and each.ctime_ns is not None:
            self._ctimes[each.path] = each.ctime_ns
        elif seen.ctime_ns != each.ctime_ns:
            # It may have been written to, and got its size and time back.
            return False
        if seen.log_id is None and not seen.reason:
            # Its session was deleted by another program, which leaves no tombstone.
            return False
        if seen.log_id is not None and seen.reason:
            self._not_understood[each.path] = seen.reason
        elif seen.reason:
            self.report.gave_nothing.append(Problem(each.path, REASONS.get(seen.reason, seen.reason)))
        return True

    def _log_id(self, each: Candidate) -> int | None:
        """The id of the log that a file is kept as."""
        if (log_id := self._read_now.get(each.path)) is not None:
            return log_id
        seen = self._stamp(each.path)
        return seen.log_id if seen is not None else None

    def _stamp(self, path: str) -> FileStamp | None:
        """A file as it was when it was looked at."""
        return self.store.ask_or({}, logs.stamps_of, [path]).get(path)

    def _place(self, each: Candidate, log_id: int) -> None:
        self._read_now[each.path] = log_id
        self._new_places.append(place_of(each, log_id, self._why(each)))

    def _why(self, each: Candidate) -> str | None:
        """Return the reason why a file is kept, but not understood or not whole; None for one that is both."""
        return self._not_understood.get(each.path) or None

    def _gave_nothing(self, each: Candidate, reason: str) -> None:
        self._not_understood.pop(each.path, None)
        self._new_places.append(place_of(each, None, reason))
        self.report.gave_nothing.append(Problem(each.path, REASONS[reason]))

    def _alone(self, path: str, work: Callable[[], object]) -> None:
        """Do something for one file; what goes wrong is that file's alone."""
        try:
            work()
        except Exception as refused:
            self._note_failure(path, refused)

    def _note_failure(self, path: str, refused: Exception, more: str = "") -> None:
        """List what went wrong with one log; raises what concerns the store itself."""
        if not is_for_one_only(refused):
            raise refused
        self._failed.add(path)
        reason = in_words(refused)
        self.report.errors.append(Problem(path, f"{more} ({reason})" if more else reason))

    def _tally(self, agent: str) -> AgentTally:
        return self.report.by_agent.setdefault(agent, AgentTally())

    def _remember(self) -> None:
        """Note the files that were looked at; where that fails, each by itself."""
        places, moved = self._new_places, self._moved
        self._new_places, self._moved = [], []
        if not places and not moved:
            return
        try:
            self.store.write(logs.remember_stamps, places, moved)
        except Exception as refused:
            if not is_for_one_only(refused):
                raise
            for place in places:
                self._alone(place.path, lambda place=place: self.store.write(logs.remember_stamps, [place]))  # type: ignore[misc]
            for each in moved:
                self._alone(each[1], lambda each=each: self.store.write(logs.remember_stamps, [], [each]))  # type: ignore[misc]

    def _sum_up(self) -> None:
        named = ((path, reason) for path, reason in sorted(self._not_understood.items()) if reason)
        self.report.not_understood = [Problem(path, told_in_words(reason)) for path, reason in named]
        every = {session for touched in self._sessions.values() for session, _ in touched}
        listed = self.store.ask_or(set(), sessions.listed_among, sorted(every)) if every else set()
        # The log of a run of ours is shown as that run.
        claimed = set(self.store.ask_or({}, claims.shown_as_each, every)) if every else set()
        for agent, touched in self._sessions.items():
            shown = {(session, is_new) for session, is_new in touched if session not in claimed}
            new = {session for session, is_new in shown if is_new}
            updated, tally = {session for session, _ in shown} - new, self._tally(agent)
            tally.events_new = sum(self._events[agent, session] for session in new | updated)
            tally.sessions_new, tally.sessions_updated = len(new), len(updated)
            tally.listed_new, tally.listed_updated = len(new & listed), len(updated & listed)
