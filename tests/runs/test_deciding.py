"""``rename``, ``rm``, ``checkout`` and ``branch`` while another process has one of the two stores."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.bench import Bench

pytestmark = pytest.mark.slow

GOOD: dict[str, Any] = {"result": {"is_error": False}}
LATE = "could not be written now (locked) and will catch up at the next `backstory ingest`.\n"


@pytest.fixture
def ran(bench: Bench) -> Bench:
    assert bench.run("hello", {"say": "hi"}, GOOD).returncode == 0
    return bench


@contextmanager
def locked(path: Path) -> Iterator[None]:
    db = apsw.Connection(str(path))
    db.execute("begin immediate")
    yield
    db.execute("rollback")
    db.close()


def home(bench: Bench) -> Store:
    return open_store(bench.home / "store.db", shared=True)


def ingested(bench: Bench) -> None:
    done = bench.backstory("ingest")
    assert done.returncode == 0, done.stderr


def test_a_rename_that_the_home_store_misses_succeeds_and_says_so_in_one_line(ran: Bench) -> None:
    with locked(ran.home / "store.db"):
        done = ran.backstory("rename", "S1", "herons")
    copy = f"Renamed; the copy in {ran.home / 'store.db'} {LATE}"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"S1 is now called 'herons'.\n{copy}")
    ingested(ran)
    with home(ran) as store:
        assert [each.name for each in store.sessions()] == ["herons"]


def test_a_rename_from_elsewhere_that_the_project_misses_is_not_undone(ran: Bench) -> None:
    with locked(ran.store.path):
        done = ran.backstory("rename", "S1", "herons", cwd=ran.root)
    assert (done.returncode, done.stderr.endswith(f"the copy in {ran.store.path} {LATE}")) == (0, True), done.stderr
    ingested(ran)
    assert ran.store.session("herons").number == 1
    assert ran.run("more", GOOD).returncode == 0
    with home(ran) as store:
        assert [each.name for each in store.sessions()] == ["herons"]


def test_a_rename_that_every_store_takes_says_nothing_of_copies(ran: Bench) -> None:
    assert ran.backstory("rename", "S1", "herons").stderr == "S1 is now called 'herons'.\n"


def test_a_removal_that_the_home_store_misses_does_not_come_back(ran: Bench) -> None:
    with locked(ran.home / "store.db"):
        done = ran.backstory("rm", "S1", "--yes")
    assert (done.returncode, f"Removed; the copy in {ran.home / 'store.db'} {LATE}" in done.stderr) == (0, True)
    ingested(ran)
    with home(ran) as store:
        assert (store.sessions(), ran.store.sessions()) == ([], [])


def test_a_checkout_and_a_branchs_name_that_the_home_store_misses_catch_up(ran: Bench) -> None:
    with locked(ran.home / "store.db"):
        moved = ran.backstory("checkout", "@1")
        named = ran.backstory("branch", "name", "main", "@1")
    assert (moved.returncode, f"Switched; the copy in {ran.home / 'store.db'} {LATE}" in moved.stderr) == (0, True)
    assert (named.returncode, f"Named; the copy in {ran.home / 'store.db'} {LATE}" in named.stderr) == (0, True)
    ingested(ran)
    with home(ran) as store:
        session = store.sessions()[0]
        leaf = store.leaf(session)
        assert (leaf and leaf.seq, [each.name for each in store.branch_names(session)]) == (1, ["main"])
