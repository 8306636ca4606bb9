"""Requests share an open workspace, until something of what it was opened with is another."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory import UserMessage, open_store
from backstory.ask.costs import Costs
from backstory.cli.app import App
from backstory.config import FILE_NAME
from backstory.errors import HomeWasMoved
from backstory.web import keeping
from backstory.web.keeping import SharedWorkspace
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.place import PRICES
from backstory.workspace.stores.home_moving import move_home

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.derive.pricing import Cost
    from tests.support.shell import Shell

EVERYWHERE = SessionFilter(everywhere=True)


def put(path: Path, *prompts: str) -> None:
    """Store a session for each prompt."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_store(path) as store:
        for each in prompts:
            store.append_events(store.create_session(each), [UserMessage(content=each)])


@pytest.fixture
def kept(empty: Shell) -> Iterator[SharedWorkspace]:
    put(empty.store, "one")
    found = SharedWorkspace(App(empty.environ, empty.cwd).new_workspace)
    yield found
    found.close()


def count(kept: SharedWorkspace) -> int:
    with kept.use() as workspace:
        return workspace.reader.count(EVERYWHERE)


def used(kept: SharedWorkspace) -> int:
    with kept.use() as workspace:
        assert workspace.reader.count(EVERYWHERE) > 0
        return id(workspace)


def test_requests_share_one_also_at_the_same_time(kept: SharedWorkspace) -> None:
    with kept.use() as first, kept.use() as second:
        assert first is second
        assert used(kept) == id(first)


def test_what_is_stored_meanwhile_is_there_at_once(kept: SharedWorkspace, empty: Shell) -> None:
    before = count(kept)
    put(empty.store, "two")
    assert count(kept) == before + 1


def test_names_that_were_read_before_something_was_stored_are_not_used_for_long(
    kept: SharedWorkspace, empty: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept.use() as first:
        monkeypatch.setattr(keeping, "KEPT_S", -1)
        with kept.use() as second:
            assert second is first
        put(empty.store, "two")
        with kept.use() as third:
            assert third is not first


def test_settings_that_were_written_are_met_by_the_next_request(kept: SharedWorkspace, empty: Shell) -> None:
    with kept.use() as first:
        (empty.store.parent / FILE_NAME).write_text("[index]\nis_enabled = false\n")
        with kept.use() as second:
            assert second is not first


def test_another_file_in_the_place_of_the_store_is_met_by_the_next_request(kept: SharedWorkspace, empty: Shell) -> None:
    assert count(kept) == 1
    put(empty.home / "other.db", "one", "two", "three")
    (empty.home / "other.db").replace(empty.store)
    assert count(kept) == 3


def test_a_store_that_is_gone_is_missed_and_found_again(kept: SharedWorkspace, empty: Shell) -> None:
    assert count(kept) == 1
    away = empty.store.rename(empty.store.with_name("away.db"))
    assert count(kept) == 0
    away.rename(empty.store)
    assert count(kept) == 1


def test_a_request_that_is_under_way_is_answered_from_stores_that_another_one_left(
    kept: SharedWorkspace, empty: Shell
) -> None:
    with kept.use() as first:
        first.reader.count(EVERYWHERE)
        shutil.copy(empty.store, empty.home / "copy.db")
        (empty.home / "copy.db").replace(empty.store)
        with kept.use() as second:
            assert second is not first
        assert first.reader.count(EVERYWHERE) == 1


def test_a_home_that_moved_is_refused_by_the_next_request(kept: SharedWorkspace, empty: Shell) -> None:
    assert count(kept) == 1
    move_home(empty.store.parent, empty.home / "elsewhere", current=empty.store.parent, symlink=False)
    with pytest.raises(HomeWasMoved), kept.use():
        pass


def test_costs_of_a_list_are_computed_once_until_something_is_stored_or_prices_are_others(
    kept: SharedWorkspace, empty: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = 0
    real = Costs.sessions

    def count_costs(costs: Costs, wanted: Iterable[int]) -> dict[int, Cost]:
        nonlocal computed
        computed += 1
        return real(costs, wanted)

    def listed() -> int:
        with kept.use() as workspace:
            workspace.reader.sessions(EVERYWHERE)
        return computed

    monkeypatch.setattr(Costs, "sessions", count_costs)
    assert (listed(), listed()) == (1, 1)
    put(empty.store, "two")
    assert (listed(), listed()) == (2, 2)
    (empty.store.parent / PRICES).write_text('[[price]]\nmodels = ["m"]\ninput = 2\noutput = 3\n')
    assert (listed(), listed()) == (3, 3)


def is_open(path: Path) -> bool:
    """True if this process has a file open."""
    return path in {each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}


def test_its_stores_are_closed_when_the_last_request_is_answered(kept: SharedWorkspace, empty: Shell) -> None:
    with kept.use() as workspace:
        workspace.reader.count(EVERYWHERE)
        kept.close()
        assert workspace.reader.count(EVERYWHERE) == 1
        assert is_open(empty.store)
    assert not is_open(empty.store)
