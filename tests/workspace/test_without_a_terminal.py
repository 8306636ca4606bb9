"""A day's work through ``Workspace`` alone, as a face without a terminal does it: no click, no printing."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from backstory.config import Config
from backstory.model import AssistantText
from backstory.workspace.history.searching import SearchQuery
from backstory.workspace.runs.run_events import Ended, Notice, Queued, Shown, Steered
from backstory.workspace.runs.scheduler import Destination, Options
from backstory.workspace.runs.session_runs import SessionRuns
from backstory.workspace.workspace import Workspace
from tests.support.bench import Bench
from tests.support.running import GOOD, until

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.runs.lock import SessionLease
    from backstory.workspace.runs.run_events import RunEvent

pytestmark = pytest.mark.slow


class Day:
    """A run in a thread that hears one message, and says no more until it may."""

    def __init__(self, root: Path) -> None:
        self.bench, self.may_end = Bench(root), root / "may end"
        said = root / "said"
        self.steps: list[dict[str, Any]] = [
            {"listens": True}, {"say": "the heron waits"}, {"touch": str(said)}, {"hear": 1},
            {"wait_for": str(self.may_end)}, {"say": "left"}, GOOD,
        ]  # fmt: skip
        self.events: list[RunEvent] = []
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        until(said.exists)

    def workspace(self) -> Workspace:
        home, environ = self.bench.home, self.bench.environ(self.steps)
        return Workspace(lambda: Config(home / "config.toml"), home, self.bench.project, environ=environ)

    def end(self) -> None:
        self.may_end.touch()
        self.thread.join(120)

    def _run(self) -> None:
        mine = self.workspace()
        self.events.extend(mine.scheduler.submit(Destination(), "Where now?", Options(agent="claude")))
        mine.close()


def test_sessions_are_run_steered_listed_renamed_and_found(tmp_path: Path) -> None:
    day = Day(tmp_path)
    here, events = day.workspace(), day.events
    (live,) = here.scheduler.runs()
    assert (live.state, live.number, live.prompt) == ("running", "S1", "Where now?")
    (sent,) = here.scheduler.steer(here.default(running_first=True), "look left")
    assert isinstance(sent, Queued)
    assert sent.is_message
    day.end()
    answers = [event for each in events if isinstance(each, Shown) for event in each.events]
    assert [each.text for each in answers if isinstance(each, AssistantText)] == ["the heron waits", "left"]
    assert [each.message.content for each in events if isinstance(each, Steered)] == ["look left"]
    assert isinstance(events[-1], Ended)

    (listed,) = here.reader.sessions().sessions
    assert (listed.number, listed.turns, listed.outcome) == ("S1", 1, "completed")
    assert here.rename(here.resolve("S1"), "birds") == []
    assert [store.session(listed.uid).name for store in (here.project_store, here.machine_store)] == ["birds"] * 2
    (hit,) = here.reader.search(SearchQuery(text="heron")).findings.excerpts
    assert hit.session.name == "birds"
    here.close()


def test_a_message_whose_run_ended_with_it_is_not_said_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day = Day(tmp_path)
    looked = SessionRuns.lease_at_last

    def looked_later(runs: SessionRuns) -> tuple[SessionLease | None, str]:
        day.end()
        return looked(runs)

    monkeypatch.setattr(SessionRuns, "lease_at_last", looked_later)
    here = day.workspace()
    (sent,) = here.scheduler.steer(here.default(running_first=True), "look left")
    assert sent == Notice("S1 took it.")
    assert [each.message.content for each in day.events if isinstance(each, Steered)] == ["look left"]
    here.close()


def test_no_module_of_a_terminal_is_needed_to_run_agents() -> None:
    asked = (
        "import sys, backstory.workspace.runs.scheduler; print({'click', 'rich', 'backstory.cli'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "set()\n"
