"""``backstory help``, and what is said of a command that does not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

USAGE = 2


@pytest.mark.parametrize("words", [(), ("search",), ("queue",), ("queue", "list"), ("help",)])
def test_help_shows_what_the_option_shows(bare: Shell, words: tuple[str, ...]) -> None:
    done = bare("help", *words)
    assert (done.code, done.err) == (0, "")
    assert done.out == bare(*words, "--help").out


@pytest.mark.parametrize("group", ["board", "branch", "report", "config", "project", "queue", "skill"])
def test_a_group_of_commands_alone_prints_its_help(bare: Shell, group: str) -> None:
    done = bare(group)
    assert (done.code, done.err) == (0, "")
    assert done.out == bare(group, "--help").out


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("serch",), "search"), (("lst",), "list"), (("queue", "lst"), "list"), (("config", "gett"), "get"),
        (("branch", "restor"), "restore"), (("help", "serch"), "search"), (("help", "queue", "drp"), "drop"),
        (("standup",), "report standup"),
        (("install",), "mcp install or skill install"), (("add",), "queue add or board add"),
    ],
)  # fmt: skip
def test_the_command_that_was_probably_meant_is_named(bare: Shell, words: tuple[str, ...], meant: str) -> None:
    done = bare(*words)
    assert (done.code, done.out) == (USAGE, "")
    assert done.err.startswith(f"backstory: No such command '{words[-1]}'. Did you mean {meant}?\n")


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (("list", "--nope"), "backstory list [OPTIONS]"),
        (("rename", "x"), "backstory rename [OPTIONS] [SESSION] NAME"),
        (("backup",), "backstory backup [OPTIONS] FILE"),
    ],
)
def test_what_cannot_be_understood_is_refused_as_any_other_command_is(
    bare: Shell, words: tuple[str, ...], usage: str
) -> None:
    done = bare(*words)
    first, used, where = done.err.splitlines()
    assert (done.code, done.out, first.startswith("backstory: ")) == (USAGE, "", True)
    assert used.endswith(usage.removeprefix("backstory"))
    assert where.startswith("  Help: ") and where.endswith(f"{words[0]} --help")


@pytest.mark.parametrize("words", [("xyzzy",), ("queue", "xyzzy"), ("help", "xyzzy")])
def test_a_command_like_no_other_gets_no_guess(bare: Shell, words: tuple[str, ...]) -> None:
    done = bare(*words)
    assert done.code == USAGE
    assert done.err.startswith("backstory: No such command 'xyzzy'.\n")


def test_a_command_without_commands_has_none_to_help_with(bare: Shell) -> None:
    done = bare("help", "search", "words")
    assert done.code == USAGE
    assert "search has no command 'words'" in done.err


@pytest.mark.parametrize("words", [("-S", "S1", "show"), ("--trust", "list")])
def test_options_in_front_of_a_command_are_refused_with_where_they_belong(bare: Shell, words: tuple[str, ...]) -> None:
    done = bare(*words)
    assert done.code == USAGE
    assert f"Options come after the command: backstory {words[-1]} [OPTIONS]" in done.err


def test_the_page_of_all_commands_is_not_about_one(bare: Shell) -> None:
    done = bare("help", "--all", "list")
    assert (done.code, done.out) == (USAGE, "")
    assert "--all lists every command" in done.err
