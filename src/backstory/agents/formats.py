"""The shape of records: the kinds that an agent's log has, the keys of each, and which of them an adapter knows.

A key is known if the adapter decodes it, or if ``formats.json`` beside the adapter names it. There ``seen`` is what the
recorded cases have (``python -m tests.set_formats`` writes it), ``known`` what nobody recorded and nobody needs.

A key is named by its path: ``message.content[text].citations`` is a key of the blocks of type ``text``. A key that is
no plain word, such as a path or an id, is ``*``, so that no name of anybody gets into a list.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field, inspect

from backstory import agents
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_NAME = "formats.json"
EVERY = "*"
"""In place of a kind: of most kinds. In place of a key: any that is no plain word."""
PLAIN = lazy_regex(r"[$_]{0,2}[A-Za-z][A-Za-z0-9_]*(?:[-/][A-Za-z_]+)*")
WORD_CHARS_MAX = 64
KINDS_MAX = CHILDREN_MAX = 1_000
"""The most kinds, and the most keys in one place, that are distinguished; others are ``*``."""
DEPTH_MAX = 12
_TYPED = lazy_regex(r"\[[^]]+\]")


class Format(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words of ``formats.json``: paths of keys, in which ``[]`` means the elements of every type."""

    kind: tuple[str, ...] = ("type",)
    """The keys whose words say what a record is."""
    version: tuple[str, ...] = ()
    """The keys that give the version of the agent; the first that a record has counts."""
    packed: tuple[str, ...] = ()
    """KnownKeys whose text is JSON itself."""
    free: tuple[str, ...] = ()
    """KnownKeys below which anybody names keys: arguments of tools, results."""
    maps: tuple[str, ...] = ()
    """KnownKeys right below which anybody names keys: models, files. What those hold is looked at."""
    decoded: tuple[str, ...] = ()
    """The types that the adapter decodes records as: ``package.module:Type``."""
    known: tuple[str, ...] = ()
    """KnownKeys that are kept and not read, and that no recorded case has."""
    seen: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Keys of each kind that the cases have, with the versions that wrote them: none if all did that are at ''."""


class KeyNode:
    """A key in its place, with those below it."""

    __slots__ = ("below", "depth", "is_known", "is_map", "is_open", "is_packed", "path")

    def __init__(self, path: str, depth: int, *, is_known: bool = True) -> None:
        self.path, self.depth, self.is_known = path, depth, is_known
        self.is_open, self.is_map, self.is_packed = is_known and depth < DEPTH_MAX, False, False
        self.below: dict[str, KeyNode] = {}


class KnownKeys:
    """Walks records of one agent. With ``learns`` every key counts as known, so what is below it is walked, too."""

    def __init__(self, form: Format, *, learns: bool = False) -> None:
        self.form, self._learns = form, learns
        self._plain = {*form.known, *decoded_keys(form)} if not learns else set[str]()
        self._free, self._packed, self._maps = set(form.free), set(form.packed), set(form.maps)
        self._kinds: dict[str, KeyNode] = {}

    def kind(self, record: dict[str, Any]) -> str:
        """Return what a record is, in words of its own; '' if it does not say."""
        words = (_at(record, path) for path in self.form.kind)
        said = "/".join(word for word in words if isinstance(word, str) and word)
        if said in self._kinds or len(self._kinds) < KINDS_MAX:
            return said if len(said) <= 2 * WORD_CHARS_MAX else EVERY
        return EVERY

    def has_case(self, kind: str) -> bool:
        """Return True if a recorded case has a record of this kind, or if no case is listed at all."""
        return kind in self.form.seen or not self.form.seen

    def unknown(self, kind: str, record: dict[str, Any]) -> Iterator[KeyNode]:
        """The keys of a record that are not known; with ``learns`` all of them."""
        top = self._kinds.get(kind)
        if top is None:
            top = self._kinds[kind] = KeyNode("", 0)
        todo, seen = [(record, top)], self.form.seen.get(kind, {})
        while todo:
            value, key = todo.pop()
            for word, each in value.items():
                child = key.below.get(word) or self._child(key, word, seen)
                if self._learns or not child.is_known:
                    yield child
                if child.is_open:
                    todo += self._inside(child, each)

    def _inside(self, key: KeyNode, value: Any) -> Iterator[tuple[dict[str, Any], KeyNode]]:
        if key.is_packed and isinstance(value, str):
            with suppress(msgspec.DecodeError, UnicodeEncodeError, RecursionError):
                value = msgspec.json.decode(value)
        if type(value) is dict:
            yield value, self._element(key, value.get("type")) if key.is_packed else key
        elif type(value) is list:
            for each in _elements(value):
                yield each, self._element(key, each.get("type"))

    def _element(self, key: KeyNode, kind: Any) -> KeyNode:
        word = f"[{kind if isinstance(kind, str) and is_plain(kind) else ''}]"
        found = key.below.get(word)
        if found is None:
            word = word if len(key.below) < CHILDREN_MAX else "[]"
            found = key.below.setdefault(word, self._key(key, f"{key.path}{word}", is_known=True))
        return found

    def _child(self, key: KeyNode, word: str, seen: dict[str, list[str]]) -> KeyNode:
        name = word if is_plain(word) and not key.is_map and len(key.below) < CHILDREN_MAX else EVERY
        found = key.below.get(name)
        if found is None:
            path = f"{key.path}.{name}" if key.path else name
            every = self.form.seen.get(EVERY, {})
            is_known = self._learns or path in seen or path in every or _plain(path) in self._plain
            found = key.below[name] = self._key(key, path, is_known=is_known)
        return found

    def _key(self, above: KeyNode, path: str, *, is_known: bool) -> KeyNode:
        key, names = KeyNode(path, above.depth + 1, is_known=is_known), {path, _plain(path)}
        key.is_open &= self._free.isdisjoint(names)
        key.is_map, key.is_packed = not self._maps.isdisjoint(names), not self._packed.isdisjoint(names)
        return key


def format_of(name: str) -> Format | None:
    """Return what an adapter says about its keys; None if it says nothing. Raises UnknownAgent, AgentUnusable."""
    if agents.is_ours(name):
        folder = Path(agents.__file__).parent / name
    else:
        # The module of another package that has the part `log`.
        folder = Path(sys.modules[type(agents.load(name).log).__module__].__file__ or "").parent
    with suppress(FileNotFoundError):
        return msgspec.json.decode((folder / FILE_NAME).read_bytes(), type=Format)
    return None


def own_words(form: Format) -> frozenset[str]:
    """The keys that an adapter knows anywhere, each by itself; a word beyond them may be anybody's.

    >>> sorted(own_words(Format(known=("said.by", "of[text].x"))))
    ['by', 'of', 'said', 'x']
    """
    seen = (path for keys in form.seen.values() for path in keys)
    paths = [*seen, *form.known, *form.free, *form.maps, *form.packed, *decoded_keys(form)]
    return frozenset(word for path in paths for word in _TYPED.sub("", path).replace("[]", "").split(".")) - {"", EVERY}


def newest_known(form: Format) -> str | None:
    """The newest version of an agent of which a case was recorded; None where none says."""
    versions = {each for keys in form.seen.values() for said in keys.values() for each in said}
    return max(versions, key=version_order, default=None)


def versions_in(form: Format, data: bytes) -> Iterator[str]:
    """The versions of the agent that lines of a log name; a line that is cut names none."""
    for line in data.splitlines():
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            record = msgspec.json.decode(line)
            if isinstance(record, dict) and (found := version_in(form, record)):
                yield found


def is_plain(word: str) -> bool:
    """Return True if a key is a word of a format, and not a path, an id or a name in somebody's map.

    >>> [is_plain(word) for word in ("tool_use_id", "$set", "/home/ann", "9f3c", "a b")]
    [True, True, False, False, False]
    """
    return len(word) <= WORD_CHARS_MAX and PLAIN.fullmatch(word) is not None


def version_order(version: str | None) -> list[tuple[int, int, str]]:
    """By which versions are sorted.

    >>> sorted(["2.1.10", "2.1.9", "2.1.9-beta"], key=version_order)
    ['2.1.9', '2.1.9-beta', '2.1.10']
    """
    words = (version or "").replace("-", ".").split(".")
    return [(1, int(word), "") if word.isascii() and word.isdecimal() else (0, 0, word) for word in words]


def version_in(form: Format, record: dict[str, Any]) -> str | None:
    """Return the version of the agent that a record names."""
    found = next((each for path in form.version if (each := _at(record, path)) is not None), None)
    return str(found)[:WORD_CHARS_MAX] if isinstance(found, str | int) and found != "" else None


def _plain(path: str) -> str:
    return _TYPED.sub("[]", path)


def _at(record: dict[str, Any], path: str) -> Any:
    value: Any = record
    for word in path.split("."):
        value = value.get(word) if isinstance(value, dict) else None
    return value


def _elements(values: list[Any]) -> Iterator[dict[str, Any]]:
    for each in values:
        if type(each) is dict:
            yield each
        elif type(each) is list:
            yield from (inner for inner in each if type(inner) is dict)


def decoded_keys(form: Format) -> set[str]:
    """The keys of the types that an adapter decodes."""
    found = set[str]()
    for name in form.decoded:
        module, _, kind = name.partition(":")
        _note(inspect.type_info(getattr(import_module(module), kind)), "", found, 0)
    return found


def _note(kind: inspect.Type, path: str, found: set[str], depth: int) -> None:
    match kind:
        case inspect.StructType() if depth < DEPTH_MAX:
            below = f"{path}." if path else ""
            found.update(filter(None, [kind.tag_field and f"{below}{kind.tag_field}"]))
            for each in kind.fields:
                found.add(f"{below}{each.encode_name}")
                _note(each.type, f"{below}{each.encode_name}", found, depth + 1)
        case inspect.ListType():
            _note(kind.item_type, f"{path}[]", found, depth)
        case inspect.UnionType():
            for one in kind.types:
                _note(one, path, found, depth)
