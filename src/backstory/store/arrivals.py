"""The times of the lines of a run's output, as its runner recorded them: a sidecar of the output's log.

The format is in docs/file-format.md. Unwatched bytes have no time, nor have those that a torn or damaged file does not
describe: times are never invented, and nothing here raises.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from backstory import bounds

SUFFIX = ".times"
"""The end of the sidecar's name, after the name of the log."""
VERSION = 1
"""The first byte."""
BYTES_MAX = 8 * 1024 * 1024
"""Anything after this many bytes is neither written nor read."""
_NUMBER_BYTES_MAX = 9
_UNKNOWN = -1


def seen(length: int, delta_ms: int) -> bytes:
    """Encode that the next ``length`` bytes arrived ``delta_ms`` after the last; < 0 if a clock was set back."""
    return _packed(length) + _packed(delta_ms * 2 + 1 if delta_ms >= 0 else -delta_ms * 2)


def unwatched(length: int) -> bytes:
    """Encode that the next ``length`` bytes arrived unwatched."""
    return _packed(0) + _packed(length)


class Arrivals:
    """The times of an output's bytes, from the content of its sidecar; without one nothing has a time.

    Notes are read as far as they are asked for: a store of others may hold millions about an output of one line.
    """

    def __init__(self, content: bytes = b"") -> None:
        self._ends, self._times = array("q"), array("q")
        self._content: memoryview | None = None
        self._place, self._end, self._now = 1, 0, 0
        if content[:1] == bytes([VERSION]):
            self._content = memoryview(content)[:BYTES_MAX]

    def at(self, start: int, length: int) -> int | None:
        """When a line, whose first byte is the one at ``start``, was there to its last one; None where not known."""
        byte = start + max(length, 1) - 1
        self._read(byte)
        n = bisect_right(self._ends, byte)
        return self._times[n] if n < len(self._ends) and self._times[n] != _UNKNOWN else None

    @property
    def last(self) -> int | None:
        """When something was seen to have come for the last time."""
        self._read(bounds.INTEGER_MAX)
        return next((at for at in reversed(self._times) if at != _UNKNOWN), None)

    def _read(self, byte: int) -> None:
        """Read the notes up to the one about a byte, or all."""
        while self._content is not None and self._end <= byte:
            first = _number(self._content, self._place)
            second = first and _number(self._content, first[1])
            if not first or not second or not self._take(first[0], second[0]):
                self._content = None
                return
            self._place = second[1]

    def _take(self, length: int, number: int) -> bool:
        """Take one note; False where nobody wrote it: a disk may have filled up with zeros what it lost."""
        if length:
            self._now += number // 2 if number % 2 else -(number // 2)
        self._end += length or number
        if not number or self._end > bounds.INTEGER_MAX:
            return False
        self._ends.append(self._end)
        at = bounds.time_ms(self._now) if length else None
        self._times.append(_UNKNOWN if at is None else at)
        return True


def _packed(number: int) -> bytes:
    """Encode a number as LEB128: 7 bits a byte, the lowest first; all but the last byte have their highest bit set."""
    packed = bytearray()
    while number > 0x7F:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)
    return bytes(packed)


def _number(content: memoryview, place: int) -> tuple[int, int] | None:
    """Decode the number at a position, and return the next position; None if it is incomplete."""
    number = 0
    for n, byte in enumerate(content[place : place + _NUMBER_BYTES_MAX]):
        number |= (byte & 0x7F) << 7 * n
        if byte < 0x80:
            # Each number has one encoding: zeros from a damaged disk must not end it.
            return (number, place + n + 1) if byte or not n else None
    return None
