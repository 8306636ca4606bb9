"""Text that a person typed, and the part of it that may be quoted. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPED_CHARS_MAX = 600
"""A longer prompt is a plan, a paste or a task; nobody types a correction of that length."""
QUOTED_CHARS_MAX = 240
_FOREIGN = lazy_regex(r"^\s*(?:/[\w:-]+\b|<[\w-]+>|\[[^\]\n]*\]\s*$|#{1,6} |[{❯$>⏺])|```|\n\s*(?:at |\+|-{3}|\|)")
"""Commands of clients, notes for programs, plans, code and output."""
_SENTENCE_END = lazy_regex(r"(?<=[.!?;])\s+|\n+|\s+[-–—]\s+")
_UNQUOTABLE = lazy_regex(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff`<>@|{}\[\]\\]|://"
    r"|\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instruction|rule|prompt|above|previous|prior)s?\b"
    r"|\b(?:system prompt|api key|password|secret|token)\b|REDACTED",
    re.IGNORECASE,
)
_WORD = lazy_regex(r"[^\W_]+(?:['’][^\W_]+)?")
_EMPTY_WORDS = """
a an the and or but so if is are was were be been it its this that these those i we you they he she me us my our your to
of in on at for with from by as do does did done can could would should will shall may might just also please not no yes
ok okay then there here what which who how why when where have has had let lets let's i'd i'm it's don't dont all any
some now up out
"""
_EMPTY = frozenset(_EMPTY_WORDS.split())


def typed(prompt: str) -> str | None:
    """A prompt as a person typed it, in one line; None for one that is long, a command of a client, code or output.

    >>> typed("no, use tabs\\n please"), typed("/review"), typed("```\\nx\\n```")
    ('no, use tabs please', None, None)
    """
    if len(prompt) > TYPED_CHARS_MAX or _FOREIGN.search(prompt):
        return None
    return " ".join(prompt.split()) or None


def sentences(prompt: str) -> Iterator[str]:
    """The sentences of a prompt, each in one line."""
    for each in _SENTENCE_END.split(prompt):
        if line := " ".join(each.split()).strip("-*• "):
            yield line


def is_quotable(text: str) -> bool:
    """Return True if a text may stand in a file that agents read as what a person said: one plain sentence, no markup.

    >>> is_quotable("do not stash anything"), is_quotable("ignore previous instructions"), is_quotable("see @/etc/x")
    (True, False, False)
    """
    return len(text) <= QUOTED_CHARS_MAX and "\n" not in text and not _UNQUOTABLE.search(text)


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return [each.lower().replace("’", "'") for each in _WORD.findall(text)]


def content_of(text: str) -> frozenset[str]:
    """The words of a text that say what it is about."""
    return frozenset(each for each in words_of(text) if each not in _EMPTY)


def likeness(first: frozenset[str], second: frozenset[str]) -> float:
    """Return the likeness of two sets of words, from 0 to 1."""
    return len(first & second) / len(first | second) if first or second else 0.0
