"""Filters whose value nothing has: words of a closed set are refused, others are said to be nobody's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

SINCE = ("--since", "2020-01-01")
READERS = [
    ("list", "--all"), ("stats", "--all"), ("stats", "--all", "--by", "tool"), ("search", "file"),
    ("chronicle", "cost", *SINCE), ("chronicle", "standup", *SINCE), ("chronicle", "tips"),
]  # fmt: skip


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("as_json", [False, True])
def test_an_agent_that_nobody_knows_is_refused_with_the_nearest(
    read_once: Shell, command: tuple[str, ...], as_json: bool
) -> None:
    done = read_once(*command, "-a", "cluade", *(["--json"] if as_json else []))
    assert (done.code, done.out) == (64, "")
    assert "No agent is called 'cluade'. Did you mean claude?" in done.err


def test_a_known_agent_without_sessions_is_an_empty_list(read_once: Shell) -> None:
    done = read_once("list", "--all", "-a", "copilot", "--json")
    assert (done.code, done.json()) == (0, [])
    assert read_once("search", "-a", "copilot", "file").code == 1


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("search", "--tool", "Baash", "file"), "No call of a tool 'Baash' is stored. Did you mean Bash?"),
        (("search", "--role", "usr", "file"), "--role cannot be 'usr'. Did you mean user?"),
        (("search", "--scope", "anwser", "file"), "--scope cannot be 'anwser'. Did you mean answer?"),
        (("search", "--sort", "scor", "file"), "--sort cannot be 'scor'. Did you mean score?"),
        (("list", "--all", "--sort", "turn"), "--sort cannot be 'turn'. Did you mean turns?"),
        (("stats", "--by", "modell"), "--by cannot be 'modell'. Did you mean model?"),
    ],
)
def test_a_word_of_a_closed_set_that_nobody_has_is_refused(
    read_once: Shell, words: tuple[str, ...], meant: str
) -> None:
    done = read_once(*words)
    assert (done.code, done.out) == (64, "")
    assert meant in done.err


def test_a_tool_that_was_called_elsewhere_is_no_unknown_tool(read_once: Shell) -> None:
    assert read_once("search", "--tool", "Bash", "xyzzynowhere").code == 1
    assert read_once("search", "--tool", "bash", "--no-near", "xyzzynowhere").code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--repo", "irlicht"), "No session is of repository 'irlicht', nearest: ingo-eichhorst/Irrlicht."),
        (("--branch", "worktree-4422"), "No session was on branch 'worktree-4422', nearest: worktree-442."),
        (("--path", "notess.txt"), "No session touched 'notess.txt', nearest: notes.txt."),
        (("--ref", "4711099"), "No session names '4711099'."),
    ],
)
@pytest.mark.parametrize(
    ("command", "code"), [(("list", "--all"), 0), (("stats", "--all"), 0), (("search", "file"), 1)]
)
def test_a_value_that_no_session_has_is_said_to_be_nobodys(
    read_once: Shell, command: tuple[str, ...], code: int, words: tuple[str, ...], said: str
) -> None:
    done = read_once(*command, *words)
    assert (done.code, done.out) == (code, "")
    assert done.err.splitlines() == [said]


def test_where_each_value_is_there_and_nothing_has_all_of_them_nothing_is_called_unknown(read_once: Shell) -> None:
    done = read_once("list", "--all", "-a", "codex", "--path", "notes.txt", "--until", "2020-01-01")
    assert done.code == 0
    assert "No such sessions among" in done.err


@pytest.mark.parametrize("command", [("list",), ("stats",), ("search", "x"), ("chronicle", "cost"), ("show", "S1")])
def test_a_store_that_is_named_and_not_there_is_not_found(
    read_once: Shell, command: tuple[str, ...], tmp_path: Path
) -> None:
    done = read_once(*command, "--store", tmp_path / "none.bks")
    assert (done.code, done.out) == (66, "")
    assert f"There is no store at {tmp_path / 'none.bks'}" in done.err


def test_what_is_wrong_with_a_command_line_is_one_line_without_escapes(read_once: Shell) -> None:
    done = read_once("export", "--all")
    assert done.code == 2
    assert "Missing option '--format'. Choose from: json, md, " in done.err
    assert "\\n" not in done.err and "\\t" not in done.err
