"""The line to the server breaks at every step: then the server has what the client has, once, and said no more."""

from __future__ import annotations

import random
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from backstory.errors import ServerUnreachable
from backstory.exchange import frames
from backstory.sync import uploading
from backstory.sync.account import JOINING, Account, keep, new_secret, secret_to_join
from backstory.sync.notes import SyncNotes
from backstory.sync.remote import Remote, understood
from tests.support.broken_laptop import BrokenLaptop, remote, same
from tests.support.counts import IS_LONG, steps
from tests.support.cutting import CuttingProxy, Fault, at, cutting
from tests.support.senders import Sender

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.team import Team

FAULTS: list[Fault] = [each for each in Fault if each != Fault.NONE]


@pytest.fixture(scope="module")
def address(made_team: Team) -> Iterator[str]:
    """The server, on a port."""
    with made_team.served() as found:
        yield found


@pytest.fixture
def proxy(address: str) -> Iterator[CuttingProxy]:
    with cutting(address) as found:
        yield found


@pytest.fixture(autouse=True)
def short_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of few events and requests of few frames, so that there is more to cut."""
    monkeypatch.setattr(frames, "EVENTS_MAX", 3)
    monkeypatch.setattr(uploading, "FRAMES_AT_ONCE", 2)


def story(laptop: BrokenLaptop) -> None:
    """Work and sync; a session is taken out. What broke is done again on a whole line, and changes nothing more."""
    laptop.works("aaaaaaaa", "first")
    laptop.tries_to_sync()
    laptop.works("aaaaaaaa", "second")
    laptop.works("bbbbbbbb", *(f"number {number}" for number in range(6)))
    laptop.tries_to_sync()
    laptop.works("cccccccc", "taken out")
    laptop.tries_to_sync()
    gone = next(uid for uid, lines in laptop.lines().items() if any(b"taken out" in each for each in lines))
    laptop.forgets([gone])
    laptop.proxy.fault = lambda number: Fault.NONE
    laptop.tries_to_sync()
    laptop.proxy.settle()
    assert laptop.forgets([gone]) == [gone]
    laptop.works("aaaaaaaa", "third")
    assert laptop.tries_to_sync()
    same(laptop, gone={gone})
    laptop.proxy.requests.clear()
    assert laptop.tries_to_sync()
    assert [each.split()[1] for each in laptop.proxy.requests] == [b"/v1/me"]


STEPS = 12
"""The number of requests of the story where nothing breaks."""


def machine(folder: Path, team: Team, proxy: CuttingProxy) -> BrokenLaptop:
    folder.mkdir()
    return BrokenLaptop(folder, Sender(team, team.founded()), proxy)


def test_the_story_has_so_many_steps(tmp_path: Path, team: Team, proxy: CuttingProxy) -> None:
    laptop = machine(tmp_path / "x", team, proxy)
    seen = list[int]()
    proxy.fault = lambda number: seen.append(number) or Fault.NONE  # type: ignore[func-returns-value]
    story(laptop)
    assert len(seen) == STEPS


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_request_breaks_all_is_there_once(
    fault: Fault, tmp_path: Path, team: Team, proxy: CuttingProxy
) -> None:
    for step in steps(STEPS + 1, every=8, first=FAULTS.index(fault)):
        proxy.requests.clear()
        proxy.fault = at(step, fault)
        story(machine(tmp_path / str(step), team, proxy))


@pytest.mark.parametrize("seed", range(100 if IS_LONG else 4))
def test_whatever_breaks_again_and_again_all_is_there_once(
    seed: int, tmp_path: Path, team: Team, proxy: CuttingProxy
) -> None:
    chance = random.Random(seed)
    proxy.fault = lambda number: chance.choice(FAULTS) if chance.random() < 0.6 else Fault.NONE
    story(machine(tmp_path / "x", team, proxy))


@pytest.mark.parametrize("fault", FAULTS)
def test_all_that_was_sent_is_erased_whatever_breaks_and_notes_that_are_lost(
    fault: Fault, tmp_path: Path, team: Team, proxy: CuttingProxy
) -> None:
    laptop = machine(tmp_path / "x", team, proxy)
    laptop.works("aaaaaaaa", "first")
    laptop.works("bbbbbbbb", "second")
    assert laptop.tries_to_sync()
    uids = sorted(laptop.lines())
    laptop.notes.unlink()
    proxy.requests.clear()
    proxy.fault = at(1, fault)
    with remote(proxy, laptop.sender.token) as line:
        uploading.forget_all(line, SyncNotes.read(laptop.notes))
    proxy.settle()
    same(laptop, gone={*uids})
    laptop.tries_to_sync()
    same(laptop, gone={*uids})


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"{}", b'{"confirmed":[{"word":"ok"}]}', b"", b"\xff"])
def test_what_answers_and_is_no_server_of_ours_is_not_believed(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answers() -> None:
            client, _ = other.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))

        thread = threading.Thread(target=answers)
        thread.start()
        line = Remote(f"http://127.0.0.1:{other.getsockname()[1]}", "x", wait=lambda _: None)
        with line, pytest.raises(ServerUnreachable, match="no server of backstory"):
            understood(line, line.send("/v1/sync", b"x"), uploading._Confirmed)
        thread.join()


# coming in ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS)
def test_who_comes_in_by_a_code_is_in_whatever_breaks(fault: Fault, team: Team, proxy: CuttingProxy) -> None:
    code = team.people.found("The team")
    proxy.requests.clear()
    proxy.fault = at(1, fault)
    wanted = {"code": code, "name": "anna", "machine": "laptop", "secret": new_secret()}
    with remote(proxy) as line:
        try:
            found = line.ask("POST", "/v1/join", wanted)
        except ServerUnreachable:
            found = None
        proxy.settle()
        # The command is typed again, as after a kill.
        found = found or line.ask("POST", "/v1/join", wanted)
    assert team.ask("GET", "/v1/people", found["token"])[1]["people"][0]["name"] == "anna"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_machine_that_was_let_in_is_in_whatever_breaks(fault: Fault, team: Team, proxy: CuttingProxy) -> None:
    anna = team.founded()
    for step in (1, 2, 3):
        proxy.requests.clear()
        proxy.fault = at(step, fault)
        secret = new_secret()
        with remote(proxy) as line, remote(proxy, anna.token) as own:
            waiting = line.ask("POST", "/v1/login", {"machine": "desk"})
            assert own.ask("POST", "/v1/login/approve", {"code": waiting["code"]})["machine"] == "desk"
            found = line.ask("POST", "/v1/login/token", {"login": waiting["login"], "secret": secret})
        proxy.settle()
        assert team.ask("GET", "/v1/me", found["token"])[0] == 200
        team.ask("POST", "/v1/logout", found["token"])
        late = {"login": waiting["login"], "secret": secret}
        assert team.ask("POST", "/v1/login/token", body=late)[0] == 401


def test_who_has_the_code_and_not_the_secret_of_the_first_time_is_not_let_in(team: Team) -> None:
    code = team.people.found("The team")
    wanted = {"code": code, "name": "anna"}
    came = team.ask("POST", "/v1/join", body=wanted | {"secret": (secret := new_secret())})[1]
    for other in ({}, {"secret": new_secret()}, {"secret": "x"}):
        status, refused = team.ask("POST", "/v1/join", body=wanted | other)
        assert (status, refused["error"]["kind"]) == (401, "code_unknown")
    assert team.ask("POST", "/v1/join", body=wanted | {"secret": secret}) == (200, came)
    team.ask("POST", "/v1/logout", came["token"])
    assert team.ask("POST", "/v1/join", body=wanted | {"secret": secret})[0] == 401


def test_a_login_that_was_killed_before_its_answer_came_is_typed_again(tmp_path: Path) -> None:
    first = secret_to_join(tmp_path / "home", "bki_1_x")
    assert secret_to_join(tmp_path / "home", "bki_1_x") == first
    assert secret_to_join(tmp_path / "home", "bki_1_y") != first
    assert (tmp_path / "home" / JOINING).stat().st_mode & 0o777 == 0o600
    keep(tmp_path / "home", Account(address="x", token="y", organisation="", name="", role=""))
    assert not (tmp_path / "home" / JOINING).exists()
