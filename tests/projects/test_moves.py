"""A project that lies elsewhere now: moved, copied, or put back from its store alone."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from tests.support.bench import Bench, MadeOnce
from tests.support.claude_records import answer, user
from tests.support.going import until
from tests.support.read_only import read_only, without_power

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

GOOD = {"result": True}
TOUCHING: list[dict[str, Any]] = [{"say": "kale"}, {"tool": "cat src/notes.txt"}, GOOD]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    bench = Bench(tmp_path_factory.mktemp("moves"))
    ok(bench.run("alpha", *TOUCHING))
    return MadeOnce(bench)


@pytest.fixture
def ran(made_once: MadeOnce) -> Bench:
    """A project in which one prompt was run, which read a file."""
    return made_once.anew_and_noted()


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


LISTS = {"list": "sessions", "ps": "runs", "queue": "prompts", "project": "moves"}


def rows(bench: Bench, *words: str, cwd: Path | None = None) -> Any:
    """The rows of a command that lists; what another prints is whole."""
    printed = json.loads(ok(bench.backstory(*words, "--json", cwd=cwd)))
    return printed[LISTS[words[0]]] if words[0] in LISTS else printed


def prompts(bench: Bench, *words: str, cwd: Path | None = None) -> list[str]:
    return [each["first_prompt"] for each in rows(bench, "list", *words, cwd=cwd)]


def moved(bench: Bench, name: str = "new place") -> Bench:
    bench.project = bench.project.rename(bench.root / name)
    return bench


def copied(bench: Bench, name: str = "copy") -> Bench:
    shutil.copytree(bench.project, bench.root / name)
    bench.project = bench.root / name
    return bench


def on_another_machine(bench: Bench, *, alone: bool = False) -> Bench:
    """The project on a machine that knows nothing of it; ``alone``: only its store, in another repository."""
    there = bench.root / "machine 2" / "work" / "p q"
    there.parent.mkdir(parents=True)
    if alone:
        subprocess.run(["git", "init", "-q", str(there)], check=True)
        (there / ".backstory").mkdir()
        shutil.copy(bench.store.path, there / ".backstory")
        shutil.rmtree(bench.project)
    else:
        bench.project.rename(there)
    bench.project, bench.home = there, bench.root / "machine 2" / "home"
    return bench


def log(bench: Bench, folder: Path, prompt: str, name: str, at: str = "2026-11-21T21:00:00.000Z") -> Path:
    """A log of Claude Code about a session in a folder, which touched nothing."""
    path = bench.root / ".claude" / "projects" / name / f"{name}.jsonl"
    path.parent.mkdir(parents=True)
    more = {"sessionId": name, "cwd": str(folder), "timestamp": at}
    lines = [user(prompt, f"{name}-1", **more), answer("done", f"{name}-2", f"{name}-1", **more)]
    path.write_bytes(b"".join(each + b"\n" for each in lines))
    return path


def meta(store: Path) -> dict[str, str]:
    with closing(apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        return dict(db.execute("select key, value from meta"))


# a project's own store -------------------------------------------------------------------------------------------


def test_a_moved_project_lists_its_sessions_in_the_new_folder(ran: Bench) -> None:
    (session,) = rows(moved(ran), "list")
    assert (session["cwd"], session["project"]) == (str(ran.project), str(ran.project))


def test_reading_a_moved_project_changes_nothing_in_its_store(ran: Bench) -> None:
    moved(ran)
    before = ran.store.path.read_bytes()
    for words in (["list"], ["show"], ["list", "--path", "./src"], ["context", "S1"], ["tree", "S1"]):
        ok(ran.backstory(*words))
    assert ran.store.path.read_bytes() == before


@pytest.mark.parametrize("path", ["./src", "src/notes.txt", "./src/*.txt"])
def test_a_path_in_the_new_folder_finds_what_touched_it_in_the_old_one(ran: Bench, path: str) -> None:
    assert prompts(moved(ran), "--path", path) == ["alpha"]


def test_a_path_in_the_new_folder_finds_nothing_that_was_not_touched(ran: Bench) -> None:
    assert prompts(moved(ran), "--path", "./other") == []


def test_texts_of_a_moved_project_stay_as_they_were_said(bench: Bench) -> None:
    old = bench.project
    ok(bench.run(f"read {old}/a", {"tool": f"cat {old}/src/a"}, GOOD))
    shown = ok(moved(bench).backstory("show", "--json", "--full"))
    assert f"read {old}/a" in shown
    assert f"cat {old}/src/a" in shown


def test_a_moved_project_is_searched_here_once_it_was_acted_in(ran: Bench) -> None:
    ok(moved(ran).run("beta", GOOD))
    found = rows(ran, "search", "--here", "alpha")
    assert [each["label"] for each in found["hits"]] == [rows(ran, "list")[0]["uid"][:12]]


def test_a_prompt_that_waited_while_its_project_was_moved_runs_in_the_new_folder(ran: Bench) -> None:
    ok(ran.backstory("followup", "-a", "claude", "--no-run", "later"))
    moved(ran)
    ok(ran.backstory("queue", "run", "S1", script=[{"touch": "was-here"}, GOOD]))
    assert (ran.project / "was-here").exists()


def test_a_prompt_for_another_folder_still_runs_there(ran: Bench) -> None:
    other = ran.root / "other"
    other.mkdir()
    ok(ran.backstory("followup", "-a", "claude", "--no-run", "--cwd", str(other), "later"))
    ok(moved(ran).backstory("queue", "run", "S1", script=[{"touch": "was-here"}, GOOD]))
    assert (other / "was-here").exists()


def test_a_prompt_for_the_old_path_of_a_copied_project_runs_at_that_path(ran: Bench) -> None:
    """What is asked for now means the folder that is there now."""
    old = ran.project
    ok(copied(ran).run("beta", GOOD, options=("--trust",)))
    ok(ran.run("gamma", {"touch": "was-here"}, GOOD, options=("--cwd", str(old))))
    assert (old / "was-here").exists()


def test_a_project_that_was_moved_twice_and_back_is_at_home_again(ran: Bench) -> None:
    for name in ("second", "third", "project"):
        ok(moved(ran, name).run(f"in {name}", GOOD))
        (session,) = rows(ran, "list")
        assert session["cwd"] == str(ran.project)
    assert prompts(ran, "--path", "./src") == ["alpha"]


def test_sessions_begun_in_each_place_are_all_here_after_the_last_move(ran: Bench) -> None:
    ok(moved(ran, "second").run("beta", GOOD, options=("-n", "two")))
    moved(ran, "third")
    assert {each["cwd"] for each in rows(ran, "list")} == {str(ran.project)}


def test_the_session_last_active_in_a_worktree_is_the_default_there_after_a_move(ran: Bench) -> None:
    git = ["git", "-C", str(ran.project), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(ran.project / "trees" / "w")], check=True)
    ok(ran.run("in the tree", GOOD, options=("-n", "tree"), cwd=ran.project / "trees" / "w"))
    ok(ran.run("in the main one", GOOD, options=("-S", "S1")))
    tree = moved(ran).project / "trees" / "w"
    subprocess.run(["git", "-C", str(ran.project), "worktree", "repair", str(tree)], check=True, capture_output=True)
    assert "S2 " in ok(ran.backstory("show", cwd=tree))
    assert "S1 " in ok(ran.backstory("show"))


def test_a_checkout_in_the_old_folder_counts_in_the_new_one(ran: Bench) -> None:
    ok(ran.run("beta", GOOD, options=("-n", "two")))
    ok(ran.backstory("checkout", "S1"))
    assert ok(moved(ran).backstory("show")).startswith("S1 ")


def test_a_bare_repository_that_was_moved_keeps_its_sessions(bench: Bench) -> None:
    shutil.rmtree(bench.project)
    subprocess.run(["git", "init", "-q", "--bare", str(bench.project)], check=True)
    ok(bench.run("alpha", *TOUCHING))
    moved(bench, "new.git")
    ok(bench.run("beta", GOOD))
    (session,) = rows(bench, "list", "--path", "./src")
    assert (session["turn_count"], session["cwd"]) == (2, str(bench.project))


def test_a_folder_outside_git_that_was_moved_keeps_its_sessions(bench: Bench) -> None:
    shutil.rmtree(bench.project / ".git")
    ok(bench.run("alpha", *TOUCHING))
    below = moved(bench).project / "src"
    below.mkdir()
    ok(bench.run("beta", GOOD, cwd=below))
    assert [each["turn_count"] for each in rows(bench, "list", cwd=below)] == [2]


def test_a_moved_store_says_where_it_is_only_once(ran: Bench) -> None:
    old = ran.project
    ok(moved(ran).run("beta", GOOD))
    ok(ran.run("gamma", GOOD))
    said = meta(ran.store.path)
    assert json.loads(said["root"]) == str(ran.project)
    assert [each["from"] for each in json.loads(said["moves"])] == [str(old)]


def test_a_store_that_is_where_it_was_made_has_no_moves(ran: Bench) -> None:
    ok(ran.run("beta", GOOD))
    said = meta(ran.store.path)
    assert (json.loads(said["root"]), said.get("moves")) == (str(ran.project), None)


def test_a_store_of_an_earlier_version_is_read_where_it_lies_now(ran: Bench) -> None:
    with closing(apsw.Connection(str(ran.store.path))) as db:
        db.execute("delete from meta where key = 'root'")
    (session,) = rows(moved(ran), "list", "--path", "./src")
    assert session["cwd"] == str(ran.project)


@pytest.mark.parametrize("said", ["nonsense", "[1]", '[{"from": 1}]', "{}"])
def test_moves_that_cannot_be_read_are_none(ran: Bench, said: str) -> None:
    with closing(apsw.Connection(str(ran.store.path))) as db:
        db.execute("insert or replace into meta(key, value) values ('moves', ?)", (said,))
    assert prompts(ran) == ["alpha"]


def test_a_run_in_a_project_that_is_moved_meanwhile_is_listed_and_sent_messages(ran: Bench) -> None:
    begun, go = ran.root / "begun", ran.root / "go"
    running = ran.start("run", "-a", "claude", "slow", script=[{"touch": str(begun)}, {"wait_for": str(go)}, GOOD])
    until(begun.exists)
    moved(ran)
    ((listed),) = rows(ran, "ps")
    assert (listed["number"], listed["state"]) == ("S1", "running")
    ok(ran.backstory("steer", "hello"))
    go.touch()
    assert running.wait(60) == 0
    assert [each["text"] for each in rows(ran, "queue", "list")] == ["hello"]


# other machines --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", [False, True])
def test_a_store_on_another_machine_works_after_one_trust(ran: Bench, alone: bool) -> None:
    there = on_another_machine(ran, alone=alone)
    assert "alpha" in ok(there.backstory("show"))
    assert there.run("beta", GOOD).returncode == 77
    ok(there.run("beta", GOOD, options=("--trust",)))
    assert len(rows(there, "search", "--here", "alpha")["hits"]) == 1
    for words in (["checkout", "S1"], ["rename", "S1", "x"], ["followup", "-a", "claude", "--no-run", "gamma"],
                  ["queue", "run"], ["branch", "name", "y"], ["ingest"], ["reindex"], ["verify"]):  # fmt: skip
        ok(there.backstory(*words, script=[GOOD]))
    (session,) = rows(there, "list", "--path", "./src")
    assert (session["turn_count"], session["cwd"]) == (3, str(there.project))


def test_what_was_held_for_a_session_goes_with_it(ran: Bench) -> None:
    ok(ran.backstory("followup", "-a", "claude", "--no-run", "secret words"))
    there = on_another_machine(ran)
    ok(there.run("beta", GOOD, options=("--trust",)))
    assert [each["kind"] for each in rows(there, "queue", "list")] == ["held"]
    ok(there.backstory("rm", "-y", "S1"))
    assert rows(there, "queue", "list") == []
    assert [each.name for each in (there.project / ".backstory").iterdir()] == ["sessions.bks"]


def test_a_store_on_another_machine_is_known_by_its_new_path_in_every_list(ran: Bench) -> None:
    there = on_another_machine(ran)
    ok(there.run("beta", GOOD, options=("--trust",)))
    (session,) = rows(there, "list", "--all", "--path", str(there.project / "src"), cwd=there.root)
    assert session["cwd"] == str(there.project)


def test_files_are_found_by_their_new_paths_after_the_home_store_is_derived_anew(ran: Bench) -> None:
    there = on_another_machine(ran)
    ok(there.run("beta", GOOD, options=("--trust",)))
    ok(there.backstory("reindex", "--force"))
    assert prompts(there, "--all", "--path", str(there.project / "src"), cwd=there.root) == ["alpha"]


def test_a_store_that_is_brought_back_from_home_knows_where_its_project_was(ran: Bench) -> None:
    ok(moved(ran).run("beta", GOOD))
    ran.store.path.unlink()
    assert "brought back" in ran.run("gamma", GOOD).stderr
    (session,) = rows(ran, "list", "--path", "./src")
    assert (session["turn_count"], session["cwd"]) == (3, str(ran.project))


def test_a_copied_folder_outside_git_works_after_one_trust(ran: Bench) -> None:
    elsewhere = ran.root / "elsewhere"
    shutil.copytree(ran.project / ".backstory", elsewhere / ".backstory")
    ran.project = elsewhere
    ok(ran.run("beta", GOOD, options=("--trust",)))
    assert [(each["turn_count"], each["cwd"]) for each in rows(ran, "list", "--path", "./src")] == [(2, str(elsewhere))]


def test_both_copies_of_a_project_show_their_own_folder(ran: Bench) -> None:
    original = ran.project
    ok(copied(ran).run("beta", GOOD, options=("--trust",)))
    assert [each["cwd"] for each in rows(ran, "list")] == [str(ran.project)]
    ran.project = original
    ok(ran.run("gamma", GOOD, options=("--trust",)))
    assert [each["cwd"] for each in rows(ran, "list")] == [str(original)]


def test_both_copies_of_a_project_are_searched_here(ran: Bench) -> None:
    original = ran.project
    ok(copied(ran).run("beta", GOOD, options=("--trust",)))
    assert len(rows(ran, "search", "--here", "alpha")["hits"]) == 1
    ran.project = original
    assert len(rows(ran, "search", "--here", "alpha")["hits"]) == 1


def test_a_copy_does_not_take_the_logs_of_the_original_along(ran: Bench) -> None:
    original = ran.project
    log(ran, original, "typed in the client", "aaa")
    ok(ran.backstory("ingest"))
    ok(copied(ran).run("beta", GOOD, options=("--trust",)))
    assert prompts(ran) == ["alpha"]
    assert sorted(prompts(ran, cwd=original)) == ["alpha", "typed in the client"]


def test_a_store_from_elsewhere_moves_nothing_of_ours(ran: Bench) -> None:
    """What it says of paths is about its own sessions."""
    mine = ran.root / "mine"
    mine.mkdir()
    there = on_another_machine(ran)
    log(there, mine, "typed in the client", "aaa")
    ok(there.backstory("ingest"))
    with closing(apsw.Connection(str(there.store.path))) as db:
        moves = json.dumps([{"from": str(mine), "to": str(there.project)}])
        db.execute(
            "insert or replace into meta(key, value) values ('moves', ?), ('root', ?)", (moves, json.dumps(str(mine)))
        )
    ok(there.run("beta", GOOD, options=("--trust",)))
    ok(there.backstory("ingest"))
    assert prompts(there, cwd=mine) == ["typed in the client"]
    assert "typed in the client" not in prompts(there)


# sessions of agents' logs ----------------------------------------------------------------------------------------


def test_logs_follow_a_project_whose_store_was_moved(ran: Bench) -> None:
    log(ran, ran.project, "typed in the client", "aaa")
    ok(ran.backstory("ingest"))
    ok(moved(ran).backstory("ingest"))
    assert sorted(prompts(ran)) == ["alpha", "typed in the client"]


def test_logs_stay_where_only_a_store_was_moved(ran: Bench) -> None:
    old, new = ran.project, ran.root / "other"
    log(ran, old, "typed in the client", "aaa")
    ok(ran.backstory("ingest"))
    subprocess.run(["git", "init", "-q", str(new)], check=True)
    (old / ".backstory").rename(new / ".backstory")
    ran.project = new
    ok(ran.backstory("ingest"))
    assert prompts(ran) == ["alpha"]
    assert prompts(ran, cwd=old) == ["typed in the client"]


@pytest.fixture
def renamed(bench: Bench) -> Bench:
    """A project without a store and a remote, known by a log alone, whose folder was renamed."""
    log(bench, bench.project, "typed in the client", "aaa")
    ok(bench.backstory("ingest"))
    return moved(bench)


def test_a_folder_that_a_person_moved_lists_the_sessions_of_its_old_path(renamed: Bench) -> None:
    assert prompts(renamed) == []
    done = renamed.backstory("project", "move", "../project", ".")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"1 session of {renamed.root}/project will be listed in {renamed.project}.\n"
    (session,) = rows(renamed, "list")
    assert session["cwd"] == str(renamed.project)


def test_a_move_is_kept_when_everything_is_derived_anew(renamed: Bench) -> None:
    ok(renamed.backstory("project", "move", "../project", "."))
    ok(renamed.backstory("reindex", "--force"))
    assert prompts(renamed) == ["typed in the client"]


def test_rows_keep_what_the_logs_say_after_a_move(renamed: Bench) -> None:
    ok(renamed.backstory("project", "move", "../project", "."))
    found = rows(renamed, "sql", "select cwd from main.sessions")
    assert found["rows"] == [[str(renamed.root / "project")]]


def test_sql_shows_sessions_in_the_folders_where_they_are_now(renamed: Bench) -> None:
    ok(renamed.backstory("project", "move", "../project", "."))
    found = rows(renamed, "sql", "select cwd, project from sessions")
    assert found["rows"] == [[str(renamed.project), str(renamed.project)]]


def test_a_moved_session_is_resumed_in_the_new_folder(renamed: Bench) -> None:
    (renamed.bin / "claude").chmod(0o755)
    ok(renamed.backstory("project", "move", "../project", "."))
    uid = rows(renamed, "list")[0]["uid"]
    assert rows(renamed, "resume", uid, "--print")["folder"] == str(renamed.project)


def test_a_session_whose_folder_is_gone_says_how_to_say_that_it_was_moved(renamed: Bench) -> None:
    uid = rows(renamed, "list", "--all")[0]["uid"]
    done = renamed.backstory("resume", uid, "--print")
    assert done.returncode == 66
    assert f"backstory project move {renamed.root}/project NEW" in done.stderr


def test_a_folder_with_blanks_is_quoted_in_the_command_that_says_it_was_moved(bench: Bench) -> None:
    folder = bench.root / "it's $(gone)"
    log(bench, folder, "typed in the client", "aaa")
    ok(bench.backstory("ingest"))
    uid = rows(bench, "list", "--all")[0]["uid"]
    said = bench.backstory("resume", uid, "--print").stderr
    assert shlex.split(said.partition("If it was moved: ")[2]) == ["backstory", "project", "move", str(folder), "NEW"]


def test_a_move_taken_back_lists_the_sessions_where_they_were(renamed: Bench) -> None:
    ok(renamed.backstory("project", "move", "../project", "."))
    ok(renamed.backstory("project", "move", "--undo", "../project"))
    assert prompts(renamed) == []
    assert rows(renamed, "project", "moves") == []


def test_moves_are_listed(renamed: Bench) -> None:
    ok(renamed.backstory("project", "move", "../project", "."))
    (listed,) = rows(renamed, "project", "moves")
    assert (listed["from"], listed["to"]) == (str(renamed.root / "project"), str(renamed.project))


def test_a_session_that_begins_in_the_old_folder_later_is_listed_there(renamed: Bench) -> None:
    ok(renamed.backstory("project", "move", "../project", "."))
    again = renamed.root / "project"
    again.mkdir()
    log(renamed, again, "a new project", "bbb", at="2126-01-01T00:00:00.000Z")
    ok(renamed.backstory("ingest"))
    assert prompts(renamed) == ["typed in the client"]
    assert prompts(renamed, cwd=again) == ["a new project"]


def test_the_old_folder_lists_nothing_that_was_moved(renamed: Bench) -> None:
    ok(renamed.backstory("project", "move", "../project", "."))
    again = renamed.root / "project"
    again.mkdir()
    assert prompts(renamed, cwd=again) == []


def test_a_folder_that_was_moved_twice_is_at_the_last_path(renamed: Bench) -> None:
    ok(renamed.backstory("project", "move", "../project", "."))
    second = renamed.project
    moved(renamed, "third")
    ok(renamed.backstory("project", "move", str(second), "."))
    assert prompts(renamed) == ["typed in the client"]
    assert all(each["to"] == str(renamed.project) for each in rows(renamed, "project", "moves"))


def test_a_folder_that_was_moved_back_is_where_it_was(renamed: Bench) -> None:
    ok(renamed.backstory("project", "move", "../project", "."))
    second = renamed.project
    moved(renamed, "project")
    ok(renamed.backstory("project", "move", str(second), "."))
    assert prompts(renamed) == ["typed in the client"]


def test_sums_by_project_count_a_moved_one_once(renamed: Bench) -> None:
    log(renamed, renamed.project, "typed there", "bbb")
    ok(renamed.backstory("ingest"))
    ok(renamed.backstory("project", "move", "../project", "."))
    found = rows(renamed, "stats", "--by", "project")
    assert [(each["project"], each["session_count"]) for each in found["groups"]] == [(str(renamed.project), 2)]


def test_a_folder_that_the_old_one_is_a_link_to_can_be_its_new_one(renamed: Bench) -> None:
    (renamed.root / "project").symlink_to(renamed.project)
    ok(renamed.backstory("project", "move", str(renamed.root / "project"), "."))
    assert prompts(renamed) == ["typed in the client"]


REFUSED: dict[str, tuple[Callable[[Bench], tuple[str, ...]], int, str]] = {
    "the new folder is not there": (lambda _: ("../project", "../nowhere"), 64, "There is no folder"),
    "the new one is a file": (lambda b: ("../project", str(b.root / "received.x")), 64, "There is no folder"),
    "nothing was in the old one": (lambda b: ("../unknown", "."), 66, "Folders of sessions that are gone: "),
    "the old one is still there": (lambda b: (str(b.home), "."), 64, "is still there"),
    "one folder": (lambda _: (".", "."), 64, "the same folder"),
    "one in the other": (lambda _: ("./below", "."), 64, "lies in the other"),
    "the other in the one": (lambda _: ("..", "."), 64, "is still there"),
    "no new one": (lambda _: ("../project",), 2, "Give OLD and NEW"),
    "both": (lambda _: ("../project", ".", "--undo"), 2, "Give OLD and NEW"),
    "undone without a move": (lambda _: ("../project", "--undo"), 66, "was not moved"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_move_that_makes_no_sense_changes_nothing(renamed: Bench, why: str) -> None:
    words, code, said = REFUSED[why]
    (renamed.root / "received.x").touch()
    done = renamed.backstory("project", "move", *words(renamed))
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert rows(renamed, "project", "moves") == []


def test_the_folders_that_are_gone_are_named_where_one_is_not_known(renamed: Bench) -> None:
    done = renamed.backstory("project", "move", "../unknown", ".")
    assert f"{renamed.root}/project" in done.stderr


def test_a_remote_tells_without_a_move(bench: Bench) -> None:
    for url in ("git@example.org:me/tool.git",):
        subprocess.run(["git", "-C", str(bench.project), "remote", "add", "origin", url], check=True)
    log(bench, bench.project, "typed in the client", "aaa")
    ok(bench.backstory("ingest"))
    assert prompts(moved(bench)) == ["typed in the client"]


def test_a_move_on_a_machine_without_a_store_is_refused(bench: Bench) -> None:
    done = bench.backstory("project", "move", "../unknown", ".")
    assert done.returncode == 66
    assert not (bench.home / "store.db").exists()


@pytest.mark.parametrize("words", [("list",), ("show",), ("run", "-a", "claude", "beta"), ("queue", "list")])
def test_a_project_below_a_path_that_is_no_text_is_refused_unchanged(ran: Bench, words: tuple[str, ...]) -> None:
    before = ran.store.path.read_bytes()
    ran.project = ran.project.rename(Path(os.fsdecode(os.fsencode(ran.root) + b"/p\xff q")))
    done = ran.backstory(*words, script=[GOOD])
    assert (done.returncode, done.stdout) == (64, "")
    assert "p\\udcff q/.backstory/sessions.bks" in done.stderr
    assert "is not UTF-8" in done.stderr
    assert "rename the folder" in done.stderr
    assert ran.store.path.read_bytes() == before


# files -----------------------------------------------------------------------------------------------------------


def test_a_moved_store_and_its_notes_stay_private(ran: Bench) -> None:
    ok(moved(ran).run("beta", GOOD))
    files = [ran.store.path, ran.home / "store.db", *(ran.home / "projects").iterdir()]
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}


def test_a_moved_project_in_a_folder_that_cannot_be_written_is_still_read(ran: Bench) -> None:
    moved(ran)
    with read_only(ran.project / ".backstory"):
        done = ran.backstory("list", "--path", "./src", "--json", limit=without_power)
    assert [each["cwd"] for each in json.loads(ok(done))["sessions"]] == [str(ran.project)]


def test_a_move_that_was_told_already_leaves_nothing_to_do(ran: Bench) -> None:
    renamed = moved(ran)
    ok(renamed.backstory("project", "move", "../project", "."))
    again = renamed.backstory("project", "move", "../project", ".")
    assert again.returncode == 0
    assert "Nothing to do: the sessions of" in again.stderr
    other = renamed.root / "third"
    other.mkdir()
    assert renamed.backstory("project", "move", "../project", str(other)).returncode == 66
