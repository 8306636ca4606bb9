"""The team server for tests: its PostgreSQL, and a server with organisations of each test's own."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory.server.database import make_own
from backstory.server.postgres import own_database
from tests.support.clock import Clock
from tests.support.team import Team, empty_database, open_folder, shared_postgres, team_of
from tests.support.team_machines import TeamMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.server.people import LetIn


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of PostgreSQL, as its admin."""
    own = tmp_path_factory.getbasetemp()
    with shared_postgres(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) as address:
        yield address


@pytest.fixture(scope="session")
def made_team(postgres: str) -> Iterator[Team]:
    with team_of(make_own(postgres), Clock()) as team:
        yield team


@pytest.fixture
def team(made_team: Team) -> Team:
    """A server that many tests share; each founds its own organisation."""
    made_team.clock.ms = Clock().ms
    return made_team


@pytest.fixture
def empty(postgres: str) -> Iterator[str]:
    """The address of a database without anything in it."""
    with empty_database(postgres) as address:
        yield address


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a PostgreSQL of a test's own, which is stopped if it still runs."""
    with postgres_folder() as made:
        yield made


@pytest.fixture
def other_folder() -> Iterator[Path]:
    """Another one."""
    with postgres_folder() as made:
        yield made


@contextmanager
def postgres_folder() -> Iterator[Path]:
    made = Path(open_folder())
    yield made
    own = own_database(made)
    if own.is_running:
        own.stop()
    shutil.rmtree(made)


@pytest.fixture
def machine(team: Team, tmp_path: Path) -> Iterator[Callable[..., TeamMachine]]:
    """Makes a machine; all are Anna's unless somebody else's token is given."""
    anna, made = team.founded(), list[TeamMachine]()
    with team.served() as address:

        def make(name: str, who: LetIn = anna) -> TeamMachine:
            made.append(TeamMachine(tmp_path / name, team, who, address))
            return made[-1]

        yield make
        for each in made:
            each.close()
