"""The real ``claude`` and ``codex``, offline: a machine of their own, in a network namespace with loopback alone.

``make clients`` installs them. Without them, or without namespaces, the tests are skipped and say why; with
BACKSTORY_REQUIRE_CLIENTS set, as CI does where it could install them, that is a failure.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.real_clients import Machine, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def real_clients() -> None:
    """Skip where they cannot be run; fail where that is demanded."""
    if why := why_not():
        if os.environ.get("BACKSTORY_REQUIRE_CLIENTS"):
            pytest.fail(why, pytrace=False)
        pytest.skip(why)


@pytest.fixture
def machine(real_clients: None, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.switch_off()
