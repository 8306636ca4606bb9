"""`backstory search --remote`, as it is typed by two people of a team."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.cli.commands.search_command import NOTHING_FOUND
from backstory.cli.remote_search import REFUSED
from tests.support.desks import Desk
from tests.support.shell import Shell
from tests.support.team import tenant_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.team import Team


@pytest.fixture
def anna(team: Team, tmp_path: Path) -> Iterator[Desk]:
    """A machine that sent two sessions, which are derived."""
    with team.served() as address:
        (tmp_path / "anna").mkdir()
        desk = Desk(tmp_path / "anna", team, address, 2)
        desk.log_in()
        send(desk)
        yield desk


def send(desk: Desk, *, derives: bool = True) -> None:
    assert desk.shell("ingest").code == 0
    assert desk.shell("sync").code == 0
    while derives and desk.team.deriving.work_one(tenant_of(desk.token())):
        pass


def colleague(anna: Desk, folder: Path) -> Desk:
    """A machine of somebody else of the team, who has nothing."""
    folder.mkdir()
    ben = Desk(folder, anna.team, anna.address, 0)
    ben.log_in("ben", anna.shell("team", "invite").out.split()[-1])
    return ben


def test_a_colleague_finds_what_was_said_and_is_told_what_was_searched(anna: Desk, tmp_path: Path) -> None:
    ben = colleague(anna, tmp_path / "ben")
    done = ben.shell("search", "work", "1", "--remote")
    head, hit = done.out.splitlines()
    assert (done.code, "  anna  claude  me/tool  2026-" in head, head.endswith("  1 hit")) == (0, True, True)
    assert hit.split(maxsplit=2)[1:] == ["prompt", "work 1"]
    uid, machine = done_ids(ben, "work 1")
    assert done.err.splitlines() == [
        f"Searched at {anna.address}: prompts, answers and the first 600 characters of tool inputs; "
        "tool output is not searched here.",
        f"1 session, 1 hit · read: {anna.address}/s/{uid}?person=anna&machine={machine}",
    ]  # fmt: skip


def done_ids(desk: Desk, words: str) -> tuple[str, str]:
    """The session that is found, and the machine that sent it."""
    found = desk.shell("search", words, "--remote", "--json").json()
    (hit,) = found["hits"]
    assert (hit["person"], hit["scope"], found["waiting_sessions"]) == ("anna", "prompt", 0)
    return str(hit["uid"]), str(hit["machine"])


def test_the_next_step_is_a_command_that_works(anna: Desk, tmp_path: Path) -> None:
    said = anna.shell("search", "work 1", "--remote").err.splitlines()[-1]
    command = said.partition("read: backstory ")[2]
    assert anna.shell(*command.replace("'work 1'", "work").split()).code == 0
    (tmp_path / "second").mkdir()
    second = Desk(tmp_path / "second", anna.team, anna.address, 0)
    second.come_in_beside(anna)
    assert second.shell("search", "work 1", "--remote").err.endswith("· `backstory pull` brings it here\n")
    assert second.shell("pull").code == 0
    assert "read: backstory show" in second.shell("search", "work 1", "--remote").err


def test_nothing_found_is_exit_code_1_and_says_how_many_sessions_wait(anna: Desk) -> None:
    anna.goes_on("needle")
    send(anna, derives=False)
    done = anna.shell("search", "needle", "--remote")
    assert (done.code, done.out) == (NOTHING_FOUND, "")
    first, *_, last = done.err.splitlines()
    assert first.startswith("Nothing found for 'needle'")
    assert last == "1 session there waits to be indexed, and may have more."
    assert anna.shell("search", "needle", "--remote", "--json").code == NOTHING_FOUND


def test_filters_of_the_server_are_sent(anna: Desk) -> None:
    found = {
        words: anna.shell("search", "work", "--remote", *words.split()).code
        for words in (
            "--repo tool", "--repo other", "--person anna",
            "--agent claude", "--agent codex", "--branch none", "--grep 1", "--grep x",
            "--since 2020-01-01", "--until 2020-01-01", "--scope prompt", "--scope answer", "--no-near", "--sort time",
        )
    }  # fmt: skip
    assert [words for words, code in found.items() if code == 0] == [
        "--repo tool", "--person anna", "--agent claude", "--grep 1", "--since 2020-01-01", "--scope prompt",
        "--no-near", "--sort time",
    ]  # fmt: skip


def test_more_are_listed_with_the_limit_that_is_shown(anna: Desk) -> None:
    said = anna.shell("search", "work", "--remote", "--limit", "1").err
    assert "the newest 1 session, 1 hit · more: --limit 4 · " in said
    assert "2 sessions, 2 hits · " in anna.shell("search", "work", "--remote", "--limit", "4").err


OPTIONS = {
    "exact": ["--exact"], "regex": ["--regex"], "picks": ["-i"], "prints": ["--print"], "here": ["--here"],
    "without": ["--not", "x"], "store": ["--store", "x"], "only_project": ["--project", "x"],
    "only_path": ["--path", "x"], "only_ref": ["--ref", "1"], "only_tool": ["--tool", "x"],
    "only_model": ["--model", "x"], "only_status": ["--status", "failed"], "only_role": ["--role", "user"],
    "sort": ["--sort", "score"], "all_hits": ["--all-hits"],
}  # fmt: skip


def test_what_the_server_does_not_have_is_refused_with_what_to_do_instead(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert OPTIONS.keys() - {"sort", "all_hits"} == REFUSED.keys()
    said = {name: shell("search", "x", "--remote", *words) for name, words in OPTIONS.items()}
    assert {name: each.code for name, each in said.items() if each.code != 2} == {}
    assert {name for name, each in said.items() if "with --remote" not in " ".join(each.err.split())} == set()
    assert shell("search", "x", "--person", "anna").code == 2
    assert "backstory pull" in " ".join(said["regex"].err.split())


def test_who_is_not_logged_in_is_told_how(tmp_path: Path) -> None:
    done = Shell(tmp_path)("search", "x", "--remote")
    assert (done.code, "backstory login ADDRESS" in done.err) == (77, True)


def test_a_scope_that_is_not_searched_is_refused_by_name(anna: Desk) -> None:
    done = anna.shell("search", "x", "--remote", "--scope", "tool_output")
    assert (done.code, "'tool_output' is not searched here" in done.err) == (64, True)
