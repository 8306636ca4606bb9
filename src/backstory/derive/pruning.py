"""Texts of a record overwritten in place: its length, its lines, its numbers and its ids stay as they are.

A string that goes becomes ``"[pruned]"`` with blanks behind its closing quote, which mean nothing in JSON; so whoever
reads the record finds what it read before, but for the texts. What is no JSON becomes the mark and blanks.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.lazy import lazy_module, lazy_regex
from backstory.model import (
    Command,
    Compacted,
    Complete,
    Event,
    Init,
    ModelSwitch,
    ToolCall,
    ToolResult,
    Unknown,
    UserMessage,
)

if TYPE_CHECKING:
    import json
    from collections.abc import Callable, Collection, Iterable, Iterator

    from backstory.derive import file_touches
else:
    json = lazy_module("json")
    file_touches = lazy_module("backstory.derive.file_touches")

PROMPTS, SUMMARIES = "prompts", "summaries"
"""The parts of a session that are kept: what the person typed; that, and the summaries that were made of it."""
TOOL_OUTPUTS, IMAGES = "tool-outputs", "images"
"""Kinds that go while all else stays."""
MARK = "[pruned]"
TEXT_CHARS = 200
"""A string with more characters is a text, whatever is in it."""
LINE_CHARS = 24
"""From so many characters on a line of an output is known again where another record repeats it."""
HEAD_CHARS = 40
NESTED_MAX = 4
"""The most levels of JSON in strings of JSON that are looked through."""
_MARK, _SHORT = f'"{MARK}"'.encode(), b'"*"'
_STRING = lazy_regex(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BEHIND = lazy_regex(rb"[ \t\r\n]*+:")
_PLAIN = lazy_regex(rb"(?:[][{}:,\s0-9eE+.-]|true|false|null|NaN|Infinity)*+")
_TIME = lazy_regex(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)? ?(?:Z|UTC|[+-]\d\d:?\d\d)?")
_IMAGE = lazy_regex(r"data:image/|iVBORw0KGgo|/9j/|R0lGOD|UklGR")
_WORDS_OF_FORMATS = frozenset({
    "type", "subtype", "role", "kind", "status", "state", "table", "event", "phase", "name", "method", "op", "origin",
    "source", "id", "uuid", "tool", "toolName", "tool_name", "version", "mode", "outcome", "stop_reason", "media_type",
    "mimeType", "mime",
})  # fmt: skip
"""Keys whose values say what a record is: they go only if they are texts by themselves."""
_TAG = lazy_regex(r"<([A-Za-z][A-Za-z_-]{0,39})>")
_PATCH = "*** Begin Patch"
_PATCH_HEADS = (_PATCH, *(f"*** {act} File:" for act in ("Add", "Update", "Delete")), "*** Move to:", "*** End Patch")


class Pruning(Struct, frozen=True, kw_only=True):
    """The choice of what is pruned: all but what ``keep`` names, or these kinds alone."""

    keep: str | None = None
    kinds: frozenset[str] = frozenset()

    @property
    def words(self) -> list[str]:
        """As it is noted and said."""
        return [*([self.keep] if self.keep is not None else []), *sorted(self.kinds)]

    @classmethod
    def of(cls, words: Iterable[str]) -> Pruning:
        """The value of ``words``."""
        said = {*words}
        keep = PROMPTS if PROMPTS in said else SUMMARIES if SUMMARIES in said else None
        return cls(keep=keep, kinds=frozenset(said & {TOOL_OUTPUTS, IMAGES}))

    def __or__(self, other: Pruning) -> Pruning:
        """The choice that takes what either of both does."""
        return Pruning.of([*self.words, *other.words])

    def goes(self, event: Event, *, is_person: bool = True) -> bool:
        """Return True if the texts of an event go. ``is_person``: a person typed the prompts."""
        if self.keep is None:
            return TOOL_OUTPUTS in self.kinds and isinstance(event, ToolResult)
        match event:
            case UserMessage():
                return not is_person
            case Compacted():
                return self.keep != SUMMARIES
            case Command():
                return bool(event.output)
            case Init() | ModelSwitch() | Complete() | Unknown():
                return False
        return True

    def stays(self, event: Event, *, is_person: bool = True) -> bool:
        """Return True if the record of an event stays as it is, unless another event of it goes."""
        if isinstance(event, Unknown) or self.goes(event, is_person=is_person):
            return False
        return self.keep is None or not isinstance(event, Init | ModelSwitch | Complete)


def names_in(event: Event) -> Iterator[str]:
    """The strings of an event that are no text: names, ids and paths."""
    match event:
        case ToolCall():
            yield from (event.tool_use_id, event.tool_name, event.tool, event.file_path or "")
            for touch in file_touches.touches(event):
                yield from (touch.path, touch.to or "")
        case ToolResult():
            yield from (event.tool_use_id, event.tool_name, event.tool, event.file_path or "", *event.changes)
        case Init():
            yield from (event.cwd, event.model, event.version)
        case ModelSwitch():
            yield event.model
        case Command():
            yield event.name


def texts_in(event: Event) -> Iterator[str]:
    """All strings of an event, but for its names."""
    names = {*names_in(event)}
    yield from (text for text in _strings(msgspec.to_builtins(event)) if text and text not in names)


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _strings(each)
        case list() | tuple():
            for each in value:
                yield from _strings(each)


class PrunedTexts(Struct, kw_only=True):
    """The texts of a whole session by which its records are pruned."""

    names: set[str] = msgspec.field(default_factory=set)
    """Strings that stay wherever they are: names, paths, models, the title."""
    kept: set[str] = msgspec.field(default_factory=set)
    """Texts of events that stay: another record may repeat them."""
    output_lines: set[int] = msgspec.field(default_factory=set)
    """Hashes of the lines of outputs that go, by which they are known in records that say nothing else."""

    def note(self, events: Iterable[Event], what: Pruning, *, is_person: bool) -> None:
        """Note what the events of a record say."""
        for event in events:
            self.names.update(name for name in names_in(event) if name)
            if what.keep is not None and what.stays(event, is_person=is_person):
                self.kept.update(texts_in(event))
            elif what.keep is None and what.goes(event):
                self.output_lines.update(hash(line) for text in texts_in(event) for line in _lines(text))


def _lines(text: str) -> Iterator[str]:
    return (line for line in map(str.strip, text.splitlines()) if len(line) >= LINE_CHARS)


def pruned_record(
    record: bytes, events: Collection[Event], what: Pruning, known: PrunedTexts, *, is_person: bool = True,
    is_careful: bool = False, keeps_heads: bool = False,
) -> bytes:  # fmt: skip
    """A record as it is without what goes, as long as it was.

    ``events``: what it says. ``is_careful``: a string that holds a text which stays in it stays. ``keeps_heads``: of
    each string its first characters stay, by which its agent knows what it put there itself.
    """
    going = [event for event in events if what.goes(event, is_person=is_person)]
    staying = [event for event in events if what.stays(event, is_person=is_person)]
    if what.keep is None and not going:
        goes = _repeated(staying, what, known)
    elif staying and not going and IMAGES not in what.kinds:
        return record
    elif staying and not going:
        goes = _is_image
    else:
        goes = _texts(going, staying, what, known, is_careful=is_careful)
    return overwritten(record, goes, HEAD_CHARS if keeps_heads else 0)


def _is_image(text: str, _key: str) -> bool:
    return len(text) > TEXT_CHARS and _IMAGE.match(text) is not None


def _repeated(staying: Collection[Event], what: Pruning, known: PrunedTexts) -> Callable[[str, str], bool]:
    """Choose the strings of a record of which nothing goes by itself: images, and outputs that it repeats."""

    def goes(text: str, key: str) -> bool:
        if IMAGES in what.kinds and _is_image(text, key):
            return True
        if staying or not known.output_lines or len(text) < LINE_CHARS or text in known.names:
            return False
        return any(hash(line) in known.output_lines for line in _lines(text))

    return goes


def _texts(
    going: Collection[Event], staying: Collection[Event], what: Pruning, known: PrunedTexts, *, is_careful: bool
) -> Callable[[str, str], bool]:
    gone = {text for event in going for text in texts_in(event)}
    kept = [text for event in staying for text in texts_in(event)]

    def goes(text: str, key: str) -> bool:
        if text in known.names or _TIME.fullmatch(text):
            return False
        if IMAGES in what.kinds and _is_image(text, key):
            return True
        if text in known.kept or any(text in each for each in kept):
            return text in gone and key not in _WORDS_OF_FORMATS and not any(text in each for each in kept)
        if is_careful and any(each in text for each in kept):
            return False
        return is_text(text) or (text in gone and key not in _WORDS_OF_FORMATS)

    return goes


def is_text(text: str) -> bool:
    """Return True if a string is no name, id or path: it has a blank, a letter beyond ASCII, or very many characters.

    >>> is_text("src/main.py"), is_text("two words"), is_text("naïve")
    (False, True, True)
    """
    if text == MARK:
        return False
    return len(text) > TEXT_CHARS or not text.isascii() or any(sign.isspace() for sign in text)


def overwritten(record: bytes, goes: Callable[[str, str], bool], head: int = 0, level: int = 0) -> bytes:
    """A record without the strings that go: ``goes`` is asked for each with the key that it stands behind.

    ``head``: how many first characters of a string stay.
    """
    if not is_json(record):
        text = record.decode("utf-8", "replace")
        return blank(record) if text.strip() and goes(text.strip(), "") else record
    pieces, at, key = list[bytes](), 0, ""
    for found in _STRING.finditer(record):
        token = found[0]
        if _BEHIND.match(record, found.end()):
            key = token[1:-1].decode("utf-8", "replace")
            continue
        new = _overwritten(token, key, goes, head, level)
        if new is not token:
            pieces += (record[at : found.start()], new)
            at = found.end()
    if not pieces:
        return record
    pieces.append(record[at:])
    return b"".join(pieces)


def _overwritten(token: bytes, key: str, goes: Callable[[str, str], bool], head: int, level: int) -> bytes:
    try:
        text = json.loads(token, strict=False)
    except ValueError:
        text = token[1:-1].decode("utf-8", "replace")
    if not text.strip() or not goes(text, key):
        return token
    new = _inner(text, goes, head, level) if level < NESTED_MAX else None
    if new == text:
        return token
    if new is not None:
        encoded = json.dumps(new, ensure_ascii=False).encode("utf-8", "surrogatepass")
        if len(encoded) <= len(token):
            return encoded.ljust(len(token))
    # Never empty: of some texts an adapter makes nothing then, and an answer would be missing.
    return (_MARK if len(token) >= len(_MARK) else _SHORT).ljust(len(token))


def _inner(text: str, goes: Callable[[str, str], bool], head: int, level: int) -> str | None:
    """The rest of a text that is JSON itself, or a patch, or that begins with a tag; None: nothing is left."""
    if text[:1] in ("{", "[") and text != MARK:
        with suppress(ValueError, RecursionError):
            json.loads(text)
            data = text.encode("utf-8", "surrogatepass")
            return overwritten(data, goes, head, level + 1).decode("utf-8", "surrogatepass")
    if _PATCH in text:
        # The files that it changes are known by its heads.
        heads = [line for line in text[text.index(_PATCH) :].splitlines() if line.startswith(_PATCH_HEADS)]
        return "\n".join(heads)
    if (tag := _TAG.match(text)) is not None:
        # By its tag an adapter knows that nobody typed it.
        end = f"</{tag[1]}>"
        return f"{tag[0]}{MARK}{end if text.rstrip().endswith(end) else ''}"
    if head and len(text) > 2 * head:
        return text[:head] + MARK
    return None


def is_json(record: bytes) -> bool:
    """Return True if a record is JSON, or a piece of a document of it: strings, and what stands between them."""
    return _PLAIN.fullmatch(_STRING.sub(b"", record)) is not None


def blank(data: bytes) -> bytes:
    """Bytes that are no JSON, as the mark and blanks; their lines stay."""
    lines = data.split(b"\n")
    mark = MARK.encode()
    first = next((n for n, line in enumerate(lines) if len(line) >= len(mark)), -1)
    return b"\n".join((mark if n == first else b"").ljust(len(line)) for n, line in enumerate(lines))
