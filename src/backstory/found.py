"""What can be found in events, as values: refs, touches, results, checkpoints. ``deriving`` finds them."""

from __future__ import annotations

from msgspec import Struct, field


class Ref(Struct, frozen=True):
    """A pull request (or merge request), an issue (or work item) or a commit.

    ``value`` is "12" or a commit's hash for the session's own repository, else "owner/repo#12" or "owner/repo@hash".
    ``host`` and ``repository`` are None where neither the text nor the session tells them.
    """

    type: str
    value: str
    host: str | None = None
    repository: str | None = None


class At(Struct, frozen=True):
    """Where something was found: record and part, turn, time (ms since 1970)."""

    seq: int
    part: int
    turn_uid: str | None
    at: int | None


class FoundTouch(Struct, frozen=True):
    """A file was touched by the call at this place. ``path`` and ``to`` are absolute, as far as can be told."""

    where: At
    path: str
    action: str
    tool_name: str
    to: str | None


class FoundRef(Struct, frozen=True):
    """A pull request, issue or commit was named."""

    where: At
    ref: Ref


class FoundResult(Struct, frozen=True):
    """What came of the call at ``call``: the record and part of its result."""

    call: tuple[int, int]
    result: tuple[int, int]
    is_error: bool
    exit_code: int | None


class FoundCheckpoint(Struct, frozen=True):
    """The session so far was summed up by its agent."""

    where: At
    summary: str


class FoundSummary(Struct, frozen=True):
    """A conversation was called something in a few words. It may be another session's: the one that holds ``leaf``."""

    leaf: bytes
    """The key of the record that the conversation ended with; see ``ids.record_key``."""
    title: str


class Found(Struct, kw_only=True):
    """All that a piece of a log gave."""

    touches: list[FoundTouch] = field(default_factory=list)
    refs: list[FoundRef] = field(default_factory=list)
    results: list[FoundResult] = field(default_factory=list)
    checkpoints: list[FoundCheckpoint] = field(default_factory=list)
    summaries: list[FoundSummary] = field(default_factory=list)
    record_ids: bytes = b""
    """The keys of its records, in order, of agents whose logs hold summaries."""
