"""Filters whose value nothing has: words of a closed set are refused, others are said to be nobody's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.forked import COMMAND
from tests.support.machines import claude_line, claude_log, lines
from tests.support.terminal import Terminal

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
    assert (done.code, done.json()["sessions"]) == (0, [])
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
    assert done.err.startswith("None of ") and "change the filter" in done.err


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


# nothing here -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("list",), 0), (("list", "--until", "2030-01-01"), 0), (("stats",), 0), (("stats", "--by", "tool"), 0),
        (("search", "--here", "file"), 1), (("report", "cost", "--here", *SINCE), 0), ((), 0),
        (("export", "--here", "-a", "claude", "-o", "-", "--format", "md"), 66), (("tree",), 66), (("show",), 66),
    ],
    ids=str,
)  # fmt: skip
def test_where_this_project_has_none_every_face_says_how_many_others_have(
    read_once: Shell, words: tuple[str, ...], code: int
) -> None:
    done = read_once(*words)
    assert (done.code, done.out) == (code, "")
    first = done.err.splitlines()[0].removeprefix("backstory: ")
    assert re.match(rf"No sessions of {read_once.cwd}\. \d+ in other projects[:.] ", first), done.err


def test_a_filter_that_nothing_fits_names_what_was_looked_at(bare: Shell) -> None:
    two_projects(bare)
    none = "change the filter, or import what is missing with `backstory ingest`.\n"
    here = f"None of 1 session of {bare.cwd} fits"
    assert bare("list", "--until", "2020-01-01").err == f"{here}, and none of 1 in other projects: {none}"
    assert bare("list", "--all", "--until", "2020-01-01").err == f"None of 2 sessions fits: {none}"
    assert bare("list", "--grep", "theirs").err == f"{here}. 1 in other projects: --all\n"
    assert bare("search", "--here", "theirs").err == (
        "Nothing found for 'theirs' in 1 session. Try fewer or other words. "
        "1 session of other projects not searched: --all\n"
    )


def test_a_search_and_reports_say_on_a_screen_how_much_there_is_elsewhere(bare: Shell) -> None:
    two_projects(bare)
    for words, said in (
        (("search", "--here", "mine"), "1 session of other projects not searched: --all"),
        (("report", "search", "--here", "mine"), "1 session of other projects not searched: --all"),
        (("report", "cost", "--here", *SINCE), "1 more in other projects: --all"),
        (("report", "standup", "--here", *SINCE), "1 more in other projects: --all"),
    ):
        assert said in screen(bare, *words), words
        assert "other projects" not in bare(*words).err, words
    assert "other projects" not in screen(bare, "search", "mine")


def screen(bare: Shell, *words: str) -> str:
    with Terminal([*COMMAND, *words], bare.cwd, bare.environ | {"PAGER": "cat"}, width=200) as terminal:
        return terminal.end()


def two_projects(bare: Shell) -> None:
    """Import a session of this project and one of another."""
    for name, folder in (("mine", bare.cwd), ("theirs", bare.home / "elsewhere")):
        path = bare.home / claude_log(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lines(claude_line("user", f"u-{name}", f"{name} is this", cwd=str(folder))))
    bare("ingest")
