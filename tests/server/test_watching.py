"""A sync that goes on: what is new is there a moment later, once; while nothing changes nothing is asked."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backstory.derive.secrets import Redactor
from backstory.errors import LoginRefused, ServerBusy, ServerUnreachable
from backstory.server.people import TeamRole
from backstory.store import open_store
from backstory.sync.following import AWAY_S_MAX, FLUSH_BYTES, FLUSH_S, SteadySync
from backstory.sync.notes import SyncNotes
from backstory.sync.opted import opted_in
from backstory.sync.uploading import Uploader
from tests.support.clock import NOW
from tests.support.laptops import KEY, MACHINE, Laptop, go_on
from tests.support.senders import Sender, split
from tests.support.typed_home import PROGRAM, TypedHome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.errors import BackstoryError
    from backstory.sync.uploading import Sent
    from tests.support.team import Team


class WatchingLaptop(Laptop):
    """A laptop whose sync goes on by a clock that the test sets."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.now, self.tries, self.said = 0.0, 0, list[str]()
        self.refused: BackstoryError | None = None
        self.is_busy = False
        self.kept = SyncNotes.read(self.notes)
        files = [self.store.path, Path(f"{self.store.path}-wal")]
        self.steady = SteadySync(lambda: files, self._send, self.said.append, lambda: self.now)

    def _send(self) -> Sent | None:
        self.tries += 1
        if self.refused is not None:
            raise self.refused
        if self.is_busy:
            return None
        remote: Any = self.remote
        uploader = Uploader(remote, self.kept, MACHINE, lambda: Redactor(people=False, key=lambda: KEY), NOW)
        return uploader.run([self.store], opted_in(self.opted, MACHINE.home), asks_first=False)

    def events_at(self, now: float) -> int | None:
        """The events that are sent at a time; None if nothing is tried."""
        self.now, before = now, self.tries
        done = self.steady.tick()
        return None if self.tries == before else 0 if done is None else done.events


@pytest.fixture
def laptop(tmp_path: Path, team: Team) -> Iterator[WatchingLaptop]:
    with open_store(tmp_path / "store.db", shared=True, now=lambda: NOW) as store:
        yield WatchingLaptop(tmp_path, store, Sender(team, team.founded()))


def test_what_is_new_is_sent_two_seconds_after_it_came(laptop: WatchingLaptop) -> None:
    laptop.works("aaaaaaaa", "first")
    assert laptop.events_at(0) == 2
    laptop.works("aaaaaaaa", "second")
    assert [laptop.events_at(at) for at in (10, 10 + FLUSH_S / 2, 10 + FLUSH_S, 100)] == [None, None, 2, None]


def test_much_that_is_new_is_sent_at_once(laptop: WatchingLaptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.events_at(0)
    laptop.works("aaaaaaaa", "second")
    laptop.steady.came(FLUSH_BYTES)
    assert laptop.events_at(10) == 2
    laptop.works("aaaaaaaa", "third")
    assert laptop.events_at(11) is None


def test_while_nothing_changes_nothing_is_asked(laptop: WatchingLaptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.events_at(0)
    laptop.remote.asked.clear()
    assert [laptop.events_at(at) for at in range(1, 100)] == [None] * 99
    # Something of the store changed, and nothing of what leaves.
    laptop.works("bbbbbbbb", "private", repository="other")
    assert [laptop.events_at(100), laptop.events_at(110)] == [None, 0]
    assert laptop.remote.asked == []


def test_a_session_that_grows_is_sent_as_it_grows(laptop: WatchingLaptop) -> None:
    for number in range(5):
        laptop.works("aaaaaaaa", f"prompt {number}")
        laptop.events_at(number * 10.0)
        laptop.events_at(number * 10.0 + FLUSH_S)
    sent = [each.partition(b"\n")[0] for body in laptop.remote.bodies for each in split(body)]
    assert [json.loads(each)["events"] for each in sent] == [2] * 5
    (texts,) = laptop.there().values()
    assert len(texts) == 10


def test_a_server_that_is_away_is_named_once_and_waited_for(laptop: WatchingLaptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.refused = ServerUnreachable("http://x", "nobody")
    for at in range(1_000):
        laptop.events_at(at)
    assert (len(laptop.said), 1_000 / AWAY_S_MAX <= laptop.tries <= 2 * 1_000 / AWAY_S_MAX + 10) == (1, True)
    laptop.refused = None
    assert sum(laptop.events_at(at) or 0 for at in range(1_000, 1_000 + int(AWAY_S_MAX))) == 2
    assert laptop.said[1:] == ["The team server answers again."]
    assert [len(each) for each in laptop.there().values()] == [2]


def test_what_came_while_another_sync_ran_is_sent_behind_it(laptop: WatchingLaptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.is_busy = True
    assert [laptop.events_at(at) for at in (0, 1)] == [0, 0]
    laptop.is_busy = False
    assert [laptop.events_at(at) for at in (2, 10)] == [2, None]


def test_one_that_is_busy_is_left_alone_as_long_as_it_asks(laptop: WatchingLaptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.refused = ServerBusy("http://x", 503, "try_again", "busy", 30)
    assert [laptop.events_at(at) for at in (0, 5, 29, 30.1)] == [0, None, None, 0]


def test_an_answer_that_was_lost_has_nothing_sent_twice(laptop: WatchingLaptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.events_at(0)
    laptop.works("aaaaaaaa", "second")
    laptop.remote.lost = [True]
    assert [laptop.events_at(at) for at in (10, 10 + FLUSH_S, 100)] == [None, 0, 0]
    assert [len(each) for each in laptop.there().values()] == [4]
    laptop.works("aaaaaaaa", "third")
    assert [laptop.events_at(at) for at in (200, 200 + FLUSH_S)] == [None, 2]


def test_a_login_that_was_put_out_ends_it(laptop: WatchingLaptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.refused = LoginRefused("http://x", 401, "not_known", "This login is not known here.")
    with pytest.raises(LoginRefused):
        laptop.events_at(0)


@pytest.mark.slow
def test_the_command_follows_a_log_until_it_is_stopped_or_put_out(tmp_path: Path, team: Team) -> None:
    (tmp_path / "home").mkdir()
    machine, anna = TypedHome(tmp_path / "home"), team.founded()
    with team.served() as address:
        code = team.people.invite(team.people.caller(anna.token), TeamRole.MEMBER)
        assert machine.types("login", address, "--code", code, "--person", "ben").returncode == 0
        machine.types("config", "set", "sync.repositories", "janedoe/app")
        machine.types("config", "set", "sync.enabled", "true")
        ends = list[int]()
        for number in range(2):
            go_on(machine.home, tmp_path / "app", "aaaaaaaa", f"prompt {number}")
            watch = subprocess.Popen(
                [*PROGRAM, "sync", "--watch", "--json"], env=machine.environ, cwd=machine.home, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            assert watch.stdout is not None
            assert json.loads(watch.stdout.readline())["event_count"] == 2
            go_on(machine.home, tmp_path / "app", "aaaaaaaa", "while it is followed")
            assert json.loads(watch.stdout.readline())["event_count"] == 2
            if number:
                team.ask("DELETE", "/v1/people/ben", anna.token)
                go_on(machine.home, tmp_path / "app", "aaaaaaaa", "too late")
            else:
                watch.send_signal(signal.SIGINT)
            said = watch.communicate(timeout=60)[1]
            ends.append(watch.returncode)
    assert (ends, "refuses" in said) == ([0, 77], True)
    # Nobody answers there now.
    alone = machine.types("sync")
    assert (alone.returncode, "Not sent yet: 1 session, with 2 new events" in alone.stderr) == (69, True)
    assert machine.types("list", "--all").returncode == 0


@pytest.mark.slow
def test_who_switches_it_off_ends_a_watch(tmp_path: Path, team: Team) -> None:
    (tmp_path / "home").mkdir()
    machine, anna = TypedHome(tmp_path / "home"), team.founded()
    with team.served() as address:
        code = team.people.invite(team.people.caller(anna.token), TeamRole.MEMBER)
        assert machine.types("login", address, "--code", code, "--person", "ben").returncode == 0
        machine.types("config", "set", "sync.repositories", "janedoe/app")
        machine.types("config", "set", "sync.enabled", "true")
        go_on(machine.home, tmp_path / "app", "aaaaaaaa", "first")
        watch = subprocess.Popen(
            [*PROGRAM, "sync", "--watch", "--json"], env=machine.environ, cwd=machine.home, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert watch.stdout is not None
        assert json.loads(watch.stdout.readline())["event_count"] == 2
        machine.types("config", "set", "sync.enabled", "false")
        go_on(machine.home, tmp_path / "app", "aaaaaaaa", "second")
        try:
            out, said = watch.communicate(timeout=20)
        finally:
            watch.kill()
    assert (out, watch.returncode != 0, "sync.enabled" in said) == ("", True, True)
