"""What is read of one moment; and a search that another thread ends."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from backstory.config import Config
from backstory.errors import Cancelled, StoreBusy
from backstory.model import AssistantText, UserMessage
from backstory.store import open_store
from backstory.workspace.history.searching import Cancellation, Mode, SearchQuery
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clock import Clock

EVERYWHERE = SessionFilter(everywhere=True)
WORDS = (
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "rho",
    "sigma",
)
ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
SOON_S = 1.0
"""What is cancelled ends within milliseconds; a busy machine is given more."""


@pytest.fixture
def workspace(tmp_path: Path, clock: Clock) -> Workspace:
    folder = tmp_path / "project"
    folder.mkdir()
    made = Workspace(lambda: Config(tmp_path / "config.toml"), tmp_path / "home", folder, now=clock)
    made.home_store.create_session("first")
    return made


def test_in_a_snapshot_nothing_changes_that_others_write(workspace: Workspace, tmp_path: Path) -> None:
    reader = workspace.reader
    with open_store(tmp_path / "home" / "store.db", shared=True) as other:
        with reader.snapshot():
            before = reader.change_token(), reader.count(EVERYWHERE)
            other.create_session("second")
            assert (reader.change_token(), reader.count(EVERYWHERE)) == before
        assert reader.count(EVERYWHERE) == before[1] + 1
        assert reader.change_token() != before[0]


def test_a_snapshot_begins_when_it_is_asked_for_and_not_with_the_first_question(
    workspace: Workspace, tmp_path: Path
) -> None:
    reader = workspace.reader
    with open_store(tmp_path / "home" / "store.db", shared=True) as other, reader.snapshot():
        other.create_session("second")
        assert reader.count(EVERYWHERE) == 1


def test_a_snapshot_inside_another_is_of_its_moment(workspace: Workspace, tmp_path: Path) -> None:
    reader = workspace.reader
    with open_store(tmp_path / "home" / "store.db", shared=True) as other, reader.snapshot():
        other.create_session("second")
        with reader.snapshot():
            assert reader.count(EVERYWHERE) == 1
        assert reader.count(EVERYWHERE) == 1


def test_a_snapshot_covers_each_store_that_is_read(workspace: Workspace) -> None:
    workspace.project_store.create_session("of the project")
    with workspace.reader.snapshot():
        assert [store.path for store in workspace.stores if not store.reader().in_transaction] == []
        assert len(workspace.stores) == 2
    assert [store.path for store in workspace.stores if store.reader().in_transaction] == []


def test_who_writes_a_projects_store_waits_for_a_snapshot_and_then_writes(workspace: Workspace) -> None:
    store = workspace.project_store
    store.create_session("of the project")
    with open_store(store.path) as other:
        other.writer().set_busy_timeout(1)
        with workspace.reader.snapshot(), pytest.raises(StoreBusy):
            other.create_session("refused")
        other.create_session("taken")
    assert workspace.reader.count() == 2


# a search that is cancelled ------------------------------------------------------------------------------------------


def filled(workspace: Workspace, events: int) -> None:
    store = workspace.home_store
    session = store.create_session("long")
    said = [" ".join(WORDS[(n + k) % len(WORDS)] for k in range(12)) for n in range(events)]
    store.append_events(session, [UserMessage(content="go"), *(AssistantText(text=each) for each in said)])


def test_a_search_that_was_cancelled_before_finds_nothing(workspace: Workspace) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(Cancelled):
        workspace.reader.search(SearchQuery(text="alpha"), cancellation)


def test_a_search_that_is_not_cancelled_finds_the_same(workspace: Workspace) -> None:
    filled(workspace, 20)
    query = SearchQuery(text="alpha")
    assert workspace.reader.search(query, Cancellation()) == workspace.reader.search(query)


def test_after_a_cancelled_search_the_same_reader_finds_everything(workspace: Workspace) -> None:
    filled(workspace, 20)
    before = workspace.reader.search(SearchQuery(text="alpha"))
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(Cancelled):
        workspace.reader.search(SearchQuery(text="alpha"), cancellation)
    assert workspace.reader.search(SearchQuery(text="alpha")) == before


def test_another_thread_ends_a_statement_that_would_never_end(workspace: Workspace) -> None:
    store, cancellation = workspace.home_store, Cancellation()
    begun, ended = threading.Event(), list[float]()

    def ask() -> None:
        with pytest.raises(Cancelled), cancellation.ending(store):
            begun.set()
            store.ask(lambda db: db.execute(ENDLESS).get)
        ended.append(time.monotonic())

    asking = threading.Thread(target=ask)
    asking.start()
    assert begun.wait(30)
    cancelled = time.monotonic()
    cancellation.cancel()
    asking.join(30)
    assert not asking.is_alive()
    assert ended[0] - cancelled < SOON_S
    store.close()


class Watched(Cancellation):
    """One that stops the search when that looks at it for so many times, until it is cancelled."""

    def __init__(self, looks: int) -> None:
        self._looks, self._flag = looks, False
        self.reached, self._done = threading.Event(), threading.Event()
        super().__init__()

    def cancel(self) -> None:
        super().cancel()
        self._done.set()

    @property
    def is_cancelled(self) -> bool:
        self._looks -= 1
        if self._looks == 0:
            self.reached.set()
            assert self._done.wait(30)
        return self._flag

    @is_cancelled.setter
    def is_cancelled(self, value: bool) -> None:
        self._flag = value


@pytest.mark.slow
@pytest.mark.parametrize("mode", Mode)
def test_another_thread_ends_a_search_at_any_moment_of_it(workspace: Workspace, mode: Mode) -> None:
    filled(workspace, 3_000)
    text = "al+pha .* rho" if mode is Mode.REGEX else "alpha beta gamma"
    query = SearchQuery(text=text, mode=mode, all_hits=True)
    whole = workspace.reader.search(query).findings
    outcomes = list[str]()
    for looks in (1, 2, 3, 5, 8, 13, 100):
        cancellation = Watched(looks)

        def ask(cancellation: Watched = cancellation) -> None:
            try:
                found = workspace.reader.search(query, cancellation).findings
                outcomes.append("whole" if found == whole else "part")
            except Cancelled:
                outcomes.append("cancelled")
            finally:
                cancellation.reached.set()

        asking = threading.Thread(target=ask)
        asking.start()
        assert cancellation.reached.wait(30)
        cancelled = time.monotonic()
        cancellation.cancel()
        asking.join(30)
        assert not asking.is_alive()
        assert time.monotonic() - cancelled < SOON_S
    # One that is over before it looks so often is whole.
    assert set(outcomes) <= {"cancelled", "whole"}
    assert outcomes[:3] == ["cancelled"] * 3
    assert workspace.reader.search(query).findings == whole
