"""Records without their person: texts become filler of the same length and kind, ids other ids, times other times.

What stays are the words of the format: keys, types, roles and versions. A key that no format has stays only if it is
made of words that formats have, or if it is the one that the case is about; any other one is ``key1``.
"""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

from backstory import agents
from backstory.agents import jsonl
from backstory.agents.formats import decoded_keys, format_of, is_plain
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backstory.agents.formats import Format

SAYING = frozenset({"type", "subtype", "role", "kind", "status", "table"})
"""Keys whose values are words of a format, if formats have them."""
PREFIXES = frozenset({"call", "msg", "prt", "req", "resp", "ses", "toolu"})
DEPTH_MAX = 100
BEGIN_S = 1_767_225_600
"""2026-01-01, when every case begins."""
_WORD = lazy_regex(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_SAID = lazy_regex(r"[$_]{0,2}[A-Za-z][A-Za-z0-9_.:/-]{0,63}")
_HOME = lazy_regex(r"(?:home|Users)[/\\]+([^/\\\"\s]+)")
_TIME = lazy_regex(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d(:\d\d(?:[.,]\d+)?)? ?(Z|[+-]\d\d:?\d\d)?")
_VERSION = lazy_regex(r"v?\d{1,4}(\.\d{1,5}){1,4}([-.+]?(alpha|beta|dev|nightly|preview|rc)?[.-]?\d{0,8})?")
_ID = lazy_regex(r"(?=[^\s]*\d)[A-Za-z0-9][A-Za-z0-9_\-:|]{6,255}")
_HEX = lazy_regex(r"[0-9a-fA-F-]+")
_KEPT_SIGNS = frozenset(" \n\t\r/\\.,:;-_@")


class Scrubber:
    """Scrubs the records of one case. The same id becomes the same other one in all of them."""

    def __init__(self, agent: str, about: Iterable[str] = ()) -> None:
        """``about``: the words of the format that nobody knows, which the case is for."""
        self._form, self._about = format_of(agent), {*about}
        self._words = _words_of_formats()
        self._known = set[str]() if self._form is None else _names(self._form)
        self._ids: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        self._times: dict[Any, int] = {}
        self._persons: set[str] = set()
        self.kept: set[str] = set()
        """Words that stayed though no format has them."""

    def line(self, line: bytes) -> bytes:
        """Return a record scrubbed, as a line of JSON. Raises NotJson."""
        text = line.decode("utf-8", "replace")
        self._persons |= {word.casefold() for name in _HOME.findall(text) for word in _WORD.findall(name)}
        records = jsonl.patiently(line)
        return "".join(_encoded(self._value(each, "", 0), like=text) for each in records).encode()

    def text(self, text: str) -> str:
        """Return a text that stands in no record, such as a folder's name, scrubbed."""
        return self._text(text, "", 0)

    def _value(self, value: Any, path: str, depth: int) -> Any:
        if depth > DEPTH_MAX:
            return None
        match value:
            case bool() | None:
                return value
            case str():
                return self._text(value, path, depth)
            case int() | float():
                return self._number(value)
            case dict():
                return {
                    (word := self._key(key)): self._value(each, f"{path}.{word}" if path else word, depth + 1)
                    for key, each in value.items()
                }
            case list():
                return [self._value(each, f"{path}[]", depth + 1) for each in value]
        return None

    # words ------------------------------------------------------------------------------------------------------------

    def _key(self, key: str) -> str:
        if is_plain(key) and self._may_stay(key):
            return key
        if key not in self._keys:
            self._keys[key] = f"key{len(self._keys) + 1}"
        return self._keys[key]

    def _may_stay(self, word: str) -> bool:
        """Return True for a word of the format: one that formats have, or are made of, or that the case is about."""
        if not _SAID.fullmatch(word) or self._persons.intersection(each.casefold() for each in _WORD.findall(word)):
            return False
        if word in self._known:
            return True
        is_made = all(each.casefold() in self._words for each in _WORD.findall(word))
        if word in self._about or is_made:
            self.kept.add(word)
            return True
        return False

    def _text(self, text: str, path: str, depth: int) -> str:
        form = self._form
        if form is not None and path in form.version and _VERSION.fullmatch(text):
            return text
        last = path.rpartition(".")[2].removesuffix("[]")
        says = (form is not None and path in form.kind) or last in SAYING
        if says and (text in self._about or text in self._known) and self._may_stay(text):
            return text
        if text[:1] in ("{", "["):
            with suppress(ValueError, RecursionError):
                return _encoded(self._value(json.loads(text), path, depth + 1), like=text)
        if (found := _TIME.fullmatch(text)) is not None:
            return self._time(text, found.group(1), found.group(3))
        return self._id(text) if _ID.fullmatch(text) else filler(text)

    def _id(self, text: str) -> str:
        if text not in self._ids:
            random = Random(len(self._ids))
            made = _like(text, random)
            while made in self._ids.values():
                made = _like(text, random)
            self._ids[text] = made
        return self._ids[text]

    # numbers ----------------------------------------------------------------------------------------------------------

    def _time(self, text: str, between: str, zone: str | None) -> str:
        at = self._times.setdefault(text, len(self._times)) % 86_400
        hour, minute, second = at // 3_600, at // 60 % 60, at % 60
        digits = iter(f"20260101{hour:02}{minute:02}{second:02}".ljust(len(text), "0"))
        body = text[: len(text) - len(zone or "")]
        return "".join(next(digits) if each.isdigit() else each for each in body) + (
            "".join("0" if each.isdigit() else "+" if each in "+-" else each for each in zone or "")
        )

    def _number(self, value: int | float) -> int | float:
        if isinstance(value, float):
            return value if value in (0.0, 1.0) else 1.5 if abs(value) >= 1 else 0.5
        size = abs(value)
        if size < 100:
            return value
        for unit in (1, 1_000, 1_000_000):
            if 10**9 * unit <= size < 10**10 * unit:
                return (BEGIN_S + self._times.setdefault(value, len(self._times))) * unit
        return int(f"{1 if value > 0 else -1}{'0' * (len(str(size)) - 1)}")


def filler(text: str) -> str:
    """A text of the same length that says nothing.

    >>> filler("Ann's code: /home/ann/a.py")
    'Xxxxx xxxx: /xxxx/xxx/x.xx'
    """
    return "".join(
        "0" if each.isdigit() else each if each in _KEPT_SIGNS else "X" if each.isupper() else "x" for each in text
    )


def _like(text: str, random: Random) -> str:
    """An id with other letters and digits in the same places; a prefix that ids of models have stays."""
    prefix, sign, _ = text.partition("_")
    start = len(prefix) + 1 if sign and prefix in PREFIXES else 0
    letters = "abcdef" if _HEX.fullmatch(text) else "abcdefghjkmnpqrstvwxyz"
    made = []
    for each in text[start:]:
        letter = random.choice("0123456789" if each.isdigit() else letters)
        made.append(each if not each.isalnum() else letter.upper() if each.isupper() else letter)
    return text[:start] + "".join(made)


def _encoded(value: Any, like: str) -> str:
    separators = None if '": ' in like[:200] else (",", ":")
    return json.dumps(value, ensure_ascii=False, separators=separators)


def _names(form: Format) -> set[str]:
    """Every single word that a format names: keys, types of records and of elements."""
    paths = [*form.known, *decoded_keys(form), *(path for paths in form.seen.values() for path in paths)]
    words = {word for path in paths for word in path.replace("[", ".").replace("]", "").split(".")}
    words |= {word for kind in form.seen for word in kind.split("/")} | {*form.seen}
    return {word for word in words if _SAID.fullmatch(word)}


def _words_of_formats() -> set[str]:
    """The parts of the words of all formats, in small letters."""
    found = set[str]()
    for name in agents.names():
        form = format_of(name) if agents.is_ours(name) else None
        if form is not None:
            found |= {part.casefold() for word in _names(form) for part in _WORD.findall(word)}
    return found
