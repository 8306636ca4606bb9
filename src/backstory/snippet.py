"""The part of a text that shows why it was found. Words are told apart as the index tells them."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from backstory.extract import index_text

AROUND_CHARS = 70
TEXT_CHARS_MAX = 2_000_000
_TOKEN = re.compile(r"[^\W_]+")


def snippet(text: str, query: str, around: int = AROUND_CHARS) -> tuple[str, list[tuple[int, int]]]:
    """An excerpt of one line, and the (start, end) of every match in it.

    The excerpt stands where most of the query's words come together; it begins and ends at words.
    """
    text = text[:TEXT_CHARS_MAX]
    wanted = {_folded(token) for token in _TOKEN.findall(index_text(query))}
    prefixes = tuple(_folded(word[:-1]) for word in query.split() if word.endswith("*") and len(word) > 1)
    places = [found.span() for found in _tokens(text) if _is_wanted(_folded(found.group()), wanted, prefixes)]
    if not places:
        return _folded_line(text[: 2 * around]), []
    start, end = _best_window(text, places, around)
    excerpt = text[start:end]
    line = _folded_line(excerpt)
    marks = [found.span() for found in _tokens(line) if _is_wanted(_folded(found.group()), wanted, prefixes)]
    head, tail = "…" if start > 0 else "", "…" if end < len(text) else ""
    return f"{head}{line}{tail}", [(a + len(head), b + len(head)) for a, b in marks]


def _is_wanted(token: str, wanted: set[str], prefixes: tuple[str, ...]) -> bool:
    return token in wanted or (bool(prefixes) and token.startswith(prefixes))


def _tokens(text: str) -> list[re.Match[str]]:
    return list((_TOKEN if text.isascii() else _token_or_cjk()).finditer(text))


@cache
def _token_or_cjk() -> re.Pattern[str]:
    # Where no spaces part the words, each character is a word of its own.
    cjk = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    return re.compile(rf"[{cjk}]|(?:(?![{cjk}])[^\W_])+")


def _best_window(text: str, places: list[tuple[int, int]], around: int) -> tuple[int, int]:
    best, most = 0, 0
    for n, (start, _) in enumerate(places):
        words = {_folded(text[a:b]) for a, b in places[n : n + 12] if a < start + around}
        if len(words) > most:
            best, most = n, len(words)
    middle = places[best][0]
    start, end = max(middle - around, 0), min(middle + 2 * around, len(text))
    if start > 0:
        space = text.find(" ", start, middle)
        start = space + 1 if space >= 0 else start
    if end < len(text):
        space = text.rfind(" ", places[best][1], end)
        end = space if space >= 0 else end
    return start, end


def _folded_line(text: str) -> str:
    return " ".join(text.split())


def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()
    parts = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in parts if not unicodedata.combining(letter))
