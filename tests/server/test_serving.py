"""`backstory serve` and the commands of people, as they are typed, with processes that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from backstory.errors import ListeningRefused
from backstory.server.api import MACHINE
from backstory.server.serving import ServerPlace, check
from tests.support.every import every
from tests.support.going import until
from tests.support.senders import LAPTOP, OTHER, UID, cut
from tests.support.served import RunningServer
from tests.support.typed_home import TypedHome


def machine(tmp_path: Path, name: str) -> TypedHome:
    (tmp_path / name).mkdir()
    return TypedHome(tmp_path / name)


@pytest.mark.slow
def test_a_team_comes_together_by_commands_and_outlives_a_server_that_is_killed(folder: Path, tmp_path: Path) -> None:
    anna, ben = machine(tmp_path, "anna"), machine(tmp_path, "ben")
    server = RunningServer(folder, tmp_path)
    came = anna.types("login", server.address, "--code", server.code, "--person", "anna", "--json")
    assert json.loads(came.stdout) == {
        "address": server.address, "organisation": "Our team", "person": "anna", "membership": "admin",
    }  # fmt: skip
    kept = anna.home / "backstory" / "server.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    typed = anna.types("team", "invite", "--as", "reader").stdout.split()
    assert ben.types(*typed[1:], "--person", "ben").returncode == 0
    refused = ben.types("team", "invite")
    assert (refused.returncode, "needs the right to admin" in refused.stderr) == (77, True)
    assert server.end(signal.SIGKILL) == -signal.SIGKILL
    unreachable = ben.types("team", "users")
    assert (unreachable.returncode, "does not answer" in unreachable.stderr) == (69, True)
    port = server.address.rpartition(":")[2]
    again = RunningServer(folder, tmp_path, "--port", port)
    assert (again.address, again.code) == (server.address, "")
    assert anna.types("team", "users").stdout == "admin  anna\nreader ben\n"
    assert anna.types("team", "users", "ben", "--remove", "--yes").returncode == 0
    assert ben.types("team", "users").returncode == 77
    assert anna.types("logout").returncode == 0
    assert not kept.exists()
    assert anna.types("team", "users").returncode == 77
    assert again.end() == 0
    assert not (folder / "pg" / "postmaster.pid").exists()


@pytest.mark.slow
def test_files_of_questions_that_a_kill_left_are_gone_at_the_next_start(folder: Path, tmp_path: Path) -> None:
    left = [folder / "sessions" / each / "x" / "team.db" for each in ("reports", "kept", "deriving")]
    for each in left:
        each.parent.mkdir(parents=True)
        each.write_bytes(b"")
    server = RunningServer(folder, tmp_path)
    until(lambda: not any(each.exists() for each in left))
    assert server.end() == 0


@pytest.mark.slow
def test_what_comes_is_derived_beside_the_server_also_after_the_process_was_killed(
    folder: Path, tmp_path: Path
) -> None:
    import httpx
    import psutil
    import psycopg

    from backstory.server.postgres import own_database

    anna = machine(tmp_path, "anna")
    server = RunningServer(folder, tmp_path)
    assert anna.types("login", server.address, "--code", server.code, "--person", "anna").returncode == 0
    token = json.loads((anna.home / "backstory" / "server.json").read_text("utf-8"))["token"]
    headers = {"Authorization": f"Bearer {token}", MACHINE: LAPTOP}

    def workers() -> list[int]:
        return [each.pid for each in psutil.Process(server.process.pid).children() if is_worker(each.pid)]

    def is_worker(pid: int) -> bool:
        try:
            return "backstory.server.working" in " ".join(psutil.Process(pid).cmdline())
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            return False

    with psycopg.connect(own_database(folder).address.replace("dbname=postgres", "dbname=backstory")) as rows:
        rows.autocommit = True

        def is_derived(uid: str) -> bool:
            return rows.execute("select from backstory.turn where session = %s", (uid,)).fetchone() is not None

        killed = list[int]()
        for uid in (UID, OTHER):
            sent = httpx.post(f"{server.address}/v1/sync", content=cut([["a"]], uid=uid)[0], headers=headers)
            assert sent.status_code == 200
            until(partial(is_derived, uid))
            (worker,) = workers()
            assert worker not in killed
            os.kill(worker, signal.SIGKILL)
            killed.append(worker)
            until(lambda: set(workers()) - set(killed))
        (last,) = set(workers()) - set(killed)
    assert server.end(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: not is_worker(last))


@pytest.mark.slow
def test_a_port_that_is_taken_is_a_sentence_and_starts_nothing(folder: Path, tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        anna = machine(tmp_path, "anna")
        refused = anna.types("serve", "--port", port, "--data", str(folder))
    assert (refused.returncode, f"port {port}" in refused.stderr) == (69, True)
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = machine(tmp_path, "anna").types("serve", "--port", "0", "--data", str(tmp_path / "file" / "server"))
    assert (refused.returncode, "Not a directory" in refused.stderr) == (73, True)


@every("place", [
    ServerPlace(host="0.0.0.0", port=1), ServerPlace(host="::", port=1), ServerPlace(host="192.168.1.5", port=1),
    ServerPlace(host="example.com", port=1), ServerPlace(host="127.0.0.1.example.com", port=1),
    ServerPlace(host="", port=1),
])  # fmt: skip
def test_other_machines_reach_it_only_encrypted(place: ServerPlace) -> None:
    with pytest.raises(ListeningRefused, match="nothing is encrypted"):
        check(place)


@every("place", [
    ServerPlace(host="127.0.0.1", port=1), ServerPlace(host="::1", port=1), ServerPlace(host="localhost", port=1),
    ServerPlace(host="0.0.0.0", port=1, is_behind_proxy=True),
    ServerPlace(host="0.0.0.0", port=1, certificate=Path("x")),
])  # fmt: skip
def test_this_machine_and_what_is_encrypted_may_reach_it(place: ServerPlace) -> None:
    check(place)


def test_no_other_command_imports_the_server() -> None:
    script = (
        "import sys\nsys.argv = ['backstory', 'list', '--all']\nfrom backstory.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([each for each in sys.modules if each.split('.')[0] in ('psycopg', 'httpx', 'starlette')"
        " or each.startswith('backstory.server')])"
    )
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "BACKSTORY_HOME": "/nonexistent/x"}
    said = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=False)
    assert said.stdout.splitlines()[-1] == "[]"
