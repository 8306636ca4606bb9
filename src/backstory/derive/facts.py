"""Facts that can be found in events, as values: refs, touches, results, checkpoints. ``deriver`` finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from backstory.ids import record_key
from backstory.model import At, FoundRef, FoundSummary

if TYPE_CHECKING:
    from backstory.model import Parsed


class FoundTouch(Struct, frozen=True):
    """A file was touched by the call at this place. ``path`` and ``to`` are absolute, as far as is known."""

    where: At
    path: str
    action: str
    tool_name: str
    to: str | None


class FoundResult(Struct, frozen=True):
    """The result of the call at ``call``: the record and part of its result."""

    call: tuple[int, int]
    result: tuple[int, int]
    is_error: bool
    exit_code: int | None


class FoundCheckpoint(Struct, frozen=True):
    """The session so far was summed up by its agent."""

    where: At
    summary: str


class DerivedFacts(Struct, kw_only=True):
    """All that a piece of a log gave."""

    touches: list[FoundTouch] = field(default_factory=list)
    refs: list[FoundRef] = field(default_factory=list)
    results: list[FoundResult] = field(default_factory=list)
    checkpoints: list[FoundCheckpoint] = field(default_factory=list)
    summaries: list[FoundSummary] = field(default_factory=list)
    record_ids: bytes = b""
    """The keys of its records, in order, of agents whose logs hold summaries."""


class RecordFacts:
    """Facts of records besides their events and turns, gathered until they are added to those found."""

    def __init__(self) -> None:
        self._refs, self._summaries, self._record_ids = list[FoundRef](), list[FoundSummary](), list[str]()

    def take(self, parsed: Parsed) -> None:
        """Take what one record says."""
        self._refs += parsed.refs
        self._summaries += parsed.summaries
        self._record_ids += parsed.record_ids

    def move_to(self, found: DerivedFacts) -> None:
        """Add what was gathered, and begin anew."""
        found.refs += self._refs
        found.summaries += self._summaries
        found.record_ids += b"".join(map(record_key, self._record_ids))
        self._refs, self._summaries, self._record_ids = [], [], []
