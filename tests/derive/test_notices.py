"""What agents note for programs, as a person reads it."""

from __future__ import annotations

import pytest

from backstory.derive.essence import is_refusal, noted, why
from tests.support.every import every


@every(
    ("message", "words"),
    [
        ("Connection error.", "Connection error."),
        ('429 {"type":"error","error":{"type":"rate_limit_error","message":"Too many."}}', "429 Too many."),
        ('{"status":429,"headers":{"date":"today"},"error":{"error":{"message":"Too many."}}}', "429 Too many."),
        ('{"status":529,"message":"outer","error":{"message":"inner"}}', "529 inner"),
        ('API Error: 400 {"error":"bad words"} · try again', 'API Error: 400 {"error":"bad words"} · try again'),
        ('{"error":"bad words"}', "bad words"),
        ('{"cause":{"code":"ECONNRESET"}}', '{"cause":{"code":"ECONNRESET"}}'),
        ("{not json", "{not json"),
        ("[1] {", "[1] {"),
    ],
)
def test_a_failed_request_says_why_and_not_how_it_was_sent(message: str, words: str) -> None:
    assert why(message) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\n"
            '<summary>Agent "count" completed</summary>\n<result>0</result>\n</task-notification>',
            'Agent "count" completed',
        ),
        ("<system_notification>\nShell command done.\n</system_notification>", "Shell command done."),
        ("a <b> of a program", "a <b> of a program"),
        ("<1 of 2>", "<1 of 2>"),
        ("", ""),
    ],
)
def test_a_notification_says_what_happened_without_its_marks(text: str, words: str) -> None:
    assert noted(text) == words


REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit). "


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        (f"{REFUSED}STOP what you are doing and wait for the user to tell you how to proceed.", True),
        (f"{REFUSED}To tell you how to proceed, the user said:\nnot that file\nthe other", True),
        (f"{REFUSED}To tell you how to proceed, the user said:\nThe user wants to clarify these questions.\n…", False),
        ("The user doesn't want to use a token. They want an app.", False),
        (f"grep: {REFUSED}", False),
        ("", False),
    ],
)
def test_a_result_that_only_says_that_a_call_was_refused_is_known(text: str, is_so: bool) -> None:
    assert is_refusal(text) is is_so
