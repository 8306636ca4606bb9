"""A pull over ssh, with real programs: an sshd on loopback, lines that are cut, processes that are killed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from backstory.store import open_store
from tests.support.forked import COMMAND, Process
from tests.support.machines import SMALL
from tests.support.portable import held
from tests.support.shell import Done, Shell
from tests.support.ssh_server import SshServer, need_sshd, own_ssh, program_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A machine whose logs were read."""
    home = tmp_path_factory.mktemp("far") / "there"
    home.mkdir()
    shell = Shell(home)
    shell.put(*SMALL)
    assert shell("ingest").code == 0
    return shell


@pytest.fixture
def here(tmp_path: Path) -> Shell:
    (tmp_path / "here").mkdir()
    return Shell(tmp_path / "here")


@pytest.fixture(scope="module")
def server(there: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    folder = tmp_path_factory.mktemp("ssh")
    programs = program_folder(folder / "programs")
    far = {"HOME": str(there.home), "BACKSTORY_HOME": there.environ["BACKSTORY_HOME"]}
    server = SshServer(folder / "server", far | {"PATH": f"{programs}:{os.environ['PATH']}"})
    yield server
    server.stop()


def far_words(there: Shell) -> str:
    """The words that run the far end here, with its home."""
    return f'HOME={there.home} BACKSTORY_HOME={there.environ["BACKSTORY_HOME"]} {COMMAND[0]} -m "$@"'


def content(shell: Shell) -> dict[str, object]:
    with open_store(shell.store) as store:
        return held(store)


def hashes(shell: Shell, folder: Path) -> dict[str, str]:
    """The hash of each file that a machine restores, by its path."""
    done = shell("restore", "--all", "--to", folder)
    assert done.code == 0, done.err
    return {
        str(each.relative_to(folder)): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in folder.rglob("*")
        if each.is_file()
    }


def pull(here: Shell, ssh: Path, *words: str) -> Done:
    return here("pull", *words, PATH=f"{ssh}:{os.environ['PATH']}")


def test_over_ssh_all_of_a_machine_comes_byte_for_byte(
    there: Shell, here: Shell, server: SshServer, tmp_path: Path
) -> None:
    done = pull(here, server.bin, server.url)
    count = len(content(there))
    assert (done.code, done.out, done.err) == (0, f"{count} new sessions.\n", "")
    assert here("verify").code == 0
    assert content(here) == content(there)
    assert hashes(here, tmp_path / "a") == hashes(there, tmp_path / "b") != {}
    again = pull(here, server.bin, server.url, "--json")
    (pulled,) = json.loads(again.out)["pulled"]
    assert (again.code, pulled["frame_count"], pulled["offered_count"]) == (0, 0, count)
    # A program is found by its whole path, too.
    elsewhere = pull(
        here, server.bin, server.url, "--program", f"{server.bin.parent.parent / 'programs' / 'backstory'}"
    )
    assert elsewhere.code == 0


@pytest.mark.parametrize("words", [[], ["--program", "/nowhere/backstory"]])
def test_a_far_end_without_backstory_is_told(here: Shell, server: SshServer, words: list[str]) -> None:
    done = pull(here, server.bin, server.url, *(words or ["--program", "no-backstory"]))
    assert done.code == 69
    assert "finds no" in done.err and "--program ~/.local/bin/backstory" in done.err


def test_a_machine_that_nobody_reaches_is_told(here: Shell, server: SshServer) -> None:
    done = pull(here, server.bin, "ssh://127.0.0.1:1", "--json")
    error = json.loads(done.err.splitlines()[-1])["error"]
    assert (done.code, error["kind"]) == (69, "far_end_unreachable")
    assert "onnect" in error["message"]


def test_without_sshd_it_is_said_what_to_install_and_ci_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("tests.support.ssh_server.PLACES", "/nowhere")
    for ci, ends in (("", pytest.skip.Exception), ("true", pytest.fail.Exception)):
        monkeypatch.setenv("CI", ci)
        with pytest.raises(ends, match=r"NOT TESTED over ssh: .*apt-get install"):
            need_sshd()


# the far end in a process of its own, without sshd --------------------------------------------------------------------


HELLO = {"say": "hello", "protocol": 2, "made_by": "backstory 9.0.0", "id": "0" * 26, "name": "x"}
OLD = {**HELLO, "protocol": 0, "made_by": "backstory 0.0.1"}
ANSWERS = {
    "newer": (f"echo '{json.dumps(HELLO, separators=(',', ':'))}'", 76, "Update backstory here."),
    "older": (f"echo '{json.dumps(OLD, separators=(',', ':'))}'", 76, "Update backstory on desk."),
    "one that knows no pull": ("echo \"Error: No such command 'pull'.\" >&2; exit 2", 76, "Update backstory on desk."),
    "no backstory": ("exit 127", 69, "desk finds no backstory."),
    "no connection": (
        "echo 'ssh: Could not resolve hostname desk' >&2; exit 255",
        69,
        "ssh cannot reach desk: ssh: Could",
    ),
    "nothing": ("exit 0", 75, "it ended with code 0"),
    "much noise": ("yes noise", 75, "it does not greet as backstory does"),
    "one long line": ("head -c 9000000 /dev/zero", 75, "it does not greet as backstory does"),
}


@pytest.mark.parametrize("how", ANSWERS)
def test_a_far_end_that_cannot_answer_is_told_with_what_to_do(here: Shell, tmp_path: Path, how: str) -> None:
    then, code, said = ANSWERS[how]
    done = pull(here, own_ssh(tmp_path / "bin", then), "ssh://desk")
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert "Traceback" not in done.err


def test_what_the_far_end_says_beside_obeys_no_terminal(there: Shell, here: Shell, tmp_path: Path) -> None:
    then = f"printf 'profile of the shell\\n'; printf '\\033[2J\\033]0;x\\007evil\\n' >&2; {far_words(there)}"
    done = pull(here, own_ssh(tmp_path / "bin", then), "ssh://desk")
    assert done.code == 0, done.err
    assert "desk: " in done.err and "evil" in done.err
    assert "\x1b" not in done.err


PASS = """import os, sys
left = int(sys.argv[1])
while left and (data := os.read(0, min(left, 4096))):
    left -= os.write(1, data)
"""


def test_the_puller_is_killed_again_and_again_and_nothing_is_lost_or_doubled(
    there: Shell, here: Shell, tmp_path: Path
) -> None:
    codes = list[int]()
    # Each time a part of what is left travels, until all of it is here.
    for count in (3_000, 12_000, 30_000, 60_000, 120_000):
        then = f"{far_words(there)} | {{ {COMMAND[0]} -SEc '{PASS}' {count}; kill -9 $PPID; }}"
        ssh = own_ssh(tmp_path / "bin", then)
        process = Process(
            [*COMMAND, "pull", "ssh://desk"], cwd=here.cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=here.environ | {"PATH": f"{ssh}:{os.environ['PATH']}"},
        )  # fmt: skip
        codes.append(process.wait(60))
    assert codes[:3] == [-9, -9, -9]
    done = pull(here, own_ssh(tmp_path / "bin", far_words(there)), "ssh://desk")
    assert done.code == 0, done.err
    assert here("verify").code == 0
    assert content(here) == content(there)


def test_a_session_that_was_pulled_is_carried_on_here(there: Shell, here: Shell, tmp_path: Path) -> None:
    assert pull(here, own_ssh(tmp_path / "bin", far_words(there)), "ssh://desk").code == 0
    uid = here("list", "--all", "--json").json()["sessions"][0]["uid"]
    agents = tmp_path / "agents"
    agents.mkdir()
    agent = agents / "claude"
    agent.write_text("#!/bin/sh\nexit 1\n")
    agent.chmod(0o755)
    before = content(here)[uid]
    done = here("run", "-a", "claude", "-S", uid, "go on", PATH=f"{agents}:{os.environ['PATH']}")
    assert "continu" in done.err, done
    assert content(here)[uid] == before
    (new,) = [each for each in here("list", "--json").json()["sessions"] if each["number"] is not None]
    assert new["uid"] != uid
