"""Commands and errors in words that recur: without what differs from call to call."""

from __future__ import annotations

import pytest

from backstory.derive.call_words import error_words, reading_words, script_words
from backstory.model import ToolCall
from tests.support.every import every


def shell(command: str) -> ToolCall:
    return ToolCall(tool_name="Bash", tool="SHELL", input={"command": command})


@every(
    ("command", "words"),
    [
        ("cd x && go test -run A ./... 2>&1 | tail -5", ("go", "test")),
        ("mise run fmt && mise run lint 2>&1", ("mise", "run", "lint")),
        ("gh pr checks 185", ("gh", "pr", "checks")),
        ("/usr/bin/python3 -c 'import yaml'", ()),
        ("python3 - <<E\nprint(1)\nE", ()),
        ("python3 scripts/make.py --all", ("python3", "scripts/make.py")),
        ("uv run x && python -m pytest -q", ("python", "-m", "pytest")),
        ("git -C /x log", ("git",)),
        ("cat a.txt | head -3", ("cat",)),
        ("cd x && echo hi", ()),
        ("grep -r x . | wc -l", ("grep",)),
    ],
)
def test_a_script_is_named_by_what_it_is_for(command: str, words: tuple[str, ...]) -> None:
    assert script_words(shell(command)) == words


def test_a_tool_that_runs_no_commands_has_no_words() -> None:
    assert script_words(ToolCall(tool_name="Read", tool="READ", input={"command": "ls"})) == ()


@every(
    "command",
    [
        "git push", "git diff > a.txt", "ls; rm a", "cat a | tee b", "find . -delete", "sort -o a b",
        "git log && git reset", "gh pr merge 3", "git", "sed -i s/a/b/ c", "", "git $VERB", "gh api x",
    ],
)  # fmt: skip
def test_what_may_change_something_does_not_only_read(command: str) -> None:
    assert reading_words(shell(command)) == ()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cd /x && git log --oneline -5 | head", ("git", "log")),
        ("ls docs 2>/dev/null", ("ls",)),
        ("gh pr view 12 --json title", ("gh", "pr", "view")),
    ],
)
def test_what_only_reads_is_named_by_its_first_command(command: str, words: tuple[str, ...]) -> None:
    assert reading_words(shell(command)) == words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("File /a/b.py does not exist.", "File /c.txt does not exist."),
        ("Exit code 1\n2 issues:\n* errcheck: 2", "13 issues:\n* errcheck: 13"),
        ("Error: commit 1a2b3c4d is not here", "commit deadbeef0 is not here"),
    ],
)
def test_the_same_error_has_the_same_words(one: str, other: str) -> None:
    assert error_words(one) == error_words(other) != ""


def test_different_errors_have_different_words() -> None:
    assert error_words("File not found") != error_words("File not readable")
