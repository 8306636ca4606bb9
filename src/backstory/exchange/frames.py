"""Format 1 in frames: a session's lines as it grows, cut so that a part can be sent again, checked and joined. Pure.

A frame is a line of JSON and one zstd frame of lines. Its ``chain`` is a hash over all frames up to it, so what is
missing, doubled, damaged or of another history is told from what follows. docs/json-format.md describes it.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from backstory.bounds import LINE_BYTES_MAX
from backstory.exchange.json_lines import (
    BranchLine,
    Digest,
    EventLine,
    LogLine,
    Offset,
    Seq,
    SessionEnd,
    SessionLine,
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
IN_FRAMES = (SessionLine, LogLine, TurnLine, EventLine, BranchLine, SummaryLine, SessionEnd)
"""The lines of a session without the bytes of its logs."""


class FramePoint(NamedTuple):
    """A place in a session: behind the event with these numbers."""

    seq: Annotated[int, Meta(ge=0, le=2**53)]
    part: Annotated[int, Meta(ge=-1, le=2**53)]


START = FramePoint(0, -1)


class FrameHead(Struct, frozen=True, kw_only=True):
    """The first line of a frame. ``after`` to ``upto``: where its events lie; ``size``: the bytes behind this line.

    ``epoch``: raised when what was sent before is sent anew. ``prev``: the chain of the frame before, or "".
    """

    session: Uid
    epoch: Seq
    after: FramePoint
    upto: FramePoint
    events: Offset
    prev: Annotated[str, Meta(pattern="^(?:[0-9a-f]{64})?\\Z")]
    chain: Digest
    size: Offset


class Frame(Struct, frozen=True):
    """A frame whose content was checked: its head, and its lines."""

    head: FrameHead
    lines: list[bytes]


class FrameDamaged(ValueError):
    """A frame that is not as frames are made."""


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
    lines: Iterable[bytes], *, session: str, epoch: int = 1, after: FramePoint = START, prev: str = ""
) -> Iterator[bytes]:
    """Cut the lines of one session that an export gave from ``after`` on into frames."""
    waiting, size, events, upto = list[bytes](), 0, 0, after
    place = msgspec.json.Decoder(_Place)
    for line in lines:
        at = place.decode(line)
        is_event = at.type == "event"
        if waiting and (size + len(line) > FRAME_BYTES or (is_event and events == EVENTS_MAX)):
            frame, prev = _frame(waiting, session, epoch, after, upto, events, prev)
            yield frame
            waiting, size, events, after = [], 0, 0, upto
        waiting.append(line)
        size += len(line)
        if is_event:
            events, upto = events + 1, FramePoint(at.seq, at.part)
    if waiting:
        yield _frame(waiting, session, epoch, after, upto, events, prev)[0]


class _Place(Struct, frozen=True):
    type: str
    seq: int = 0
    part: int = 0


def _frame(
    lines: list[bytes], session: str, epoch: int, after: FramePoint, upto: FramePoint, events: int, prev: str
) -> tuple[bytes, str]:
    payload = b"".join(lines)
    packed, chain = codec.pack_frame(payload), chain_of(prev, payload)
    head = FrameHead(
        session=session, epoch=epoch, after=after, upto=upto, events=events, prev=prev, chain=chain, size=len(packed)
    )
    return encoded(head) + b"\n" + packed, chain


def chain_of(prev: str, payload: bytes) -> str:
    """Return the chain of a frame whose lines are ``payload``, not packed: another zstd packs them otherwise."""
    return hashlib.sha256(bytes.fromhex(prev) + payload).hexdigest()


def head_of(data: bytes) -> FrameHead:
    """Return the head that a frame begins with. Raises FrameDamaged."""
    end = data.find(b"\n", 0, HEAD_BYTES_MAX)
    try:
        head = msgspec.json.decode(data[: max(end, 0)], type=FrameHead)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as refused:
        raise FrameDamaged(f"its first line is no head of a frame: {refused}") from refused
    if head.events > EVENTS_MAX or head.upto < head.after or (head.upto == head.after) != (head.events == 0):
        raise FrameDamaged("its events are too many, or do not lie where its head says")
    return head


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
    if chain_of(head.prev, payload) != head.chain:
        raise FrameDamaged("its lines do not match its chain")
    lines = payload.splitlines(keepends=True)
    if not payload.endswith(b"\n") or (len(payload) > FRAME_BYTES and len(lines) > 1):
        raise FrameDamaged("its lines are more than a frame may have, or the last one has no end")
    at, events = head.after, 0
    for _, line in _parsed(lines):
        if isinstance(line, EventLine):
            if not at < (at := FramePoint(line.seq, line.part)):
                raise FrameDamaged("its events are not in order")
            events += 1
        elif isinstance(line, SessionLine | SessionEnd) and line.uid != head.session:
            raise FrameDamaged("a line of it is of another session")
    if (at, events) != (head.upto, head.events):
        raise FrameDamaged("its events are not those that its head says")
    return Frame(head, lines)


def _parsed(lines: Iterable[bytes]) -> Iterator[tuple[bytes, Any]]:
    decode = decoder().decode
    for text in lines:
        if (reason := why_too_much(text)) is not None:
            raise FrameDamaged(reason)
        try:
            line = decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as refused:
            raise FrameDamaged(str(refused) or "it is nested too deeply") from refused
        if not isinstance(line, IN_FRAMES):
            raise FrameDamaged("it has a line that no frame has")
        yield text, line


def verdict(head: FrameHead, held: Sequence[FrameHead]) -> FrameVerdict:
    """Tell what a frame is to those of its session that are there, in order and of one epoch."""
    last = held[-1] if held else None
    if last is None or head.epoch > last.epoch:
        return FrameVerdict.NEXT if (head.after, head.prev) == (START, "") else FrameVerdict.GAP
    if head.epoch < last.epoch:
        return FrameVerdict.OLD
    if any(each.chain == head.chain for each in held):
        return FrameVerdict.HAD
    if (head.prev, head.after) == (last.chain, last.upto):
        return FrameVerdict.NEXT
    return FrameVerdict.GAP if head.after > last.upto else FrameVerdict.OTHER


def joined(parts: Sequence[Frame]) -> Iterator[bytes]:
    """Yield the lines of a session from all its frames, in order: as an export of the whole has them.

    What was said again counts as it was said last. Raises FrameDamaged for frames that do not follow one another.
    """
    heads = list[FrameHead]()
    turns, of_last, session, end = dict[str, bytes](), dict[type, list[bytes]](), b"", None
    events = 0
    for part in parts:
        if heads and part.head.session != heads[0].session:
            raise FrameDamaged("it is of another session")
        if (found := verdict(part.head, heads)) != FrameVerdict.NEXT:
            raise FrameDamaged(f"it does not follow the frame before it: {found}")
        heads.append(part.head)
        events += part.head.events
        for text, line in _parsed(part.lines):
            match line:
                case SessionLine():
                    session, end, of_last = text, None, {}
                case TurnLine():
                    turns[line.uid] = text
                case SessionEnd():
                    end = line
                case LogLine() | BranchLine() | SummaryLine():
                    of_last.setdefault(type(line), []).append(text)
    if end is None or not session:
        raise FrameDamaged("the session is not whole: frames are missing at its end")
    yield session
    yield from of_last.get(LogLine, ())
    yield from turns.values()
    for part in parts:
        yield from (text for text, line in _parsed(part.lines) if isinstance(line, EventLine))
    yield from (*of_last.get(BranchLine, ()), *of_last.get(SummaryLine, ()))
    yield encoded(SessionEnd(uid=end.uid, turns=len(turns), events=events)) + b"\n"
