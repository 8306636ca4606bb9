"""A table in a TOML text of another program, added at its end or removed; every other character stays."""

from __future__ import annotations

import json
import re
import tomllib
from itertools import zip_longest
from typing import Any

from backstory.agents.text_edit import NotEditable, TextEdit, newline_of
from backstory.lazy import lazy_regex

_HEADER = lazy_regex(r"^[ \t]*\[[^\r\n]*", re.MULTILINE)
_BARE = lazy_regex(r"[A-Za-z0-9_-]+\Z")
_BLANK_LINE_BEFORE = lazy_regex(r"(?:^|\n)([ \t]*\r?\n)\Z")


def parse(text: str) -> Any:
    """The tables of a text. Raises ValueError, RecursionError."""
    return tomllib.loads(text)


def insertion(text: str, table: str, name: str, value: dict[str, Any]) -> TextEdit:
    """Return the edit that adds a table ``[table.name]`` at the end."""
    newline = newline_of(text)
    ended = "" if not text or text.endswith("\n") else newline
    blank = newline if text.strip() and not (text + ended).endswith(newline * 2) else ""
    lines = [f"[{_key(table)}.{_key(name)}]", *(f"{_key(key)} = {_value(each)}" for key, each in value.items()), ""]
    return TextEdit(len(text), len(text), ended + blank + newline.join(lines))


def removal(text: str, table: str, name: str) -> list[TextEdit]:
    """Return the edits that remove the table ``[table.name]`` and those below it. Comments behind them stay.

    Raises NotEditable where it stands there in another form.
    """
    ours = re.compile(rf"[ \t]*\[[ \t]*{_spelt(table)}[ \t]*\.[ \t]*{_spelt(name)}[ \t]*[.\]]")
    headers = list(_HEADER.finditer(text))
    found = []
    for header, following in zip_longest(headers, headers[1:]):
        if header is not None and ours.match(header[0]):
            end = _end(text, header.start(), len(text) if following is None else following.start())
            found.append(TextEdit(_start(text, header.start(), end), end))
    if not found:
        raise NotEditable(f"has {table}.{name} in another form than a table with a line of its own")
    return found


def _end(text: str, start: int, end: int) -> int:
    """Return the end of the last line with a key: comments and empty lines behind it belong to the next table."""
    lines = text[start:end].splitlines(keepends=True)
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        end -= len(lines.pop())
    return end


def _start(text: str, start: int, end: int) -> int:
    """Return the start of a table, with an empty line before it if another one, or nothing, follows."""
    if text[end:] and not text[end:].startswith(("\n", "\r\n")):
        return start
    blank = _BLANK_LINE_BEFORE.search(text, 0, start)
    return blank.start(1) if blank is not None else start


def _spelt(key: str) -> str:
    """An expression for a key as it may be written."""
    return f"""(?:{re.escape(key)}|"{re.escape(key)}"|'{re.escape(key)}')"""


def _key(key: str) -> str:
    return key if _BARE.match(key) else _value(key)


def _value(value: Any) -> str:
    match value:
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case dict():
            return f"{{ {', '.join(f'{_key(key)} = {_value(each)}' for key, each in value.items())} }}"
        case _:
            # A JSON string is one of TOML, but for one character that it need not escape.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
