"""Lines of files, and their JSON as agents really leave it: fast where it is well formed, patient where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from backstory.lazy import lazy_regex
from backstory.model import encoded

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from backstory.agents.contract import RecordBegin


T = TypeVar("T")

ENDINGS = (".jsonl", ".jsonl.zst")
_BOM = b"\xef\xbb\xbf"
_LONE_SURROGATE = lazy_regex("[\ud800-\udfff]")


class NotJson(ValueError):
    """A line that holds no JSON object, however patiently it is read."""


def decode(line: bytes, decoder: msgspec.json.Decoder[T]) -> list[T]:
    """The records on a line: nearly always one; two when a write lost its line end. Raises NotJson.

    What msgspec refuses (a lone surrogate, NaN, a byte order mark, NUL bytes, invalid UTF-8, a field of
    another type, two documents) is read again with ``json``, so that an odd line is not lost.
    """
    try:
        return [decoder.decode(line)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return [_converted(each, decoder) for each in patiently(line)]
    except (msgspec.ValidationError, RecursionError) as refused:
        raise NotJson(str(refused)) from refused


def first(line: bytes, decoder: msgspec.json.Decoder[T]) -> T | None:
    """The first record on a line; None where it holds none."""
    try:
        return decode(line, decoder)[0]
    except NotJson:
        return None


def _converted(value: Any, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        found: T = msgspec.convert(value, decoder.type, strict=False)
    except msgspec.ValidationError:
        # What is kept as it stands in the line can only be taken from text.
        found = msgspec.json.decode(encoded(value), type=decoder.type, strict=False)
    return found


def patiently(line: bytes) -> list[Any]:
    """The JSON objects on a line, read with every tolerance; raises NotJson when there is none or a rest."""
    import json  # odd lines are rare

    text = line.removeprefix(_BOM).strip(b"\0 \t\r\n").decode("utf-8", "replace")
    scan, at, found = json.JSONDecoder(strict=False), 0, []
    try:
        while at < len(text):
            value, at = scan.raw_decode(text, at)
            found.append(_whole(value))
            while at < len(text) and text[at] in " \t\r\n\0":
                at += 1
    except (ValueError, RecursionError) as refused:
        raise NotJson(str(refused)) from refused
    if not found or not all(isinstance(each, dict) for each in found):
        raise NotJson("no JSON object")
    return found


def is_whole(line: bytes) -> bool:
    """Return True if a line without its end is a JSON object, or several, and nothing more."""
    if not line.rstrip(b"\0 \t\r").endswith(b"}"):
        return False
    try:
        patiently(line)
    except NotJson:
        return False
    return True


def lines_in(head: bytes) -> Iterator[bytes]:
    """The lines of a log's beginning that hold anything."""
    return (line for _, _, line in lines_of([head]) if line and line.strip(BLANK))


def stem(path: Path) -> str:
    """A log's file name without ``.jsonl`` or ``.jsonl.zst``."""
    name = path.name
    for ending in reversed(ENDINGS):
        name = name.removesuffix(ending)
    return name


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {_LONE_SURROGATE.sub("\ufffd", key): _whole(each) for key, each in value.items()}
    return value


def elements(content: bytes) -> list[tuple[int, int]] | None:
    """The places of the elements of a JSON list; None if it is no whole one."""
    try:
        found = msgspec.json.decode(content, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        return None
    places, at = list[tuple[int, int]](), 0
    for each in map(bytes, found):
        at = content.index(each, at)
        places.append((at, at := at + len(each)))
    return places


# lines of a file ------------------------------------------------------------------------------------------------------


BLANK = b"\0 \t\r"
"""A line of these alone holds nothing, and is no record."""
LINE_BYTES_MAX = 64 * 1024 * 1024
"""A longer line is kept like any other, and parsed as one Unknown event."""
FOLDER_LINE = b'{"backstory_folder":'
"""The beginning of a line of ours in a folder that reads as one log; it is no record."""
Line = tuple[int, int, bytes | None]
"""A line: its start, the start of the next one, and its content without its end; None: it is too long."""


class LineReader:
    """Cuts the bytes it is fed into lines. ``at``: where the line begins that ``carry`` is the beginning of.

    ``record_end``: what the last line of every record matches, in a document whose records are several lines each, or
    what says of each line whether a record begins with it; such a record counts as one line. ``carried``: the length
    of a beginning that is too long to be given.
    """

    def __init__(
        self, at: int = 0, carry: bytes = b"", *, carried: int = 0,
        record_end: re.Pattern[bytes] | RecordBegin | None = None,
    ) -> None:  # fmt: skip
        self.start = at
        """The start of the line that has not ended."""
        self._record_end: Any = record_end
        self._begins: Callable[[bytes], bool] | None = getattr(record_end, "begins", None)
        self._pieces = [carry] if carry else []
        self._held = carried or len(carry)
        self._last = carry.rpartition(b"\n")[2] if record_end is not None else b""
        """As much as there is of the last line of a record of several."""
        self._asked = self._held - len(carry)
        """The length of what ``begins`` was asked about, of a record that has not ended."""
        if self._begins is not None:
            for line in carry.split(b"\n")[:-1]:
                self._begins(line)
                self._asked += len(line) + 1

    @property
    def read_to(self) -> int:
        """The end of the bytes it was fed."""
        return self.start + self._held

    @property
    def unfinished(self) -> bytes | None:
        """The line that has not ended, as far as it came; None when it is too long."""
        return b"".join(self._pieces) if self._held <= LINE_BYTES_MAX else None

    def lines(self, block: bytes) -> Iterator[Line]:
        """The lines that the next bytes finish."""
        if self._begins is not None:
            yield from self._records(self._begins, block)
            return
        *pieces, rest = block.split(b"\n")
        for piece in pieces:
            if self._record_end is not None:
                last, self._last = self._last + piece, b""
                if self._record_end.match(last) is None:
                    self._hold(piece + b"\n")
                    continue
            line = piece if len(piece) <= LINE_BYTES_MAX else None
            if self._held:
                self._hold(piece)
                line = self.unfinished
                self._pieces.clear()
            else:
                self._held = len(piece)
            start = self.start
            self.start, self._held = start + self._held + 1, 0
            yield start, self.start, line
        if rest:
            self._hold(rest)
            if self._record_end is not None and len(self._last) <= LINE_BYTES_MAX:
                self._last += rest

    def _records(self, begins: Callable[[bytes], bool], block: bytes) -> Iterator[Line]:
        """The records that end before a line of the next bytes, or of what is held, with which another one begins."""
        if b"\n" not in block:
            self._pieces.append(block)
            self._held += len(block)
            return
        # Of a record that is too long, only its last line is held.
        dropped = self._held - sum(map(len, self._pieces))
        data = b"".join((*self._pieces, block))
        begin, at = 0, self._asked - dropped
        for line in data[at:].split(b"\n")[:-1]:
            if begins(line) and at + dropped > begin:
                start, self.start = self.start, self.start + at - begin + dropped
                is_whole = not dropped and at - begin <= LINE_BYTES_MAX + 1
                yield start, self.start, data[begin : at - 1] if is_whole else None
                begin, dropped = at, 0
            at += len(line) + 1
        self._held, self._asked = len(data) - begin + dropped, at - begin + dropped
        self._pieces = [data[at if self._asked > LINE_BYTES_MAX + 1 else begin :]]

    def _hold(self, piece: bytes) -> None:
        self._held += len(piece)
        if self._held > LINE_BYTES_MAX:
            self._pieces.clear()
        else:
            self._pieces.append(piece)


def lines_of(blocks: Iterable[bytes]) -> Iterator[Line]:
    """All lines of these bytes, also a last one that has no end; that of an empty rest is none."""
    reader = LineReader()
    for block in blocks:
        yield from reader.lines(block)
    if reader.read_to > reader.start:
        yield reader.start, reader.read_to, reader.unfinished
