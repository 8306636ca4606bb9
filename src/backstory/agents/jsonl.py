"""Lines of JSON as agents really leave them: fast where they are well formed, patient where they are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from backstory.agents.lines import BLANK, lines_of
from backstory.lazy import lazy_regex
from backstory.model import encoded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
        return [_converted(each, decoder.type) for each in patiently(line)]
    except (msgspec.ValidationError, RecursionError) as refused:
        raise NotJson(str(refused)) from refused


def _converted(value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        # What is kept as it stands in the line can only be taken from text.
        return msgspec.json.decode(encoded(value), type=kind, strict=False)


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
