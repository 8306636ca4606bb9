"""The client, the server and PostgreSQL are killed in mid-sync: then the server has what the client has, once."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from backstory.errors import DatabaseNotStarted
from backstory.runs import process
from backstory.server.postgres import own_database
from backstory.server.serving import SESSIONS, opened
from tests.support.broken_laptop import BrokenLaptop
from tests.support.broken_laptop import same as same_there
from tests.support.clock import Clock
from tests.support.counts import IS_LONG
from tests.support.cutting import Fault, cutting
from tests.support.going import until
from tests.support.senders import Sender
from tests.support.served import RunningServer
from tests.support.team import Team
from tests.support.typed_desks import TypedDesk, same

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.server.postgres import OwnDatabase

FAULTS = [each for each in Fault if each != Fault.NONE]
PULL_FAULTS = FAULTS * 3 if IS_LONG else [Fault.UNREAD, Fault.IN_ANSWER, Fault.DOUBLED]
KILLS = 100 if IS_LONG else 4


def ended(*processes: subprocess.Popen[str]) -> bool:
    return any(each.poll() is not None for each in processes)


def once(step: int, kill: Callable[[], object], fault: Fault = Fault.NONE) -> Callable[[int], Fault]:
    """At a request something is killed: before it goes on, or while the server works on it."""

    def decide(number: int) -> Fault:
        if number != step:
            return Fault.NONE
        kill()
        return fault

    return decide


# the database ---------------------------------------------------------------------------------------------------------


@contextmanager
def team_on(folder: Path) -> Iterator[Team]:
    """A server on a PostgreSQL of its own, which is started again when it was killed."""
    with opened(folder, None) as database:
        yield Team(database, Clock(), folder / SESSIONS)


def kill_postmaster(own: OwnDatabase) -> None:
    os.kill(int((own.data / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)


def kill_backend(own: OwnDatabase) -> None:
    """Kill a process that serves our connections; PostgreSQL then ends all others."""
    with psycopg.connect(own.address) as connection:
        (pid,) = connection.execute(
            "select pid from pg_stat_activity where usename = 'backstory' limit 1"
        ).fetchone() or (None,)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)


def serving(own: OwnDatabase) -> set[int]:
    """The processes of PostgreSQL but the first."""
    try:
        first = (own.data / "postmaster.pid").read_text().partition("\n")[0]
    except FileNotFoundError:
        first = ""
    return {pid for pid in process.working_in(own.data) if str(pid) != first}


def is_back(own: OwnDatabase, before: set[int]) -> bool:
    """Return True when it serves again, and no process of before does, which may answer for a moment."""
    if before & serving(own):
        return False
    try:
        psycopg.connect(own.address).close()
    except (DatabaseNotStarted, psycopg.OperationalError):
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("kill", [kill_postmaster, kill_backend])
def test_whenever_postgresql_is_killed_all_is_there_once(
    kill: Callable[[OwnDatabase], None], folder: Path, tmp_path: Path
) -> None:
    with team_on(folder) as team, team.served() as address, cutting(address) as proxy:
        own = own_database(folder)
        desk = BrokenLaptop(tmp_path, Sender(team, team.founded()), proxy, 0.2)
        for step in (1, 2, 3, 2):
            desk.works("aaaaaaaa" if step < 3 else "bbbbbbbb", f"text {step}")
            proxy.requests.clear()
            before = serving(own)
            # While the server works on it, and before it begins.
            proxy.fault = once(step, partial(kill, own), Fault.UNREAD if step % 2 else Fault.NONE)
            desk.tries_to_sync()
            proxy.settle()
            assert len(proxy.requests) >= step
            proxy.fault = lambda number: Fault.NONE
            until(partial(is_back, own, before))
            until(desk.tries_to_sync)
            same_there(desk)


@pytest.mark.slow
def test_a_person_who_is_put_out_by_a_request_whose_answer_was_lost_is_out(made_team: Team, tmp_path: Path) -> None:
    desk = TypedDesk(tmp_path / "desk")
    with made_team.served() as address, cutting(address) as proxy:
        desk.opted_in(proxy.address, made_team.people.found("Lost answers"))
        code = desk.types("team", "invite").stdout.split()[-1]
        made_team.people.join(code, "ben", "x")
        proxy.requests.clear()
        proxy.fault = once(1, lambda: None, Fault.AFTER)
        put_out = desk.types("team", "users", "ben", "--remove", "-y")
        assert (put_out.returncode, put_out.stdout) == (0, "admin  anna\n")
        unknown = desk.types("team", "users", "ben", "--remove", "-y")
        assert unknown.returncode == 64


@pytest.mark.slow
def test_who_leaves_by_a_request_whose_answer_was_lost_has_left(made_team: Team, tmp_path: Path) -> None:
    desk = TypedDesk(tmp_path / "desk")
    with made_team.served() as address, cutting(address) as proxy:
        desk.opted_in(proxy.address, made_team.people.found("Lost answers"))
        code = desk.types("team", "invite", "--as", "admin").stdout.split()[-1]
        made_team.people.join(code, "ben", "x")
        proxy.requests.clear()
        proxy.fault = once(2, lambda: None, Fault.AFTER)
        left = desk.types("team", "leave", "-y", "--json")
        assert (left.returncode, json.loads(left.stdout)["erased_count"]) == (0, None)
        assert desk.types("team", "users").returncode == 77


# another machine ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_whatever_breaks_or_is_killed_a_pull_brings_all_once(made_team: Team, tmp_path: Path) -> None:
    desk, laptop = TypedDesk(tmp_path / "desk"), TypedDesk(tmp_path / "laptop")
    with made_team.served() as address, cutting(address) as proxy:
        desk.opted_in(proxy.address, made_team.people.found("Pulls"))
        for name in "abc":
            desk.works(name * 8, 3)
        assert (desk.types("ingest").returncode, desk.syncs()[0]) == (0, 0)
        (laptop.home / "backstory").mkdir(mode=0o700)
        shutil.copy(desk.home / "backstory" / "server.json", laptop.home / "backstory")
        for number, fault in enumerate(PULL_FAULTS):
            desk.works("abc"[number % 3] * 8, 2)
            assert (desk.types("ingest").returncode, desk.syncs()[0]) == (0, 0)
            proxy.requests.clear()
            with laptop.starts("pull") as client:
                kill = client.kill if number % 2 else lambda: None
                proxy.fault = once(1 + number % 3, kill, fault)
                assert client.wait(60) in (0, 69, 75, -signal.SIGKILL)
            proxy.fault = lambda number: Fault.NONE
            proxy.settle()
            assert laptop.types("pull").returncode == 0
            assert pulled(laptop) == sorted(desk.texts)
        proxy.requests.clear()
        assert laptop.types("pull").returncode == 0
        assert len(proxy.requests) == 1


def pulled(laptop: TypedDesk) -> list[str]:
    """The prompts of all sessions that are here."""
    path = laptop.home / "exported.jsonl"
    path.unlink(missing_ok=True)
    assert laptop.types("export", "--all", "--format", "json", "-o", str(path)).returncode == 0
    events = [json.loads(line).get("event", {}) for line in path.read_text("utf-8").splitlines()]
    found = [each["UserMessage"]["content"] for each in events if "UserMessage" in each]
    return sorted(found)


# the client and the server --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_whenever_the_client_is_killed_all_is_there_once(postgres: str, made_team: Team, tmp_path: Path) -> None:
    desk, admin = TypedDesk(tmp_path / "desk"), made_team.people.found("Kills")
    with made_team.served() as address, cutting(address) as proxy:
        desk.opted_in(proxy.address, admin)
        for step in range(1, 4):
            desk.works(f"{'abc'[step % 3] * 8}", 3)
            assert desk.types("ingest").returncode == 0
            proxy.requests.clear()
            with desk.starts("sync") as client:
                proxy.fault = once(step, client.kill, Fault.UNREAD if step % 2 else Fault.BEFORE)
                client.wait(60)
            proxy.fault = lambda number: Fault.NONE
            proxy.settle()
            assert desk.syncs()[0] == 0
            same(desk, f"{postgres} dbname=backstory", "Kills")
        assert desk.syncs()[1]["event_count"] == 0


@pytest.mark.slow
def test_whatever_is_killed_again_and_again_all_is_there_once(folder: Path, tmp_path: Path) -> None:
    chance, desk = random.Random(41), TypedDesk(tmp_path / "desk")
    server = RunningServer(folder, tmp_path)
    port = server.address.rpartition(":")[2]
    own = own_database(folder)
    with cutting(server.address) as proxy:
        desk.opted_in(proxy.address, server.code)
        killers: dict[str, Callable[[], object]] = {
            "postmaster": lambda: kill_postmaster(own), "backend": lambda: kill_backend(own),
        }  # fmt: skip
        for number in range(KILLS):
            desk.works(chance.choice("abcdef") * 8, chance.randint(1, 5))
            assert desk.types("ingest").returncode == 0
            what = ("client", "server", "postmaster", "backend")[number % 4]
            proxy.requests.clear()
            with desk.starts("sync") as client:
                killed = server.process
                kill = client.kill if what == "client" else killers.get(what, killed.kill)
                proxy.fault = once(chance.randint(1, 3), kill, chance.choice([Fault.UNREAD, Fault.NONE, Fault.BEFORE]))
                if what == "server":
                    until(partial(ended, killed, client))
                    if killed.poll() is not None:
                        server.end(0)
                        server = RunningServer(folder, tmp_path, "--port", port)
                assert client.wait(120) in (0, 69, 75, -signal.SIGKILL)
            proxy.fault = lambda number: Fault.NONE
            proxy.settle()
            until(lambda: desk.syncs()[0] == 0)
            same(desk, f"{own.address} dbname=backstory", "Our team")
        assert desk.syncs()[1]["event_count"] == 0
    assert server.end() == 0
