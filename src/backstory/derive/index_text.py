"""Values derived from an event: the text that is searched, its scope, and its length. Pure functions."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from backstory import model
from backstory.derive.checkpoints import overview_of
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

INDEXED_CHARS_MAX = 1_000_000
"""The most characters of one event that are searched; its bytes are kept whole."""
IDENTIFIERS_MAX = 2_000
"""The most different identifiers of one event that are found by their parts."""
WORDS_KNOWN_MAX = 100_000
"""The most words that are remembered with their parts."""
PART_SIGN = "\ue000"
"""Begins the parts of identifiers in the index; a letter that is nobody's, which the index takes for one of a word."""


class Scope(StrEnum):
    """The part of a session that a text stands in."""

    PROMPT = "prompt"
    COMMAND = "command"
    """Text of a person that is a command, not a prompt; its output is the system's."""
    ANSWER = "answer"
    THINKING = "thinking"
    TOOL_INPUT = "tool_input"
    TOOL_OUTPUT = "tool_output"
    SYSTEM = "system"
    FILE = "file"
    """A file beside the log: one that the session made, such as its plan."""


NAMING_SCOPES = frozenset({Scope.PROMPT, Scope.ANSWER, Scope.TOOL_INPUT})
"""Scopes in which identifiers are found by their parts; tools print much, and name most things in passing."""


def searchable(event: model.Event, *, in_index: bool = False) -> tuple[str, str] | None:
    """The scope of an event and its text, or None where there is nothing to find.

    ``in_index``: without the sections of a summary that have rows of their own there.
    """
    searched = (_INDEXED if in_index else _SEARCHED).get(type(event))
    if searched is None:
        return None
    scope, text_of = searched
    if isinstance(event, model.Command) and event.name and not event.output:
        scope = Scope.COMMAND.value
    text = text_of(event)
    return (scope, text) if text else None


def index_text(text: str, scope: str | None = None) -> str:
    """``text`` as it goes into the index: each CJK character a word of its own.

    In a scope, words for C++ and the like follow the text; in the scopes where people and models name things also the
    parts of identifiers, so that ``getUserName`` is found by ``user name``. A sign separates parts from the text.
    """
    if len(text) > INDEXED_CHARS_MAX:
        text = text[:INDEXED_CHARS_MAX]
    added = _all_parts(text) if scope in NAMING_SCOPES else []
    if scope is not None:
        added += signed_words(text)
    if not text.isascii() and text.encode("utf-8", "surrogatepass").translate(None, _BELOW_CJK):
        text = _cjk().sub(r" \g<0> ", text)
    return "\n".join([text, *added]) if added else text


def as_parts(words: Iterable[str]) -> str:
    """The words as they stand in the index where they are parts of an identifier."""
    return " ".join(f"{PART_SIGN}{word}" for word in words)


def identifier_parts(word: str) -> list[str]:
    """The parts of an identifier that is written in one, where case separates them; else nothing.

    >>> identifier_parts("parseHTTPHeader")
    ['parse', 'HTTP', 'Header']
    """
    parts = _PART.findall(word) if not (word.islower() or word.isupper()) else []
    return parts if len(parts) > 1 else []


def signed_words(text: str) -> list[str]:
    """Words for names of which the index would know the letters only, as people say them; each once.

    >>> signed_words("C++17 and C#, not C")
    ['Cplusplus', 'Csharp']
    """
    if "++" not in text and "#" not in text:
        return []
    found = [
        (name.start(), f"{text[name.start() - 1]}{word}")
        for sign, (names, word) in _SIGNS.items()
        if sign in text
        for name in names.finditer(text)
    ]
    return list(islice(dict.fromkeys(word for _, word in sorted(found)), IDENTIFIERS_MAX))


def _all_parts(text: str) -> list[str]:
    """The parts of every identifier in a text, each identifier once."""
    words = dict.fromkeys(text.encode("ascii", "replace").translate(_WORDS_ONLY).split())
    return list(islice(filter(None, map(_parts_of.__getitem__, words)), IDENTIFIERS_MAX))


class _PartsOf(dict[bytes, str]):
    """The parts of a word as the index has them, "" for one that is no identifier; words recur, so it keeps them."""

    def __missing__(self, word: bytes) -> str:
        if len(self) >= WORDS_KNOWN_MAX:
            self.clear()
        # A word in one case, which most are, is no identifier; asking so is quicker than the expression.
        is_one_case = word.islower() or word[1:].islower() or word.isupper()
        parts = [] if is_one_case or not _IDENTIFIER.match(word) else identifier_parts(word.decode())
        found = self[word] = as_parts(parts)
        return found


_parts_of = _PartsOf()


def char_len(event: model.Event) -> int:
    """Return the characters of the event before it was compacted: its text, or its tool's name and input as JSON."""
    measure = _MEASURED.get(type(event))
    return measure(event) if measure else 0


def texts_in(value: Any) -> Iterator[str]:
    """Every string inside a JSON value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)


def _result_text(result: model.ToolResult) -> str:
    if result.tool in (model.Tool.READ, model.Tool.EDIT) and ("→" in result.content or "\t" in result.content):
        # A number before every line would come between the words of a phrase.
        return _LINE_NUMBER.sub("\n", "\n" + result.content)[1:]
    return result.content


# It begins with a literal, to which the search skips: a line is not looked at from each of its blanks.
_LINE_NUMBER = lazy_regex(r"\n *\d+[→\t]")
# Possessive, so that a word that is no identifier is read once.
_IDENTIFIER = lazy_regex(rb"[A-Z]*+[a-z0-9]++[A-Z]|[A-Z]{2,}+[a-z]{2}")
_WORDS_ONLY = bytes(code if code < 128 and chr(code).isalnum() else 32 for code in range(256))
_BELOW_CJK = bytes(code for code in range(256) if not 0xE3 <= code <= 0xF0)
"""The bytes to remove from UTF-8 to keep the first bytes of CJK characters, and of some others."""
# Each begins with its sign, to which the search skips, and then looks back for one letter. One for both could not skip.
_SIGNS = {
    "++": (lazy_regex(r"\+\+(?<=[A-Za-z]\+\+)(?<![A-Za-z0-9]{2}\+\+)(?!\+)"), "plusplus"),
    "#": (lazy_regex(r"#(?<=[A-Za-z]#)(?<![A-Za-z0-9]{2}#)(?![\w#])"), "sharp"),
}
_PART = lazy_regex(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z0-9]+|[0-9]+")


@cache
def _cjk() -> re.Pattern[str]:
    # Han, kana and Hangul: scripts that are written without spaces, or whose words take endings without one.
    return re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]")


_TEXTS: dict[type[model.Event], tuple[Scope, Callable[[Any], str]]] = {
    model.UserMessage: (Scope.PROMPT, lambda event: event.content),
    model.AssistantText: (Scope.ANSWER, lambda event: event.text),
    model.Plan: (Scope.ANSWER, lambda event: event.content),
    model.Thinking: (Scope.THINKING, lambda event: event.text),
    model.ToolCall: (Scope.TOOL_INPUT, lambda event: f"{event.tool_name} {' '.join(texts_in(event.input))}"),
    model.ToolResult: (Scope.TOOL_OUTPUT, _result_text),
    model.Compacted: (Scope.SYSTEM, lambda event: event.summary),
    model.Error: (Scope.SYSTEM, lambda event: event.message),
    model.Retry: (Scope.SYSTEM, lambda event: event.message),
    model.Hook: (Scope.SYSTEM, lambda event: "" if event.is_state else f"{event.name} {event.output}"),
    model.Command: (Scope.SYSTEM, lambda event: f"{event.name} {event.output}".strip()),
}
# Looked up by type, and without asking an enumeration for its value, because this is done for every event that is read.
_SEARCHED = {kind: (scope.value, text_of) for kind, (scope, text_of) in _TEXTS.items()}
_INDEXED = _SEARCHED | {model.Compacted: (Scope.SYSTEM.value, lambda event: overview_of(event.summary))}
_MEASURED: dict[type[model.Event], Callable[[Any], int]] = {
    model.UserMessage: lambda event: len(event.content),
    model.AssistantText: lambda event: len(event.text),
    model.Plan: lambda event: len(event.content),
    model.Thinking: lambda event: len(event.text),
    model.ToolCall: lambda event: len(event.tool_name) + len(msgspec.json.encode(event.input).decode()),
    model.ToolResult: lambda event: len(event.content),
    model.Compacted: lambda event: len(event.summary),
    model.Error: lambda event: len(event.message),
    model.Retry: lambda event: len(event.message),
    model.Hook: lambda event: len(event.output),
    model.Command: lambda event: len(event.name) + len(event.output),
}
