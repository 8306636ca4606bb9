"""``config`` as people use it: what is set, where, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.forked import COMMAND
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from tests.support.shell import Done, Shell

pytestmark = pytest.mark.slow

REFUSED, WRONG = 64, 78


@pytest.fixture
def programs(bare: Shell) -> Path:
    """A PATH of its own, with a program called claude."""
    folder = bare.home / "bin"
    folder.mkdir()
    (folder / "claude").write_text("#!/bin/sh\n")
    (folder / "claude").chmod(0o755)
    bare.environ["PATH"] = str(folder)
    return folder


def own_file(bare: Shell, text: str) -> Path:
    file = bare.home / "backstory" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def line_of(done: Done, key: str) -> str:
    (line,) = [line for line in done.out.splitlines() if line.startswith(f"{key} = ")]
    return line.removeprefix(f"{key} = ")


def test_values_are_listed_as_they_are_typed_with_where_they_come_from(bare: Shell) -> None:
    file = own_file(bare, "[run]\npermissions = 'edit'\n[ingest]\nagents = ['claude', 'codex']\n")
    done = bare("config", "list")
    assert line_of(done, "run.permissions") == f"edit  ({file})"
    assert line_of(done, "ingest.agents") == f"claude, codex  ({file})"
    assert line_of(done, "ingest.exclude") == "(empty)  (default)"
    assert line_of(done, "list.limit") == "50  (default)"


def test_lines_break_between_words_on_a_terminal(bare: Shell) -> None:
    file = own_file(bare, "[index]\nrepositories = ['github.com/me/a-long-name', 'github.com/me/another-long-name']\n")
    with Terminal([*COMMAND, "config", "list"], bare.cwd, bare.environ | {"PAGER": "cat"}, width=60) as terminal:
        shown = terminal.end().splitlines()
    (begins,) = [n for n, line in enumerate(shown) if line == "index.repositories ="]
    value = " ".join(line.strip() for line in shown[begins + 1 : begins + 5])
    assert value.startswith("github.com/me/a-long-name, github.com/me/another-long-name")
    assert [line for line in shown if len(line) > 60 and str(file) not in line] == []
    assert "    summarise a context from this many characters on (0:" in shown


def test_the_programs_of_agents_are_listed_with_what_is_found(bare: Shell, programs: Path) -> None:
    done = bare("config", "list")
    assert line_of(done, "agents.claude") == f"(found: {programs / 'claude'})  (default)"
    assert line_of(done, "agents.codex") == "(not found)  (default)"
    found = {row["key"]: row.get("found") for row in bare("config", "list", "--json").json()["settings"]}
    assert (found["agents.claude"], found["agents.codex"]) == (str(programs / "claude"), None)


def test_of_a_program_that_is_set_its_file_is_listed(bare: Shell, programs: Path) -> None:
    (programs / "claude-next").symlink_to(programs / "claude")
    file = own_file(bare, f"[agents]\nclaude = 'claude-next'\ncodex = '{programs / 'gone'}'\n")
    done = bare("config", "list")
    assert line_of(done, "agents.claude") == f"claude-next (found: {programs / 'claude-next'})  ({file})"
    assert line_of(done, "agents.codex") == f"{programs / 'gone'} (not found)  ({file})"


def test_a_program_that_is_not_there_is_set_with_a_word(bare: Shell, programs: Path) -> None:
    assert "There is no program /nope on this machine yet." in bare("config", "set", "agents.codex", "/nope").err
    assert "no program" not in bare("config", "set", "agents.claude", str(programs / "claude")).err


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("run.permissions", "foo", "it must be one of agent, ask, edit, all"),
        ("list.limit", "-3", "it must be from 0 to"),
        ("run.agent", "foo", "no agent is called 'foo'"),
        ("run.agent", "copilot", "only its logs are read"),
        ("agents.ah", "/bin/true", "only its logs are read"),
    ],
)
def test_a_wrong_value_is_refused_and_not_written(bare: Shell, key: str, value: str, why: str) -> None:
    done = bare("config", "set", key, value)
    assert done.code == REFUSED
    assert done.err.startswith(f"backstory: {key} cannot be '{value}': {why}")
    assert not (bare.home / "backstory" / "config.toml").exists()


WRITTEN = [
    ("[run]\npermissions = 'foo'\n", "run.permissions", ("run", "-a", "claude", "hi")),
    ("[run]\nagent = 'foo'\n", "run.agent", ("run", "hi")),
    ("[run]\nsilence_s = 1e3\n", "run.silence_s", ("run", "-a", "claude", "hi")),
    ("[run]\ncontext_chars = 99999999999999999999999\n", "run.context_chars", ("run", "-a", "claude", "hi")),
    ("[agents]\nclaude = './claude'\n", "agents.claude", ("run", "-a", "claude", "hi")),
    ("[ingest]\nagents = ['foo']\n", "ingest.agents", ("ingest",)),
    ("[ingest]\nexclude = '*'\n", "ingest.exclude", ("ingest",)),
    ("[search]\nlimit = 0\n", "search.limit", ("search", "words")),
]


@pytest.mark.parametrize(("text", "key", "words"), WRITTEN, ids=[key for _, key, _ in WRITTEN])
def test_a_wrong_value_in_the_file_is_an_error_that_names_both(
    bare: Shell, text: str, key: str, words: tuple[str, ...]
) -> None:
    file = own_file(bare, text)
    done = bare(*words)
    assert done.code == WRONG, done.err
    assert f"backstory: {file}: {key}: " in done.err
    assert "Traceback" not in done.err


def test_all_settings_are_listed_beside_a_wrong_one_and_it_can_be_set_right(bare: Shell) -> None:
    file = own_file(bare, "[run]\npermissions = 'foo'\n[list]\nlimit = 7\n")
    done = bare("config", "list")
    assert done.code == WRONG
    assert line_of(done, "run.permissions") == f"wrong: it must be one of agent, ask, edit, all  ({file})"
    assert line_of(done, "list.limit") == f"7  ({file})"
    wrong = {row["key"]: row["wrong"] for row in bare("config", "list", "--json").json()["settings"] if row["wrong"]}
    assert wrong == {"run.permissions": "it must be one of agent, ask, edit, all"}
    assert bare("config", "set", "run.permissions", "ask").code == 0
    assert bare("config", "list").code == 0
    assert bare("config", "get", "run.permissions").out == "ask\n"
