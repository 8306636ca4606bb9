"""A project, a home and a scripted agent on PATH, for runs as real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
