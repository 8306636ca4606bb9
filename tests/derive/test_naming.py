"""What sessions and projects are called."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backstory.derive.naming import headline, project_name, title_of
from tests.support.every import every

PLAN = "Implement the following plan:\n\n"
HEADLINES = [
    ("go on with the tests", "go on with the tests"),
    ("\n\nRead the instructions.\nThen go on.", "Read the instructions."),
    (f"{PLAN}# Fix: Update version check cache\n\n## Context", "Fix: Update version check cache"),
    (f"{PLAN}# Plan: Change the default to off\n", "Change the default to off"),
    (f"{PLAN}# Implementation Plan: `entire reset` Command", "`entire reset` Command"),
    (f"{PLAN}As we said:\n\n## Two steps\n", "Two steps"),
    (f"{PLAN}1. rename it\n2. test it", "1. rename it"),
    (PLAN, "Implement the following plan:"),
    ("## Task 5: Add summaries\n\nAdd them.", "Task 5: Add summaries"),
    ("```\nTypeError: x is no function\n```\nwhy?", "TypeError: x is no function"),
    ("---\n***\nwhat is this about, really?", "what is this about, really?"),
    ("brainstorm:\n- automatic summaries\n- more", "brainstorm: - automatic summaries"),
    ("fix\n\n```\nit\n```", "fix it"),
    ("Reply with exactly the word: ok", "Reply with exactly the word: ok"),
    ("❯  git\tstatus  says nothing new", "❯ git status says nothing new"),
    ("???", "???"),
    ("", ""),
]


@every(("prompt", "told"), HEADLINES)
def test_a_headline_is_the_first_line_that_says_what_a_prompt_is_about(prompt: str, told: str) -> None:
    assert headline(prompt) == told


@given(st.text(alphabet="#`~-: \n\tab?é\0") | st.text())
def test_a_headline_is_one_line_and_empty_only_where_the_prompt_is(prompt: str) -> None:
    found = headline(prompt)
    assert found == " ".join(found.split())
    assert bool(found) == bool(prompt.strip())


def test_what_a_person_called_a_session_comes_before_what_its_agent_did() -> None:
    assert title_of("mine", "its", "go") == "mine"
    assert title_of("", "its\nown", "go") == "its own"
    assert title_of("", " ", "go") == "go"
    assert title_of(None, None, None) == ""


PROJECTS = [
    (("github.com/me/tool", "me/tool", "/w/tool", "/w/tool"), "me/tool"),
    (("example.org/git/group/tool", None, None, "/w/tool"), "group/tool"),
    (("/w/tool", None, "/w/tool", "/w/tool"), "tool"),
    (("/w/tool", None, None, "/w/tool/src"), "tool"),
    (("/home/me/w/tool", None, None, "/home/me/w/tool"), "w/tool"),
    (("/w/tool/.worktrees/fix-1", None, None, "/w/tool/.worktrees/fix-1"), "w/tool"),
    (("/w/tool/.claude/worktrees/fix-1", None, None, "/w/tool/.claude/worktrees/fix-1"), "w/tool"),
    (("C:\\work\\tool", None, None, "C:\\work\\tool"), "work/tool"),
    ((None, None, None, "/"), ""),
    ((None, None, None, None), ""),
]


@every(("known", "name"), PROJECTS)
def test_a_project_is_called_by_its_repository_else_by_its_folder(known: tuple[str | None, ...], name: str) -> None:
    assert project_name(*known) == name
