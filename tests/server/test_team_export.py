"""All that an organisation sent, for its admins: files that any home can import, and nobody else's business."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.desks import Desk
from tests.support.senders import Sender, cut
from tests.support.shell import Shell
from tests.support.team import tenant_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.team import Team

TURNS = "select user_message, assistant_response, turn_index from turns order by 1, 2"


def turns(shell: Shell) -> Any:
    """Return each turn of a machine's home, as SQL tells it."""
    done = shell("sql", TURNS, "--json")
    assert done.code == 0, done.err
    return [list(each.values()) if isinstance(each, dict) else each for each in done.json()["rows"]]


@pytest.fixture
def desks(team: Team, tmp_path: Path) -> Iterator[tuple[Desk, Desk]]:
    """The machines of an admin and of a member of one organisation, which sent what they have."""
    with team.served() as address:
        made = []
        for name, count in (("anna", 3), ("ben", 2)):
            (tmp_path / name).mkdir()
            made.append(Desk(tmp_path / name, team, address, count))
        anna, ben = made
        anna.log_in()
        ben.log_in("ben", anna.shell("team", "invite", "--json").json()["invitation"])
        for each in made:
            assert each.shell("ingest").code == 0
            assert each.shell("sync").code == 0
        yield anna, ben


def test_each_machine_is_a_file_that_an_empty_home_imports(desks: tuple[Desk, Desk], tmp_path: Path) -> None:
    anna, _ = desks
    folder = tmp_path / "out"
    files = anna.shell("team", "export", folder, "--json").json()["files"]
    assert [(each["person"], each["session_count"], each["failed_uids"]) for each in files] == [
        ("anna", 3, []), ("ben", 2, []),
    ]  # fmt: skip
    assert sorted(str(each) for each in folder.iterdir()) == sorted(each["path"] for each in files)
    for desk, file in zip(desks, files, strict=True):
        (tmp_path / f"empty of {file['person']}").mkdir()
        empty = Shell(tmp_path / f"empty of {file['person']}")
        assert empty("import", file["path"], "--trust").code == 0
        assert empty("verify").code == 0
        assert turns(empty) == turns(desk.shell) != []


def test_a_second_one_replaces_the_first_and_files_are_private(desks: tuple[Desk, Desk], tmp_path: Path) -> None:
    anna, _ = desks
    said = [anna.shell("team", "export", tmp_path / "out") for _ in range(2)]
    assert [each.code for each in said] == [0, 0]
    assert said[0].out == said[1].out
    assert {stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "out").iterdir()} == {0o600}


def test_the_audit_notes_whose_history_was_read(desks: tuple[Desk, Desk], tmp_path: Path, team: Team) -> None:
    anna, _ = desks
    anna.shell("team", "export", tmp_path / "out")
    token = anna.token()
    with team.database.of(tenant_of(token)) as rows:
        found = rows.execute("select count(distinct object) from audit where action = 'export'").fetchall()
    assert found == [(2,)]


def test_only_an_admin_exports(desks: tuple[Desk, Desk], tmp_path: Path) -> None:
    _, ben = desks
    done = ben.shell("team", "export", tmp_path / "out")
    assert (done.code, "Only an admin reads" in done.err) == (77, True)
    assert list(tmp_path.glob("out/*")) == []


@pytest.mark.parametrize("path", ["", "/{machine}/sessions", "/{machine}/frames"])
def test_nobody_reads_as_somebody_else(path: str, team: Team) -> None:
    anna, eve = team.founded(), team.founded("eve")
    ben = Sender(team, team.joined(anna, "ben"))
    ben.send(*cut([["a"]]))
    where = f"/v1/machines{path.format(machine=ben.machine)}?person=ben"
    body: dict[str, list[object]] | None = {"wants": []} if path.endswith("frames") else None
    method = "GET" if body is None else "POST"
    for token, status in ((ben.token, 403), (eve.token, 404)):
        refused, said = team.ask(method, where, token, body)
        assert (refused, "error" in said) == (status, True)
