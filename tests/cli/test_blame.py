"""``report blame``: the sessions and turns behind lines, commits and pull requests, in repositories of real git."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from backstory.derive.phrasing import prompt_for
from tests.support.blamed import HOUR, OTHER, SESSION, Place, of_lines
from tests.support.going import until

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

BASE = "def price(count):\n    total = count * 3\n    return total\n"
HUMAN = "no session"


@pytest.fixture
def place(bare: Shell) -> Place:
    """A repository with a file that a person wrote."""
    place = Place(bare)
    place.put("a.py", BASE)
    place.commit("Begin")
    return place


def test_a_line_that_an_edit_put_there_is_the_turns_and_the_others_are_nobodys(place: Place) -> None:
    place.agent().ask("Add tax").edit("a.py", "    total = count * 3\n", "    total = count * 3\n    total *= 1.19\n")
    commit = place.commit("Add tax")
    report = place.blame("a.py")
    assert of_lines(report) == [HUMAN, HUMAN, "wrote it Add tax", HUMAN]
    run = report["files"][0]["runs"][1]
    assert (run["first"], run["because"], run["hash"], run["turn_seq"]) == (3, "edit", commit, 1)
    shown = place.shell(*run["show"].split()[1:])
    assert shown.code == 0
    assert "Add tax" in shown.out


def test_a_line_that_a_person_wrote_later_is_not_the_turns(place: Place) -> None:
    place.agent().ask("Add tax").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax")
    place.wait(2 * HOUR)
    place.replace("a.py", "total *= 1.19", "total *= 1.16")
    place.commit("Lower tax")
    assert place.lines("a.py") == [HUMAN] * 4


def test_a_line_that_a_person_changed_within_the_hour_is_not_written_by_the_turn(place: Place) -> None:
    place.agent().ask("Add tax").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.replace("a.py", "total *= 1.19", "total *= 1.16")
    place.commit("Add tax")
    # The turn changed the file within the hour before the commit, which is what likely means.
    assert place.lines("a.py") == [HUMAN, HUMAN, "likely Add tax", HUMAN]


def test_likely_ends_an_hour_after_the_edit(place: Place) -> None:
    place.agent().ask("Add tax").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.wait(HOUR)
    place.replace("a.py", "total *= 1.19", "total *= 1.16")
    place.commit("Add tax")
    assert place.lines("a.py") == [HUMAN] * 4


APPENDED = "\n\ndef tax_of(total):\n    return total * 0.19\n"
SCRIPT = "printf '\\n\\ndef tax_of(total):\\n    return total * 0.19\\n' >> a.py"


def append(place: Place) -> None:
    """A session appends lines by its shell."""
    place.agent().ask("Add a function").run(SCRIPT)
    (place.root / "a.py").write_text(BASE + APPENDED)


def test_lines_that_a_shell_appended_are_likely_its_calls(place: Place) -> None:
    append(place)
    report = place.blame("a.py")
    assert of_lines(report) == [HUMAN] * 3 + ["likely Add a function"] * 4
    run = report["files"][0]["runs"][1]
    assert (run["because"], run["turn_seq"], run["seq"], run["hash"]) == ("shell", 1, 2, None)
    assert "@1 · at @2 · claude" in (text := place.shell("chronicle", "blame", "a.py").out)
    assert "Add a function · by its shell · commit not committed" in text
    # However long a person takes to commit it.
    place.wait(9 * HOUR)
    place.commit("Add a function")
    assert place.lines("a.py") == [HUMAN] * 3 + ["likely Add a function"] * 4


def test_a_line_that_no_shell_names_is_the_persons_though_one_changed_the_file(place: Place) -> None:
    append(place)
    place.put("a.py", BASE + APPENDED + "RATE = 0.19\n")
    assert place.lines("a.py")[3:] == ["likely Add a function"] * 4 + [HUMAN]


def test_what_a_shell_appended_before_the_last_commit_makes_no_later_line_likely(place: Place) -> None:
    append(place)
    place.commit("Add a function")
    place.put("a.py", BASE)
    place.commit("Take it away")
    place.put("a.py", BASE + APPENDED)
    assert place.lines("a.py") == [HUMAN] * 7


def test_folders_that_are_gone_whose_sessions_wrote_lines_of_a_file_are_named(place: Place) -> None:
    gone = place.shell.home / "elsewhere"
    for name in ("one", "two", "other"):
        (folder := gone / name).mkdir(parents=True)
        (folder / "a.py").write_text(BASE)
        new = "    total -= 1\n" if name == "other" else "    total *= 1.19\n"
        agent = place.agent(f"{name}{SESSION[len(name) :]}", folder=folder).ask(f"Add tax in {name}")
        agent.edit("a.py", "    return total\n", f"{new}    return total\n")
    shutil.rmtree(gone)
    place.replace("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax")
    report = place.blame("a.py")
    assert of_lines(report) == [HUMAN] * 4
    # What was done in the third is nowhere in the file.
    assert report["gone_folders"] == [str(gone / "one"), str(gone / "two")]
    said = place.shell("chronicle", "blame", "HEAD").out
    assert f"2 folders of sessions that wrote such lines are gone: {gone / 'one'}, {gone / 'two'}" in said
    assert place.shell("project", "move", str(gone / "one"), str(place.root)).code == 0
    report = place.blame("a.py")
    assert of_lines(report) == [HUMAN, HUMAN, "wrote it Add tax in one", HUMAN]
    assert report["gone_folders"] == []


def test_a_line_that_was_removed_and_typed_again_is_the_persons(place: Place) -> None:
    line = "    total *= 1.19\n"
    place.agent().ask("Add tax").edit("a.py", "    return total\n", f"{line}    return total\n")
    place.commit("Add tax")
    assert place.lines("a.py")[2] == "wrote it Add tax"
    place.wait(2 * HOUR)
    place.replace("a.py", line, "")
    place.commit("No tax")
    place.wait(2 * HOUR)
    place.replace("a.py", "    return total\n", f"{line}    return total\n")
    place.commit("Tax after all")
    assert place.lines("a.py") == [HUMAN] * 4


def test_a_line_that_a_later_edit_took_away_is_not_the_first_turns(place: Place) -> None:
    agent = place.agent().ask("Add tax").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    agent.ask("No tax").edit("a.py", "    total *= 1.19\n", "")
    place.wait(2 * HOUR)
    place.replace("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Tax by hand")
    assert place.lines("a.py") == [HUMAN] * 4


def test_a_file_written_whole_again_ends_what_was_written_before(place: Place) -> None:
    agent = place.agent().ask("Begin anew").write("b.py", "first_line = 1\nsecond_line = 2\n")
    agent.ask("Shorter").write("b.py", "second_line = 2\nthird_line = 3\n")
    place.wait(2 * HOUR)
    place.put("b.py", "first_line = 1\nsecond_line = 2\nthird_line = 3\n")
    place.commit("Add b")
    assert place.lines("b.py") == [HUMAN, "wrote it Begin anew", "wrote it Begin anew"]
    turns = [run["turn_seq"] for run in place.blame("b.py")["files"][0]["runs"]]
    assert turns == [None, 1, 4]


def test_a_reverted_commit_leaves_nothing_to_the_turn(place: Place) -> None:
    place.agent().ask("Fourfold").edit("a.py", "count * 3", "count * 4")
    place.commit("Fourfold")
    assert place.lines("a.py")[1] == "wrote it Fourfold"
    place.wait(60)
    place.git("revert", "--no-edit", "HEAD")
    # Git blames the revert for the old line; the turn had taken it away.
    assert not [line for line in place.lines("a.py") if line.startswith("wrote it")]


def test_a_revert_that_is_reverted_is_not_the_turns_work(place: Place) -> None:
    place.agent().ask("Fourfold").edit("a.py", "count * 3", "count * 4")
    place.commit("Fourfold")
    for _ in range(2):
        place.wait(2 * HOUR)
        place.git("revert", "--no-edit", "HEAD")
    assert place.lines("a.py") == [HUMAN] * 3


def test_a_rebase_changes_nothing(place: Place) -> None:
    place.git("switch", "-q", "-c", "tax")
    place.agent().ask("Add tax").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    before = place.commit("Add tax")
    place.git("switch", "-q", "main")
    place.wait(3 * HOUR)
    place.put("b.py", "other = 1\n")
    place.commit("Other work")
    place.git("switch", "-q", "tax")
    place.wait(3 * HOUR)
    place.git("rebase", "-q", "main")
    assert place.git("rev-parse", "HEAD") != before
    assert place.lines("a.py") == [HUMAN, HUMAN, "wrote it Add tax", HUMAN]
    assert of_lines(place.blame("HEAD")) == ["wrote it Add tax"]


def rebased(place: Place) -> str:
    """The branch as another person commits it again, hours later."""
    place.git("switch", "-q", "main")
    place.put("b.py", "other = 1\n")
    place.commit("Other work")
    place.git("switch", "-q", "tax")
    place.wait(3 * HOUR)
    place.git("rebase", "-q", "main")
    return place.git("rev-parse", "HEAD")


def test_what_an_edit_took_away_after_a_commit_was_authored_is_still_in_a_rebase_of_it(place: Place) -> None:
    place.git("switch", "-q", "-c", "tax")
    agent = place.agent().ask("Add tax").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax")
    agent.ask("Take it out").edit("a.py", "    total *= 1.19\n", "")
    place.git("checkout", "-q", "a.py")
    assert of_lines(place.blame(rebased(place))) == ["wrote it Add tax"]


def test_an_edit_after_a_commit_was_authored_did_not_write_the_rebase_of_it(place: Place) -> None:
    place.git("switch", "-q", "-c", "tax")
    place.replace("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax")
    place.wait(HOUR)
    other = place.agent().ask("The same").edit("a.py", "    total *= 1.19\n", "")
    other.edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    assert of_lines(place.blame(rebased(place))) == [HUMAN]


@pytest.mark.parametrize("is_rebased", [False, True])
def test_what_a_session_amended_its_commit_with_is_its_own(place: Place, is_rebased: bool) -> None:
    place.git("switch", "-q", "-c", "tax")
    agent = place.agent().ask("Add tax").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax")
    place.wait(HOUR)
    agent.ask("Round it").edit("a.py", "    total *= 1.19\n", "    total = round(total * 1.19, 2)\n")
    place.wait(20)
    place.git("commit", "-q", "-a", "--amend", "--no-edit")
    amended = place.git("rev-parse", "HEAD")
    # The call began before git did.
    place.wait(-15)
    agent.run("git commit -a --amend --no-edit", f"[tax {amended[:7]}] Add tax\n 1 file changed")
    assert of_lines(place.blame(rebased(place) if is_rebased else amended)) == ["wrote it Add tax"]


def test_who_amended_another_commit_wrote_nothing_of_this_one(place: Place) -> None:
    place.git("switch", "-q", "-c", "tax")
    place.replace("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax")
    other = place.agent().ask("The same").edit("a.py", "    total *= 1.19\n", "")
    other.edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    other.run("git commit -a --amend --no-edit", "[other 1a2b3c4] Something else\n 1 file changed")
    assert of_lines(place.blame(rebased(place))) == [HUMAN]


def test_a_squash_keeps_what_each_turn_wrote(place: Place) -> None:
    place.git("switch", "-q", "-c", "tax")
    agent = place.agent().ask("Add tax").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax")
    agent.ask("Add name").edit("a.py", "def price(count):\n", "NAME = 'price'\n\n\ndef price(count):\n")
    place.commit("Add name")
    place.git("switch", "-q", "main")
    place.wait(3 * HOUR)
    place.git("merge", "-q", "--squash", "tax")
    place.commit("Tax and name (#7)")
    report = place.blame("a.py")
    assert of_lines(report) == [*["wrote it Add tax"] * 3, HUMAN, HUMAN, "wrote it Add tax", HUMAN]
    assert [run["turn_seq"] for run in report["files"][0]["runs"]] == [4, None, 1, None]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("pyproject.toml", 'version = "1.3.0"'),
        ("package.json", '  "version": "2.0.0",'),
        ("poetry.lock", "content-hash = 1"),
        ("web/package-lock.json", '  "resolved": "https://example.org/x"'),
        ("app.min.js", "function a(){return 1}"),
        ("made.py", "made_by_hand = 2"),
    ],
)
def test_a_new_version_and_a_generated_line_are_never_likely(place: Place, path: str, line: str) -> None:
    place.put(".gitattributes", "made.py linguist-generated\n")
    place.put(path, "something = 1\n")
    place.commit("Add it")
    place.agent().ask("Look after it").edit(path, "something = 1\n", "something = 1\nlonger_line = 2\n")
    place.put(path, f"something = 1\nlonger_line = 2\n{line}\n")
    place.commit("Release")
    assert place.lines(path) == [HUMAN, "wrote it Look after it", HUMAN]


def test_a_line_of_another_kind_in_the_same_place_is_likely(place: Place) -> None:
    place.put("pyproject.toml", "something = 1\n")
    place.commit("Add it")
    place.agent().ask("Look after it").edit("pyproject.toml", "something = 1\n", "something = 1\nlonger_line = 2\n")
    place.put("pyproject.toml", "something = 1\nlonger_line = 2\nversion_of_it = parse(text)\n")
    place.commit("Release")
    assert place.lines("pyproject.toml")[2] == "likely Look after it"


def test_a_renamed_file_is_followed(place: Place) -> None:
    place.agent().ask("Add tax").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax")
    place.wait(2 * HOUR)
    place.git("mv", "a.py", "price.py")
    place.commit("A better name")
    assert place.lines("price.py") == [HUMAN, HUMAN, "wrote it Add tax", HUMAN]


def test_a_file_that_a_session_moved_before_it_was_ever_committed_is_followed(place: Place) -> None:
    agent = place.agent().ask("Begin b").write("b.py", "first_line = 1\nsecond_line = 2\n")
    agent.run("mv b.py c.py")
    (place.root / "b.py").rename(place.root / "c.py")
    place.commit("Add c")
    assert place.lines("c.py") == ["wrote it Begin b"] * 2


def test_lines_that_were_copied_are_those_who_wrote_them_first(place: Place) -> None:
    body = "".join(f"    step_{n} = prepare(count, {n}) + remainder\n" for n in range(8))
    place.agent().ask("Add steps").edit("a.py", "    return total\n", f"{body}    return total\n")
    place.commit("Add steps")
    place.wait(2 * HOUR)
    # Git finds copies from files that the same commit changed.
    place.put("b.py", f"def other(count):\n{body}    return step_1\n")
    place.replace("a.py", "    return total\n", "    return total + 1\n")
    place.commit("The same for b")
    assert place.lines("b.py") == [HUMAN, *["wrote it Add steps"] * 8, HUMAN]


def test_the_same_name_in_another_repository_is_another_file(place: Place) -> None:
    other = Place(place.shell, "other")
    other.now = place.now
    other.put("a.py", BASE)
    other.commit("Begin")
    other.agent().ask("Add tax there").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.now = other.now
    place.replace("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax by hand")
    assert place.lines("a.py") == [HUMAN] * 4


def test_a_repository_inside_of_this_one_is_another(place: Place) -> None:
    inner = Place(place.shell, "work/inner")
    inner.now = place.now
    inner.put("a.py", BASE)
    inner.agent().ask("Add tax there").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.now = inner.now
    place.replace("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax by hand", "a.py")
    assert place.lines("a.py") == [HUMAN] * 4


def test_a_worktree_is_the_same_repository_also_when_it_is_gone(place: Place) -> None:
    linked = place.root / ".claude" / "worktrees" / "tax"
    place.git("worktree", "add", "-q", "-b", "tax", str(linked))
    agent = place.agent(folder=linked).ask("Add tax")
    agent.edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.wait()
    assert place.shell("ingest").code == 0
    place.git("-C", str(linked), "commit", "-qam", "Add tax")
    place.git("worktree", "remove", str(linked))
    place.git("merge", "-q", "tax")
    assert place.lines("a.py") == [HUMAN, HUMAN, "wrote it Add tax", HUMAN]


def test_a_repository_that_was_moved_keeps_its_sessions(place: Place) -> None:
    place.agent().ask("Add tax").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax")
    assert place.shell("ingest").code == 0
    moved = place.root.rename(place.root.with_name("elsewhere"))
    place.shell.cwd = place.root = moved
    assert place.shell("project", "move", str(place.shell.home / "work"), str(moved)).code == 0
    assert place.lines("a.py") == [HUMAN, HUMAN, "wrote it Add tax", HUMAN]


def test_a_subagents_edit_names_its_parent(place: Place) -> None:
    parent = place.agent().ask("Delegate the tax")
    parent.call("Task", {"description": "tax", "prompt": "Add tax", "subagent_type": "general"}, "done")
    place.now -= 5
    below = place.agent("a1b2c3d4", below=parent.session).ask("Add tax")
    below.edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax")
    report = place.blame("a.py")
    assert of_lines(report) == [HUMAN, HUMAN, "wrote it Delegate the tax", HUMAN]
    run = report["files"][0]["runs"][1]
    assert (run["turn_seq"], run["seq"]) == (1, 2)
    assert run["subagent_uid"] not in (None, run["uid"])


def test_a_call_that_failed_put_nothing_there(place: Place) -> None:
    agent = place.agent().ask("Add tax")
    agent.edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n", is_error=True)
    place.replace("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax by hand")
    assert place.lines("a.py") == [HUMAN] * 4


def test_an_edit_after_the_commit_did_not_write_its_lines(place: Place) -> None:
    place.replace("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax by hand")
    place.agent().ask("Write it again").write("a.py", (place.root / "a.py").read_text())
    place.commit("Nothing new") if place.git("status", "--porcelain") else None
    assert place.lines("a.py") == [HUMAN] * 4


def test_brackets_alone_prove_nothing_and_in_a_run_they_belong_to_it(place: Place) -> None:
    place.put("a.js", "function one() {\n  return 1;\n}\n")
    place.commit("Begin js")
    place.agent().ask("Add two").edit(
        "a.js", "  return 1;\n}\n", "  return 1;\n}\n\nfunction two(count) {\n  return 2;\n}\n"
    )
    place.replace("a.js", "function one() {\n", "function zero() {\n}\nfunction one() {\n")
    place.wait(2 * HOUR)
    place.commit("Two more")
    assert place.lines("a.js") == [HUMAN] * 5 + ["wrote it Add two"] * 4


def test_a_line_that_stands_there_more_often_than_it_was_written_counts_in_a_run_only(place: Place) -> None:
    place.agent().ask("Log it").edit("a.py", "    return total\n", "    check_total_of(total)\n    return total\n")
    place.replace("a.py", "def price(count):\n", "def price(count):\n    check_total_of(total)\n")
    place.wait(2 * HOUR)
    place.commit("Log it twice")
    assert place.lines("a.py") == [HUMAN] * 5


def test_what_is_not_committed_yet_is_known_too(place: Place) -> None:
    agent = place.agent().ask("Add tax")
    agent.edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    agent.ask("Add b").write("b.py", "first_line = 1\nsecond_line = 2\n")
    place.put("b.py", (place.root / "b.py").read_text() + "by_hand = 3\n")
    assert place.lines("a.py") == [HUMAN, HUMAN, "wrote it Add tax", HUMAN]
    assert place.lines("b.py") == ["wrote it Add tax", "wrote it Add tax", HUMAN]


def test_only_the_lines_that_are_asked_for_are_reported(place: Place) -> None:
    place.agent().ask("Add tax").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax")
    assert place.lines("a.py:3") == ["wrote it Add tax"]
    assert place.lines("a.py:2-3") == [HUMAN, "wrote it Add tax"]
    for wanted in ("a.py:5", "a.py:0", "a.py:3-2"):
        done = place.shell("chronicle", "blame", wanted)
        assert (done.code, "its lines are 1 to 4" in done.err) == (64, True), wanted


def test_a_commit_has_its_files_and_its_lines_with_turns(place: Place) -> None:
    agent = place.agent().ask("Add tax")
    agent.edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n").write("b.py", "first_line = 1\n")
    place.put("c.py", "by_hand = 1\n")
    commit = place.commit("Add tax")
    report = place.blame(commit[:9])
    assert (report["kind"], report["target"], report["commit"]["subject"]) == ("commit", commit, "Add tax")
    assert {each["path"]: (each["wrote"], each["likely"], each["without_session"]) for each in report["files"]} == {
        "a.py": (1, 0, 0), "b.py": (1, 0, 0), "c.py": (0, 0, 1),
    }  # fmt: skip
    assert report["sessions"] == []


def test_a_commit_that_a_sessions_own_call_made_names_it_and_so_does_one_that_only_named_it(place: Place) -> None:
    agent = place.agent().ask("Commit it to the branch").edit("a.py", "count * 3", "count * 4")
    commit = place.commit("Fourfold")
    agent.run("git commit -qam Fourfold && git log", f"[main {commit[:7]}] Fourfold\n 1 file changed")
    place.agent(OTHER).ask("Look at it once more").run(f"git show {commit[:8]}", f"commit {commit}\n")
    report = place.blame(commit)
    assert [(each["title"], each["is_maker"]) for each in report["sessions"]] == [
        ("Commit it to the branch", True), ("Look at it once more", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "message", ["Tax\n\nClaude-Session: {}", "Tax\n\nCo-Authored-By: Claude <noreply@anthropic.com>\n"]
)
def test_a_trailer_names_the_session_whatever_wrote_the_lines(place: Place, message: str) -> None:
    agent = place.agent().ask("Run a script of ours").run("python make.py")
    place.replace("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    commit = place.commit(message.format(agent.session))
    found = "wrote it Run a script of ours" if "Session" in message else HUMAN
    report = place.blame("a.py")
    assert of_lines(report) == [HUMAN, HUMAN, found, HUMAN]
    (trailer,) = place.blame(commit)["trailers"]
    assert (trailer["agent"], trailer["names_session"]) == ("claude", "Session" in message)
    assert (trailer["title"] == "Run a script of ours") == ("Session" in message)


def test_two_sessions_below_a_squashed_message_say_nothing_of_one_line(place: Place) -> None:
    one, two = place.agent().ask("One"), place.agent(OTHER).ask("Two")
    place.replace("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit(f"Both\n\nClaude-Session: {one.session}\n\n* more\n\nClaude-Session: {two.session}\n")
    assert place.lines("a.py") == [HUMAN] * 4


def test_a_trailer_of_a_session_in_the_cloud_is_shown_and_names_none_here(place: Place) -> None:
    place.replace("a.py", "count * 3", "count * 4")
    commit = place.commit("Tax\n\nClaude-Session: https://claude.ai/code/session_01RppNtskp1EFoaBjU82erpY")
    (trailer,) = place.blame(commit)["trailers"]
    assert (trailer["names_session"], trailer["uid"]) == (True, None)
    assert "that session is not here" in place.shell("chronicle", "blame", commit).out


def test_a_merge_has_no_lines_of_its_own(place: Place) -> None:
    place.git("switch", "-q", "-c", "tax")
    place.agent().ask("Add tax").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax")
    place.git("switch", "-q", "main")
    place.wait()
    place.git("merge", "-q", "--no-ff", "-m", "Merge tax", "tax")
    report = place.blame("HEAD")
    assert (report["commit"]["is_merge"], report["files"]) == (True, [])
    assert place.lines("a.py")[2] == "wrote it Add tax"


def test_a_pull_request_has_the_session_that_opened_it_before_those_that_name_it(place: Place) -> None:
    place.git("remote", "add", "origin", "git@github.com:o/r.git")
    place.agent(OTHER).ask("Look at PR #12 of ours").run("gh pr view 12", "https://github.com/o/r/pull/12")
    place.wait()
    place.agent().ask("Open a pull request").run("gh pr create --fill", "https://github.com/o/r/pull/12\n")
    for words in ("#12", "o/r#12", "https://github.com/o/r/pull/12"):
        report = place.blame(words)
        found = [(each["title"], each["is_maker"]) for each in report["sessions"]]
        assert found == [("Open a pull request", True), ("Look at PR #12 of ours", False)], words
    assert place.blame("other/r#12")["sessions"] == []
    assert "No session here opened or names it" in place.shell("chronicle", "blame", "#99").out


def test_a_run_that_phrased_a_report_names_no_pull_request(place: Place) -> None:
    place.git("remote", "add", "origin", "git@github.com:o/r.git")
    place.agent().ask(prompt_for("a stand-up", "- opened https://github.com/o/r/pull/12", mark="5f2a")).run("ls")
    assert place.blame("o/r#12")["sessions"] == []


def test_a_session_that_was_continued_elsewhere_is_named_once_and_first(place: Place) -> None:
    agent = place.agent().ask("Add tax").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    copied = agent._path.with_name(f"{OTHER}.jsonl")
    copied.write_text(agent._path.read_text().replace(f'"sessionId": "{agent.session}"', f'"sessionId": "{OTHER}"'))
    agent.ask("And more").run("ls", "a.py")
    place.commit("Add tax")
    report = place.blame("a.py")
    uids = {run["uid"] for run in report["files"][0]["runs"] if run["uid"]}
    listed = place.shell("list", "--all", "--json").json()["sessions"]
    assert uids <= {min(each["uid"] for each in listed)}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("nothing.py", 66, "no file of this repository"),
        ("../outside.py", 66, "no file of this repository"),
        ("/etc/passwd", 66, "no file of this repository"),
        ("deadbeef", 66, "is no file or commit"),
        ("no-branch", 66, "is no file or commit"),
        ("-n", 2, "no such option"),
        ("src", 66, "is a folder"),
        ("a.bin", 65, "is binary"),
    ],
)
def test_what_is_not_there_is_said(place: Place, words: str, code: int, said: str) -> None:
    place.put("src/b.py", "b = 1\n")
    place.put("a.bin", b"\0\1\2" * 100)
    place.commit("More")
    (place.shell.home / "outside.py").write_text("x = 1\n")
    done = place.shell("chronicle", "blame", words)
    assert (done.code, done.out) == (code, "")
    assert said.lower() in done.err.lower()


def test_without_a_repository_only_a_pull_request_can_be_meant(bare: Shell) -> None:
    (bare.cwd / "a.py").write_text("x = 1\n")
    done = bare("chronicle", "blame", "a.py")
    assert (done.code, "is in no git repository" in done.err) == (66, True)
    assert bare("chronicle", "blame", "o/r#12").code == 0


def test_a_repository_without_a_commit_has_files(bare: Shell) -> None:
    place = Place(bare)
    place.agent().ask("Begin").write("a.py", "first_line = 1\n")
    assert place.lines("a.py") == ["wrote it Begin"]


def test_odd_names_of_files_are_only_names(place: Place) -> None:
    agent = place.agent().ask("Odd")
    for name in ("-n", "a b.py", "ü.py", 'quo"ted.py', "a:3", "*.py", "#7"):
        agent.write(name, f"name_of_it = {name!r}\nother_line = 2\n")
        place.commit(f"Add {name}")
        assert place.lines(f"./{name}") == ["wrote it Odd"] * 2, name


def test_the_rule_is_printed_for_who_asks(bare: Shell) -> None:
    done = bare("chronicle", "blame", "--explain", "x")
    assert done.code == 0
    assert "within the hour before" in done.out
    assert bare("chronicle", "blame", "--md", "--json", "x").code == 2


def test_what_was_committed_before_makes_nothing_likely(place: Place) -> None:
    place.agent().ask("Add tax").edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.commit("Add tax")
    place.replace("a.py", "    return total\n", "    total += shipping\n    return total\n")
    place.commit("Add shipping by hand")
    assert place.lines("a.py") == [HUMAN, HUMAN, "wrote it Add tax", HUMAN, HUMAN]


@pytest.mark.parametrize(
    ("words", "name"), [(("a.py",), "file.txt"), (("HEAD",), "commit.txt"), (("HEAD", "--md"), "commit.md")]
)
def test_a_report_as_it_is_printed(place: Place, words: tuple[str, ...], name: str) -> None:
    agent = place.agent().ask("Add tax and discounts")
    agent.edit("a.py", "    return total\n", "    total *= 1.19\n    return total\n")
    place.replace("a.py", "def price(count):", "def price(count, *, rate=1):")
    commit = place.commit("Add tax\n\nCo-Authored-By: Claude <noreply@anthropic.com>")
    agent.run("git commit -qam 'Add tax'", f"[main {commit[:7]}] Add tax\n")
    assert place.shell("ingest").code == 0
    printed = place.shell("chronicle", "blame", *words, TZ="UTC").out
    assert printed == (Path(__file__).parent / "golden_blame" / name).read_text("utf-8")


def test_a_pull_request_of_another_repository_is_found_where_that_was_worked_in(place: Place) -> None:
    place.git("remote", "add", "origin", "git@github.com:o/r.git")
    place.agent().ask("Open a pull request").run("gh pr create --fill", "https://github.com/o/r/pull/12\n")
    assert place.shell("ingest").code == 0
    other = Place(place.shell, "other")
    place.shell.cwd = other.root
    assert [each["title"] for each in place.blame("o/r#12")["sessions"]] == ["Open a pull request"]
    assert place.blame("#12")["sessions"] == []


def test_a_line_that_a_person_repeated_elsewhere_is_the_turns_only_where_that_wrote_it(place: Place) -> None:
    place.agent().ask("Check it").edit(
        "a.py", "    return total\n", "    checked = True\n    check_total_of(total)\n    return total\n"
    )
    place.replace("a.py", "def price(count):\n", "def price(count):\n    check_total_of(total)\n")
    place.wait(2 * HOUR)
    place.commit("Check it twice")
    assert place.lines("a.py") == [HUMAN, HUMAN, HUMAN, "wrote it Check it", "wrote it Check it", HUMAN]


@pytest.mark.parametrize("target", ["a.py", "a.py:2", "HEAD"])
def test_a_program_of_the_repository_never_runs(place: Place, target: str) -> None:
    ran = place.shell.home / "ran"
    place.put(".gitattributes", "* filter=a=b diff=x\n")
    place.commit("Name programs")
    place.put(".git/info/program", f"#!/bin/sh\ntouch {ran}\ncat\n")
    program = place.root / ".git" / "info" / "program"
    program.chmod(0o755)
    for key in ("core.fsmonitor", "filter.a=b.clean", "diff.x.textconv", "diff.external", "core.pager"):
        place.git("config", key, str(program))
    place.put("a.py", BASE.replace("3", "4"))
    ran.unlink(missing_ok=True)
    done = place.shell("chronicle", "blame", target)
    assert not ran.exists()
    assert done.code == 69
    assert "= in its name" in done.err


def test_what_is_left_out_of_a_long_history_is_named(place: Place) -> None:
    assert "Left out" not in place.shell("chronicle", "blame", "a.py").err
    commits = "".join(
        f"commit refs/heads/main\ncommitter Ann <a@a.org> {place.now + number} +0000\ndata 2\nc\n"
        f"M 100644 inline long.txt\ndata 6\n{number:05}\n\n"
        for number in range(1, 2_011)
    )
    stream = place.root / ".git" / "stream"
    stream.write_text(commits)
    with stream.open() as given:
        subprocess.run(
            ["git", "fast-import", "--quiet", "--force"], cwd=place.root, stdin=given, check=True, timeout=60
        )
    place.git("reset", "-q", "--hard")
    done = place.shell("chronicle", "blame", "long.txt")
    assert (done.code, done.err.count("Left out: ")) == (0, 1)
    assert "older changes of long.txt (only the newest 2,000 commits are looked at)" in done.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_git_ends_with_the_command_that_asks_it(place: Place, number: int) -> None:
    asked, program = place.shell.home / "asked", place.shell.home / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $$ > {asked}.new && mv {asked}.new {asked}\nexec sleep 600\n")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        [sys.executable, "-m", "backstory", "chronicle", "blame", "a.py"], cwd=place.root,
        env=place.shell.environ | {"PATH": path}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        until(asked.exists)
        process.send_signal(number)
        process.wait(30)
    # Its parent is gone, so it is nobody's zombie until it is reaped.
    git = int(asked.read_text())
    until(lambda: not psutil.pid_exists(git) or psutil.Process(git).status() == psutil.STATUS_ZOMBIE)
