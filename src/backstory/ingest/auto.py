"""Takes in new logs at the start of a command that reads, as far as a moment allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.ingest.discover import Candidate
from backstory.ingest.folders import are_as_noted, new_bytes, session_folder
from backstory.ingest.ingest import ingest_briefly, ingest_rows_briefly
from backstory.ingest.log_reader import Pace
from backstory.ingest.news import OF_SESSION
from backstory.ingest.sources import is_as_noted
from backstory.ingest.watch import Spot, changed
from backstory.lazy import lazy_module
from backstory.store.tables import logs as stored_logs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set
    from pathlib import Path

    from backstory.agents.contract import Agent
    from backstory.ingest.news import Folders, News, TimeBudget
    from backstory.store import FileStamp, Store
    from backstory.store.tables import sidecars
else:
    sidecars = lazy_module("backstory.store.tables.sidecars")

NEW_BYTES_MAX = 4 * 1024 * 1024
SLICE_BYTES = 256 * 1024
"""The most of a log that is stored at once, and between two of them it may be time to end."""
LOGS_AT_ONCE = 32
"""The most logs that are stored together; how long they took says whether there is time for as many more."""
UNPACKED = 8
"""A compressed log is taken to hold so many times its size."""


class Selected(Struct, frozen=True, kw_only=True):
    """The new logs of a moment, the last written first: those to read, and those that would be too much."""

    now: list[Candidate]
    later: list[Candidate]


class TakenIn(Struct, frozen=True, kw_only=True):
    """The result of taking in. ``left``: the number of logs known to be newer than the store; ``unread``: files to
    look at again."""

    has_stored: bool = False
    left: int = 0
    unread: Sequence[str] = ()

    def joined(self, other: TakenIn) -> TakenIn:
        """Return both together."""
        return TakenIn(
            has_stored=self.has_stored or other.has_stored, left=self.left + other.left,
            unread=[*self.unread, *other.unread],
        )  # fmt: skip


def new_logs(store: Store, agents: Sequence[Agent], news: News, environ: Mapping[str, str], home: Path) -> Selected:
    """Those of the files that may be new which are logs, or lie beside one, and are new. Changes nothing."""
    spots = [Spot(agent, place) for agent in agents for place in agent.log.roots(environ, home)]
    _pass_over_inner(news.folders, spots)
    return new_ones(store, changed(news.files, spots).logs)


def _pass_over_inner(folders: Folders, spots: Sequence[Spot]) -> None:
    """Note of the folders that read as one log that they do, so that what lies in them is looked at no more."""
    for spot in spots:
        of_agent = folders.get(spot.agent.name, {}) if spot.agent.folders is not None else {}
        for path in list(of_agent):
            if (session := session_folder(spot.agent, spot.place, path)) is not None:
                del of_agent[path]
                of_agent[session] = OF_SESSION


def new_ones(store: Store, found: Sequence[Candidate]) -> Selected:
    """Those of these logs that the store does not know as they are. Changes nothing."""
    paths = [each.path for each in found] + [more.path for each in found for more in each.watched]
    stamps = store.ask_or({}, stored_logs.stamps_of, paths)
    beside = {stamps[each.path].log_id for each in found if each.path in stamps and each.sidecars} - {None}
    marks = store.ask_or({}, sidecars.marks, [each for each in beside if each is not None]) if beside else {}

    def is_new(each: Candidate) -> bool:
        stamp = stamps.get(each.path)
        return (
            stamp is None
            or not is_as_noted(each, stamp)
            or not are_as_noted(each.watched, stamps)
            or any(marks.get((stamp.log_id or 0, file.name)) != (file.size, file.mtime_ns) for file in each.sidecars)
        )

    return selected([each for each in found if is_new(each)], stamps)


def selected(new: Sequence[Candidate], stamps: Mapping[str, FileStamp]) -> Selected:
    """The last written logs that are together not too much to read in a moment, and the others."""
    now, later, room = list[Candidate](), list[Candidate](), NEW_BYTES_MAX
    # The last written first: who reads wants to see what was done today.
    for each in sorted(new, key=lambda each: -each.mtime_ns):
        size = _new_bytes(each, stamps.get(each.path))
        (now if size <= room else later).append(each)
        room -= size if size <= room else 0
    return Selected(now=now, later=later)


def take_in(
    store: Store, logs: Selected, budget: TimeBudget, *, running: Set[tuple[str, str]] = frozenset()
) -> TakenIn:
    """Read new logs until the time is up; what is stored by then is whole. ``running`` as for ``ingest``."""
    has_read, left = _read(store, logs.now, budget, running)
    stamps = store.ask_or({}, stored_logs.stamps_of, [each.path for each in logs.now])
    unread = [each.path for each in logs.now if (seen := stamps.get(each.path)) is None or not is_as_noted(each, seen)]
    return TakenIn(
        has_stored=len(unread) < len(logs.now) or has_read,
        left=len(logs.later) + left,
        unread=[*unread, *(each.path for each in logs.later)],
    )


def take_in_rows(store: Store, databases: Mapping[str, Agent], budget: TimeBudget) -> TakenIn:
    """Read what is new in databases (by path) until the time is up; ``unread`` has those of which not all was read."""
    pace = Pace(slice_bytes=SLICE_BYTES, block_bytes=SLICE_BYTES, is_over=budget.is_over)
    report = ingest_rows_briefly(store, databases, pace, NEW_BYTES_MAX)
    left = dict.fromkeys(report.left)
    unread = [path for path in databases if any(each == path or each.startswith(f"{path}#") for each in left)]
    return TakenIn(has_stored=report.total("bytes_read") > 0, left=len(left), unread=unread)


def _read(store: Store, logs: list[Candidate], budget: TimeBudget, running: Set[tuple[str, str]]) -> tuple[bool, int]:
    """Read logs, some at once, as long as the next ones have time as well; whether bytes were read, and how many logs
    were not."""
    pace = Pace(slice_bytes=SLICE_BYTES, block_bytes=SLICE_BYTES, is_over=budget.is_over)
    has_read, left, before = False, 0, budget.remaining_s()
    for start in range(0, len(logs), LOGS_AT_ONCE):
        report = ingest_briefly(store, logs[start : start + LOGS_AT_ONCE], pace, running=running)
        has_read, left = has_read or report.total("bytes_read") > 0, left + len(report.left)
        after = budget.remaining_s()
        # What was read is written at its end, which takes about as long, and for which the pace has no eye.
        if after < before - after:
            return has_read, left + len(logs[start + LOGS_AT_ONCE :])
        before = after
    return has_read, left


def _new_bytes(each: Candidate, seen: FileStamp | None) -> int:
    if each.path.endswith(".zst"):
        # Its real length is known only when it is unpacked.
        return each.size * UNPACKED
    if each.folder:
        return new_bytes(each.folder, seen)
    return (
        each.size - seen.size if seen is not None and seen.log_id is not None and each.size >= seen.size else each.size
    )
