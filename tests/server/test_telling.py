"""Runs that are told to a server: only what may leave, each event once, within bounds, also over a broken line."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from backstory.derive.secrets import Redactor
from backstory.errors import BackstoryError, LoginRefused, ServerBusy, ServerRefused, ServerUnreachable
from backstory.sync.live_masks import EVENT_BYTES_MAX, live_masks
from backstory.sync.notes import SyncNotes
from backstory.sync.opted import opted_in
from backstory.workspace.runs import telling
from backstory.workspace.runs.telling import RunTeller
from tests.support.bench import Bench
from tests.support.clock import NOW
from tests.support.going import GOOD, Going
from tests.support.laptops import KEY, MACHINE, BrokenLine
from tests.support.senders import Sender

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.sync.live_masks import LiveMasks
    from backstory.workspace.workspace import Workspace
    from tests.support.team import Team


class FailingLine(BrokenLine):
    """A line to a server that refuses what it is told to."""

    def __init__(self, sender: Sender) -> None:
        super().__init__(sender)
        self.address, self.refuses, self.parts = "http://x", list[BackstoryError](), list[dict[str, Any]]()

    def ask(self, method: str, path: str, body: Any = None, *, repeats: bool = True) -> Any:
        if self.refuses:
            raise self.refuses.pop(0)
        found = super().ask(method, path, body)
        self.parts.append(body)
        return found


class TellingMachine:
    """A machine with a run, which is told by a clock that the test sets."""

    def __init__(self, root: Path, team: Team) -> None:
        self.bench, self.sender = Bench(root), Sender(team, team.founded())
        origin = ("git", "-C", str(self.bench.project), "remote", "add", "origin", "git@github.com:me/app.git")
        subprocess.run(origin, check=True)
        self.line, self.said, self.now, self.opted = FailingLine(self.sender), list[str](), 0.0, ["me/app"]
        self.may = True
        remote: Any = self.line
        self.teller = RunTeller(
            self.bench.home, self.bench.environ([]), remote, self._masks, lambda _: self.may, self.said.append,
            lambda: NOW, lambda: self.now,
        )  # fmt: skip

    def _masks(self, place: Workspace, uid: str) -> LiveMasks | None:
        return live_masks(
            uid, place.stores, opted_in(self.opted, MACHINE.home), SyncNotes.read(self.bench.root / "notes"), MACHINE,
            lambda: Redactor(people=False, key=lambda: KEY), NOW,
        )  # fmt: skip

    def tells(self, seconds: float = 1.0) -> list[dict[str, Any]]:
        """What is told so much later."""
        self.now += seconds
        before = len(self.line.parts)
        self.teller.tick()
        return self.line.parts[before:]

    def there(self) -> list[str]:
        """The events that the server has, by their kinds and texts."""
        with self.sender.team.database.of(self.sender.tenant) as rows:
            found = rows.execute("select data from live order by run, number").fetchall()
        return [str(next(iter(next(iter(json.loads(data).values())).values()))) for (data,) in found]


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
