"""Runs whose runner is killed: what the store says of them meanwhile, and of an end that nobody saw."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from backstory.agents.contract import CUT_OFF
from backstory.errors import StoreBusy
from backstory.runs.runner import Request, Runner
from backstory.runs.spool import SPOOLS, Run, Spool
from backstory.runs.stream import Shown
from backstory.store import Store, open_store
from backstory.store.tables import runs
from tests.support.clock import NOW
from tests.support.running import GOOD, is_alive, run_alone, start_and_leave, until, until_over

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.runs.runner import Came
    from tests.support.bench import Bench

pytestmark = pytest.mark.slow

CODEX = """#!/bin/sh
cat >/dev/null
echo '{"type":"thread.started","thread_id":"th-1"}'
echo '{"type":"turn.completed"}'
"""


def running_ids(path: Path) -> list[tuple[Any, ...]]:
    """What any SQLite client sees of the sessions that run."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute("select last_claude_uuid, last_native_id from sessions").fetchall()


def ids_in(bench: Bench) -> list[tuple[Any, ...]]:
    return running_ids(bench.project / ".backstory" / "sessions.bks")


def killed_with_its_agent(bench: Bench) -> None:
    """A run whose backstory is killed after the agent's first word, and then the agent."""
    process = bench.start("run", "-a", "claude", "go", script=[{"say": "first word"}, {"wait_for": "never"}])
    assert process.stdout is not None
    assert process.stdout.readline() == "first word\n"
    process.kill()
    process.communicate()
    (row,) = json.loads(bench.backstory("ps", "--json").stdout)["runs"]
    os.kill(row["pid"], signal.SIGKILL)
    until(lambda: not is_alive(row["pid"]))


def test_a_turn_whose_end_nobody_saw_says_so_wherever_it_is_shown(bench: Bench) -> None:
    killed_with_its_agent(bench)
    waiting = [bench.backstory("show", *words).stdout for words in ((), ("--json",))]
    bench.backstory("ingest")
    stored = [bench.backstory(*words).stdout for words in (("show",), ("show", "--json"), ("context",))]
    assert [CUT_OFF in each for each in (*waiting, *stored)] == [True] * 5
    assert [each for each in (*waiting, *stored) if "exit code" in each] == []
    (turn,) = json.loads(stored[1])["turns"]
    assert turn["outcome"] == "crashed"


def test_a_turn_that_was_cut_off_ends_when_its_last_word_was_seen_and_not_before(bench: Bench) -> None:
    killed_with_its_agent(bench)
    (spool,) = bench.spools()
    # Agents write before anybody sees it, and a busy machine is slow to look.
    os.utime(spool / "stdout", (0, 0))
    bench.backstory("ingest")
    at = [each.at for each in bench.store.events(1)]
    assert None not in at
    assert at == sorted(at, key=lambda each: each or 0)
    assert bench.store.turns(1)[0].ended == at[-1]


def test_the_next_agent_is_told_that_a_turn_was_cut_off(bench: Bench) -> None:
    killed_with_its_agent(bench)
    bench.run("and now?", GOOD)
    assert CUT_OFF in bench.sent()
    assert "exit code" not in bench.sent()


def test_a_turn_whose_agent_ended_alone_and_said_how_is_not_cut_off(bench: Bench) -> None:
    start_and_leave(bench, "go", GOOD)
    until_over(bench)
    bench.backstory("ingest")
    assert [turn.outcome for turn in bench.store.turns(1)] == ["completed"]
    assert CUT_OFF not in bench.backstory("show", "--full").stdout


def test_an_end_that_was_seen_is_told_as_it_was(bench: Bench) -> None:
    bench.run("go", {"say": "a word"}, {"exit": 3})
    shown = bench.backstory("show").stdout
    assert "exit code 3" in shown
    assert CUT_OFF not in shown


def test_the_agents_id_is_in_the_store_from_the_start_of_a_run_until_it_is_stored(bench: Bench) -> None:
    process = bench.start("run", "-a", "claude", "go", script=[{"say": "first word"}, {"wait_for": "never"}])
    assert process.stdout is not None
    process.stdout.readline()
    words = bench.argv()
    native_id = words[words.index("--session-id") + 1]
    assert ids_in(bench) == [(native_id, native_id)]
    process.kill()
    process.communicate()
    assert ids_in(bench) == [(native_id, native_id)]
    bench.backstory("cancel", "S1")
    assert ids_in(bench) == [("", "")]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / SPOOLS).mkdir(parents=True, mode=0o700)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "sessions.bks", now=lambda: NOW) as store:
        yield store


@pytest.fixture
def runner(home: Path) -> Iterator[Runner]:
    with open_store(home / "store.db", shared=True, now=lambda: NOW) as store:
        yield Runner(home, store, {"PATH": os.environ["PATH"]}, lambda: NOW)


def codex_request(folder: Path) -> Request:
    program = folder / "codex"
    program.write_text(CODEX)
    program.chmod(0o755)
    return Request(agent="codex", prompt="go", cwd=folder, executable=str(program))


def test_an_id_that_the_agent_chooses_is_in_the_store_as_soon_as_it_is_said(
    runner: Runner, project: Store, tmp_path: Path
) -> None:
    session, seen = project.create_session(), list[Any]()

    def show(shown: Came) -> None:
        assert isinstance(shown, Shown)
        seen.extend((event.kind, *running_ids(project.path)) for event in shown.events)

    run_alone(runner, project, session, codex_request(tmp_path), show)
    assert seen == [("Init", ("th-1", "th-1")), ("Complete", ("th-1", "th-1"))]
    assert running_ids(project.path) == [("", "")]


def test_a_store_that_cannot_be_written_meanwhile_does_not_stop_the_run(
    runner: Runner, project: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreBusy(project.path)

    monkeypatch.setattr(runs, "note_native_id", refuse)
    session = project.create_session()
    finished = run_alone(runner, project, session, codex_request(tmp_path))
    assert (finished.turn.outcome, finished.waits) == ("completed", None)


def test_the_id_of_a_run_that_is_lost_is_taken_away_and_that_of_one_that_waits_stays(
    runner: Runner, home: Path, project: Store
) -> None:
    lost, waits = project.create_session(), project.create_session()
    project.change(runs.note_native_id, lost.uid, "lost")
    project.change(runs.note_native_id, waits.uid, "waits")
    run = Run(
        turn_uid="01JXYZ00000000000000000001", session_uid=waits.uid, store=str(project.path), agent="codex",
        prompt="go", cwd="/w", started=NOW,
    )  # fmt: skip
    Spool.begin(home / SPOOLS, run, "go")
    runner.cleanup_orphans(project, lambda _: None)
    assert running_ids(project.path) == [("", ""), ("waits", "waits")]


def test_an_id_that_another_program_wrote_into_its_own_session_stays(runner: Runner, project: Store) -> None:
    project.create_session()
    with closing(sqlite3.connect(project.path)) as db, db:
        db.execute("insert into sessions(name, last_claude_uuid) values ('theirs', 'x')")
    runner.cleanup_orphans(project, lambda _: None)
    assert running_ids(project.path) == [("", ""), ("x", "x")]
