"""Sessions that the earliest builds kept as one JSON document each, written anew after every step.

It is ``{sessionId, startTime, chatMessages: [...], timeline: [...]}``, indented. Each element of its lists is a record
here, and so is what stands before the first and behind the last one: a record ends with the line that closes it, so a
document that was cut off still says what it says. One that is not indented is a single record.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct, field

from backstory import ids
from backstory.agents import jsonl
from backstory.lazy import lazy_regex

_ROOT_KEYS = frozenset({"sessionId", "startTime", "chatMessages", "timeline", "selectedModel"})
_BOM = b"\xef\xbb\xbf"
_OPENING = lazy_regex(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:sessionId|startTime|chatMessages|timeline|selectedModel)"\s*:')
_INDENT = lazy_regex(rb'(?:\xef\xbb\xbf)?\{\r?\n([ \t]{1,16})"')
_SESSION = lazy_regex(rb'"sessionId"\s*:\s*"([^"\\]{1,200})"')
_STARTED = lazy_regex(rb'"startTime"\s*:\s*"([^"\\]{1,40})"')
_any = msgspec.json.Decoder()


class Piece(Struct, kw_only=True):
    """The content of a record: elements of the two lists, and the rest by its names."""

    rest: dict[str, Any] = field(default_factory=dict)
    messages: list[Any] = field(default_factory=list)
    entries: list[Any] = field(default_factory=list)
    is_end: bool = False
    """True if the document ends with it."""


def record_end(head: bytes) -> re.Pattern[bytes]:
    """Return the pattern of the last line of each record, from the document's beginning."""
    indent = _INDENT.match(head)
    element = rb"(?:%b\},?|\}|\{.*\})\s*\Z" % re.escape(indent.group(1) * 2) if indent else rb"\}\s*\Z|\{.*\}\s*\Z"
    return re.compile(element)


def session_of(head: bytes) -> str | None:
    """The id of the session whose document begins like this; None for another kind of document, "" without one."""
    if not _OPENING.match(head):
        return None
    found = _SESSION.search(head)
    return found.group(1).decode("utf-8", "replace") if found else ""


def started_ms(head: bytes) -> int:
    """Return the begin of the session, ms since 1970; 0 if the document's beginning does not give it."""
    found = _STARTED.search(head) if _OPENING.match(head) else None
    return ids.parse_time_ms(found.group(1).decode("utf-8", "replace")) or 0 if found else 0


def is_record(line: bytes) -> bool:
    """Return True if these bytes are a record of a document, not a line of a log."""
    # What nearly every line of a log begins with is looked at first.
    return not line.startswith(b'{"type":') and (b"\n" in line or _OPENING.match(line) is not None)


def is_closed(record: bytes) -> bool:
    """Return True if a document ends with these bytes."""
    first, _, last = record.rstrip().rpartition(b"\n")
    if first:
        return last == b"}"
    found = piece(record)
    return found is not None and found.is_end


def native_id_of(record: bytes) -> str | None:
    """The id of the one element that a record holds."""
    found = piece(record)
    elements = [*found.entries, *found.messages] if found is not None and not found.rest else []
    session_id = elements[0].get("id") if len(elements) == 1 and isinstance(elements[0], dict) else None
    return session_id if isinstance(session_id, str) and session_id else None


def piece(record: bytes) -> Piece | None:
    """Return the content of a record; None if it is no part of a document."""
    text = record.removeprefix(_BOM).strip(b"\0 \t\r\n").removesuffix(b",")
    goes_on = text.startswith(b"]")
    if goes_on:
        text = b"{" + text[1:].lstrip().removeprefix(b",")
    for ending in (b"", b"]}"):
        try:
            (found,) = jsonl.decode(text + ending, _any)
        except (jsonl.NotJson, ValueError):
            continue
        if goes_on or (isinstance(found, dict) and not _ROOT_KEYS.isdisjoint(found)):
            return _of_root(found, is_end=not ending)
        return _of_element(found)
    return None


def _of_root(root: dict[str, Any], *, is_end: bool) -> Piece:
    lists = {name: root.pop(name, None) for name in ("chatMessages", "timeline")}
    messages, entries = (each if isinstance(each, list) else [] for each in lists.values())
    return Piece(rest=root, messages=messages, entries=entries, is_end=is_end)


def _of_element(found: Any) -> Piece:
    # Which list it stands in is not on its lines: a message has a role, an entry a type.
    if isinstance(found, dict) and "role" in found and "type" not in found:
        return Piece(messages=[found])
    return Piece(entries=[found])
