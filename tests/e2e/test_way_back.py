"""An older program refuses today's store, and imports what today's exports: the last one of schema 4, out of git."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest

from backstory.ingest.reported import lend
from backstory.store import open_store
from backstory.store.file.migrate import SCHEMA_VERSION
from tests.fails_before import ROOT
from tests.support.machines import Machine, kept
from tests.support.portable import exported
from tests.support.subagents import CONTENT, LOG, lenders

if TYPE_CHECKING:
    from pathlib import Path


LAST_OF_SCHEMA_4 = "f50d69581bf1"
"""The last revision whose stores have schema 4."""
RUN = "import sys; from backstory.cli import main; sys.argv[0] = 'backstory'; main()"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it was then."""
    folder = tmp_path_factory.mktemp("older")
    packed = subprocess.run(
        ["git", "archive", LAST_OF_SCHEMA_4, "src"], cwd=ROOT, capture_output=True, check=False
    )  # fmt: skip
    if packed.returncode:
        pytest.skip(f"revision {LAST_OF_SCHEMA_4} is not here: the way back to schema 4 is not tested")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


class Program:
    """The older program, on a machine of its own."""

    def __init__(self, package: Path, home: Path) -> None:
        self.home, self.store = home, home / "backstory" / "store.db"
        self._environ = {
            **os.environ, "PYTHONPATH": str(package), "HOME": str(home), "BACKSTORY_HOME": str(self.store.parent),
        }  # fmt: skip

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", RUN, *words], cwd=self.home, env=self._environ, capture_output=True, text=True,
            check=False,
        )  # fmt: skip


@pytest.fixture
def program(older: Path, tmp_path: Path) -> Program:
    (tmp_path / "older" / "backstory").mkdir(parents=True)
    return Program(older, tmp_path / "older")


@pytest.fixture
def today(tmp_path: Path) -> Machine:
    """A machine with a store of today, in which one log lends to others."""
    machine = Machine(tmp_path / "today")
    machine.write(LOG, CONTENT)
    machine.read("claude")
    assert None not in lenders(machine.store)
    return machine


def test_what_is_exported_today_is_imported_with_every_byte(today: Machine, program: Program) -> None:
    file = today.home / "all.jsonl"
    file.write_bytes(exported(today.store))
    done = program("import", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert program("verify").returncode == 0
    with open_store(program.store, shared=True) as back:
        assert kept(back) == kept(today.store)


@pytest.mark.parametrize("words", [("list",), ("ingest",), ("search", "pelican"), ("optimize",)])
def test_a_store_of_today_is_refused_unchanged(today: Machine, program: Program, words: tuple[str, ...]) -> None:
    today.close()
    content = today.store_path.read_bytes()
    program.store.write_bytes(content)
    done = program(*words)
    assert done.returncode == 76
    assert f"has schema {SCHEMA_VERSION}" in done.stderr
    assert "was not changed" in done.stderr
    assert program.store.read_bytes() == content


def test_a_store_that_it_made_is_made_as_todays(program: Program) -> None:
    (program.home / LOG).parent.mkdir(parents=True)
    (program.home / LOG).write_bytes(CONTENT)
    assert program("ingest").returncode == 0
    with open_store(program.store, shared=True) as store:
        before = kept(store)
        lend(store, 1 << 62)
        assert None not in lenders(store)
        assert kept(store) == before
        assert store.verify().problems == []
