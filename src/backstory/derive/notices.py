"""What agents note for programs, as a person reads it: why a request failed, what happened meanwhile,
who refused a call. Pure.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from backstory.lazy import lazy_regex

READ_CHARS_MAX = 20_000
"""A longer notice is left as it is."""
DEPTH_MAX = 8
_MARKED = lazy_regex(r"<([a-z][a-z_-]*)>(.*)</\1>", re.DOTALL)
_SUMMARY = lazy_regex(r"<summary>(.*?)</summary>", re.DOTALL)
_REFUSED = "The user doesn't want to proceed with this tool use."
_QUESTIONS = "The user wants to clarify these questions"
_MARK = lazy_regex(r"</?[a-z][a-z_-]*>")


def why(message: str) -> str:
    """Why a request failed: of an answer in JSON its status and its innermost message.

    >>> why('429 {"error": {"message": "Too many."}}')
    '429 Too many.'
    """
    at = message.find("{")
    if at < 0 or len(message) > READ_CHARS_MAX:
        return message
    try:
        answer = msgspec.json.decode(message[at:])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return message
    words = _message(answer)
    status = answer.get("status") if isinstance(answer, dict) else None
    head = message[:at].strip() or (str(status) if isinstance(status, int) else "")
    return f"{head} {words}".strip() if words else message


def noted(text: str) -> str:
    """What a notification says: its summary, else its words without the marks around them."""
    if len(text) > READ_CHARS_MAX or not (marked := _MARKED.fullmatch(text.strip())):
        return text
    summary = _SUMMARY.search(marked.group(2))
    return (summary.group(1) if summary else _MARK.sub(" ", marked.group(2))).strip()


def is_refusal(text: str) -> bool:
    """Return True if a result tells a model only that a person did not let a call happen.

    What the person said besides is a prompt of its own. Where they have questions it stands in the result.
    """
    return text.startswith(_REFUSED) and _QUESTIONS not in text[:READ_CHARS_MAX]


def _message(value: Any) -> str:
    """The innermost message of an error that holds another."""
    found = ""
    for _ in range(DEPTH_MAX):
        if isinstance(value, str):
            return value
        if not isinstance(value, dict):
            break
        own = value.get("message")
        found = own if isinstance(own, str) and own else found
        value = value.get("error")
    return found
