"""Texts of a record overwritten in place: its length, its lines, its numbers and its ids stay as they are.

A string that goes becomes ``"[pruned]"`` with blanks behind its closing quote, which mean nothing in JSON; so whoever
reads the record finds what it read before, but for the texts. What is no JSON becomes the mark and blanks.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.lazy import lazy_module, lazy_regex
from backstory.model import (
    AssistantText,
    Command,
    Compacted,
    Complete,
    Event,
    Init,
    ModelSwitch,
    Thinking,
    ToolCall,
    ToolResult,
    Unknown,
    UserMessage,
)

if TYPE_CHECKING:
    import json
    from collections.abc import Collection, Iterable, Iterator

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
_BETWEEN = frozenset({b"", b" ", b",", b", "})
"""Nearly always nothing else stands between two strings, or between a key and its string."""
_NO_BRACKETS = bytes(sign for sign in range(256) if sign not in b"[]{}")
_STRING = lazy_regex(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRING_OR_KEY = lazy_regex(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")([ \t\r\n]*+:)?+', re.DOTALL)
_PLAIN = lazy_regex(rb"(?:[][{}:,\s0-9eE+.-]|true|false|null|NaN|Infinity)*+")
_TIME = lazy_regex(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)? ?(?:Z|UTC|[+-]\d\d:?\d\d)?")
_IMAGE_HEADS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"II*\0", b"MM\0*", b"\0\0\1\0")
_IMAGE_BRANDS = frozenset({b"ftypavif", b"ftypavis", b"ftypheic", b"ftypheix", b"ftypmif1"})
_SVG = lazy_regex(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*(?:<!DOCTYPE svg[^>]*>\s*)?<svg[\s>]", re.DOTALL)
_BASE64 = lazy_regex(r"[A-Za-z0-9+/=\r\n]+")
_IMAGE_START_CHARS = 400
_IMAGE_URL = lazy_regex(rb"data:image(?:\\*/)[\w.+-]+(?:;[\w=.-]+)*,(?:[\w+/=%-]|\\+/)*")
_MEDIA_KEYS = frozenset({"media_type", "mediaType", "mimeType", "mime_type", "mime", "type"})
_DATA_KEYS = frozenset({"data", "base64", "blob"})
_OUTPUT_KEYS = frozenset({
    "stdout", "stderr", "output", "outputs", "fullOutput", "aggregated_output", "aggregatedOutput", "formatted_output",
    "toolUseResult", "structuredContent", "structured_content",
})  # fmt: skip
"""Keys behind which a tool's output stands, at any depth: each string there goes in records that are not kept."""
_TEXT_KEYS = _OUTPUT_KEYS | {"content", "text"}
"""The same where all that anybody but a person said goes, or a tool's output is in the record."""
_NAME_KEY = lazy_regex(
    r"(?:.*_)?(?:ids?|uuid|path|file|filename|dir|cwd|model|name)|.*[a-z](?:Ids?|ID|U[Uu][Ii][Dd]|Path|Dir|Cwd|Model)|fileName"
)
"""Keys of ids and paths: what stands behind them stays there, unless it is a text."""
_WORDS_OF_FORMATS = frozenset({
    "type", "subtype", "role", "kind", "status", "state", "table", "event", "phase", "name", "method", "op", "origin",
    "source", "id", "uuid", "tool", "toolName", "tool_name", "version", "mode", "outcome", "stop_reason", "media_type",
    "mimeType", "mime",
})  # fmt: skip
"""Keys whose values say what a record is: they go only if they are texts by themselves."""
_BLANK = lazy_regex(r"\s")
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
            is_output = isinstance(event, ToolResult) or (isinstance(event, Command) and bool(event.output))
            return TOOL_OUTPUTS in self.kinds and is_output
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
            # Of a shell command that a person typed the mark may be a field of its own.
            yield from (event.name, event.name.lstrip("! "))


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
                self.kept.update(_left(texts_in(event), what))
            elif what.goes(event, is_person=is_person) and not isinstance(event, ToolCall):
                # What holds a blank goes by itself, unless only outputs do.
                lines = (line for text in texts_in(event) for line in _lines(text))
                self.output_lines.update(hash(line) for line in lines if what.keep is None or not is_text(line))

    def has_lines_of(self, text: str) -> bool:
        """Return True if a text is a line of an output, or has a long one."""
        if not self.output_lines:
            return False
        return hash(text.strip()) in self.output_lines or any(
            hash(line) in self.output_lines for line in _lines(text) if len(line) >= LINE_CHARS
        )


def _lines(text: str) -> Iterator[str]:
    return filter(None, map(str.strip, text.splitlines()))


def _left(texts: Iterable[str], what: Pruning) -> Iterator[str]:
    return (without_images(text) for text in texts) if IMAGES in what.kinds else iter(texts)


class _Way(Enum):
    STAYS = 0
    GOES = 1
    """It becomes the mark."""
    INNER = 2
    """The same, but for what is left of JSON, of a patch, or of a text that begins with a tag."""


class _Choice(Struct, kw_only=True):
    """The rules by which strings of a record go."""

    what: Pruning
    known: PrunedTexts
    takes_texts: bool
    """False: only images go."""
    calls: list[Any] = msgspec.field(default_factory=list)
    """The arguments of its calls."""
    gone: set[str] = msgspec.field(default_factory=set)
    whole: set[str] = msgspec.field(default_factory=set)
    """Outputs, answers and thoughts: nothing of them is left, whatever they look like."""
    kept: list[str] = msgspec.field(default_factory=list)
    images: set[str] = msgspec.field(default_factory=set)
    output_keys: frozenset[str] = _TEXT_KEYS
    takes_all: bool = True
    """Every text goes, not only what is known as an output."""
    is_careful: bool = False
    head: int = 0

    def way(self, text: str, key: str, *, is_output: bool) -> _Way:
        """Return what becomes of the string behind ``key``. ``is_output``: it stands where outputs do."""
        known, is_word = self.known, key in _WORDS_OF_FORMATS
        if IMAGES in self.what.kinds and (text in self.images or _is_image(text)):
            return _Way.GOES
        if not self.takes_texts or text in known.names:
            return _Way.STAYS
        if text in known.kept or any(text in each for each in self.kept):
            is_gone = text in self.gone and not is_word and not any(text in each for each in self.kept)
            return _Way.GOES if is_gone else _Way.STAYS
        if self.is_careful and any(each in text for each in self.kept):
            return _Way.STAYS
        if not is_word and text.strip() in self.whole:
            return _Way.GOES
        if _TIME.fullmatch(text):
            return _Way.STAYS
        if self.takes_all and (is_text(text) or (text in self.gone and not is_word)):
            return _Way.INNER
        if is_word or text == MARK or _NAME_KEY.fullmatch(key):
            return _Way.STAYS
        return _Way.INNER if is_output or known.has_lines_of(text) else _Way.STAYS

    def entered(self, text: str, key: str) -> _Choice | None:
        """Return the rules for the strings in a text that is JSON; None: it goes whole.

        Arguments of a call are looked through, and what an adapter looks through for the texts of the record.
        """
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if any(value == each for each in self.calls):
            return _Arguments(what=self.what, known=self.known, takes_texts=True, kept=self.kept, images=self.images)
        is_call = bool(self.calls) and key not in _TEXT_KEYS
        said = self.whole.union(self.kept)
        return self if is_call or any(each.strip() in said for each in _strings(value)) else None


class _Arguments(_Choice, kw_only=True):
    """The same for the arguments of a call: only names stay."""

    def way(self, text: str, key: str, *, is_output: bool) -> _Way:
        found = super().way(text, key, is_output=is_output)
        if found is not _Way.STAYS or text in self.known.names or _TIME.fullmatch(text):
            return found
        is_kept = text in self.known.kept or any(text in each for each in self.kept)
        return _Way.STAYS if is_kept else _Way.GOES

    def entered(self, text: str, key: str) -> _Choice | None:
        return None


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
    images = set[str]()
    if IMAGES in what.kinds:
        images = _images_in(record)
        record = _without_urls(record)
    takes_texts = bool(going or not staying) and (what.keep is not None or TOOL_OUTPUTS in what.kinds)
    if not takes_texts and IMAGES not in what.kinds:
        return record
    is_loose = what.keep is None and not going
    said = (AssistantText, Thinking, ToolResult, Command)
    choice = _Choice(
        what=what, known=known, takes_texts=takes_texts, images=images, is_careful=is_careful,
        calls=[event.input for event in events if isinstance(event, ToolCall)],
        gone={text for event in going for text in _left(texts_in(event), what)},
        whole={text.strip() for event in going if isinstance(event, said) for text in _left(texts_in(event), what)},
        kept=[text for event in staying for text in _left(texts_in(event), what)],
        output_keys=_OUTPUT_KEYS if is_loose and b'"tool_result"' not in record else _TEXT_KEYS, takes_all=not is_loose,
        head=HEAD_CHARS if keeps_heads else 0,
    )  # fmt: skip
    return _overwritten(record, choice)


# images ---------------------------------------------------------------------------------------------------------------


def is_image(data: bytes) -> bool:
    """Return True if bytes begin as an image does."""
    is_bmp = data.startswith(b"BM") and data[6:10] == bytes(4)
    return data.startswith(_IMAGE_HEADS) or is_bmp or data[4:12] in _IMAGE_BRANDS or _SVG.match(data) is not None


def _is_image(text: str) -> bool:
    if len(text) <= TEXT_CHARS:
        return False
    start = text[:_IMAGE_START_CHARS]
    if not _BASE64.fullmatch(start):
        return start.startswith("data:image/")
    signs = "".join(start.split()).rstrip("=")
    return is_image(a2b_base64(signs[: len(signs) // 4 * 4]))


def _images_in(record: bytes) -> set[str]:
    """The strings of a record that stand beside the kind of an image."""
    found, todo = set[str](), list[Any]()
    if b"image/" in record or b"image\\/" in record:
        with suppress(ValueError, RecursionError):
            todo.append(json.loads(record, strict=False))
    while todo:
        match todo.pop():
            case dict() as each:
                if any(str(each.get(key)).startswith("image/") for key in _MEDIA_KEYS):
                    beside = ((key, text) for key, text in each.items() if isinstance(text, str))
                    found.update(text for key, text in beside if key in _DATA_KEYS or len(text) > TEXT_CHARS)
                todo += each.values()
            case list() as every:
                todo += every
            case _:
                pass
    return found


def without_images(text: str) -> str:
    """A text without the images that are in it as addresses.

    >>> without_images("![a lamp](data:image/png;base64,iVBORw0KGgo=) is lit")
    '![a lamp]([pruned]) is lit'
    """
    if "data:image/" not in text:
        return text
    return _IMAGE_URL.sub(MARK.encode(), text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def without_its_images(event: Event) -> Event:
    """A prompt without the images that are in it as addresses; any other event as it is."""
    if not isinstance(event, UserMessage):
        return event
    return msgspec.structs.replace(event, content=without_images(event.content))


def _without_urls(record: bytes) -> bytes:
    if b"data:image" not in record:
        return record
    mark = MARK.encode()
    if not is_json(record):
        return _IMAGE_URL.sub(lambda found: mark.ljust(len(found[0])), record)
    return _STRING.sub(lambda token: _IMAGE_URL.sub(mark, token[0]).ljust(len(token[0])), record)


# texts ----------------------------------------------------------------------------------------------------------------


def is_text(text: str) -> bool:
    """Return True if a string is no name, id or path: it has a blank, a letter beyond ASCII, or very many characters.

    >>> is_text("src/main.py"), is_text("two words"), is_text("naïve")
    (False, True, True)
    """
    if text == MARK:
        return False
    return len(text) > TEXT_CHARS or not text.isascii() or _BLANK.search(text) is not None


def _overwritten(record: bytes, choice: _Choice, level: int = 0) -> bytes:
    """A record without the strings that go."""
    if not is_json(record):
        text = record.decode("utf-8", "replace").strip()
        goes = text and choice.way(text, "", is_output=False) is not _Way.STAYS
        return blank(record) if goes else record
    pieces, at, key = list[bytes](), 0, ""
    # Brackets that are open, and how many were where an output began.
    depth, within, before, is_behind_key = 0, 0, 0, False
    for found in _STRING_OR_KEY.finditer(record):
        start, end = found.span(1)
        if (between := record[before:start]) not in _BETWEEN:
            for sign in between.translate(None, _NO_BRACKETS):
                if sign in b"[{":
                    depth += 1
                    if not within and is_behind_key and key in choice.output_keys:
                        within = depth
                else:
                    depth -= 1
                    if depth < within:
                        within = 0
                is_behind_key = False
        token, before, is_behind_key = found[1], found.end(), found[2] is not None
        if is_behind_key:
            key = token[1:-1].decode("utf-8", "replace")
            continue
        new = _new_token(token, key, choice, level, is_output=within > 0 or key in choice.output_keys)
        if new is not token:
            pieces += (record[at:start], new)
            at = end
    if not pieces:
        return record
    pieces.append(record[at:])
    return b"".join(pieces)


def _new_token(token: bytes, key: str, choice: _Choice, level: int, *, is_output: bool) -> bytes:
    try:
        text = json.loads(token, strict=False) if b"\\" in token else token[1:-1].decode("utf-8", "surrogatepass")
    except ValueError:
        text = token[1:-1].decode("utf-8", "replace")
    way = choice.way(text, key, is_output=is_output) if text.strip() else _Way.STAYS
    if way is _Way.STAYS:
        return token
    new = _inner(text, key, choice, level) if way is _Way.INNER and level < NESTED_MAX else None
    if new == text:
        return token
    if new is not None:
        encoded = json.dumps(new, ensure_ascii=False).encode("utf-8", "surrogatepass")
        if len(encoded) <= len(token):
            return encoded.ljust(len(token))
    # Never empty: of some texts an adapter makes nothing then, and an answer would be missing.
    return (_MARK if len(token) >= len(_MARK) else _SHORT).ljust(len(token))


def _inner(text: str, key: str, choice: _Choice, level: int) -> str | None:
    """The rest of a text that is JSON itself, or a patch, or that begins with a tag; None: nothing is left."""
    if text.lstrip()[:1] in ("{", "[") and (inner := choice.entered(text, key)) is not None:
        data = text.encode("utf-8", "surrogatepass")
        return _overwritten(data, inner, level + 1).decode("utf-8", "surrogatepass")
    if choice.calls and _PATCH in text:
        # The files that it changes are known by its heads.
        heads = [line for line in text[text.index(_PATCH) :].splitlines() if line.startswith(_PATCH_HEADS)]
        return "\n".join(heads)
    if (tag := _TAG.match(text)) is not None:
        # By its tag an adapter knows that nobody typed it.
        end = f"</{tag[1]}>"
        end = end if text.rstrip().endswith(end) else ""
        return f"{tag[0]}{MARK if len(text) >= len(tag[0] + MARK + end) else '*'}{end}"
    if choice.head and len(text) > 2 * choice.head:
        return text[: choice.head] + MARK
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
