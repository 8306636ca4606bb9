"""Which session asks: it, and its subagents, are left out of what they are told."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from backstory.agents import load
from backstory.agents.contract import Asker
from backstory.workspace.history.asking import Surroundings
from tests.support.mcp_client import HERE, answered, asked

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.mcp_client import History

MINE, HELPER = "44444444-0000-4000-8000-000000000004", "a55555"
PID = 4_194_301
SAID = {"x-codex-turn-metadata": {"session_id": MINE, "thread_id": MINE}}
TOLD = "and its subagents are left out."


@pytest.fixture
def machine(history: History) -> History:
    """A machine with one more session here, and a subagent of it; both speak of the walrus, as another session does."""
    history.write_log(MINE, history.work, [*asked("Ask the walrus"), *answered("walrus mine")], 3)
    history.write_log(HELPER, history.work, [*asked("Help the walrus"), *answered("walrus helps")], 3, parent=MINE)
    other = [*asked("Feed the walrus"), *answered("walrus fed")]
    history.write_log("66666666-0000-4000-8000-000000000006", history.work, other, 4)
    assert history.shell("ingest").code == 0
    return history


def answers(machine: History, **how: Any) -> list[str]:
    """What is told of the walrus: by a search, and by SQL."""
    searched = machine.call("search_sessions", query="walrus", **how)
    queried = machine.call("session_store_sql", query="select text from events where text like '%walrus%'", **how)
    assert (TOLD in searched.text) == (TOLD in queried.text)
    assert ("walrus mine" in queried.history) == ("walrus helps" in queried.history)
    assert ("Ask the walrus" in searched.history) == ("walrus mine" in queried.history)
    assert "walrus fed" in queried.history
    return [word for word in ("mine", "helps") if f"walrus {word}" in queried.history]


def test_where_nothing_says_who_asks_nothing_is_left_out(machine: History) -> None:
    assert answers(machine) == ["mine", "helps"]


def test_a_client_that_names_its_session_in_the_environment(machine: History) -> None:
    assert answers(machine, environ={"CLAUDE_CODE_SESSION_ID": MINE}) == []


def test_the_file_of_the_running_client_counts_more_than_the_environment(machine: History, tmp_path: Path) -> None:
    """A person who resumes another session stays in the process that started the server."""
    live = machine.shell.home / ".claude" / "sessions" / f"{PID}.json"
    live.parent.mkdir()
    live.write_text(f'{{"pid":{PID},"sessionId":"{MINE}","procStart":"123"}}')
    above = Surroundings(run=None, processes=[(1_000_000, "9"), (PID, "123")])
    assert answers(machine, around=above, environ={"CLAUDE_CODE_SESSION_ID": HERE}) == []
    reused = Surroundings(run=None, processes=[(PID, "124")])
    assert answers(machine, around=reused) == ["mine", "helps"], "the process is another one by now"


def test_a_client_that_names_its_session_beside_each_call(machine: History) -> None:
    load("codex")
    assert answers(machine, said=SAID) == []


NONSENSE: list[Any] = [None, [], "x", {}, {"thread_id": [1]}]


@pytest.mark.parametrize("said", [{"x-codex-turn-metadata": each} for each in NONSENSE])
def test_nonsense_beside_a_call_is_no_session(machine: History, said: dict[str, Any]) -> None:
    assert answers(machine, said=said) == ["mine", "helps"]
    asker = Asker(environ={}, processes=[], said=said, home=machine.shell.home)
    assert load("codex").asking.native_id(asker) is None  # type: ignore[union-attr]


def test_what_comes_with_the_question_counts_more_than_an_agent_above(machine: History) -> None:
    assert answers(machine, said=SAID, environ={"CLAUDE_CODE_SESSION_ID": HERE}) == []


def test_a_run_of_ours_is_known_by_its_variable(machine: History) -> None:
    from backstory.runs.spool import SPOOLS, Run, Spool

    listed = machine.shell("list", "--all", "--json").json()["sessions"]
    (uid,) = [each["uid"] for each in listed if each["native_id"] == MINE]
    run = Run(turn_uid="01TURN", session_uid=uid, store="", agent="claude", prompt="p", cwd="/", started=0)
    Spool.begin(machine.shell.home / "backstory" / SPOOLS, run, "p")
    assert answers(machine, around=Surroundings(run="01TURN", processes=())) == []
    assert answers(machine, around=Surroundings(run="../../etc", processes=())) == ["mine", "helps"]


def test_else_it_is_the_session_of_the_folder_whose_log_grew_within_a_minute(machine: History) -> None:
    path = machine.log_of(MINE, machine.work)
    *_, last = path.read_bytes().splitlines()
    path.write_bytes(path.read_bytes() + last.replace(b"-1", b"-2") + b"\n")
    os.utime(path, (time.time() - 90, time.time() - 90))
    assert answers(machine) == ["mine", "helps"], "it grew too long ago"
    path.write_bytes(path.read_bytes() + last.replace(b"-1", b"-3") + b"\n")
    os.utime(path, (time.time() - 20, time.time() - 20))
    assert answers(machine) == []
    # In another folder it is not the one that asks.
    said = machine.call("search_sessions", query="zebra", cwd=machine.other)
    assert "zebra" in said.history and TOLD not in said.text


def test_a_subagent_that_asks_is_not_told_of_its_parent(machine: History) -> None:
    assert answers(machine, environ={"CLAUDE_CODE_SESSION_ID": f"{MINE}/{HELPER}"}) == []


def test_the_session_that_asks_can_still_be_read_when_it_is_named(machine: History) -> None:
    said = machine.call("get_session", session=MINE, said=SAID)
    assert "walrus mine" in said.history


def test_files_and_fixes_of_the_session_that_asks_are_left_out(history: History) -> None:
    asked_for: dict[str, dict[str, Any]] = {
        "file_history": {"path": "parser.py"}, "find_fix": {"error": "QuokkaError: unexpected"},
    }  # fmt: skip
    for tool, arguments in asked_for.items():
        assert history.call(tool, **arguments).history
        said = history.call(tool, environ={"CLAUDE_CODE_SESSION_ID": HERE}, **arguments)
        assert not said.history
        assert TOLD in said.text
