"""A machine with a month of work, and its pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.machines import SMALL
from tests.support.pages import served
from tests.support.shell import Shell
from tests.support.work_habits import habitual

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.pages import Visitor


@pytest.fixture(scope="package")
def month(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Only for tests that change nothing."""
    return habitual(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="package")
def pages(month: Shell) -> Iterator[Visitor]:
    """The pages of that machine, to which the visitor was let in."""
    with served(month.environ, month.cwd) as visitor:
        visitor.enter()
        yield visitor


@pytest.fixture(scope="package")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A machine with recorded logs of every agent, that nothing changes."""
    home = tmp_path_factory.mktemp("recorded") / "home"
    home.mkdir()
    shell = Shell(home)
    shell.put(*SMALL)
    assert shell("ingest").code == 0
    return shell


@pytest.fixture(scope="package")
def visitor(recorded: Shell) -> Iterator[Visitor]:
    """The pages of that machine, to which the visitor was let in."""
    with served(recorded.environ, recorded.cwd) as visitor:
        visitor.enter()
        yield visitor


@pytest.fixture
def empty(tmp_path: Path) -> Shell:
    home = tmp_path / "home"
    home.mkdir()
    return Shell(home)
