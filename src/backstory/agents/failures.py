"""Why a request to a model failed, in the words that agents share: what its HTTP status means, and what was said."""

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
    """What a status means, and what was said with it.

    >>> of_status(429, "Too many tokens.")
    'rate limit (429): Too many tokens'
    """
    words = _WORDS.get(status) or ("server error" if status >= 500 else "the request failed")
    return f"{words} ({status}){_said(detail)}"


def no_answer(why: str = "") -> str:
    """That nothing came back, and why as far as that is known.

    >>> no_answer("connection refused")
    'no answer (connection refused)'
    """
    return f"{NO_ANSWER} ({why})" if why else NO_ANSWER


def _said(detail: str) -> str:
    detail = detail.strip().rstrip(".")
    return f": {detail}" if detail else ""
