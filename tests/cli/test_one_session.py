"""A session is named in the same ways wherever one can be named: as an argument, with -S, and where a record may be."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click
import pytest

from backstory.cli import COMMANDS, cli
from backstory.model import AssistantText, UserMessage
from tests.support.bench import Bench
from tests.support.every import every

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

USAGE, NO_INPUT = 2, 66
NOT_ONES_OF_ITS_OWN = {"run", "steer", "followup"}
"""Commands whose arguments are words for an agent: only -S names a session."""


def leaves() -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with its whole name."""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        if not isinstance(command, click.Group) or command.params:
            yield name, command
        if isinstance(command, click.Group):
            for part in command.list_commands(context):
                if leaf := command.get_command(context, part):
                    yield f"{name} {part}", leaf


LEAVES = dict(leaves())


def arguments(command: click.Command) -> set[str]:
    return {each.name or "" for each in command.params if isinstance(each, click.Argument)}


def options(command: click.Command) -> set[str]:
    return {option for each in command.params for option in each.opts}


TAKING = [name for name, command in LEAVES.items() if arguments(command) & {"session", "sessions", "point", "left"}]


@every("name", [*TAKING, *sorted(NOT_ONES_OF_ITS_OWN)])
def test_every_command_that_takes_a_session_takes_it_with_an_option(name: str) -> None:
    assert {"-S", "--session"} <= options(LEAVES[name])


def test_these_are_the_commands_that_take_a_session() -> None:
    expected = "show, tree, tree scan, tree branches, context, cancel, ps, rename, rm, restore, export, checkout, diff"
    assert set(expected.split(", ")) <= set(TAKING)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Two sessions: S1 of two turns, S2 of one."""
    bench = Bench(tmp_path)
    for name, prompts in (("first", ("one", "two")), ("second", ("three",))):
        session = bench.store.create_session(name, worktree=bench.project)
        for prompt in prompts:
            bench.store.append_events(session, [UserMessage(content=prompt), AssistantText(text=f"to {prompt}")])
    bench.note_store()
    return bench


@pytest.mark.parametrize("words", [["show"], ["tree"], ["scan"], ["branches"], ["context"]], ids=" ".join)
def test_both_ways_show_the_same_and_another_one_than_the_default(bench: Bench, words: list[str]) -> None:
    named = bench.backstory(*words, "S1")
    option = bench.backstory(*words, "-S", "S1")
    both = bench.backstory(*words, "S1", "-S", "S1")
    assert named.returncode == 0, named.stderr
    assert named.stdout == option.stdout == both.stdout
    assert named.stdout != bench.backstory(*words).stdout


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (["tree", "--records"], ["scan"]), (["tree", "--list"], ["branches"]), (["compact", "--preview"], ["context"]),
        (["tree", "scan"], ["scan"]), (["tree", "branches"], ["branches"]),
    ],
    ids=lambda words: " ".join(words[:2]),
)  # fmt: skip
def test_two_names_of_a_command_do_the_same(bench: Bench, words: list[str], same: list[str]) -> None:
    done, expected = bench.backstory(*words, "-S", "S1"), bench.backstory(*same, "-S", "S1")
    assert done.returncode == expected.returncode == 0, done.stderr
    assert done.stdout == expected.stdout != ""


def test_a_prompt_is_queued_by_either_name(bench: Bench) -> None:
    for words in (["queue", "add"], ["followup"]):
        assert bench.backstory(*words, "--no-run", "-S", "S1", " ".join(words)).returncode == 0
    listed = json.loads(bench.backstory("queue", "list", "--json").stdout)["prompts"]
    assert [(each["kind"], each["text"]) for each in listed] == [("followup", "queue add"), ("followup", "followup")]


@pytest.mark.parametrize("words", [["tree", "--records", "--list"], ["compact", "--preview", "--show"]], ids=" ".join)
def test_two_things_to_print_at_once_are_refused(bench: Bench, words: list[str]) -> None:
    assert bench.backstory(*words).returncode == USAGE


@pytest.mark.parametrize(
    "words",
    [
        ["show", "S1"], ["tree", "S1"], ["context", "S1"], ["cancel", "S1"], ["rename", "S1", "new"],
        ["rm", "S1", "--yes"], ["export", "S1", "--format", "ah", "-o", "out"], ["restore", "S1", "--to", "out"],
        ["ps", "S1"], ["queue", "clear", "S1"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_two_sessions_where_one_is_meant_are_refused_and_change_nothing(bench: Bench, words: list[str]) -> None:
    refused = bench.backstory(*words, "-S", "S2")
    assert refused.returncode == USAGE
    assert "Traceback" not in refused.stderr
    assert {each.name for each in bench.store.sessions()} == {"first", "second"}


def test_a_session_is_renamed_either_way(bench: Bench) -> None:
    assert bench.backstory("rename", "-S", "S1", "new").returncode == 0
    assert bench.backstory("rename", "S2", "newer").returncode == 0
    assert bench.backstory("rename", "newest").returncode == USAGE
    assert {each.name for each in bench.store.sessions()} == {"new", "newer"}


def test_sessions_are_removed_either_way_and_none_without_a_name(bench: Bench) -> None:
    assert bench.backstory("rm", "--yes").returncode == USAGE
    assert bench.backstory("rm", "--yes", "-S", "S1", "-S", "S2").returncode == 0
    assert bench.store.sessions() == []


def test_a_record_is_shown_of_the_session_that_the_option_names(bench: Bench) -> None:
    assert "to two" in bench.backstory("show", "-S", "S1", "@4").stdout
    assert bench.backstory("show", "@4").returncode == NO_INPUT


def test_a_turn_that_is_not_there_is_refused_with_how_many_there_are(bench: Bench) -> None:
    for turn in ("99", "0"):
        refused = bench.backstory("show", "S1", "-t", turn)
        assert (refused.returncode, refused.stdout) == (NO_INPUT, "")
        assert "S1 has 2 turns" in refused.stderr
    shown = bench.backstory("show", "S1", "-t", "2")
    assert (shown.returncode, "to two" in shown.stdout, "to one" in shown.stdout) == (0, True, False)


def test_two_whole_sessions_are_compared(bench: Bench) -> None:
    done = bench.backstory("diff", "S1", "second")
    assert done.returncode == 0, done.stderr
    assert "--- @4 of S1 (2 turns" in done.stdout
    assert "--- @2 of S2 (1 turn" in done.stdout


def test_a_session_and_a_record_of_it_are_compared(bench: Bench) -> None:
    done = bench.backstory("diff", "S1@2", "S1")
    assert done.returncode == 0, done.stderr
    assert "to two" in done.stdout
    assert "to one" not in done.stdout


def test_what_is_neither_a_record_nor_a_session_is_not_compared(bench: Bench) -> None:
    refused = bench.backstory("diff", "S1", "nothing")
    assert (refused.returncode, refused.stdout) == (NO_INPUT, "")


@pytest.mark.parametrize("words", ["S1", "first"])
def test_a_checkout_of_a_session_by_any_name_goes_to_it(bench: Bench, words: str) -> None:
    assert bench.backstory("checkout", words).stdout.startswith("Switched to S1")
    last = bench.store.last_session(bench.project)
    assert last is not None
    assert last.name == "first"


def test_a_branch_is_named_at_the_end_of_the_session_that_is_named(bench: Bench) -> None:
    assert bench.backstory("branch", "name", "kept", "S1").returncode == 0
    assert [each.name for each in bench.store.branch_names(bench.store.session("S1"))] == ["kept"]
    assert bench.store.branch_names(bench.store.session("S2")) == []


@pytest.mark.parametrize("words", [["steer", "hi"], ["followup", "hi"], ["cancel"], ["show"], ["tree"], ["context"]])
def test_a_folder_without_sessions_is_told_how_to_start_one(tmp_path: Path, words: list[str]) -> None:
    bench = Bench(tmp_path)
    refused = bench.backstory(*words)
    assert refused.returncode == NO_INPUT
    assert 'backstory run -n "…"' in refused.stderr
    assert "is called" not in refused.stderr


def answered(bench: Bench, answer: str, *words: str) -> tuple[int, str]:
    """How a command ends that a person at a terminal answers, and what it printed there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "backstory", *words], cwd=bench.project, stdin=theirs, stdout=theirs, stderr=theirs,
        env=bench.environ([{"say": "done"}, {"result": True}]) | {"TERM": "dumb"},
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, answer.encode())
    seen = b""
    with suppress(OSError):
        while block := os.read(ours, 65536):
            seen += block
    os.close(ours)
    return process.wait(timeout=120), seen.decode()


def test_what_a_person_would_not_remove_is_kept(bench: Bench) -> None:
    bench.backstory("checkout", "@2", "-S", "S1")
    for words in (("rm", "S1"), ("branch", "rm", "@3", "-S", "S1")):
        code, seen = answered(bench, "n\n", *words)
        assert (code, "Kept." in seen) == (0, True), seen
    assert [turn.prompt for turn in bench.store.turns(bench.store.session("S1"))] == ["one", "two"]


# a message that comes too late ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [["steer", "late"], ["followup", "late"], ["--followup", "late"], ["--steer", "late"]]
)
def test_a_message_that_comes_too_late_starts_and_leaves_nothing(bench: Bench, words: list[str]) -> None:
    refused = bench.backstory(*words, script=[{"result": True}])
    assert refused.returncode == 75
    assert "S2 is not running" in refused.stderr
    assert "--or-run" in refused.stderr
    assert bench.store.session("S2").turns == 1
    assert not list(bench.store.path.parent.glob("*.queue.db"))


@pytest.mark.parametrize("words", [["steer", "--or-run", "late"], ["--or-run", "--steer", "late"]])
def test_it_is_run_as_a_prompt_when_asked(bench: Bench, words: list[str]) -> None:
    done = bench.backstory(*words, script=[{"result": True}])
    assert done.returncode == 0, done.stderr
    assert [turn.prompt for turn in bench.store.turns(bench.store.session("S2"))] == ["three", "late"]


@pytest.mark.parametrize("word", ["steer", "followup"])
def test_a_person_is_asked_whether_to_run_it(bench: Bench, word: str) -> None:
    code, seen = answered(bench, "n\n", word, "late")
    assert (code, "Run it as a prompt now? [y/N]" in seen) == (75, True)
    assert bench.store.session("S2").turns == 1
    code, seen = answered(bench, "y\n", word, "late")
    assert (code, "done" in seen) == (0, True), seen
    assert [turn.prompt for turn in bench.store.turns(bench.store.session("S2"))] == ["three", "late"]


def test_no_continuation_is_begun_for_a_message_that_comes_too_late(bench: Bench, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    uid = bench.store.session("S1").uid
    assert bench.backstory("ingest").returncode == 0
    refused = bench.backstory("steer", "-S", uid, "late", cwd=other)
    assert refused.returncode == 75, refused.stderr
    assert not (other / ".backstory").exists()


def test_to_run_and_not_to_run_is_refused(bench: Bench) -> None:
    assert bench.backstory("followup", "--or-run", "--no-run", "x").returncode == USAGE
