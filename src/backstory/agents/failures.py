"""Explains why a request to a model failed, in words that agents share: its HTTP status and message."""

from __future__ import annotations

OVERLOADED = 529
_WORDS = {
    400: "the request was refused",
    401: "the login was refused",
    403: "access was refused",
    404: "not found",
    408: "no answer in time",
    413: "the request is too large",
    429: "rate limit",
    503: "the model is overloaded",
    OVERLOADED: "the model is overloaded",
}
NO_ANSWER = "no answer"


def of_status(status: int, detail: str = "") -> str:
    """Return the meaning of a status, and the message with it.

    >>> of_status(429, "Too many tokens.")
    'rate limit (429): Too many tokens'
    """
    words = _WORDS.get(status) or ("server error" if status >= 500 else "the request failed")
    return f"{words} ({status}){_said(detail)}"


def no_answer(why: str = "") -> str:
    """Say that no answer came, and why as far as that is known.

    >>> no_answer("connection refused")
    'no answer (connection refused)'
    """
    return f"{NO_ANSWER} ({why})" if why else NO_ANSWER


def _said(detail: str) -> str:
    detail = detail.strip().rstrip(".")
    return f": {detail}" if detail else ""
