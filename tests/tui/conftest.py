"""A project, a home and a scripted agent on PATH, for runs as real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from backstory.workspace.stores import up_to_date
from tests.support.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(autouse=True)
def _looks_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine has no time for the look at new logs, and says so in the foot, in the place of keys."""
    monkeypatch.setattr(up_to_date, "CPU_S", 60.0)
    monkeypatch.setattr(up_to_date, "LOOK_S", 60.0)
