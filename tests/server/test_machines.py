"""Two machines of one person and their team's server, as commands are typed on them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.agent import install
from tests.support.laptops import PASSWORD, go_on
from tests.support.pulled import LATER
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.team import Team

pytestmark = pytest.mark.slow


class LoggedIn(Shell):
    """A machine of Anna's that is logged in, and may send."""

    def __init__(self, home: Path, address: str, token: str) -> None:
        home.mkdir()
        super().__init__(home)
        (home / "backstory").mkdir()
        account = {"address": address, "token": token, "organisation": "The team", "name": "anna", "role": "admin"}
        (home / "backstory" / "server.json").write_text(json.dumps(account))
        self.environ |= {"BACKSTORY_SYNC_REPOSITORIES": "janedoe/app", "BACKSTORY_SYNC_ENABLED": "true"}


@pytest.fixture
def machines(team: Team, tmp_path: Path) -> Iterator[tuple[LoggedIn, LoggedIn]]:
    with team.served() as address:
        anna = team.founded()
        waiting = team.people.wait("desk")
        team.people.approve(team.people.caller(anna.token), waiting.code)
        desk = team.people.come_in(waiting.login)
        assert desk is not None
        yield LoggedIn(tmp_path / "laptop", address, anna.token), LoggedIn(tmp_path / "desk", address, desk.token)


def test_machines_are_named_with_what_they_sent_and_what_a_lost_one_sent_is_erased(
    machines: tuple[LoggedIn, LoggedIn],
) -> None:
    laptop, desk = machines
    for each, names in ((laptop, ["aaaaaaaa"]), (desk, ["aaaaaaaa", "bbbbbbbb"])):
        for name in names:
            go_on(each.home, each.cwd / "app", name, "first")
        assert each("ingest").code == 0
        assert each("sync").code == 0
    said = json.loads(laptop("sync", "status", "--json").out)["machines"]
    assert [(each["name"], each["session_count"], each["event_count"], each["is_this"]) for each in said] == [
        ("desk", 2, 4, False), ("laptop", 1, 2, True),
    ]  # fmt: skip
    printed = laptop("sync", "status").out
    assert f"machine    laptop: 1 session, 2 events, last on {said[1]['seen']} (this one)\n" in printed
    erased = laptop("sync", "forget", "--machine", "desk", "--yes", "--json")
    assert (erased.code, json.loads(erased.out)["session_count"]) == (0, 2)
    left = json.loads(laptop("sync", "status", "--json").out)
    assert (left["confirmed_count"], [each["name"] for each in left["machines"]]) == (1, ["laptop"])


def test_no_machine_is_erased_that_is_this_one_is_unknown_or_has_the_name_of_another(
    machines: tuple[LoggedIn, LoggedIn], tmp_path: Path
) -> None:
    laptop, desk = machines
    account = json.loads((desk.home / "backstory" / "server.json").read_text())
    third = LoggedIn(tmp_path / "third", account["address"], account["token"])
    for each in (laptop, desk, third):
        go_on(each.home, each.cwd / "app", "aaaaaaaa", "first")
        assert each("ingest").code == 0
        assert each("sync").code == 0
    before = laptop("sync", "status", "--json").out
    for name, why in (("laptop", "That is this machine"), ("x", "no such machine"), ("desk", "Several machines")):
        refused = laptop("sync", "forget", "--machine", name, "--yes")
        assert (refused.code, why in refused.err) == (2, True)
    assert laptop("sync", "status", "--json").out == before
    (one, _) = [each["id"] for each in json.loads(before)["machines"] if each["name"] == "desk"]
    assert laptop("sync", "forget", "--machine", one, "--yes").code == 0
    assert len(json.loads(laptop("sync", "status", "--json").out)["machines"]) == 2


def test_what_another_machine_sent_is_pulled_and_carried_on_here(machines: tuple[LoggedIn, LoggedIn]) -> None:
    laptop, desk = machines
    for name in ("aaaaaaaa", "bbbbbbbb"):
        go_on(laptop.home, laptop.cwd / "app", name, "first", f"export DB_PASSWORD={PASSWORD}")
    assert (laptop("ingest").code, laptop("sync").code) == (0, 0)
    pulled = desk("pull")
    assert (pulled.code, pulled.out, pulled.err) == (0, "2 new sessions.\n", "")
    assert desk("verify").code == 0
    again = desk("pull")
    assert (again.code, again.out) == (0, "Nothing new.\n")
    assert laptop("pull").out == "Nothing new.\n"
    first, _ = desk("list", "--all", "--json").json()["sessions"]
    agents = desk.home / "agents"
    agents.mkdir()
    install(agents)
    (desk.cwd / "app").mkdir()
    told = desk.home / "told"
    script = json.dumps([{"say": "yes"}, {"result": True}])
    environ = {"PATH": f"{agents}:{desk.environ['PATH']}", "RECEIVED": str(told), "SCRIPT": script}
    go_on(desk.home, desk.cwd / "app", "cccccccc", "own")
    desk.cwd = desk.cwd / "app"
    done = desk("run", "-a", "claude", "-S", first["uid"], "go on", **environ)
    assert (done.code, "continu" in done.err) == (0, True), done
    assert "did first" in told.read_text()
    assert PASSWORD not in told.read_text()
    assert desk("ingest").code == 0
    sent = desk("sync", "--json")
    uids = {each["uid"] for each in desk("list", "--all", "--json").json()["sessions"]}
    pulled_uids = {each["uid"] for each in laptop("list", "--all", "--json").json()["sessions"]}
    assert set(json.loads(sent.out)["sent_uids"]) == uids - pulled_uids
    assert laptop("pull").out == "2 new sessions.\n"


def test_without_a_login_a_source_has_to_be_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    refused = Shell(home)("pull")
    assert (refused.code, "ssh://HOST, or a folder. A team's server needs a login." in refused.err) == (2, True)


def test_what_was_removed_here_is_erased_there_and_a_dry_run_says_so(
    machines: tuple[LoggedIn, LoggedIn], team: Team
) -> None:
    team.clock.ms = LATER
    laptop, desk = machines
    go_on(laptop.home, laptop.cwd / "app", "aaaaaaaa", "first")
    assert (laptop("ingest").code, laptop("sync").code, desk("pull").code) == (0, 0, 0)
    (uid,) = [each["uid"] for each in laptop("list", "--all", "--json").json()["sessions"]]
    assert laptop("rm", uid, "--yes").code == 0
    said = laptop("sync", "--dry-run")
    assert "On the server 1 session would be erased, since you removed them here." in said.err
    assert laptop("sync", "--dry-run", "--json").json()["erasing_uids"] == [uid]
    assert json.loads(laptop("sync", "status", "--json").out)["confirmed_count"] == 1
    done = laptop("sync")
    assert (done.code, "1 session removed here and erased there, too." in done.err) == (0, True)
    assert desk("pull").out == "1 session removed, as there.\n"
    assert desk("list", "--all", "--json").json()["sessions"] == []
