"""Conversations of ah are trees: ``show`` tells the current branch, and the others behind it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.support.ah_files import FOLDER, AhFile, call, result

if TYPE_CHECKING:
    from tests.support.shell import Shell


def file_of(shell: Shell) -> AhFile:
    return AhFile(shell.home / FOLDER.name / "alpha.db")


def shown(shell: Shell) -> list[tuple[str, str]]:
    """The heads of turns, and what was said in them, in order."""
    assert shell("ingest").code == 0
    (session,) = shell("list", "--all", "--json").json()["sessions"]
    return re.findall(r"^── (turn \d+).*$|^@\d+ +(?:❯ )?(.*?)$", shell("show", session["uid"]).out, re.MULTILINE)


def words(found: list[tuple[str, str]]) -> list[str]:
    return [turn or said for turn, said in found]


def test_branches_that_were_written_in_turns_are_told_one_after_the_other(bare: Shell) -> None:
    file = file_of(bare)
    file.user("one", parent=None)
    first = file.answer("said one")
    file.user("two")
    second = file.answer("said two")
    file.user("two b", parent=first)
    other = file.answer("said two b")
    file.user("three", parent=second)
    third = file.answer("said three")
    file.user("three b", parent=other)
    file.answer("said three b")
    file.know("current_message", third)
    told = words(shown(bare))
    assert [each for each in told if not each.startswith("turn")] == [
        "one", "said one", "two", "said two", "three", "said three", "two b", "said two b", "three b", "said three b",
    ]  # fmt: skip


def test_a_turn_that_a_branch_left_behind_a_call_is_told_whole(bare: Shell) -> None:
    file = file_of(bare)
    file.user("one", parent=None)
    asked = file.answer("I look.", call("bash", "t1", command="ls"))
    done = file.message("user", result("t1", "a.txt"))
    file.user("other way", parent=done)
    file.answer("said otherwise")
    last = file.answer("said one", parent=done)
    file.know("current_message", last)
    told = words(shown(bare))
    assert asked
    assert [each for each in told if each.startswith("turn")] == ["turn 1", "turn 2"]
    assert told.index("said one") < told.index("turn 2") < told.index("said otherwise")
