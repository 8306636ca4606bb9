"""A machine to read logs on."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.machines import Machine, opened_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


@pytest.fixture
def another(tmp_path: Path) -> Iterator[Callable[[], Machine]]:
    """Makes further machines, each of its own."""
    made: list[Machine] = []

    def make() -> Machine:
        made.append(Machine(tmp_path / f"other-{len(made)}"))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def files_opened(machine: Machine) -> Callable[[], AbstractContextManager[list[str]]]:
    """Counts the logs of the machine that are opened."""
    return contextmanager(lambda: opened_below(machine.home))
