"""Two machines of one person: one has history, the other has none yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.pulled import PullingMachine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CASES = ("claude/tools", "codex/mcp", "claude/with-a-helper", "claude/helper")


@pytest.fixture
def there(tmp_path: Path) -> Iterator[PullingMachine]:
    """A machine whose logs were read."""
    machine = PullingMachine(tmp_path / "there")
    for name in CASES:
        machine.put(name)
    machine.read()
    yield machine
    machine.close()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[PullingMachine]:
    """A machine that has nothing yet."""
    machine = PullingMachine(tmp_path / "here")
    yield machine
    machine.close()
