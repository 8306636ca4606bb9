"""A member in a JSON text of another program, added or removed; comments and commas at the end are read, too.

A member is added as the first of its object. So no line of the others changes, and a comment stays with its member.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from backstory.agents.text_edit import NotEditable, TextEdit, newline_of
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = lazy_regex(
    r'(?P<space>[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)|"(?:[^"\\]|\\.)*"|[][{},:]|[^][{},:"/ \t\r\n]+', re.DOTALL
)
_LINE_BEFORE = lazy_regex(r"\r?\n([ \t]*)\Z")
_REST_OF_LINE = lazy_regex(r"[ \t]*(?:/\*[^\r\n]*?\*/[ \t]*)*(?://[^\r\n]*)?(?=\r?\n)")
_SPACED_COLON = lazy_regex(r'"\s*:\s')
INDENT = "  "


class _Member(NamedTuple):
    """The place of a member. ``comma``: behind its comma; its end if it has none."""

    key: str
    start: int
    value: int
    end: int
    comma: int


class _Object(NamedTuple):
    open: int
    close: int
    members: list[_Member]

    def named(self, key: str) -> _Member | None:
        return next((each for each in self.members if each.key == key), None)


def parse(text: str) -> Any:
    """The value of a text. Raises ValueError, RecursionError."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads("".join(_without_comments(text)))


def has_extras(text: str) -> bool:
    """Return True if a text that can be parsed has comments, or commas at the end, which plain JSON has not."""
    try:
        json.loads(text)
    except ValueError:
        return bool(text.strip())
    return False


def _without_comments(text: str) -> Iterator[str]:
    """The tokens of a text as plain JSON has them. Raises ValueError."""
    end, comma = 0, False
    for token in _TOKEN.finditer(text):
        if token.start() != end:
            break
        end = token.end()
        if token["space"] is not None:
            # Lines stay lines, for what an error says.
            yield "\n" * token[0].count("\n") or " "
            continue
        if comma and token[0] not in ("}", "]"):
            yield ","
        comma = token[0] == ","
        if not comma:
            yield token[0]
    if end != len(text):
        line = text.count("\n", 0, end) + 1
        raise ValueError(f"line {line} cannot be read")


def insertion(text: str, table: str, name: str, value: Any) -> TextEdit:
    """Return the edit that adds a member ``name`` to the object ``table`` of a text, and that object if it is missing.

    Raises NotEditable where the text is no object, or ``table`` none.
    """
    if not text.strip():
        whole = json.dumps({table: {name: value}}, indent=INDENT, ensure_ascii=False)
        return TextEdit(len(text), len(text), f"{whole}\n".replace("\n", newline_of(text)))
    top = _top(text)
    outer = top.named(table)
    if outer is None:
        return _first_in(text, top, table, {name: value})
    return _first_in(text, _object(text, outer, table), name, value)


def removal(text: str, table: str, name: str, *, with_table: bool) -> list[TextEdit]:
    """Return the edits that remove a member ``name`` of the object ``table``; ``with_table``: also that, if it holds
    nothing else, not even a comment.

    Raises NotEditable where there is none.
    """
    top = _top(text)
    outer = top.named(table)
    inner = _object(text, outer, table) if outer is not None else None
    member = inner.named(name) if inner is not None else None
    if outer is None or inner is None or member is None:
        raise NotEditable(f"has no {table}.{name}")
    if with_table and _is_alone(text, inner, member):
        return _cut(text, top, outer)
    return _cut(text, inner, member)


def _top(text: str) -> _Object:
    first = next((token for token in _TOKEN.finditer(text) if token["space"] is None), None)
    if first is None or first[0] != "{":
        raise NotEditable("holds no object")
    return _object_at(text, first.start())


def _object(text: str, member: _Member, name: str) -> _Object:
    if text[member.value] != "{":
        raise NotEditable(f"has a {name} that is no object")
    return _object_at(text, member.value)


def _object_at(text: str, start: int) -> _Object:
    """The object that begins at ``start``, in a text that can be parsed."""
    depth, members, key, value, end = 0, list[_Member](), None, None, start
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if token["space"] is not None or (depth == 1 and mark == ":"):
            continue
        if mark in ("}", "]"):
            depth -= 1
        if depth == 1 and key is None and mark[0] == '"':
            key = token
        elif depth == 1 and key is not None and mark != ",":
            value, end = token.start() if value is None else value, token.end()
        if key is not None and value is not None and (depth == 0 or (depth == 1 and mark == ",")):
            members.append(_Member(json.loads(key[0]), key.start(), value, end, token.end() if mark == "," else end))
            key = value = None
        if depth == 0 and mark == "}":
            return _Object(start, token.start(), members)
        if mark in ("{", "["):
            depth += 1
    raise NotEditable("has an object without its end")


def _first_in(text: str, within: _Object, key: str, value: Any) -> TextEdit:
    """A member in front of the others of an object, laid out as they are."""
    newline, unit = newline_of(text), _unit(text)
    if not within.members:
        if "\n" not in text.strip() and text.strip() != "{}":
            return TextEdit(within.open + 1, within.open + 1, _compact(text, key, value))
        base = _indent_at(text, within.open)
        end = "" if "\n" in text[within.open : within.close] else newline + base
        at = _behind_brace(text, within)
        return TextEdit(at, at, newline + base + unit + _lines(key, value, unit, newline + base + unit) + end)
    first = within.members[0].start
    line = _LINE_BEFORE.search(text, within.open, first)
    if line is None:
        return TextEdit(first, first, _compact(text, key, value) + (", " if _SPACED_COLON.search(text) else ","))
    at = _behind_brace(text, within)
    return TextEdit(at, at, newline + line[1] + _lines(key, value, unit, newline + line[1]) + ",")


def _behind_brace(text: str, within: _Object) -> int:
    """Behind the brace that opens an object, and a comment in its line."""
    rest = _REST_OF_LINE.match(text, within.open + 1, within.close)
    return rest.end() if rest is not None else within.open + 1


def _lines(key: str, value: Any, unit: str, newline: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline)
    return f"{json.dumps(key)}: {lines}"


def _compact(text: str, key: str, value: Any) -> str:
    between = (", ", ": ") if _SPACED_COLON.search(text) else (",", ":")
    return json.dumps({key: value}, ensure_ascii=False, separators=between)[1:-1]


def _unit(text: str) -> str:
    """Return the text's unit of indentation."""
    top = _top(text)
    line = _LINE_BEFORE.search(text, top.open, top.members[0].start) if top.members else None
    return (line[1] if line is not None else "") or INDENT


def _indent_at(text: str, at: int) -> str:
    """Return the first characters of the line of a place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _is_alone(text: str, within: _Object, member: _Member) -> bool:
    """Return True if an object has nothing else, no comment either."""
    return not (text[within.open + 1 : member.start] + text[member.comma : within.close]).strip()


def _cut(text: str, within: _Object, member: _Member) -> list[TextEdit]:
    """Return the edits that take a member away, with its line and the comma that would be one too many."""
    at = within.members.index(member)
    is_last = at == len(within.members) - 1
    if _is_alone(text, within, member):
        return [TextEdit(within.open + 1, within.close)]
    start, end = member.start, member.comma
    line = _LINE_BEFORE.search(text, within.open, member.start)
    if line is not None:
        start = line.start()
    elif not is_last:
        end += len(text[end : within.close]) - len(text[end : within.close].lstrip(" \t"))
    has_comma = member.comma != member.end
    if not is_last or at == 0 or has_comma:
        return [TextEdit(start, end)]
    before = within.members[at - 1]
    if line is None and not text[before.comma : start].strip():
        return [TextEdit(before.end, end)]
    return [TextEdit(before.comma - 1, before.comma), TextEdit(start, end)]
