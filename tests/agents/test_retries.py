"""Requests that are sent again: why, in words, as the clients themselves write it down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backstory.agents.claude import retries as claude
from backstory.agents.codex import retries as codex
from backstory.model import Retry
from tests.support.every import every
from tests.support.streaming import ran


def line(**record: Any) -> bytes:
    return json.dumps(record).encode()


@every(
    ("status", "error", "told"),
    [
        (None, "unknown", "no answer"),
        (None, "brand_new_trouble", "brand new trouble"),
        (None, None, "no answer"),
        (401, "authentication_failed", "the login was refused (401)"),
        (429, "rate_limit", "rate limit (429)"),
        ("429", "rate_limit", "rate limit (429)"),
        (500, "server_error", "server error (500)"),
        (529, "overloaded", "the model is overloaded (529)"),
        (418, "teapot", "the request failed (418)"),
        ("4290", "unknown", "no answer"),
    ],
)
def test_claude_tells_a_run_the_status_or_that_nothing_came(status: object, error: object, told: str) -> None:
    record = line(type="system", subtype="api_retry", attempt=1, max_retries=2, error_status=status, error=error)
    assert ran("claude", [record]).all(Retry) == [Retry(attempt=1, attempts_max=2, message=told)]


def of_connection(code: str) -> dict[str, Any]:
    return {"message": "Connection error.", "formatted": "…", "connection": {"code": code}, "isNetworkDown": True}


RATE_LIMIT = {"type": "error", "error": {"type": "rate_limit_error", "message": "Too many tokens."}}


@every(
    ("error", "told"),
    [
        (of_connection("ECONNREFUSED"), "no answer (connection refused)"),
        (of_connection("EAI_AGAIN"), "no answer (host not found)"),
        (of_connection("StreamTruncated"), "no answer (the answer broke off)"),
        (of_connection("ENEW"), "no answer (ENEW)"),
        ({"status": 429, "formatted": "429 Too many tokens."}, "rate limit (429): Too many tokens"),
        ({"status": 429, "message": f"429 {json.dumps(RATE_LIMIT)}"}, "rate limit (429): Too many tokens"),
        ({"status": 429, "headers": {"a": "b"}, "error": RATE_LIMIT}, "rate limit (429): Too many tokens"),
        ({"message": "Connection error.", "connection": None}, "Connection error."),
        ("as it was", "as it was"),
        (None, "no answer"),
    ],
)
def test_claude_tells_its_log_what_came_back(error: object, told: str) -> None:
    assert claude.of_log(3, 10, error) == Retry(attempt=3, attempts_max=10, message=told)


STATUS = "unexpected status 529 <unknown status code>: Overloaded, url: http://127.0.0.1:1/v1/responses"
CUT = "stream disconnected before completion: Transport error: network error: error decoding response body"


@every(
    ("message", "attempt", "of", "told"),
    [
        ("Reconnecting... 1/5 (Connection failed: error sending request)", 1, 5, "no answer (connection failed)"),
        ("Reconnecting... waiting for network (Connection failed: error sending request)", 0, 0,
         "no answer (connection failed)"),
        ("Reconnecting... 2/2 (exceeded retry limit, last status: 429 Too Many Requests)", 2, 2, "rate limit (429)"),
        (f"Reconnecting... 1/2 ({STATUS})", 1, 2, "the model is overloaded (529): Overloaded"),
        (f"Reconnecting... 1/2 ({CUT})", 1, 2, "no answer (the answer broke off, error decoding response body)"),
        ("Reconnecting... 1/2 (We’re currently experiencing high demand.)", 1, 2,
         "We’re currently experiencing high demand"),
        ("Reconnecting... 1/2", 1, 2, "Reconnecting... 1/2"),
        ("stream error: error sending request for url (http://x/); retrying 3/5 in 812ms…", 3, 5,
         "no answer (connection failed)"),
    ],
)  # fmt: skip
def test_codex_tells_which_try_it_is_and_why(message: str, attempt: int, of: int, told: str) -> None:
    expected = Retry(attempt=attempt, attempts_max=of, message=told)
    assert codex.is_retry(message)
    assert codex.retry_of(message) == expected
    assert ran("codex", [line(type="error", message=message)]).all(Retry) == [expected]


@pytest.mark.parametrize("message", ["exceeded retry limit, last status: 429 Too Many Requests", CUT, "retrying"])
def test_what_codex_gives_up_at_is_no_retry(message: str) -> None:
    assert not codex.is_retry(message)
    assert ran("codex", [line(type="error", message=message)]).all(Retry) == []
