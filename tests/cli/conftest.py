"""The command line as people and scripts meet it: another process, with a home folder of its own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.machines import SMALL
from tests.support.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bare(tmp_path: Path) -> Shell:
    """A machine on which backstory never ran, without logs."""
    home = tmp_path / "home"
    home.mkdir()
    return Shell(home)


@pytest.fixture(scope="session")
def read_once(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A machine whose logs were read; only for tests that change nothing."""
    home = tmp_path_factory.mktemp("machine") / "home"
    home.mkdir()
    shell = Shell(home)
    shell.put(*SMALL)
    assert shell("ingest").code == 0
    return shell


@pytest.fixture
def machine(read_once: Shell, tmp_path: Path) -> Shell:
    """A machine whose logs were read, for this test alone."""
    shutil.copytree(read_once.home, tmp_path / "copy")
    return Shell(tmp_path / "copy")
