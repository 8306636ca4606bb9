"""What a shell is offered while a command is typed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.shell_completion import BashComplete, CompletionItem

from backstory import open_store
from backstory.cli import cli
from backstory.model import Tool
from backstory.store.tables import sessions

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow


class Typing:
    """A line that is being typed."""

    def items(self, *words: str) -> list[CompletionItem]:
        return BashComplete(cli, {}, "backstory", "_BACKSTORY_COMPLETE").get_completions(list(words[:-1]), words[-1])

    def __call__(self, *words: str) -> list[str]:
        return [item.value for item in self.items(*words)]


@pytest.fixture
def typing(read_once: Shell, monkeypatch: pytest.MonkeyPatch) -> Typing:
    """On a machine whose logs were read."""
    for name, value in read_once.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(read_once.cwd)
    return Typing()


def test_sessions_are_offered_by_short_ids_with_their_titles(typing: Typing, read_once: Shell) -> None:
    items = typing.items("show", "")
    assert len(items) > 5
    with open_store(read_once.store) as store:
        for item in items:
            assert len(item.value) < 26
            assert store.session(item.value).shown_title.startswith((item.help or "").removesuffix("…"))


def test_a_session_is_offered_by_the_start_of_its_uid(typing: Typing) -> None:
    (first, *_) = typing("show", "")
    assert first in typing("show", first[:6].lower())
    assert typing("show", first) == [first]


def test_a_session_is_offered_by_words_of_its_title(typing: Typing) -> None:
    titled = [item for item in typing.items("show", "") if item.help and " " in item.help]
    wanted = titled[0]
    *_, last = (wanted.help or "").removesuffix("…").split()
    for words in (last, last.upper(), f"{last} {(wanted.help or '').split()[0]}"):
        assert wanted.value in typing("show", words)
    assert typing("show", "no-title-has-this") == []


@pytest.mark.parametrize("words", [("list", "-a"), ("search", "--agent"), ("ingest", "-a")])
def test_agents_are_offered_with_their_titles(typing: Typing, words: tuple[str, ...]) -> None:
    assert typing(*words, "c") == ["claude", "cline", "codex", "copilot"]
    assert [item.help for item in typing.items(*words, "cl")] == ["Claude Code", "Cline"]


@pytest.mark.parametrize("words", [("run", "-a"), ("followup", "--agent")])
def test_only_agents_that_take_prompts_are_offered_for_one(typing: Typing, words: tuple[str, ...]) -> None:
    assert typing(*words, "") == ["claude", "codex"]


def test_repositories_are_offered_by_their_names_with_and_without_owner(typing: Typing, read_once: Shell) -> None:
    with open_store(read_once.store) as store:
        (name, *_) = store.ask_or([], sessions.repositories)
    owner, _, last = name.rpartition("/")
    assert name in typing("search", "--repo", owner[:3])
    assert last in typing("search", "--repo", last[:4])


def test_items_of_the_board_are_offered(bare: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    typing = Typing()
    for name, value in bare.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(bare.cwd)
    for name in ("build-notes", "deploy"):
        bare("board", "add", name, "text")
    assert typing("board", "show", "b") == ["build-notes"]
    assert typing("board", "rm", "") == ["build-notes", "deploy"]
    assert typing("board", "show", "--branch", "other", "") == []


def test_git_branches_are_offered(typing: Typing, read_once: Shell) -> None:
    with open_store(read_once.store) as store:
        branches = store.ask_or([], sessions.git_branches)
    assert branches
    assert typing("search", "--branch", "") == branches
    assert typing("search", "--branch", branches[0][:2]) == [each for each in branches if each[:2] == branches[0][:2]]


def test_tools_formats_and_permissions_are_offered(typing: Typing) -> None:
    assert typing("search", "--tool", "") == [tool.value.lower() for tool in Tool]
    assert typing("export", "--format", "") == ["json", "md", "html", "atif", "ah", "azs", "claude", "codex", "copilot"]
    assert typing("run", "--permissions", "e") == ["edit"]


def test_settings_are_offered_with_their_meanings(typing: Typing) -> None:
    assert typing("config", "set", "run.p") == ["run.permissions"]
    assert typing("config", "get", "agents.") == ["agents.claude", "agents.codex"]
    assert [item.help for item in typing.items("config", "get", "list.l")] == [
        "number of sessions that `list` shows (0: all)"
    ]


def test_names_of_sessions_are_offered_unless_a_shell_would_take_them_apart(
    machine: Shell, typing: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTORY_HOME", str(machine.store.parent))
    uids = typing("show", "")
    machine("rename", uids[0], "oauth-fix")
    machine("rename", uids[1], "oauth; rm")
    assert typing("run", "--name", "oa") == ["oauth-fix"]
    assert typing("show", "oauth") == uids[:2]


def test_commands_are_offered_behind_help(typing: Typing) -> None:
    assert typing("help", "qu") == ["queue"]
    assert typing("help", "queue", "l") == ["list"]
    assert typing("help", "search", "") == []


def test_commands_are_offered_where_a_session_may_be_one(typing: Typing, read_once: Shell) -> None:
    assert typing("tree", "bran")[0] == "branches"
    assert typing("tree", "-S", "bran") == typing("show", "bran")
    assert typing("tree", "")[-len(typing("show", "")) :] == typing("show", "") != []
    assert typing("tree", "scan", "") == typing("show", "")


def test_nothing_is_offered_where_nothing_was_read(
    typing: Typing, bare: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTORY_HOME", str(bare.home / "none"))
    assert typing("show", "") == []
    assert typing("search", "--repo", "") == typing("search", "--branch", "") == []
    assert not (bare.home / "none").exists()


def test_bash_completes_what_is_typed(read_once: Shell, typing: Typing) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    folder = read_once.home / "bash"
    folder.mkdir(exist_ok=True)
    (folder / "backstory").write_text(
        f"#!{sys.executable}\nfrom backstory.cli import cli\ncli(prog_name='backstory')\n"
    )
    (folder / "backstory").chmod(0o755)
    line = (
        "source <(backstory completion bash); COMP_WORDS=(backstory search --agent cop); COMP_CWORD=3; "
        'f=$(complete -p backstory | grep -o "[^ ]*completion"); $f backstory; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [bash, "-c", line], env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout == "copilot\n", done.stderr
