"""Runs that are told to a server: only what may leave, each event once, within bounds, also over a broken line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.errors import BackstoryError, LoginRefused, ServerBusy, ServerRefused, ServerUnreachable
from backstory.runs.spool import running_runs
from backstory.sync.live_masks import EVENT_BYTES_MAX
from backstory.workspace.runs import telling
from tests.support.going import GOOD, Going, until
from tests.support.laptops import PASSWORD
from tests.support.telling_machines import TellingMachine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.team import Team


@pytest.fixture
def machine(tmp_path: Path, team: Team) -> Iterator[TellingMachine]:
    made = TellingMachine(tmp_path, team)
    yield made
    made.teller.close()


def test_each_event_is_told_once_and_silence_by_a_heartbeat(machine: TellingMachine) -> None:
    with Going(machine.bench, {"say": "first"}, then=({"say": "second"}, GOOD)) as going:
        (part,) = machine.tells()
        assert (part["first"], len(part["events"]), part["state"]) == (1, 2, "running")
        assert [len(machine.tells()) for _ in range(5)] == [0, 0, 0, 0, 1]
        assert machine.tells(0.5) == []
        going.go.touch()
        assert going.process.wait() == 0
        (part, *_) = machine.tells()
        assert (part["first"], part["state"]) == (3, "over")
        assert machine.tells(100) == []
    assert machine.there()[:3] == ["Where now?", "first", "second"]


def test_an_answer_that_was_lost_has_nothing_there_twice(machine: TellingMachine) -> None:
    with Going(machine.bench, {"say": "first"}, then=({"say": "second"}, GOOD)):
        machine.line.lost = [True]
        assert machine.tells() == []
        assert machine.tells(1) == []
        machine.tells(3)
        assert machine.there() == ["Where now?", "first"]


def test_while_the_server_is_away_the_newest_wait_and_it_is_asked_less_often(
    machine: TellingMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "WAITING_BYTES_MAX", 2_000)
    with Going(machine.bench, {"many": 100}):
        machine.line.refuses = [ServerUnreachable("http://x", "nobody") for _ in range(20)]
        machine.line.refuses.append(ServerBusy("http://x", 503, "try_again", "busy", 30))
        for _ in range(300):
            machine.tells()
        assert 10 <= 21 - len(machine.line.refuses) <= 20
        machine.line.refuses.clear()
        (part,) = [each for _ in range(61) for each in machine.tells() if each["events"]]
    assert part["first"] > 1
    assert sum(len(bytes(each)) for each in part["events"]) <= 2_000
    assert machine.there()[-1] == "line 99"
    assert machine.said == []


def test_of_a_session_that_may_not_leave_nothing_is_asked(machine: TellingMachine) -> None:
    machine.opted = ["me/other"]
    with Going(machine.bench, {"say": "first"}):
        assert (machine.tells(), machine.line.asked) == ([], [])


def test_who_switches_it_off_while_it_runs_is_obeyed(machine: TellingMachine) -> None:
    with Going(machine.bench, {"say": "first"}):
        assert len(machine.tells()) == 1
        machine.may = False
        assert (machine.tells(10), machine.tells(10)) == ([], [])


def test_of_a_session_that_was_removed_there_no_more_is_told(machine: TellingMachine) -> None:
    with Going(machine.bench, {"say": "first"}):
        machine.tells()
        machine.sender.forget(machine.line.parts[0]["uid"])
        assert len(machine.tells(10)) == 1
        assert machine.tells(10) == []
    assert machine.there() == []


@pytest.mark.parametrize("status", [403, 404])
def test_a_server_that_takes_none_is_named_once(status: int, machine: TellingMachine) -> None:
    of = LoginRefused if status == 403 else ServerRefused
    with Going(machine.bench, {"say": "first"}):
        machine.line.refuses = [of("http://x", status, "no", "No.")]
        assert ([machine.tells(10) for _ in range(3)], len(machine.said)) == ([[], [], []], 1)


def test_a_login_that_was_ended_ends_it(machine: TellingMachine) -> None:
    with Going(machine.bench, {"say": "first"}):
        machine.line.refuses = [LoginRefused("http://x", 401, "not_logged_in", "This needs a login.")]
        with pytest.raises(LoginRefused):
            machine.tells()


def test_an_event_that_is_very_long_is_told_in_short(machine: TellingMachine) -> None:
    with Going(machine.bench, {"long": 300_000}):
        (part,) = machine.tells()
    assert max(len(bytes(each)) for each in part["events"]) < EVENT_BYTES_MAX
    assert [len(each) for each in machine.there()] == [10, 2_001]


def test_a_secret_that_only_a_later_event_tells_goes_from_what_was_told(machine: TellingMachine) -> None:
    later = {"say": f"password={PASSWORD}"}
    with Going(machine.bench, {"say": f"Try {PASSWORD} there."}, then=(later, {"say": "third"}, GOOD)) as going:
        machine.tells()
        assert PASSWORD in str(machine.there())
        going.go.touch()
        assert going.process.wait() == 0
        machine.tells(10)
    there = machine.there()
    assert (PASSWORD in str(there), there[0].startswith("password=["), there[1]) == (False, True, "third")


def test_a_run_whose_end_nobody_noted_is_told_as_killed(machine: TellingMachine) -> None:
    with Going(machine.bench, {"say": "first"}, then=({"say": "second"}, GOOD)) as going:
        machine.tells()
        going.process.kill()
        going.process.wait()
        going.go.touch()
        until(lambda: not running_runs(machine.bench.home))
        states = [each["state"] for _ in range(6) for each in machine.tells()]
        assert (states, machine.tells(100)) == (["running", "killed"], [])
    assert machine.there()[2] == "second"


def test_a_run_that_cannot_be_read_is_named_once_and_ends_nothing(
    machine: TellingMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> list[object]:
        raise OSError("the disk")

    with Going(machine.bench, {"say": "first"}):
        machine.tells()
        with monkeypatch.context() as patched:
            patched.setattr("backstory.runs.live.LiveRun.new", broken)
            assert ([machine.tells(10) for _ in range(3)], len(machine.said)) == ([[], [], []], 1)


def test_an_answer_being_written_takes_a_secret_back_before_any_event_comes(machine: TellingMachine) -> None:
    with Going(machine.bench, {"say": f"Try {PASSWORD} there."}):
        machine.tells()
        (masks,) = (each.masks for each in machine.teller._told.values())
        masks.writing(f"password={PASSWORD}\n\nmore")
        (part,) = machine.tells()
        assert (part["events"], PASSWORD in str(machine.there())) == ([], False)


def test_a_secret_that_another_session_of_the_repository_tells_meanwhile_is_masked(machine: TellingMachine) -> None:
    with Going(machine.bench, {"say": f"Try {PASSWORD} there."}, then=({"say": f"Again {PASSWORD}."}, GOOD)) as going:
        machine.tells()
        assert PASSWORD in str(machine.there())
        other = machine.bench.start(
            "run", "--new", "-a", "claude", "And you?", script=[{"say": f"password={PASSWORD}"}, GOOD]
        )
        assert other.wait() == 0
        machine.tells(10)
        assert PASSWORD not in str(machine.there())
        going.go.touch()
        assert going.process.wait() == 0
        machine.tells(10)
    there = machine.there()
    assert (PASSWORD in str(there), any(each.startswith("Again [") for each in there)) == (False, True)


def test_while_the_settings_cannot_be_read_nothing_is_told_and_then_it_goes_on(
    machine: TellingMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_: object) -> None:
        raise BackstoryError("The settings cannot be read.")

    with Going(machine.bench, {"say": "first"}):
        machine.tells()
        with monkeypatch.context() as patched:
            patched.setattr(machine.teller, "_rules", unreadable)
            assert ([machine.tells(10) for _ in range(3)], len(machine.said)) == ([[], [], []], 1)
        assert len(machine.tells(10)) == 1
