"""A machine with history in two repositories."""

from __future__ import annotations

import pytest

from tests.support.mcp_client import History


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Only for tests that change nothing."""
    return History(tmp_path_factory.mktemp("machine") / "home")


@pytest.fixture
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return History(tmp_path_factory.mktemp("machine") / "home")
