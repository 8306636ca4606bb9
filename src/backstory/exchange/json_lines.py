"""The lines of a JSON export, as values; docs/json-format.md says what they mean. Format 1.

Every line is a JSON object with its ``type`` first. What has its default is left out; an absent field is null.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from backstory.bounds import INTEGER_MAX, LINE_BYTES_MAX, NUMBER_MAX, TIME_MAX_MS
from backstory.model import PART_MIN

FORMAT = 1
STRUCTURES_MAX = 2_000_000
"""The most lists and objects that may begin in a line: each takes much more memory than text."""
PIECE_BYTES = 1024 * 1024
"""The most bytes of a log in one line."""
RANGES_AT_ONCE = 1_000

Time = str
"""ISO 8601, UTC, with milliseconds and Z."""
Seq = Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
Offset = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
Part = Annotated[int, Meta(ge=PART_MIN, le=NUMBER_MAX)]
"""Below 0 in files of an earlier version; see ``model.Parts``."""
Count = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
Amount = Annotated[float, Meta(ge=0)]
Uid = Annotated[str, Meta(pattern="^[0-9A-HJKMNP-TV-Z]{26}\\Z")]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}\\Z")]

PrunedWord = Literal["prompts", "summaries", "tool-outputs", "images"]
AgentName = Annotated[str, Meta(pattern="^\\w[\\w.-]*\\Z", max_length=100)]
"""The name of an agent, which is a package's: never a path."""


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """The family of lines."""


class FileHead(Line, frozen=True, kw_only=True, tag="backstory"):
    """The first line. ``bytes``: whether the logs' bytes follow; ``redacted``: whether secrets are masked."""

    format: int
    made_by: str
    exported: Time
    bytes: bool
    redacted: bool


class RowLine(Line, frozen=True, kw_only=True):
    """A row of a table. ``more``: the columns that have no field of their own, by their names."""

    more: dict[str, Count | Amount | str] = {}


class PrunedPart(Struct, frozen=True, kw_only=True):
    """The parts that were pruned of a session, when, and the number that its next record got then."""

    what: Annotated[list[PrunedWord], Meta(min_length=1, max_length=4)]
    at: Time
    next_seq: Seq


class SessionLine(RowLine, frozen=True, kw_only=True, tag="session"):
    """A session begins; all lines up to its ``session_end`` are of it."""

    uid: Uid
    owner: Uid | None = None
    number: Annotated[int, Meta(ge=1, le=NUMBER_MAX)] | None = None
    name: str = ""
    title: str | None = None
    worktree: str = ""
    project: str | None = None
    repository: str | None = None
    branch: str | None = None
    branches: list[str] = []
    cwd: str | None = None
    root: str | None = None
    created: Time
    last_active: Time | None = None
    completed: bool | None = None
    duration_ms: Count | None = None
    cost_usd: Amount | None = None
    native_id: str | None = None
    parent: Annotated[str, Meta(min_length=16, max_length=16)] | None = None
    relation: str | None = None
    leaf_turn: str | None = None
    leaf_seq: Seq | None = None
    leaf_at: Time | None = None
    next_seq: Seq
    context_chars: Count | None = None
    context_limit: Count | None = None
    context: dict[str, str] = {}
    decided: dict[str, Count] = {}
    pruned: PrunedPart | None = None


class LogLine(RowLine, frozen=True, kw_only=True, tag="log"):
    """A log of the session; ``log`` numbers it in the file's session, from 1."""

    log: Seq
    turn: str | None = None
    agent: AgentName
    kind: str
    native_id: str
    path: str = ""
    root_chars: Offset | None = None
    relpath: str = ""
    modified: Time | None = None
    length: Offset
    parsed_to: Offset = 0
    first_hash: Digest | None = None
    tail_seq: Seq | None = None
    generation: Seq = 1
    cwd: str | None = None
    told_to: Offset | None = None


class NumbersLine(Line, frozen=True, kw_only=True, tag="numbers"):
    """The numbers that the records of a log have: (start, stop, first_seq, records)."""

    log: Seq
    ranges: list[tuple[Offset, Offset, Seq, Seq]]


class BytesLine(Line, frozen=True, kw_only=True, tag="bytes"):
    """The next bytes of a log."""

    log: Seq
    start: Offset
    sha256: Digest
    data: bytes


class SidecarLine(Line, frozen=True, kw_only=True, tag="sidecar"):
    """A small file that lies beside a log."""

    log: Seq
    name: str
    mtime_ns: Annotated[int, Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)]
    sha256: Digest
    data: bytes


class TurnLine(RowLine, frozen=True, kw_only=True, tag="turn"):
    """A prompt and what came of it. ``answer``: the last thing that the model said."""

    uid: Uid
    parent_uid: str | None = None
    parent_seq: Seq | None = None
    first_seq: Seq
    last_seq: Offset
    agent: str
    model: str | None = None
    native_id: str | None = None
    prompt: str = ""
    answer: str | None = None
    started: Time | None = None
    ended: Time | None = None
    outcome: str | None = None
    stop_reason: str | None = None
    api_latency_ms: Count | None = None
    duration_ms: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    cache_write_1h_tokens: Count | None = None
    largest_input_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    context_window: Count | None = None
    tokens_source: str | None = None
    cost_usd: Amount | None = None
    cost_source: str | None = None
    prefix_chars: Count | None = None
    prefix_sha256: str | None = None
    removed: Time | None = None


class EventLine(Line, frozen=True, kw_only=True, tag="event"):
    """An event. ``event`` is its full form; ``short`` its compact form, where that is not what the rules make of it."""

    seq: Seq
    part: Part = 0
    turn: str | None = None
    at: Time | None = None
    log: Seq | None = None
    position: Offset | None = None
    length: Offset | None = None
    event: msgspec.Raw
    short: msgspec.Raw = msgspec.Raw(b"")
    chars: Count | None = None


class BranchLine(RowLine, frozen=True, kw_only=True, tag="branch"):
    """The name that a person gave a branch."""

    name: str
    leaf_turn: str
    leaf_seq: Seq | None = None
    created: Time
    moved: Time | None = None


class SummaryLine(RowLine, frozen=True, kw_only=True, tag="summary"):
    """A summary that stands for the records up to ``after_seq``."""

    after_seq: Offset
    summary: str
    created: Time
    agent: str | None = None
    undone: bool = False
    model: str | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    cost_usd: Amount | None = None
    duration_ms: Count | None = None


class SessionEnd(Line, frozen=True, kw_only=True, tag="session_end"):
    """The session is whole. How many lines of these types it has."""

    uid: Uid
    turns: Offset = 0
    events: Offset = 0
    bytes: Offset = 0
    """Bytes of logs."""


class RemovedLine(Line, frozen=True, kw_only=True, tag="removed"):
    """A session that a person removed."""

    uid: Uid
    at: Time


class BoardLine(Line, frozen=True, kw_only=True, tag="board_item"):
    """An item of a context board, or what is left of one that was removed."""

    repository: str
    branch: str
    src: Literal["agent", "user"]
    name: str
    description: str = ""
    content: str = ""
    author: str | None = None
    read_count: Count = 0
    created: Time
    changed: Time
    removed: bool = False


class End(Line, frozen=True, kw_only=True, tag="end"):
    """The last line: the file is whole."""

    sessions: Offset


AnyLine = (
    FileHead | SessionLine | LogLine | NumbersLine | BytesLine | SidecarLine | TurnLine | EventLine | BranchLine
    | SummaryLine | SessionEnd | RemovedLine | BoardLine | End
)  # fmt: skip

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ms_of(text: Time | None) -> int | None:
    """A time in ms since 1970. Raises ValueError for one that is none, or that cannot be kept.

    >>> ms_of("2026-09-21T14:13:20.123Z")
    1790000000123
    """
    if text is None:
        return None
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text[:40]!r} names no time zone")
    since = at - _EPOCH
    ms = (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000
    if not 0 <= ms <= TIME_MAX_MS:
        raise ValueError(f"{text[:40]!r} is before 1970 or after 9999")
    return ms


def why_too_much(line: bytes) -> str | None:
    """Return why a line has more than a line may have; None for one that has not."""
    if len(line) > LINE_BYTES_MAX:
        return f"it is longer than {LINE_BYTES_MAX // 1_048_576} MB"
    # A shorter line has no room for so many.
    if len(line) > STRUCTURES_MAX and line.count(b"{") + line.count(b"[") > STRUCTURES_MAX:
        return f"more than {STRUCTURES_MAX:,} lists and objects begin in it"
    return None


def decoder() -> msgspec.json.Decoder[Any]:
    """Reads a line. It raises msgspec.DecodeError, UnicodeDecodeError and RecursionError."""
    return msgspec.json.Decoder(AnyLine)
