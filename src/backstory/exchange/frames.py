"""Format 1 in frames: a session's lines as it grows, cut so that a part can be sent again, checked and joined. Pure.

A frame is a line of JSON and one zstd frame of lines. Its ``chain`` is a hash over all frames up to it, heads included,
so what is missing, doubled, damaged or of another history is told from what follows. docs/json-format.md is frozen.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from backstory.bounds import LINE_BYTES_MAX
from backstory.exchange.json_lines import (
    FORMAT,
    BranchLine,
    BytesLine,
    Digest,
    EventLine,
    LogLine,
    NumbersLine,
    Offset,
    RemovedLine,
    Seq,
    SessionEnd,
    SessionLine,
    SidecarLine,
    SummaryLine,
    TurnLine,
    Uid,
    decoder,
    why_too_much,
)
from backstory.model import encoded
from backstory.store import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

EVENTS_MAX = 500
FRAME_BYTES = 1024 * 1024
"""A frame has no more lines than fit into this; one that alone is longer is a frame of its own."""
HEAD_BYTES_MAX = 4_096
PACKED_BYTES_MAX = LINE_BYTES_MAX + LINE_BYTES_MAX // 256
"""The most that follows a head: what zstd makes at worst of the longest line."""
PIECE_BYTES = 720 * 1024
"""The bytes of a log in one line: in base64 a frame has room for it."""
OF_SESSION = (SessionLine, LogLine, TurnLine, EventLine, BranchLine, SummaryLine, SessionEnd)
OF_BYTES = (NumbersLine, BytesLine, SidecarLine)
"""The lines that only frames with the bytes of logs have."""
NO_CHAIN = "0" * 64
EVENT, BYTES = "event", "bytes"
"""The types of most lines."""


class FramePoint(NamedTuple):
    """A place in a session: behind the event with these numbers."""

    seq: Annotated[int, Meta(ge=0, le=2**53)]
    part: Annotated[int, Meta(ge=-1, le=2**53)]


START = FramePoint(0, -1)


class FrameHead(Struct, frozen=True, kw_only=True):
    """The first line of a frame. ``after`` to ``upto``: where its events lie; ``size``: the bytes behind this line.

    ``epoch``: raised when what was sent before is sent anew. ``bytes``: whether the frames of the epoch have the bytes
    of logs; ``redacted``: whether secrets are masked in them. ``prev``: the chain of the frame before, or "".
    """

    format: Literal[1]
    session: Uid
    epoch: Seq
    after: FramePoint
    upto: FramePoint
    events: Offset
    bytes: bool
    redacted: bool
    prev: Annotated[str, Meta(pattern="^(?:[0-9a-f]{64})?\\Z")]
    chain: Digest
    size: Annotated[int, Meta(ge=1, le=PACKED_BYTES_MAX)]


class Frame(Struct, frozen=True):
    """A frame whose content was checked: its head, and its lines."""

    head: FrameHead
    lines: list[bytes]


class FrameDamaged(ValueError):
    """A frame that is not as frames are made."""


class FrameTooNew(FrameDamaged):
    """A frame of a later format: nothing says that it is damaged, and only a later version can read it."""


class FrameVerdict(StrEnum):
    """The relation of a frame to those that are there."""

    NEXT = "next"
    HAD = "had"
    """It is there already."""
    GAP = "gap"
    """Frames before it are missing."""
    OTHER = "other"
    """It belongs to another history of the session."""
    OLD = "old"
    """It is of an epoch that was replaced."""


def frames(
    lines: Iterable[bytes],
    *,
    session: str,
    epoch: int = 1,
    after: FramePoint = START,
    prev: str = "",
    has_bytes: bool = False,
    is_redacted: bool = False,
) -> Iterator[bytes]:
    """Cut the lines of one session that an export gave from ``after`` on into frames."""
    waiting, size, events, upto = list[bytes](), 0, 0, after
    place = msgspec.json.Decoder(_Place)

    def frame() -> bytes:
        nonlocal prev
        payload = b"".join(waiting)
        packed = codec.pack_frame(payload)
        head = FrameHead(
            format=1, session=session, epoch=epoch, after=after, upto=upto, events=events, bytes=has_bytes,
            redacted=is_redacted, prev=prev, chain=NO_CHAIN, size=len(packed),
        )  # fmt: skip
        prev = chain_of(head, payload)
        return encoded(replace(head, chain=prev)) + b"\n" + packed

    for line in lines:
        at = place.decode(line)
        is_event = at.type == EVENT
        if waiting and (size + len(line) > FRAME_BYTES or (is_event and events == EVENTS_MAX)):
            yield frame()
            waiting, size, events, after = [], 0, 0, upto
        waiting.append(line)
        size += len(line)
        if is_event:
            events, upto = events + 1, FramePoint(at.seq, at.part)
    if waiting:
        yield frame()


class _Place(Struct, frozen=True):
    type: str
    seq: int = 0
    part: int = 0
    log: int = 0


def chain_of(head: FrameHead, payload: bytes) -> str:
    """Return the chain of a frame whose lines are ``payload``, not packed: another zstd packs them otherwise.

    It covers all of the head but itself and ``size``.
    """
    flags = int(head.bytes), int(head.redacted)
    said = head.format, head.session, head.epoch, *head.after, *head.upto, head.events, *flags, head.prev or "-"
    hashed = hashlib.sha256(" ".join(map(str, said)).encode() + b"\n")
    hashed.update(payload)
    return hashed.hexdigest()


def head_of(data: bytes) -> FrameHead:
    """Return the head that a frame begins with. Raises FrameDamaged, and FrameTooNew."""
    end = data.find(b"\n", 0, HEAD_BYTES_MAX)
    text = data[: max(end, 0)]
    try:
        # A later format may have another head, so its number is looked for first.
        if (later := msgspec.json.decode(text, type=_Format).format) > FORMAT:
            raise FrameTooNew(f"it has format {later}, and this version reads format {FORMAT}")
        head = msgspec.json.decode(text, type=FrameHead)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as refused:
        raise FrameDamaged(f"its first line is no head of a frame: {refused}") from refused
    if head.events > EVENTS_MAX or head.upto < head.after or (head.upto == head.after) != (head.events == 0):
        raise FrameDamaged("its events are too many, or do not lie where its head says")
    if not head.prev and head.after != START:
        raise FrameDamaged("it is the first of its session by its chain, and not by its events")
    if head.bytes and head.redacted:
        raise FrameDamaged(
            "its head says that its secrets are masked, and that it has the bytes of logs, which are not"
        )
    return head


class _Format(Struct, frozen=True):
    format: Seq


def read(data: bytes) -> Frame:
    """Read a frame and check all of it. Raises FrameDamaged."""
    head = head_of(data)
    packed = data[data.index(b"\n") + 1 :]
    if len(packed) != head.size:
        raise FrameDamaged(f"{head.size:,} bytes were to follow its head, and {len(packed):,} do")
    try:
        payload = codec.unpack_frame(packed, LINE_BYTES_MAX)
        payload.decode()
    except (codec.CodecError, UnicodeDecodeError) as refused:
        raise FrameDamaged(str(refused)) from refused
    if chain_of(head, payload) != head.chain:
        raise FrameDamaged("its head and its lines do not match its chain")
    lines = [each + b"\n" for each in payload.split(b"\n")[:-1]]
    if not payload.endswith(b"\n") or (len(payload) > FRAME_BYTES and len(lines) > 1):
        raise FrameDamaged("its lines are more than a frame may have, or the last one has no end")
    at, events = head.after, 0
    for number, (_, line) in enumerate(_parsed(lines), 1):
        _check(line, head, number, len(lines))
        if isinstance(line, EventLine):
            if not at < (at := FramePoint(line.seq, line.part)):
                raise FrameDamaged("its events are not in order")
            events += 1
    if (at, events) != (head.upto, head.events):
        raise FrameDamaged("its events are not those that its head says")
    return Frame(head, lines)


def read_again(data: bytes) -> Frame:
    """Read a frame that ``read`` has read before, which is kept where nobody changes it. Raises FrameDamaged."""
    end = data.find(b"\n") + 1
    try:
        payload = codec.unpack_frame(data[end:], LINE_BYTES_MAX)
    except codec.CodecError as refused:
        raise FrameDamaged(str(refused)) from refused
    return Frame(head_of(data[:end]), [each + b"\n" for each in payload.split(b"\n")[:-1]])


def _check(line: Any, head: FrameHead, number: int, lines: int) -> None:
    """Raise FrameDamaged unless a line belongs into a frame with this head, as the so manieth of its lines."""
    match line:
        case SessionLine() | SessionEnd() | RemovedLine() if line.uid != head.session:
            raise FrameDamaged("a line of it is of another session")
        case RemovedLine() if lines > 1 or head.prev or head.bytes:
            raise FrameDamaged("the line of a session that was removed is not alone")
        case SessionLine() if number > 1:
            raise FrameDamaged("a session begins in the middle of it")
        case SessionEnd() if number < lines:
            raise FrameDamaged("a session ends in the middle of it")
        case EventLine() if line.part < 0 or (line.log is not None and not head.bytes):
            raise FrameDamaged("an event has a part below 0, or lies in a log whose bytes do not come")
        case NumbersLine() | BytesLine() | SidecarLine() if not head.bytes:
            raise FrameDamaged("it has bytes of a log, and its head says that it has none")


def _parsed(lines: Iterable[bytes]) -> Iterator[tuple[bytes, Any]]:
    decode = decoder().decode
    for text in lines:
        if (reason := why_too_much(text)) is not None:
            raise FrameDamaged(reason)
        try:
            line = decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as refused:
            raise FrameDamaged(str(refused) or "it is nested too deeply") from refused
        if not isinstance(line, (*OF_SESSION, *OF_BYTES, RemovedLine)):
            raise FrameDamaged("it has a line that no frame has")
        yield text, line


def verdict(head: FrameHead, held: Sequence[FrameHead]) -> FrameVerdict:
    """Tell what a frame is to those of its session that are there, in order and of one epoch."""
    last = held[-1] if held else None
    if last is not None and head.session != last.session:
        return FrameVerdict.OTHER
    if last is None or head.epoch > last.epoch:
        return FrameVerdict.NEXT if (head.after, head.prev) == (START, "") else FrameVerdict.GAP
    if head.epoch < last.epoch:
        return FrameVerdict.OLD
    follows = (last.chain, last.upto, last.bytes, last.redacted)
    if (head.prev, head.after, head.bytes, head.redacted) == follows:
        return FrameVerdict.NEXT
    if any(each.chain == head.chain for each in held):
        return FrameVerdict.HAD
    # Frames without events lie between two others, too, so only the chain says whether any is missing.
    is_known = not head.prev or any(each.chain == head.prev for each in held)
    return FrameVerdict.OTHER if is_known or head.after < last.upto else FrameVerdict.GAP


# joined ---------------------------------------------------------------------------------------------------------------


class _LinePlace(NamedTuple):
    """A line of a frame."""

    frame: int
    number: int


class _Content(Struct):
    """The lines of a session so far: what is said again counts as it was said last.

    Of lines of bytes only their place is noted: there may be many more of them than there is memory.
    """

    session: bytes = b""
    end: SessionEnd | None = None
    logs: list[tuple[LogLine, bytes]] = field(default_factory=list)
    numbers: dict[int, list[bytes]] = field(default_factory=dict)
    pieces: dict[int, list[_LinePlace]] = field(default_factory=dict)
    """By log, the lines with its bytes."""
    sidecars: dict[int, list[_LinePlace]] = field(default_factory=dict)
    """By log, the files beside it: all of them come again when one of them changed."""
    has_sidecars: bool = False
    """True if they came behind the last line of type ``session``."""
    turns: dict[str, bytes] = field(default_factory=dict)
    branches: list[bytes] = field(default_factory=list)
    summaries: list[bytes] = field(default_factory=list)
    removed: bytes = b""
    events: int = 0

    def take(self, text: bytes, place: _Place, at: _LinePlace) -> None:
        """Take a line, which was read before. Raises FrameDamaged."""
        if place.type == EVENT:
            self.events += 1
        elif place.type == BYTES:
            self.pieces.setdefault(place.log, []).append(at)
        else:
            self._take(text, decoder().decode(text), at)

    def _take(self, text: bytes, line: Any, at: _LinePlace) -> None:
        match line:
            case SessionLine():
                self.session, self.end, self.has_sidecars = text, None, False
                self.logs, self.numbers, self.branches, self.summaries = [], {}, [], []
            case LogLine() if line.log != len(self.logs) + 1:
                raise FrameDamaged("the logs of the session are not numbered 1, 2 and so on")
            case LogLine():
                self.logs.append((line, text))
            case NumbersLine():
                self.numbers.setdefault(line.log, []).append(text)
            case SidecarLine():
                if not self.has_sidecars:
                    self.sidecars, self.has_sidecars = {}, True
                self.sidecars.setdefault(line.log, []).append(at)
            case TurnLine():
                self.turns[line.uid] = text
            case BranchLine():
                self.branches.append(text)
            case SummaryLine():
                self.summaries.append(text)
            case SessionEnd():
                self.end = line
            case RemovedLine():
                self.removed = text


def joined(parts: Sequence[Frame], made_anew: int = 0) -> Iterator[bytes]:
    """Yield the lines of a session from all its frames, in order: as an export of the whole has them.

    ``made_anew``: the first so many were made here of what those before the others said, so they have other chains;
    the caller knows that they lead to where the others begin. A frame is asked for several times, so that not all need
    to be in memory. Raises FrameDamaged for frames that do not follow one another.
    """
    heads, content, place_of = list[FrameHead](), _Content(), msgspec.json.Decoder(_Place).decode
    for frame, part in enumerate(parts):
        if heads and (part.head.session, part.head.bytes) != (heads[0].session, heads[0].bytes):
            raise FrameDamaged("it is of another session")
        if frame == made_anew and made_anew:
            found = FrameVerdict.NEXT if part.head.after == heads[-1].upto else FrameVerdict.GAP
        else:
            found = verdict(part.head, heads)
        is_anew = heads and frame != made_anew and part.head.epoch != heads[-1].epoch
        if found != FrameVerdict.NEXT or is_anew:
            raise FrameDamaged(f"it does not follow the frame before it: {found}")
        heads.append(part.head)
        for number, text in enumerate(part.lines):
            content.take(text, place_of(text), _LinePlace(frame, number))
    if content.removed:
        if len(heads) > 1:
            raise FrameDamaged("more follows in the epoch in which the session was removed")
        yield content.removed
        return
    if content.end is None or not content.session:
        raise FrameDamaged("the session is not whole: frames are missing at its end")
    yield content.session
    for log, text in content.logs:
        yield text
        yield from content.numbers.get(log.log, ())
        for place in (*content.pieces.get(log.log, ()), *content.sidecars.get(log.log, ())):
            yield parts[place.frame].lines[place.number]
    yield from content.turns.values()
    for head, part in zip(heads, parts, strict=True):
        if head.events:
            yield from (text for text in part.lines if place_of(text).type == EVENT)
    yield from (*content.branches, *content.summaries)
    kept = sum(log.length for log, _ in content.logs) if heads[0].bytes else 0
    counts = SessionEnd(uid=content.end.uid, turns=len(content.turns), events=content.events, bytes=kept)
    yield encoded(counts) + b"\n"
