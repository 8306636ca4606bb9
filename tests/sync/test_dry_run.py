"""What a dry run of sync counts, and what the lines that would leave do not hold."""

from __future__ import annotations

import getpass
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.derive.secrets import Redactor
from backstory.ingest.ingest import ingest
from backstory.store import open_store
from backstory.sync.dry_run import dry_run
from backstory.sync.leaving import choose
from backstory.sync.opted import opted_in
from backstory.sync.outward import MachineNames, machine_of
from backstory.sync.outward_export import OutwardExport
from tests.support.claude_records import answer, result, user
from tests.support.clock import NOW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.store import Store

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
MACHINE = MachineNames(name="janes-laptop.corp.example", account="janedoe", home="/home/janedoe", folders=frozenset())


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of github.com/janedoe/app, below the folder of its owner."""
    folder = tmp_path / "janedoe" / "app"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/config").write_text('[remote "origin"]\n\turl = git@github.com:janedoe/app.git\n', "utf-8")
    return folder


@pytest.fixture
def store(tmp_path: Path, repository: Path) -> Iterator[Store]:
    """A store with one session, which names everything that shall not leave, in every place where words are."""
    said = _planted(repository)
    at: dict[str, Any] = {"cwd": str(repository), "gitBranch": "wip"}
    lines = [
        user(f"Look at {said}", uuid="a", **at),
        answer(f"I saw {said}", uuid="b", parent="a", **at),
        _call({"command": f"cat {said}", said: "a key"}, **at),
        result(f"bytes of {said}", "c1", uuid="d", parent="c", **at),
    ]
    log = tmp_path / "home/.claude/projects/x/0ddba11-0000-4000-8000-000000000000.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"\n".join(lines) + b"\n")
    with open_store(tmp_path / "store.db", shared=True, now=lambda: NOW) as found:
        ingest(found, [agents.load("claude")], environ={}, home=tmp_path / "home", now=NOW)
        yield found


def _call(input_: dict[str, str], **at: Any) -> bytes:
    block = {"type": "tool_use", "id": "c1", "name": "Bash", "input": input_}
    message = {"id": "m2", "model": "claude-x", "role": "assistant", "content": [block]}
    record = {"type": "assistant", "uuid": "c", "parentUuid": "b", "message": message, **at}
    return json.dumps(record | {"sessionId": "0ddba11-0000-4000-8000-000000000000"}).encode()


def _planted(repository: Path) -> str:
    return (
        f"{repository}/src/a.py, /home/janedoe/secret-plan/b.md, /home/bob/c, {repository.parent}/other/d, "
        f"-home-janedoe-secret-plan, janedoe@janes-laptop and {TOKEN}"
    )


def _lines(store: Store) -> list[bytes]:
    chosen = choose([store], opted_in(["janedoe/app"], MACHINE.home)).leaving
    return [*OutwardExport(chosen, MACHINE, Redactor(people=False), NOW).lines()]


@pytest.mark.parametrize("planted", ["secret-plan", "/home/", "bob", "other/d", "janes-laptop", TOKEN, "tmp"])
def test_nothing_of_the_machine_is_in_what_would_leave(store: Store, planted: str) -> None:
    assert [line for line in _lines(store) if planted.encode() in line] == []


def test_the_account_is_only_in_the_name_of_the_remote(store: Store) -> None:
    named = [json.loads(line) for line in _lines(store) if b"janedoe" in line]
    assert [(each["type"], each["project"], each["repository"]) for each in named] == [
        ("session", "github.com/janedoe/app", "janedoe/app")
    ]
    assert [name for each in named for name, value in each.items() if "janedoe" in str(value)] == [
        "project",
        "repository",
    ]


def test_paths_in_the_repository_leave_relative_to_it(store: Store) -> None:
    events = [line for line in _lines(store) if line.startswith(b'{"type":"event"')]
    assert len(events) == 4
    assert [b"src/a.py, ~/[path-" in line for line in events] == [True] * 4


def test_a_dry_run_counts_what_would_leave(store: Store) -> None:
    opted = opted_in(["janedoe/app"], MACHINE.home)
    (found,) = dry_run([store], opted, MACHINE, lambda: Redactor(people=False), NOW).leaving
    assert found.repository == "github.com/janedoe/app"
    assert (found.session_count, found.turn_count, found.event_count) == (1, 1, 4)
    assert found.bytes == sum(map(len, _lines(store)))
    assert (found.branches, found.emails) == (["wip"], [])
    assert found.masked.keys() == {"github-token", "path", "account", "host"}


def test_the_names_of_this_machine_are_found(store: Store, repository: Path) -> None:
    found = machine_of([store], "/home/x")
    assert found == MachineNames(
        name=socket.gethostname(), account=getpass.getuser(), home="/home/x", folders=frozenset({str(repository)})
    )
