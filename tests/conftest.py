"""What tests share: a clock that stands still, a store in a folder of its own, logs to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from backstory.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# How fast examples are made says how busy the machine is, not whether the code is right.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

NOW = 1_790_000_000_000
"""The tests' present: 2026-09-21, in ms since 1970."""


class Clock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.ms = NOW

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    return tmp_path / "project" / ".backstory" / "sessions.bks"


@pytest.fixture
def store(store_path: Path, clock: Clock) -> Iterator[Store]:
    with open_store(store_path, now=clock) as opened:
        yield opened
