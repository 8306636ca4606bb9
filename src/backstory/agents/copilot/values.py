"""Values of records as texts, numbers and tokens."""

from __future__ import annotations

from typing import Any

from backstory.agents import numbers
from backstory.bounds import LOST, less
from backstory.lazy import lazy_regex
from backstory.model import Event, Hook, Tokens, encoded

_USAGE = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
_NUMBER_MAX = 2**63
"""Beyond it JSON's numbers are not exact, and none of these logs' are meant to be so large."""
_SENT_AT = lazy_regex(r"<current_datetime>[^<]*</current_datetime>\s*")


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def attachments_in(attached: Any) -> str:
    """A prompt that consists of what is attached to it."""
    parts = [each for each in attached if isinstance(each, dict)] if isinstance(attached, list) else []
    named = (
        as_text(each.get("displayName")) or as_text(each.get("path")) or as_text(each.get("type")) for each in parts
    )
    return "\n".join(f"[{name or 'attachment'}]" for name in named)


def prompt_of(data: dict[str, Any]) -> str:
    """Words in the user's place: some are known only as they were sent."""
    return plain_text(data.get("content")) or _SENT_AT.sub("", plain_text(data.get("transformedContent")))


def hooks(name: str, output: str) -> list[Event]:
    return [Hook(name=name, output=output)] if output.strip() else []


def message_text(value: Any) -> str:
    """Return the message of an error, or of a hook's output."""
    if isinstance(value, dict):
        for name in ("message", "additionalContext"):
            if isinstance(value.get(name), str):
                return str(value[name])
    return plain_text(value) if value else ""


def plain_text(value: Any) -> str:
    """The text of a value: a string, parts with text, or anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "\n".join(text for text in map(plain_text, value) if text)
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return str(value["text"])
    return encoded(value).decode()


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def as_number(value: Any) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and abs(value) < _NUMBER_MAX else None


def tokens_in(usage: dict[str, Any]) -> Tokens:
    """Return the tokens of one or several requests. A missing input or output is lost; another may mean none."""
    given, output, read, written, reasoning = (numbers.tokens(usage.get(name), name) for name in _USAGE)
    given, output = (LOST if each is None else each for each in (given, output))
    return Tokens(
        # What came from the cache, or went into it, is counted as input too.
        input=less(less(given, read or 0), written or 0),
        output=output,
        cache_read=read,
        cache_write=written,
        reasoning=reasoning,
    )
