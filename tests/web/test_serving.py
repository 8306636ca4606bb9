"""Pages are served once for a person, at a port of this machine, until that person ends them."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from backstory.errors import NoPort, PagesNotInstalled
from backstory.web.serving import RUNNING, listening
from tests.support.forked import COMMAND
from tests.support.going import until
from tests.support.pages import Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.shell import Shell


class Started:
    """``backstory web`` as a process of its own."""

    def __init__(self, shell: Shell, *options: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "web", *options], cwd=shell.cwd, env=shell.environ, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)

    def err(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()


@pytest.fixture
def started(empty: Shell) -> Iterator[Started]:
    found = Started(empty)
    yield found
    if found.process.poll() is None:
        found.end(signal.SIGKILL)


def test_the_address_is_data_and_the_rest_is_talk(started: Started) -> None:
    visitor = Visitor(started.address)
    until(lambda: _answers(visitor))
    visitor.enter()
    assert "Nothing was imported yet: there is no store" in visitor.get("/sessions").words
    assert started.end() == 0
    assert "Ctrl-C ends the pages" in started.err()


def _answers(visitor: Visitor) -> bool:
    try:
        return visitor.get("/").status == 403
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_of_a_person_ends_them_and_takes_the_note_away(
    started: Started, empty: Shell, number: signal.Signals
) -> None:
    note = empty.store.parent / RUNNING
    until(lambda: _answers(Visitor(started.address)))
    assert note.stat().st_mode & 0o777 == 0o600
    assert (started.end(number), note.exists()) == (0, False)


def test_a_second_start_prints_the_address_of_the_first(started: Started, empty: Shell) -> None:
    done = empty("web")
    assert (done.code, done.out.strip()) == (0, started.address)
    assert "served already" in done.err


def test_pages_that_were_killed_are_served_anew(started: Started, empty: Shell) -> None:
    started.end(signal.SIGKILL)
    assert (empty.store.parent / RUNNING).exists()
    again = Started(empty)
    assert again.address != started.address
    assert again.end() == 0


@pytest.mark.parametrize("note", ["", "{", "[]", '{"pid": "x"}', json.dumps({"pid": 1, "birth": "0", "address": "x"})])
def test_a_note_that_is_wrong_says_nothing(empty: Shell, note: str) -> None:
    empty.store.parent.mkdir(parents=True)
    (empty.store.parent / RUNNING).write_text(note)
    again = Started(empty)
    assert again.address.startswith("http://127.0.0.1:")
    assert again.end() == 0


def test_a_port_that_is_taken_is_passed_over_and_said(empty: Shell) -> None:
    first = Started(empty)
    port = int(first.address.split(":")[2].partition("/")[0])
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        again = Started(empty)
        assert again.address.startswith(f"http://127.0.0.1:{port + 1}/")
        assert again.end() == 0
        assert f"Port {port} is taken" in again.err()


def test_a_port_that_was_asked_for_and_is_taken_is_an_error(empty: Shell) -> None:
    with listening(0, 1) as taken:
        port = taken.getsockname()[1]
        done = empty("web", "--port", str(port))
    assert (done.code, done.out) == (NoPort.exit_code, "")
    assert f"Port {port} is taken" in done.err and "backstory web --port" in done.err


def test_without_its_packages_the_command_says_how_to_add_them(empty: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    from click.testing import CliRunner

    from backstory.cli.app import App
    from backstory.cli.commands.web_command import command

    done = CliRunner().invoke(command, [], obj=App(empty.environ, empty.cwd))
    assert isinstance(done.exception, PagesNotInstalled)
    assert "starlette" in str(done.exception) and sys.executable in str(done.exception)
