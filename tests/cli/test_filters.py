"""One filter for all questions: the same options with the same words, and the sessions that the rows say."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import click
import pytest

from backstory.ask.search import ROLES
from backstory.model import Outcome
from backstory.runs.spool import RUNNING
from backstory.workspace import questions
from tests.support import claude_records
from tests.support.every import every
from tests.support.shown_commands import commands

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

EVENTS = ("search",)
SESSIONS = (
    "list", "stats", "export", "restore", "report standup", "report search", "report cost", "report tips",
    "report cost-tips", "report improve",
)  # fmt: skip


@every("name", [*SESSIONS, *EVENTS])
def test_every_question_has_every_option_of_the_filter_with_the_same_words(name: str) -> None:
    command = dict(commands())[name]
    options = {each.opts[0]: each.help for each in command.params if isinstance(each, click.Option)}
    asked = {f"--{each.name}": each.about for each in questions.fields(of_events=name in EVENTS)}
    assert {option: options.get(option) for option in asked} == asked


def test_a_status_is_one_that_a_list_shows() -> None:
    (choices,) = (each.choices for each in questions.FILTER if each.name == "status")
    assert {*choices} == {*Outcome, RUNNING}


def test_a_role_is_one_that_a_search_knows() -> None:
    (choices,) = (each.choices for each in questions.FILTER if each.name == "role")
    assert choices == tuple(sorted(ROLES))


def uids(shell: Shell, *options: str) -> set[str]:
    done = shell("list", "--all", "--subagents", "--json", *options)
    assert done.code == 0, done.err
    return {each["uid"] for each in done.json()["sessions"]}


def rows(shell: Shell, sql: str) -> set[tuple[str, ...]]:
    return {tuple(each) for each in shell("sql", "--json", sql).json()["rows"]}


def test_a_tool_chooses_the_sessions_with_a_call_of_it_and_those_above(read_once: Shell) -> None:
    called = rows(
        read_once, "select distinct s.uid, c.tool_name from tool_calls c join sessions s on s.id = c.session_id"
    )
    above = rows(read_once, "select uid, parent from sessions where relation = 'subagent'")
    parents = {each[0]: each[1] for each in above}
    assert {tool for _, tool in called} > {"Bash", "Read"}
    for tool in {tool for _, tool in called}:
        wanted = {uid for uid, name in called if name.lower() == tool.lower()}
        wanted |= {parents[uid] for uid in wanted if uid in parents}
        assert uids(read_once, "--tool", tool) >= wanted & uids(read_once), tool


def test_a_status_chooses_the_sessions_that_a_list_shows_with_it(read_once: Shell) -> None:
    listed = read_once("list", "--all", "--subagents", "--json").json()["sessions"]
    shown = {status: {each["uid"] for each in listed if each["outcome"] == status} for status in Outcome}
    assert shown[Outcome.COMPLETED]
    assert {status: uids(read_once, "--status", str(status)) for status in Outcome} == shown


def test_a_project_chooses_the_sessions_that_a_list_shows_with_its_name(read_once: Shell) -> None:
    listed = read_once("list", "--all", "--subagents", "--json").json()["sessions"]
    names = {each["project"] for each in listed}
    assert len(names) > 1
    for name in names:
        assert uids(read_once, "--project", name) >= {each["uid"] for each in listed if each["project"] == name}


def test_a_model_chooses_the_sessions_in_which_it_answered(read_once: Shell) -> None:
    answered = rows(read_once, "select s.uid, u.model from usage u join sessions s on s.id = u.session_id")
    models = {model for _, model in answered if model}
    assert models
    for model in models:
        assert uids(read_once, "--model", model) == {uid for uid, name in answered if model in (name or "")}


def test_an_export_and_a_restore_hold_what_the_filter_lets_through_with_its_subagents(
    read_once: Shell, tmp_path: Path
) -> None:
    wanted = uids(read_once, "--agent", "claude")
    assert 0 < len(wanted) < len(uids(read_once))
    assert read_once("export", "--all", "--agent", "claude", "--format", "json", "-o", tmp_path / "out.json").code == 0
    written = [json.loads(line) for line in (tmp_path / "out.json").read_text("utf-8").splitlines()]
    assert {each["uid"] for each in written if each["type"] == "session"} == wanted
    done = read_once("restore", "--all", "--agent", "claude", "--to", tmp_path / "logs", "--json")
    assert {each["uid"] for each in done.json()["logs"]} <= wanted


@pytest.mark.parametrize("command", [("export", "--format", "json", "-o", "-"), ("restore", "--to", "out")])
def test_a_filter_that_lets_nothing_through_writes_nothing(read_once: Shell, command: tuple[str, ...]) -> None:
    done = read_once(*command, "--all", "--model", "no-such-model")
    assert (done.code, done.out) == (66, "")
    assert "No session has an answer of model 'no-such-model'" in done.err
    assert read_once(*command, "--model", "no-such-model").code == 2


@pytest.mark.parametrize("name", ["agent", "repo", "project", "branch", "path", "tool", "model", "grep", "since"])
def test_a_filter_without_a_value_does_not_mean_every_session(read_once: Shell, name: str, tmp_path: Path) -> None:
    for blank in ("", " "):
        done = read_once("export", "--all", f"--{name}", blank, "--format", "json", "-o", tmp_path / "all.json")
        assert done.code == 2
        assert f"--{name} needs a value" in done.err
    assert not (tmp_path / "all.json").exists()


def test_files_that_nobody_reads_are_restored_with_what_the_filter_lets_through(machine: Shell, tmp_path: Path) -> None:
    unknown = machine.home / ".claude" / "projects" / "-w" / "unknown.jsonl"
    unknown.parent.mkdir(parents=True, exist_ok=True)
    unknown.write_bytes(b'{"kind": "of no agent"}\n')
    assert machine("ingest").code == 0
    unread = {each["uid"] for each in machine("list", "--all", "--unread", "--json").json()["sessions"]} - uids(machine)
    done = machine("restore", "--all", "--agent", "claude", "--to", tmp_path / "logs", "--json")
    assert unread
    assert unread <= {each["uid"] for each in done.json()["logs"]}


def test_the_earlier_meaning_of_model_in_a_report_is_refused(read_once: Shell) -> None:
    done = read_once("report", "standup", "--write", "claude", "--model", "large")
    assert done.code == 2
    assert "--write-model" in done.err


def test_the_folder_of_a_project_chooses_its_worktrees_and_what_began_below_it(bare: Shell) -> None:
    tool = bare.home / "tool"
    subprocess.run(["git", "init", "-q", tool], check=True)
    subprocess.run(["git", "-C", tool, "remote", "add", "origin", "git@github.com:me/tool.git"], check=True)
    (tool / "src").mkdir()
    wanted = [tool / "src", "/gone/tool/.agent/worktrees/fix", "/gone/tool"]
    for number, cwd in enumerate([*wanted, "/gone/tool2"]):
        record = json.loads(claude_records.user("Go on")) | {"sessionId": f"{number}", "cwd": str(cwd)}
        log = bare.home / ".claude" / "projects" / "-p" / f"{number:08}-0000-4000-8000-000000000000.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(json.dumps(record) + "\n", "utf-8")
    assert bare("ingest").code == 0
    listed = {each["uid"]: each["cwd"] for each in bare("list", "--all", "--json").json()["sessions"]}
    assert {listed[each] for each in uids(bare, "--project", str(tool))} == {str(tool / "src")}
    assert {listed[each] for each in uids(bare, "--project", "/gone/tool/")} == {*wanted[1:]}


@pytest.mark.parametrize("option", [f"--{each.name}" for each in questions.fields() if not each.choices])
def test_a_value_that_is_longer_than_a_pattern_may_be_fits_nothing(read_once: Shell, option: str) -> None:
    done = read_once("list", "--all", option, "x*" * 30_000)
    assert (done.code in (0, 64), done.out) == (True, "")


@pytest.mark.parametrize(
    "only",
    [("--grep", "a"), ("--model", "claude"), ("--status", "completed"), ("--tool", "Bash"), ("--project", "tool")],
)
def test_the_sql_that_explains_a_report_runs_with_every_filter(read_once: Shell, only: tuple[str, str]) -> None:
    explained = read_once("report", "cost", "--since", "2020-01-01", *only, "--explain")
    assert explained.code == 0
    statement = explained.out.partition(";\n")[0]
    done = read_once("sql", typed=statement)
    assert (done.code, done.err) == (0, "")
