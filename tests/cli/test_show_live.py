"""A run that is not stored yet, as reading commands show it: from its spool, which they leave as it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from backstory.agents.contract import CUT_OFF
from tests.support.bench import Bench
from tests.support.going import DEADLINE_S, GOOD, Going, delta, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def shown(bench: Bench, *options: str) -> str:
    done = bench.backstory("show", "S1", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(root: Path) -> Iterator[tuple[str, int, int]]:
    """Everything below a folder, but the side files that SQLite clears away after a writer was killed."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.name.startswith("store.db-"):
            yield str(path), path.stat().st_mtime_ns, path.stat().st_size


def test_a_run_that_goes_on_is_shown_behind_what_is_stored(bench: Bench) -> None:
    bench.run("Where does the heron nest?", {"say": "In the reeds."}, GOOD)
    with Going(bench, {"say": "Looking."}, {"tool": "ls"}) as going:
        pid = json.loads(bench.backstory("ps", "--json").stdout)["runs"][0]["pid"]
        lines = shown(bench).splitlines()
        assert lines[-1].strip() == f"… still running (process {pid})"
        order = ["In the reeds.", "── turn 2", "❯ Where now?", "Looking.", "● Bash ls", "done", "still running"]
        places = [next(n for n, line in enumerate(lines) if part in line) for part in order]
        assert places == sorted(places)
        assert going.process.poll() is None


def test_a_run_that_ended_and_is_not_stored_yet_says_in_the_list_what_its_session_is_about(bench: Bench) -> None:
    with Going(bench, {"say": "Looking."}) as going:
        going.kill_backstory()
        going.end_agent()
        (listed,) = json.loads(bench.backstory("list", "--json").stdout)["sessions"]
    assert (listed["title"], listed["turn_count"], listed["agents"]) == ("Where now?", 1, ["claude"])


def test_an_answer_is_shown_as_far_as_it_was_streamed(bench: Bench) -> None:
    with Going(bench, delta("The heron "), delta("nests in")):
        assert "The heron nests in\n" in shown(bench)


def test_an_answer_that_is_done_is_shown_once(bench: Bench) -> None:
    with Going(bench, delta("In the "), delta("reeds."), {"say": "In the reeds."}, delta("And")):
        told = shown(bench)
        assert told.count("In the reeds.") == 1
        assert "  And\n" in told


def test_in_json_a_live_turn_and_its_events_say_so(bench: Bench) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    with Going(bench, {"say": "two"}):
        told = json.loads(shown(bench, "--json"))
        stored, live = told["turns"]
        assert "live" not in stored
        assert (live["turn"], live["live"], live["prompt"], live["outcome"]) == (2, "running", "Where now?", None)
        assert isinstance(live["pid"], int)
        assert live["turn_uid"] == bench.spools()[0].name
        assert [(each["seq"], each.get("is_live", False), each["turn"], each["kind"]) for each in told["events"]] == [
            (1, False, 1, "UserMessage"), (2, False, 1, "AssistantText"), (3, False, 1, "Complete"),
            (None, True, 2, "UserMessage"), (None, True, 2, "AssistantText"),
        ]  # fmt: skip


def test_the_turn_of_a_live_run_is_counted_once(bench: Bench) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    with Going(bench, {"say": "two"}):
        told = json.loads(shown(bench, "--json"))
        assert (told["session"]["turn_count"], len(told["turns"])) == (2, 2)
        assert " · 2 turns" in shown(bench)


def test_a_killed_backstory_leaves_the_whole_of_what_arrived_to_be_shown(bench: Bench) -> None:
    with Going(bench, {"say": "first"}, delta("half an ans"), then=({"raw": '{"type":"assi'}, {"exit": 0})) as going:
        going.kill_backstory()
        assert "half an ans" in shown(bench)
        assert "still running" in shown(bench)
        going.end_agent()
        told = shown(bench)
        assert "first" in told
        assert "half an ans" in told
        assert "1 record of an unknown kind" in told
        assert "not JSON" in shown(bench, "--full")
        assert "finished; the next run will store it" in told


def test_a_run_that_waits_is_shown_with_its_outcome(bench: Bench) -> None:
    with Going(bench, {"say": "first"}) as going:
        going.kill_backstory()
        going.end_agent()
        (turn,) = json.loads(shown(bench, "--json"))["turns"]
        assert (turn["live"], turn["outcome"], turn["cost_usd"]) == ("waiting", "completed", 0.04)


def test_what_a_waiting_run_said_last_is_shown_below_that_nobody_saw_its_end(bench: Bench) -> None:
    with Going(bench, {"stderr": "no network"}, then=({"exit": 3},)) as going:
        going.kill_backstory()
        going.end_agent()
        assert f"! {CUT_OFF}\n         no network\n" in shown(bench)


def test_reading_leaves_a_spool_as_it_is(bench: Bench) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    # The first reading command that has the time notes which folders it looked through.
    until(lambda: list(files(bench.root)) == [bench.backstory("list"), *files(bench.root)][1:])
    with Going(bench, {"say": "two"}) as going:
        for _ in range(2):
            # Its heartbeat is no doing of the readers'.
            going.stop_backstory()
            before = list(files(bench.root))
            for command in (("show", "S1"), ("show", "S1", "--json", "--full"), ("list",), ("ps",), ("context", "S1")):
                assert bench.backstory(*command).returncode == 0
            assert list(files(bench.root)) == before
            # The second time around the run is over, and nobody has stored it.
            going.kill_backstory()
            going.end_agent()
        assert bench.spools() != []


def test_what_was_stored_meanwhile_is_shown_once(bench: Bench) -> None:
    with Going(bench, {"say": "only once"}) as going:
        going.kill_backstory()
        going.end_agent()
        kept = [(path.name, path.read_bytes()) for path in bench.spools()[0].iterdir()]
        folder = bench.spools()[0]
        bench.run("next", GOOD)
        # A spool that could not be removed, or was only stored where the session belongs.
        folder.mkdir()
        for name, data in kept:
            (folder / name).write_bytes(data)
        assert shown(bench).count("only once") == 1


def test_only_the_turn_that_was_asked_for_is_shown(bench: Bench) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    with Going(bench, {"say": "two"}):
        assert "two" not in shown(bench, "--turn", "1")
        assert "one" not in shown(bench, "--turn", "2")
        assert "two" in shown(bench, "--turn", "2")


def test_a_run_of_another_session_is_not_shown(bench: Bench) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    bench.run("second", {"say": "two"}, GOOD, options=("-n",))
    with Going(bench, {"say": "three"}):
        assert "three" not in shown(bench)
        assert "three" in bench.backstory("show", "S2").stdout


@pytest.mark.long
def test_an_agent_that_never_stops_talking_is_shown_all_the_same(bench: Bench) -> None:
    process = bench.start("run", "-a", "claude", "go", script=[{"endless": True}])
    assert process.stdout is not None
    assert process.stdout.readline() == "and on\n"
    # Nobody reads what backstory prints, so only the agent goes on.
    assert "still running" in shown(bench).splitlines()[-1]
    # To print and to store all that it said would take longer than all other tests here. Both are ended with the test.
    process.kill()
    process.communicate(timeout=DEADLINE_S)


def test_what_the_next_run_is_told_besides_is_said(bench: Bench) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    assert "not stored yet" not in bench.backstory("context", "S1", "--explain").stderr
    with Going(bench, {"say": "two"}):
        assert "A run of this session is not stored yet" in bench.backstory("context", "S1", "--explain").stderr
