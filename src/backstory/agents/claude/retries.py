"""Requests that Claude Code sends again: a run counts them in ``api_retry`` records, a log in ``api_error`` ones.

A run says the status, or that it has none; a log also says what came back, in one of three shapes: an error of the
client's with ``formatted`` words, one with the server's answer in it, or a bare text.
"""

from __future__ import annotations

from typing import Any

from backstory.agents import failures, numbers
from backstory.agents.claude.records import plain_text
from backstory.derive.essence import why
from backstory.model import Retry

STATUS_DIGITS = 3
_CONNECTION = {
    "ECONNREFUSED": "connection refused",
    "ECONNRESET": "connection dropped",
    "EPIPE": "connection dropped",
    "EAI_AGAIN": "host not found",
    "ENOTFOUND": "host not found",
    "ETIMEDOUT": "timed out",
    "ENETUNREACH": "no network",
    "EHOSTUNREACH": "no network",
    "StreamTruncated": "the answer broke off",
}
_NO_STATUS = {"unknown": failures.NO_ANSWER, "server_error": "server error", "overloaded": "the model is overloaded"}


def of_run(attempt: Any, of: Any, status: Any, error: Any) -> Retry:
    """Parse the report of a run on a request that is sent again."""
    name = plain_text(error)
    known = _status(status)
    words = failures.of_status(known) if known else _NO_STATUS.get(name, name.replace("_", " "))
    return _retry(attempt, of, words or failures.NO_ANSWER)


def of_log(attempt: Any, of: Any, error: Any) -> Retry:
    """Parse the report of a log."""
    given = error if isinstance(error, dict) else {}
    connection = given.get("connection")
    code = connection.get("code") if isinstance(connection, dict) else None
    status = _status(given.get("status"))
    if status:
        words = failures.of_status(status, _detail(given, status))
    elif isinstance(code, str) and code:
        words = failures.no_answer(_CONNECTION.get(code, code))
    else:
        words = why(plain_text(error))
    return _retry(attempt, of, words or failures.NO_ANSWER)


def _status(value: Any) -> int:
    """An HTTP status, which some versions write as a text; 0 for none."""
    text = str(value)
    return int(text) if len(text) == STATUS_DIGITS and text.isascii() and text.isdigit() else 0


def _detail(given: dict[str, Any], status: int) -> str:
    """Return the server's message, without the status before it."""
    formatted = given.get("formatted")
    text = formatted if isinstance(formatted, str) and formatted else why(plain_text(given))
    return text.strip().removeprefix(str(status))


def _retry(attempt: Any, of: Any, words: str) -> Retry:
    return Retry(
        attempt=numbers.count(attempt, "attempt") or 0,
        attempts_max=numbers.count(of, "attempts_max") or 0,
        message=words,
    )
