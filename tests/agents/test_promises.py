"""The table of promises in docs/agents.md is what the tests keep."""

from __future__ import annotations

from tests import set_promises


def test_the_table_is_what_the_tests_keep() -> None:
    set_promises.gather()
    assert set_promises.DOCUMENT.read_text("utf-8") == set_promises.document(), "python -m tests.set_promises"


def test_a_promise_has_a_test_or_a_reason() -> None:
    set_promises.gather()
    assert (set_promises.empty(), set_promises.needless()) == ([], [])
