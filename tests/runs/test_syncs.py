"""What a run waits for: each sync takes as long as the disk does, so each has a reason that docs/runs.md gives."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory.agents.claude.run import Runs
from backstory.config import Config
from backstory.runs import runner
from backstory.runs.spool import Spool
from backstory.store import open_store
from backstory.store.tables import runs as stored_runs
from backstory.workspace.runs.run_events import Ended
from backstory.workspace.runs.scheduler import Destination, Options
from backstory.workspace.workspace import Workspace
from tests.support.bench import Bench
from tests.support.running import GOOD
from tests.support.syncs import noted_syncs

if TYPE_CHECKING:
    from backstory.runs.spool import Run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the names of open files are read from /proc"),
]

TRANSACTION = ["sessions.bks-journal", ".backstory/", "sessions.bks-journal", "sessions.bks", ".backstory/"]
"""A rollback journal, its place, how much of it counts, the pages, and that the journal is gone."""
SPOOL = ["run.json", "RUN/", "spool/"]
HOME_BEGINS = ["store.db-wal", "home/"]
HOME_CLOSES = ["store.db-wal", "store.db"]


def synced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, destination: Destination, answer: str = "answered"
) -> list[str]:
    """What one run syncs, with the name of its spool left out."""
    config = Config(bench.home / "config.toml")
    environ = bench.environ([{"say": answer}, GOOD])
    with noted_syncs(monkeypatch) as names:
        workspace = Workspace(lambda: config, bench.home, bench.project, environ=environ)
        with closing(workspace):
            events = list(workspace.scheduler.submit(destination, "go", Options(agent="claude")))
    assert any(isinstance(event, Ended) for event in events)
    return ["RUN/" if len(name) == 27 else name for name in names]


@pytest.fixture
def begun(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A project whose stores are there, with a session that was run once."""
    synced(bench, monkeypatch, Destination())
    return bench


def test_a_run_syncs_what_must_be_on_the_disk_and_nothing_else(begun: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    names = synced(begun, monkeypatch, Destination())
    # The id that the agent is given, for all who look into the store meanwhile, and what the run came to.
    assert names == [*SPOOL, *TRANSACTION, *TRANSACTION, *HOME_BEGINS, *HOME_CLOSES]


def test_the_first_run_of_a_session_syncs_its_beginning_too(begun: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    names = synced(begun, monkeypatch, Destination(is_new=True))
    # Its first transaction has that id, too.
    assert names == [*TRANSACTION, *SPOOL, *HOME_BEGINS, *TRANSACTION, *HOME_CLOSES]


def test_an_id_that_the_agent_chooses_is_noted_when_it_says_it(begun: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runs, "native_id", lambda *_: None)
    names = synced(begun, monkeypatch, Destination(is_new=True))
    assert names == [*TRANSACTION, *SPOOL, *HOME_BEGINS, *TRANSACTION, *TRANSACTION, *HOME_CLOSES]


def test_a_new_session_has_the_id_that_its_agent_is_given_before_the_agent_starts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[dict[str, str]]()

    class Seeing(Spool):
        @classmethod
        def begin(cls, folder: Path, run: Run, prompt: str) -> Spool:
            with open_store(Path(run.store)) as store:
                seen.append(store.ask(stored_runs.native_ids))
            assert seen == [{run.session_uid: run.native_id}]
            return super().begin(folder, run, prompt)

    monkeypatch.setattr(runner, "Spool", Seeing)
    synced(bench, monkeypatch, Destination(is_new=True))
    assert len(seen) == 1


def test_how_full_the_context_is_comes_with_the_end_of_the_run(begun: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    names = synced(begun, monkeypatch, Destination(), answer="word " * 15_000)
    assert names == [*SPOOL, *TRANSACTION, *TRANSACTION, *HOME_BEGINS, *HOME_CLOSES]
    with open_store(begun.project / ".backstory" / "sessions.bks") as store:
        (session,) = store.sessions()
    assert session.context_chars is not None
    assert 75_000 < session.context_chars < 76_000
