"""The command that a report names to go on with a session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from backstory.chronicle.progress import goes_on


@pytest.mark.parametrize(
    ("elsewhere", "expected"), [(None, ["resume", "01KH0"]), ("another machine", ["run", "--session", "01KH0"])]
)
def test_a_session_from_elsewhere_goes_on_in_a_run(elsewhere: str | None, expected: list[str]) -> None:
    session: Any = SimpleNamespace(
        agents=("codex",), native_id="01", number=None, label="01KH0", elsewhere=elsewhere
    )  # fmt: skip
    assert goes_on(session) == ("backstory", *expected)
