"""The words between two machines, and frames among them: lines of JSON over a stream of bytes. docs/sync.md shows them.

The other side is not believed: no line, frame or number of them is longer than its bound.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from backstory.bounds import LINE_BYTES_MAX
from backstory.errors import FarEndBroken
from backstory.exchange.frames import HEAD_BYTES_MAX, FrameDamaged, head_of
from backstory.exchange.json_lines import Offset, Uid
from backstory.model import encoded
from backstory.sync.pull_plan import SentPoint, SessionOffer, Want

if TYPE_CHECKING:
    from collections.abc import Iterable

PROTOCOL = 1
SAID = b'{"say":'
"""The first bytes of a line that is no head of a frame."""
WORDS_BYTES_MAX = 4 * 1024 * 1024
"""The longest line: it may name the length of each log of a session."""
NOISE_LINES_MAX, NOISE_BYTES_MAX = 100, 64 * 1024
"""The most that a shell's profile may print before the greeting."""
PACKED_BYTES_MAX = LINE_BYTES_MAX + LINE_BYTES_MAX // 256 + 1024
"""No frame is longer behind its head: what cannot be packed grows a little."""
CUT = "the line was cut"
OFFERS_MAX = 10_000_000
WANTS_AT_ONCE = 100

Name = Annotated[str, Meta(max_length=200)]


class WireWords(Struct, frozen=True, kw_only=True, tag_field="say"):
    """The family of lines."""


class Hello(WireWords, frozen=True, kw_only=True, tag="hello"):
    """The first line of who sends. ``id``: of its home store; ``name``: of its machine."""

    protocol: int
    made_by: Name
    id: Uid
    name: Name = ""


class Offered(WireWords, frozen=True, kw_only=True, tag="offer"):
    """A session that can be asked for; a line for each, then ``Ready``."""

    offer: SessionOffer


class Ready(WireWords, frozen=True, kw_only=True, tag="ready"):
    """All is said, and the other side is to speak."""


class Wanted(WireWords, frozen=True, kw_only=True, tag="want"):
    """A session that is asked for; some of them, then ``Ready``."""

    want: Want


class FramesBegin(WireWords, frozen=True, kw_only=True, tag="begin"):
    """The frames of a session follow. ``kept``: so many that came before the line was cut are still right."""

    uid: Uid
    kept: Offset = 0


class FramesEnd(WireWords, frozen=True, kw_only=True, tag="end"):
    """All frames of a session came; they lead to this point."""

    uid: Uid
    sent: SentPoint


class FramesFail(WireWords, frozen=True, kw_only=True, tag="fail"):
    """A session cannot be sent."""

    uid: Uid
    reason: Annotated[str, Meta(max_length=2_000)]


class Bye(WireWords, frozen=True, kw_only=True, tag="bye"):
    """The end of a file. ``records``: the number of lines and frames before it."""

    records: Offset = 0


AnyWords = Hello | Offered | Ready | Wanted | FramesBegin | FramesEnd | FramesFail | Bye
_DECODER: msgspec.json.Decoder[AnyWords] = msgspec.json.Decoder(AnyWords)


def say(stream: IO[bytes], *words: WireWords) -> None:
    """Write lines."""
    stream.write(b"".join(encoded(each) + b"\n" for each in words))


def heard_or_end(stream: IO[bytes]) -> AnyWords | bytes | None:
    """Read what comes next: words, or a frame, of which only the head is known to be one; None at the end.

    Raises FarEndBroken.
    """
    line = stream.readline(WORDS_BYTES_MAX)
    if not line:
        return None
    if not line.endswith(b"\n"):
        raise FarEndBroken(CUT if len(line) < WORDS_BYTES_MAX else "a line of it is too long")
    if line.startswith(SAID):
        return _words(line)
    try:
        head = head_of(line[: HEAD_BYTES_MAX + 1])
    except FrameDamaged as refused:
        raise FarEndBroken(str(refused)) from refused
    if head.size > PACKED_BYTES_MAX:
        raise FarEndBroken("a frame of it is too long")
    packed = stream.read(head.size)
    if len(packed) < head.size:
        raise FarEndBroken(CUT)
    return line + packed


def heard(stream: IO[bytes]) -> AnyWords | bytes:
    """Read what comes next, where something has to come. Raises FarEndBroken."""
    words = heard_or_end(stream)
    if words is None:
        raise FarEndBroken(CUT)
    return words


def _words(line: bytes) -> AnyWords:
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as refused:
        raise FarEndBroken(f"it says what is not known here: {refused}") from refused


def greeting(stream: IO[bytes]) -> Hello | None:
    """Read the greeting, behind what a shell's profile may print; None where the stream ends without one.

    Raises FarEndBroken.
    """
    left = NOISE_BYTES_MAX
    for _ in range(NOISE_LINES_MAX):
        line = stream.readline(left)
        if line.startswith(b'{"say":"hello"') and line.endswith(b"\n"):
            words = _words(line)
            assert isinstance(words, Hello)
            return words
        left -= len(line)
        if not line or left <= 0:
            break
    if line:
        raise FarEndBroken("it does not greet as backstory does")
    return None


def say_offers(stream: IO[bytes], offers: Iterable[SessionOffer]) -> None:
    """Write all offers, and that these are all."""
    for each in offers:
        say(stream, Offered(offer=each))
    say(stream, Ready())
