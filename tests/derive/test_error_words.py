"""What two errors, and two commands, have in common."""

from __future__ import annotations

import doctest

import pytest

from backstory.derive import error_words
from backstory.derive.error_words import (
    alike,
    command_words,
    key_lines,
    normal,
    only_looks,
    rare_words,
    same_command,
    says_failure,
    words,
)
from tests.support.clock import least_cpu_seconds
from tests.support.every import every


def test_the_examples_are_true() -> None:
    assert doctest.testmod(error_words).failed == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/home/a/w/main.go:12:5: undefined: Foo", "C:\\w\\main.go:99: undefined: Foo"),
        ("E   KeyError: 'name' at 0x7f3a91bc (0.31s)", "E   KeyError: 'name' at 0x11111111 (12s)"),
        ("commit 3f2a91bc0d not found", "commit 99aa00bb11cc not found"),
        ("src/app.ts(10,5): error TS2304", "lib/app.ts(99,1): error TS2304"),
        ("File \"/x/y.py\", line 10, in f", "File \"/z/y.py\", line 2000, in f"),
    ],
)  # fmt: skip
def test_what_differs_each_time_does_not_count(one: str, other: str) -> None:
    assert normal(one) == normal(other)


def test_what_says_something_counts() -> None:
    assert normal("undefined: Foo") != normal("undefined: Bar")
    assert words("TS2304") != words("TS2305") or normal("error TS2304") == normal("error TS2305")


@pytest.mark.parametrize(
    ("asked", "printed", "is_like"),
    [
        (["ModuleNotFoundError: No module named 'yaml'"], "Trace\nModuleNotFoundError: No module named 'yaml'", True),
        (["ModuleNotFoundError: No module named 'yaml'"], "ModuleNotFoundError: No module named 'requests'", True),
        (["undefined: Foo"], "all tests passed", False),
        (["error: failed"], "nothing of the kind", False),
        (["E  assert zebra == gnu"], "E  assert okapi == tapir", False),
    ],
)  # fmt: skip
def test_how_much_of_an_error_is_in_a_text(asked: list[str], printed: str, is_like: bool) -> None:
    assert (alike([words(each) for each in asked], printed).score() >= 0.5) == is_like


def test_the_same_error_is_more_alike_than_one_of_another_name() -> None:
    asked = [words("No module named 'yaml'")]
    assert alike(asked, "No module named 'yaml'").score() == 1.0 > alike(asked, "No module named 'json'").score()


def test_the_lines_that_tell_come_first() -> None:
    text = "\n".join([*(f"ok {n}" for n in range(20)), "--- FAIL: TestX (0.1s)", "x.go:1: undefined: y", "done"])
    assert key_lines(text) == ["--- FAIL: TestX (0.1s)", "x.go:1: undefined: y"]
    assert key_lines("") == [] == key_lines(" \n…\n")


@every(
    ("one", "other", "are_same"),
    [
        ("go test ./...", "cd /w && go test ./... 2>&1 | tail -50", True),
        ("go test ./a -run TestX", "go test ./a -run TestX -v", True),
        ("npm run build", "npm run build --verbose", True),
        ("git show abc --no-stat", "git show abc", True),
        ("npm run build", "npm run lint", False),
        ("git merge origin/x", "git fetch origin x", False),
        ("make lint", "make build", False),
        ("mise run fmt && mise run lint", "mise run fmt", False),
        ("mise run lint", "mise run fmt && mise run lint", True),
        ("go test ./a", "go test ./b", False),
        ("cd /w", "cd /w", False),
        ("", "", False),
    ],
)  # fmt: skip
def test_which_commands_are_the_same(one: str, other: str, are_same: bool) -> None:
    assert same_command(command_words(one), command_words(other)) == are_same


@every(
    ("text", "fails"),
    [
        ("--- FAIL: TestX", True), ("  FAILED tests/x.py::y", True), ("error: no such option", True),
        ("3 failed, 1 passed", True), ("fatal: not a git repository", True), ("zsh: command not found: foo", True),
        ("0 failed", False), ("all good", False),
        ("errors are handled in handler.go", False), ("10 passed", False),
    ],
)  # fmt: skip
def test_an_output_says_failure_whatever_the_exit_code_is(text: str, fails: bool) -> None:
    assert says_failure(f"first line\n{text}\nlast line") == fails


def test_commands_that_only_look_are_no_repair() -> None:
    assert all(map(only_looks, ["git status", "ls -la", "cd x && git diff | head", "grep -rn x .", "cat a"]))
    assert not any(map(only_looks, ["git commit -m x", "npm install", "git status && rm x", "go mod tidy"]))


def test_rare_words_leave_common_ones_out() -> None:
    assert rare_words("error: cannot find module 'left-pad' (0.1s)", 2) == ["left-pad", "module"]


PIECES = [*"a \t/0-\\'e\n", "a/", "0.", "Error", "a:1", "\n ", "0f", "a && ", "| ", "(1,", "0x", "1:", "/a", "a.", "~/"]


@every("piece", PIECES)
def test_no_text_takes_long(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))

    def read() -> None:
        key_lines(text), says_failure(text), command_words(text), rare_words(text, 5)
        alike([words(text), words("x")], text)

    assert least_cpu_seconds(read, 3) < 3
