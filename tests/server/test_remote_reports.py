"""Reports of a team, as they are typed: the server's sessions with those that are only here, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backstory.exchange import frames
from backstory.server.people import LetIn, TeamRole
from tests.support.desks import Desk
from tests.support.senders import DESK, Sender, line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.shell import Shell
    from tests.support.team import Team

LONG_AGO = ("--since", "2020-01-01")


class Two:
    """Anna, who sent two sessions, and Ben, who sent nothing of his one."""

    def __init__(self, folder: Path, team: Team, address: str) -> None:
        self.team = team
        for each in ("anna", "ben"):
            (folder / each).mkdir()
        self.anna, self.ben = Desk(folder / "anna", team, address, 2), Desk(folder / "ben", team, address, 0)
        self.anna.log_in()
        _, found = team.ask("POST", "/v1/invites", self.anna.token(), {"role": "member"})
        self.ben.log_in("ben", found["code"])
        self.ben.works_elsewhere("git@github.com:me/other.git")
        self.sends()

    def sends(self) -> None:
        """Send what Anna has, and derive it."""
        assert self.anna.shell("ingest").code == self.anna.shell("sync").code == 0
        self.team.clock.ms += 60_000
        assert self.team.deriving.work() > 0


@pytest.fixture(scope="module")
def two(made_team: Team, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """For who only asks."""
    with made_team.served() as address:
        yield Two(tmp_path_factory.mktemp("two"), made_team, address)


@pytest.fixture
def changing(made_team: Team, tmp_path: Path) -> Iterator[Two]:
    """For who works on."""
    with made_team.served() as address:
        yield Two(tmp_path, made_team, address)


def cost(shell: Shell, *words: str) -> dict[str, Any]:
    found = shell("report", "cost", *LONG_AGO, "--remote", "--json", *words)
    assert found.code == 0, found.err
    said: dict[str, Any] = found.json()
    return said


def test_a_cost_report_has_the_sessions_of_the_server_and_of_this_machine(two: Two) -> None:
    found = cost(two.ben.shell)
    assert (found["organisation"], found["people_count"]) == ("The team", 1)
    assert (found["there_count"], found["here_count"], found["underived_count"]) == (2, 1, 0)
    assert {each["person"]: each["turn_count"] for each in found["by_person"]} == {"anna": 2, "ben": 1}
    assert sorted(each["person"] for each in found["by_session"]) == ["anna", "anna", "ben"]
    assert all(each["machine"] for each in found["by_session"] if each["person"] == "anna")
    assert cost(two.anna.shell)["sums"]["turn_count"] == 2


def test_a_session_that_grew_since_it_was_sent_counts_once_with_all_its_turns(changing: Two) -> None:
    changing.anna.goes_on("one more thing")
    found = cost(changing.anna.shell)
    assert (found["there_count"], found["here_count"], found["sums"]["turn_count"]) == (2, 0, 3)
    assert cost(changing.ben.shell)["sums"]["turn_count"] == 3


def test_a_session_of_which_two_machines_have_turns_of_their_own_counts_with_all_of_them(changing: Two) -> None:
    anna = changing.anna
    anna.goes_on("one more thing")
    cost(anna.shell)
    listed = anna.shell("list", "--all", "--json").json()["sessions"]
    (uid,) = [each["uid"] for each in listed if each["turn_count"] == 2]
    desk = Sender(changing.team, LetIn(token=anna.token(), organisation="", name="anna", role=TeamRole.ADMIN), DESK)
    turn = "01M3250V00TTTTTTTTTTTTTTT9"
    assert desk.send(*frames.frames([
        line("session", uid=uid, created="2026-09-21T14:13:20.123Z", last_active="2026-09-21T15:13:20.123Z",
             next_seq=2, title="x", repository="github.com/me/tool", branch="main"),
        line("turn", uid=turn, first_seq=1, last_seq=1, agent="claude", started="2026-09-21T14:20:20.123Z"),
        line("event", seq=1, turn=turn, event={"UserMessage": {"content": "on the other machine"}}),
        line("session_end", uid=uid, turns=1, events=1),
    ], session=uid, is_redacted=True)) == ["ok"]  # fmt: skip
    changing.team.clock.ms += 60_000
    assert changing.team.deriving.work() > 0
    found = cost(anna.shell)
    assert (found["sums"]["turn_count"], found["there_count"], found["here_count"]) == (4, 2, 0)
    assert [each["turn_count"] for each in found["by_session"] if each["uid"] == uid] == [3]
    said = anna.shell("report", "standup", *LONG_AGO, "--remote", "--json").json()
    (item,) = [each for place in said["places"] for each in place["sessions"] if each["uid"] == uid]
    assert item["turn_count"] == 3


def test_a_report_of_one_person_has_nothing_of_this_machine_but_for_oneself(two: Two) -> None:
    assert {each["person"] for each in cost(two.ben.shell, "--person", "anna")["by_session"]} == {"anna"}
    own = cost(two.ben.shell, "--person", "ben")
    assert (own["there_count"], own["here_count"], own["sums"]["turn_count"]) == (0, 1, 1)


def test_a_report_of_one_repository_has_its_sessions_alone(two: Two) -> None:
    assert cost(two.ben.shell, "--repo", "me/tool")["sums"]["turn_count"] == 2
    assert cost(two.ben.shell, "--repo", "me/other")["sums"]["turn_count"] == 1


def test_a_stand_up_of_a_team_names_each_person(two: Two) -> None:
    said = two.ben.shell("chronicle", "standup", *LONG_AGO, "--remote", "--org", "the team")
    assert said.code == 0
    assert "The team: 2 sessions of 1 person on the server, 1 session only here" in said.out
    assert "anna · me/tool" in said.out
    assert "ben · me/other" in said.out
    found = two.ben.shell("report", "standup", *LONG_AGO, "--remote", "--json").json()
    items = [each for place in found["places"] for each in place["sessions"]]
    assert sorted((each["person"], each["status"], each["asked"]) for each in items) == [
        ("anna", "done", "work 0"), ("anna", "done", "work 1"), ("ben", "done", "work elsewhere"),
    ]  # fmt: skip


def test_a_recap_is_of_a_session_that_only_the_server_has(two: Two) -> None:
    found = cost(two.ben.shell, "--person", "anna")["by_session"][0]
    said = two.ben.shell("report", "recap", found["label"], "--remote")
    assert said.code == 0, said.err
    assert f"anna · {found['label']} · claude · me/tool" in said.out
    assert "Last answer: done" in said.out
    assert "Go on with it" not in said.out
    as_json = two.ben.shell("report", "recap", found["label"], "--remote", "--json").json()
    assert (as_json["uid"], as_json["person"], as_json["command"]) == (found["uid"], "anna", [])
    nobody = two.ben.shell("report", "recap", "01ZZZZZZZZ", "--remote")
    assert nobody.code != 0
    assert "There is no such session here." in nobody.err


def test_what_the_server_has_yet_to_derive_is_counted_as_waiting(changing: Two) -> None:
    changing.team.clock.ms += 1
    changing.anna.works_elsewhere("git@github.com:me/tool.git")
    assert changing.anna.shell("ingest").code == changing.anna.shell("sync").code == 0
    words = ("report", "cost", *LONG_AGO, "--remote", "--person", "anna")
    assert "1 session not counted yet: the server derives it now." in changing.ben.shell(*words).err
    # Where it was made it is counted.
    assert "not counted yet" not in changing.anna.shell(*words).err
    assert cost(changing.anna.shell)["sums"]["turn_count"] == 3


@pytest.mark.parametrize(("words", "said"), [
    (("cost", "--org", "us"), "--org is about the team's server: add --remote."),
    (("cost", "--person", "anna"), "--person is about the team's server: add --remote."),
    (("standup", "--remote", "--explain"), "--explain"),
    (("cost", "the parser", "--remote"), "backstory pull"),
    (("cost", "--tool", "Bash", "--remote"), "backstory pull"),
    (("recap", "--remote"), "--remote needs a SESSION"),
    (("tips", "--remote"), "backstory pull"),
    (("cost-tips", "--remote"), "backstory pull"),
    (("improve", "--remote"), "backstory pull"),
    (("blame", "x.py", "--remote"), "backstory pull"),
    (("search", "x", "--remote"), "backstory search WORDS --remote"),
])  # fmt: skip
def test_what_the_server_cannot_answer_is_refused_with_what_to_type(
    words: tuple[str, ...], said: str, two_words: Shell
) -> None:
    found = two_words("report", *words)
    assert (found.code, said in found.err) == (2, True), found.err


@pytest.fixture
def two_words(tmp_path: Path) -> Shell:
    from tests.support.shell import Shell

    return Shell(tmp_path)


def test_another_organisation_than_that_of_the_login_is_named(two: Two) -> None:
    found = two.ben.shell("report", "cost", "--remote", "--org", "them")
    assert found.code == 2
    assert f"You are logged in to 'The team' at {two.ben.address}, not to 'them'" in found.err


def test_who_is_not_logged_in_is_told_so(two_words: Shell) -> None:
    assert two_words("report", "cost", "--remote").code == 77
