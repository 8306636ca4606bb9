"""What a shell command surely runs: taken apart without a shell, and never wrongly."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.derive import shell_parse
from backstory.derive.shell_parse import simple_commands
from tests.support.every import every

WORDS = [
    ("cat a b", [["cat", "a", "b"]]),
    ("cat 'a b' \"c d\" e\\ f", [["cat", "a b", "c d", "e f"]]),
    ("cat a\"b\"'c'", [["cat", "abc"]]),
    ("a && b || c; d & e | f |& g\nh", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"], ["h"]]),
    ("cat a \\\n  b", [["cat", "a", "b"]]),
    ("cat a # not b", [["cat", "a"]]),
    ("cat a#b", [["cat", "a#b"]]),
    ('cat $A "$B" `c` $(d) "x$(e "f)")" g', [["cat", None, None, None, None, None, "g"]]),
    ("cat *.py a? [ab] {a,b} {a} '*'", [["cat", None, None, None, None, "{a}", "*"]]),
    ("X=1 Y=2 cat a", [["cat", "a"]]),
    ("sudo env A=b timeout -k 1 10 cat a", [["cat", "a"]]),
    ("timeout 10 cat a", [["cat", "a"]]),
    ("bash -lc 'cat a && rm b'", [["cat", "a"], ["rm", "b"]]),
    ("/bin/sh -c \"cat 'a b'\"", [["cat", "a b"]]),
    ("cat <<EOF\nrm x\nEOF\ncat b", [["cat"], ["cat", "b"]]),
    ("cat <<-'EOF'\n\trm x\n\tEOF\ncat b", [["cat"], ["cat", "b"]]),
    ("cat <<A <<B\n1\nA\n2\nB\ncat c", [["cat"], ["cat", "c"]]),
    ("cat <<EOF\nrm x\n", [["cat"]]),
    ("cat <<< 'x' && cat b", [["cat"], ["cat", "b"]]),
    (
        "git commit -m \"$(cat <<'EOF'\nit's (one\nEOF\n)\" && git push",
        [["git", "commit", "-m", None], ["git", "push"]],
    ),
    ("cat 'not closed", [["cat", None]]),
    ('cat "not closed', [["cat", None]]),
    ("cat $(not closed", [["cat", None]]),
    ("", []),
]


@every(("script", "words"), WORDS)
def test_a_script_is_its_simple_commands(script: str, words: list[list[str | None]]) -> None:
    assert [each.words for each in simple_commands(script)] == words


REDIRECTIONS = [
    ("cat < a > b", ["a"], ["b"]),
    ("x >> a 2> b", [], ["a", "b"]),
    ("x &> a", [], ["a"]),
    ("x >& a", [], ["a"]),
    ("x >| 'a b'", [], ["a b"]),
    ("x > $A", [], [None]),
    ("x 2>&1 >&2 2>&-", [], []),
    ("x <<EOF > a\nb\nEOF", [], ["a"]),
    ("diff <(a)", [], []),
]


@every(("script", "reads", "writes"), REDIRECTIONS)
def test_redirections_are_kept_apart_from_words(script: str, reads: list[str | None], writes: list[str | None]) -> None:
    first = simple_commands(script)[0]
    assert (first.reads, first.writes) == (reads, writes)


SURE = [
    ("a || rm x; rm y", ["rm y"]),
    ("a || rm x && rm y", ["rm y"]),
    ("a || b | rm x\nrm y", ["rm y"]),
    ("if a; then rm x; else rm y; fi; rm z", ["rm z"]),
    ("for f in a b; do rm x; done; rm z", ["rm z"]),
    ("while a; do rm x; done\nrm z", ["rm z"]),
    ("case x in a) rm x;; esac; rm z", ["rm z"]),
    ("f() { rm x; }; rm z", ["rm z"]),
    ("function f { rm x; }; rm z", ["rm z"]),
    ("{ rm x; }; rm z", ["rm x", "rm z"]),
    ("if (a); then rm x; fi; rm z", ["rm z"]),
    ("! rm x", ["rm x"]),
    ("a || bash -c 'rm x'", []),
]


@every(("script", "sure"), SURE)
def test_what_may_not_run_is_conditional(script: str, sure: list[str]) -> None:
    found = [each.words for each in simple_commands(script) if not each.conditional]
    assert [" ".join(map(str, words)) for words in found if words[0] == "rm"] == sure


FOLDERS = [
    ("cat a", ""),
    ("cd b && cat a", "b"),
    ("cd b && cd c && cat a", "b/c"),
    ("cd /b; cat a", "/b"),
    ("cd; cat a", "~"),
    ("cd $B && cat a", None),
    ("cd - && cat a", None),
    ("popd; cat a", None),
    ("cd $B; cd /c; cat a", "/c"),
    ("(cd b; x); cat a", ""),
    ("(cd b; cat a)", "b"),
    ("x || cd b; cat a", None),
    ("cd b && bash -c 'cd c && cat a'", "b/c"),
]


@every(("script", "folder"), FOLDERS)
def test_a_command_runs_where_cd_led(script: str, folder: str | None) -> None:
    (found,) = [each.folder for each in simple_commands(script) if each.words[0] == "cat"]
    assert found == folder


def test_a_script_may_be_given_as_words() -> None:
    assert shell_parse.script_of({"command": ["bash", "-lc", "cat 'a b'"]}) == "bash -lc 'cat '\"'\"'a b'\"'\"''"


@pytest.mark.parametrize(
    ("name", "tool", "is_shell"),
    [("Bash", "", True), ("exec_command", "SHELL", True), ("powershell", "SHELL", False), ("Read", "READ", False)],
)
def test_only_posix_shells_are_read_as_such(name: str, tool: str, is_shell: bool) -> None:
    assert shell_parse.is_shell(name, tool) == is_shell


def test_a_command_that_is_too_long_is_not_taken_apart() -> None:
    assert simple_commands("cat " + "a" * shell_parse.COMMAND_CHARS_MAX) == []
    assert simple_commands("cat a <<E\n" + "b" * shell_parse.COMMAND_CHARS_MAX + "\nE\n") != []


PIECES = st.sampled_from([
    "a", " ", "\n", "'", '"', "\\", "$", "(", ")", "{", "}", "`", "<<E", "E", ">", "<", "|", "&", ";", "#", "if", "fi",
    "cd", "bash -c", "$(", "*", "=", "é", "\0",
])  # fmt: skip


@given(st.lists(PIECES).map("".join))
def test_any_text_is_taken_apart_without_a_fault(script: str) -> None:
    for each in simple_commands(script):
        assert each.words or each.reads or each.writes


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["$(", '"$(', "'", "<<E\n", "cat <<E\n", "{a", "(", ">", "\\", "`", "rm a;", "${", "if "]
)
def test_long_nonsense_takes_linear_time(piece: str) -> None:
    begun = time.process_time()
    simple_commands(piece * 1_000_000)
    simple_commands(piece * (shell_parse.COMMAND_CHARS_MAX // len(piece)))
    assert time.process_time() - begun < 5
