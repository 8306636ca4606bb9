"""Requests that Codex sends again: a line of text that says which try it is and, in brackets, why."""

from __future__ import annotations

import re

from backstory.agents import failures
from backstory.derive.essence import why
from backstory.lazy import lazy_regex
from backstory.model import Retry

_RETRYING = lazy_regex(r"Reconnecting\b|.*\bretrying \d+/\d+", re.DOTALL)
_ATTEMPT = lazy_regex(r"\b(\d+)/(\d+)")
_REASON = lazy_regex(r"Reconnecting\.\.\.[^(]*\((.*)\)\s*\Z", re.DOTALL)
_OLD_REASON = lazy_regex(r"(?:stream error: )?(.*?);? retrying \d+/\d+", re.DOTALL)
_STATUS = lazy_regex(
    r"(?:exceeded retry limit, last status:|unexpected status) (\d{3})[^:,]*"
    r"(?::\s*(.*?))?(?:,\s*(?:url|request id): .*)?\Z",
    re.DOTALL,
)
_BROKEN_OFF = "stream disconnected before completion"
_NO_CONNECTION = ("Connection failed", "error sending request")


def is_retry(message: str) -> bool:
    """Return True if an error is one after which Codex tries again."""
    return _RETRYING.match(message) is not None


def retry_of(message: str) -> Retry:
    """The same error as an event."""
    found = _ATTEMPT.search(message)
    attempt, of = map(int, found.groups()) if found else (0, 0)
    matched = _REASON.match(message) or _OLD_REASON.match(message)
    return Retry(attempt=attempt, attempts_max=of, message=reason(matched.group(1) if matched else message))


def reason(text: str) -> str:
    """Return the reason why a request failed, in words.

    >>> reason("exceeded retry limit, last status: 429 Too Many Requests")
    'rate limit (429)'
    """
    text = why(text.strip())
    if found := _STATUS.match(text):
        return failures.of_status(int(found.group(1)), found.group(2) or "")
    if text.startswith(_BROKEN_OFF):
        # What follows is the chain of errors inside, the nearest first.
        detail = [each for each in text.removeprefix(_BROKEN_OFF).split(": ") if each.strip()]
        return failures.no_answer("the answer broke off" + (f", {detail[-1]}" if detail else ""))
    if text.startswith(_NO_CONNECTION):
        return failures.no_answer("connection failed")
    return text.rstrip(".")
