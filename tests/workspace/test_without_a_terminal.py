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
from backstory.workspace.runs.run_events import Ended, Queued, Shown, Steered
from backstory.workspace.runs.scheduler import Destination, Options
from backstory.workspace.workspace import Workspace
from tests.support.bench import Bench
from tests.support.running import GOOD, until

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.workspace.runs.run_events import RunEvent

pytestmark = pytest.mark.slow


def test_sessions_are_run_steered_listed_renamed_and_found(tmp_path: Path) -> None:
    bench, said = Bench(tmp_path), tmp_path / "said"
    steps: list[dict[str, Any]] = [{"listens": True}, {"say": "the heron waits"}, {"touch": str(said)}, {"hear": 1}]
    steps += [{"say": "left"}, GOOD]

    def workspace() -> Workspace:
        home, environ = bench.home, bench.environ(steps)
        return Workspace(lambda: Config(home / "config.toml"), home, bench.project, environ=environ)

    events: list[RunEvent] = []

    def run() -> None:
        mine = workspace()
        events.extend(mine.scheduler.submit(Destination(), "Where now?", Options(agent="claude")))
        mine.close()

    thread = threading.Thread(target=run)
    thread.start()
    until(said.exists)
    here = workspace()
    (live,) = here.scheduler.runs()
    assert (live.state, live.number, live.prompt) == ("running", "S1", "Where now?")
    (sent,) = here.scheduler.steer(here.default(running_first=True), "look left")
    assert isinstance(sent, Queued)
    assert sent.is_message
    thread.join(120)
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


def test_no_module_of_a_terminal_is_needed_to_run_agents() -> None:
    asked = (
        "import sys, backstory.workspace.runs.scheduler; print({'click', 'rich', 'backstory.cli'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "set()\n"
