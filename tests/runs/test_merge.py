"""``backstory merge`` as people use it: two copies of a project's store, with runs in both, on one machine."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory.model import AssistantText
from backstory.projects.registry import KnownProjects
from backstory.store import Store, open_store
from backstory.store.tables import sessions
from backstory.store.tables.queue import Queue, QueuedKind, QueuedPrompt
from tests.support.bench import Bench, MadeOnce
from tests.support.going import Going
from tests.support.machines import kept
from tests.support.make_golden import GOLDEN

if TYPE_CHECKING:
    from collections.abc import Callable

GOOD = {"result": True}


class Copy(Bench):
    """A project in a folder of its own on the same machine, with a copy of another one's ``.backstory``."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.root, self.bin, self.received, self.home = bench.root, bench.bin, bench.received, bench.home
        self.project = bench.root / name
        subprocess.run(["git", "init", "-q", str(self.project)], check=True)
        shutil.copytree(bench.project / ".backstory", self.project / ".backstory")

    @property
    def path(self) -> Path:
        return self.project / ".backstory" / "sessions.bks"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    bench = Bench(tmp_path_factory.mktemp("merge"))
    ok(bench.run("first", {"say": "one"}, GOOD))
    ok(bench.run("second", {"say": "two"}, GOOD))
    return MadeOnce(bench)


@pytest.fixture
def original(made_once: MadeOnce) -> Bench:
    """A project of ours with two turns."""
    return made_once.anew_and_noted()


@pytest.fixture
def copy(original: Bench) -> Copy:
    return Copy(original, "copy")


def ok(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert done.returncode == 0, done.stderr
    return done


def rows(bench: Bench, *words: str) -> Any:
    found = json.loads(ok(bench.backstory(*words, "--json")).stdout)
    lists = {"list": "sessions", "ps": "runs", "queue": "prompts"}
    return found[lists[words[0]]] if words[0] in lists else found


def both_go_on(original: Bench, copy: Copy) -> None:
    ok(original.run("here", {"say": "in the first"}, GOOD))
    ok(original.run("new here", GOOD, options=("--name", "ours")))
    ok(copy.run("there", {"say": "in the copy"}, GOOD, options=("--trust", "-S", "S1")))
    ok(copy.run("new there", GOOD, options=("--name", "theirs")))


def tree(bench: Bench) -> dict[str, Any]:
    """What each prompt of a project follows."""
    with bench.store as store:
        found = {turn.uid: turn for session in store.sessions() for turn in store.tree(session)}
        return {each.prompt: each.parent_uid and found[each.parent_uid].prompt for each in found.values()}


def home(bench: Bench) -> Store:
    return open_store(bench.home / "store.db", shared=True)


def test_two_copies_that_ran_are_merged_either_way_round(original: Bench, copy: Copy) -> None:
    both_go_on(original, copy)
    before = Copy(original, "before")
    done = ok(original.backstory("merge", "--trust", str(copy.project)))
    assert done.stdout.splitlines()[0] == "Merged: 1 new session, 1 changed session, 2 turns."
    ok(copy.backstory("merge", "--trust", str(before.path)))
    expected = {
        "first": None, "second": "first", "here": "second", "there": "second", "new here": None, "new there": None,
    }  # fmt: skip
    assert tree(original) == tree(copy) == expected
    with original.store as one, copy.store as other:
        assert kept(one) == kept(other)
        assert one.verify().problems == other.verify().problems == []
        assert {each.name for each in one.sessions()} == {each.name for each in other.sessions()}
        for store in (one, other):
            here = next(turn for turn in store.tree(store.session("S1")) if turn.prompt == "there")
            assert store.leaf(store.session("S1")) is not None
            assert here.answer == "in the copy"
    assert ok(original.backstory("merge", "--trust", str(copy.project))).stdout.startswith("Nothing to merge")
    # What was merged can be gone on with, from either branch.
    ok(original.run("and on", GOOD, options=("-S", "S1")))
    assert "in the copy" in original.sent()
    assert tree(original)["and on"] == "there"


def test_json_says_what_changed_under_names_that_stay(original: Bench, copy: Copy) -> None:
    both_go_on(original, copy)
    told = rows(original, "merge", "--trust", str(copy.project))
    assert told.keys() == {
        "store", "other", "trusted", "sessions", "removed_uids", "went_on_there", "went_on_here", "left_out_uids",
        "prompts", "problems", "board_items",
    }  # fmt: skip
    assert (told["trusted"], told["problems"], told["prompts"]) == (True, [], [])
    first, new = told["sessions"]
    assert (first["number"], first["number_there"], first["is_new"], first["turns_new"]) == ("S1", "S1", False, 1)
    assert (new["number"], new["number_there"], new["is_new"], new["moved_records"]) == ("S3", "S2", True, [])
    (moved,) = first["moved_records"]
    with original.store as store:
        there = next(turn for turn in store.tree(store.session("S1")) if turn.prompt == "there")
    assert (moved["first"], moved["last_there"] - moved["first_there"]) == (
        there.first_seq, there.last_seq - there.first_seq,
    )  # fmt: skip


def test_queued_prompts_of_the_other_store_are_listed_and_stay_there(original: Bench, copy: Copy) -> None:
    with copy.store as store:
        uid = store.uids()[0]
    with Queue(copy.path) as queue:
        queue.add([QueuedPrompt(uid="Q" * 26, session_uid=uid, kind=QueuedKind.FOLLOWUP, content="look at the herons")])
    done = ok(original.backstory("merge", "--trust", str(copy.project)))
    assert "Queued there, and not merged (1):" in done.stderr
    assert f"{uid}: look at the herons" in done.stderr
    assert rows(original, "queue", "list") == []
    with Queue(copy.path) as queue:
        assert [each.content for each in queue.prompts()] == ["look at the herons"]


def test_of_a_copy_without_trust_the_names_are_left_out_and_that_is_said(original: Bench, copy: Copy) -> None:
    with copy.store as store:
        store.rename(1, "a name of theirs")
    done = ok(original.backstory("merge", str(copy.project)))
    assert (
        "is not trusted: its names, checkouts, removals and board items were left out. Add --trust to take them."
        in done.stderr
    )
    assert rows(original, "list")[0]["name"] is None
    ok(original.backstory("merge", "--trust", str(copy.project)))
    assert rows(original, "list")[0]["name"] == "a name of theirs"


def test_of_a_board_item_the_later_text_or_removal_counts(original: Bench, copy: Copy) -> None:
    def board(bench: Bench, store: str, *words: str) -> None:
        ok(bench.backstory("board", *words, "--trust", "--repo", "me/tool", "--store", store))

    ours, theirs = str(original.project / ".backstory" / "sessions.bks"), str(copy.path)
    for name in ("both", "gone"):
        board(original, ours, "add", name, "older")
    shutil.copy(ours, theirs)
    board(copy, theirs, "add", "both", "newer")
    board(copy, theirs, "add", "new", "text")
    board(copy, theirs, "rm", "gone")
    board(original, ours, "add", "mine", "text")
    untrusted = Copy(copy, "untrusted")
    assert rows(original, "merge", str(untrusted.path))["board_items"] == 0
    merged = ok(original.backstory("merge", "--trust", str(copy.project)))
    assert merged.stdout.startswith("Merged: 3 board items.")
    items = rows(original, "board", "list", "--repo", "me/tool", "--store", ours)["items"]
    assert {each["name"]: each["content"] for each in items} == {"both": "newer", "mine": "text", "new": "text"}
    assert ok(original.backstory("merge", "--trust", str(copy.project))).stdout.startswith("Nothing to merge")
    # The home store has what its projects' stores have.
    ok(original.backstory("ingest"))
    items = rows(original, "board", "list", "--repo", "me/tool")["items"]
    assert {each["name"] for each in items} == {"both", "mine", "new"}


def test_a_session_that_went_on_where_it_was_not_removed_is_said_and_is_at_home_again(
    original: Bench, copy: Copy
) -> None:
    ok(original.backstory("rm", "-y", "S1"))
    # On another machine, which knows nothing of that.
    copy.home = original.root / "other-home"
    ok(copy.run("it went on", GOOD, options=("--trust",)))
    done = ok(original.backstory("merge", "--trust", str(copy.project)))
    assert "was removed here and went on there since: it stays." in done.stderr
    with original.store as store, home(original) as machine:
        (uid,) = store.uids()
        assert [turn.prompt for turn in machine.turns(machine.session(uid))] == ["first", "second", "it went on"]
        assert not machine.ask_or(False, sessions.is_forgotten, uid)


def test_a_home_holds_the_turns_of_two_copies_and_forgets_the_merged_one(original: Bench, copy: Copy) -> None:
    both_go_on(original, copy)
    assert "could not" not in ok(original.backstory("ingest")).stderr
    with home(original) as machine, original.store as store:
        shared = machine.session(store.session("S1").uid)
        assert {turn.prompt for turn in machine.turns(shared)} == {"first", "second", "here", "there"}
        assert sorted((each.name, each.shown_number) for each in machine.sessions() if each.uid != shared.uid) == [
            ("ours", "S2"), ("theirs", None),
        ]  # fmt: skip
        assert machine.verify().problems == []
    ok(original.backstory("merge", "--trust", str(copy.project)))
    with home(original) as machine, original.store as store:
        assert {each.name: each.shown_number for each in machine.sessions() if each.name} == {
            "ours": "S2", "theirs": "S3",
        }  # fmt: skip
        projects = KnownProjects(original.home, machine, lambda: 0)
        assert not projects.has_copies(store.id)
        with copy.store as other:
            other.rename(1, "not looked at")
        ok(original.backstory("ingest"))
        assert machine.session(shared.uid).name != "not looked at"
    # Somebody acts in it again, so it is read again.
    ok(copy.run("it goes on", GOOD, options=("-S", "S1")))
    with home(original) as machine:
        assert "it goes on" in {turn.prompt for turn in machine.turns(machine.session(shared.uid))}
        assert machine.verify().problems == []


# what is refused ------------------------------------------------------------------------------------------------


def newer(path: Path) -> Path:
    change(path, "update meta set value = '99' where key = 'schema_version'")
    return path


def another_program(path: Path) -> Path:
    change(path, "pragma application_id = 1")
    return path


def damaged(path: Path) -> Path:
    change(path, "update chunks set data = x'00' where id = (select min(id) from chunks)")
    return path


def cut(path: Path) -> Path:
    os.truncate(path, path.stat().st_size // 2)
    return path


def missing(path: Path) -> Path:
    path.unlink()
    return path


def journal_of_another(path: Path) -> Path:
    path.with_name(f"{path.name}-journal").write_bytes(b"x" * 600 + bytes.fromhex("d9d505f920a163d7"))
    return path


def change(path: Path, statement: str) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute(statement)


BROKEN: dict[str, tuple[Callable[[Path], Path], int, str]] = {
    "newer": (newer, 76, "has schema 99"),
    "another program's": (another_program, 65, "another program's database"),
    "damaged": (damaged, 65, "copy"),
    "cut": (cut, 65, "copy"),
    "missing": (missing, 66, "There is no store"),
    "a journal of another file": (journal_of_another, 65, "its journal names another file"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_no_other_store_is_refused_before_the_first_write(original: Bench, copy: Copy, how: str) -> None:
    breaks, code, said = BROKEN[how]
    before = (original.project / ".backstory" / "sessions.bks").read_bytes()
    other = breaks(copy.path)
    there = other.read_bytes() if other.exists() else b""
    done = original.backstory("merge", "--trust", str(copy.path))
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert said in done.stderr
    assert str(original.home) not in done.stderr
    assert (original.project / ".backstory" / "sessions.bks").read_bytes() == before
    assert (other.read_bytes() if other.exists() else b"") == there
    assert not (original.home / "merging").exists()


@pytest.mark.parametrize("link", [None, Path.hardlink_to, Path.symlink_to], ids=["itself", "hard link", "link"])
def test_the_same_file_is_refused_under_any_name(
    original: Bench, link: Callable[[Path, Path], None] | None, tmp_path: Path
) -> None:
    path = original.project / ".backstory" / "sessions.bks"
    named = path if link is None else tmp_path / "linked.bks"
    if link is not None:
        link(named, path)
    done = original.backstory("merge", str(named))
    assert (done.returncode, "is the store that it would be merged into" in done.stderr) == (64, True)
    folder = original.backstory("merge", str(original.project))
    assert folder.returncode == 64


def test_a_living_run_in_either_is_refused(original: Bench, copy: Copy) -> None:
    with Going(original):
        done = copy.backstory("merge", "--trust", str(original.project))
        assert (done.returncode, "is running, so nothing was merged" in done.stderr) == (75, True)
        back = original.backstory("merge", "--trust", str(copy.project))
        assert (back.returncode, "is running, so nothing was merged" in back.stderr) == (75, True)
    ok(copy.backstory("merge", "--trust", str(original.project)))
    assert "Where now?" in tree(copy)


def test_a_store_of_another_project_is_refused_unless_foreign(original: Bench, tmp_path: Path) -> None:
    other = open_store(tmp_path / "other.bks")
    with other:
        session = other.create_session("of another project", str(tmp_path))
        other.append_events(session, [])
        change(other.path, "update sessions set project = 'github.com/a/b'")
    done = original.backstory("merge", "--trust", str(other.path))
    assert (done.returncode, "is the store of another project" in done.stderr) == (64, True)
    ok(original.backstory("merge", "--trust", "--foreign", str(other.path)))
    with original.store as store:
        assert store.session("S2").name == "of another project"
        assert store.ask_or(None, sessions.owner, store.session("S2").uid) == store.id


def test_an_older_store_is_merged_and_not_changed(bench: Bench, tmp_path: Path) -> None:
    older = tmp_path / "older.bks"
    shutil.copy(GOLDEN / "store-v3.bks", older)
    before = older.read_bytes()
    ok(bench.backstory("merge", "--trust", str(older)))
    with bench.store as store:
        assert [(each.shown_number, each.name, each.turns) for each in reversed(store.sessions())] == [
            ("S1", "Fix the login page", 1), ("S2", "", 1),
        ]  # fmt: skip
        assert store.verify().problems == []
    assert older.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("older")) == ["older.bks"]


# the disk -------------------------------------------------------------------------------------------------------


def test_what_a_merge_makes_is_for_its_owner_alone(original: Bench, copy: Copy, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    ok(original.backstory("merge", "--trust", str(copy.project), cwd=empty))
    made = [empty / ".backstory", empty / ".backstory" / "sessions.bks"]
    assert [oct(stat.S_IMODE(path.stat().st_mode)) for path in made] == ["0o700", "0o600"]
    assert not (original.home / "merging").exists()


def test_a_full_disk_in_the_middle_is_said_and_merging_again_finishes(original: Bench, copy: Copy) -> None:
    from resource import RLIMIT_FSIZE, setrlimit

    ok(copy.run("there", {"long": 200_000}, GOOD, options=("--trust",)))
    with copy.store as store:
        session = store.session("S1")
        for n in range(40):
            store.append_events(session, [AssistantText(text=f"{n} {os.urandom(2_000).hex()}")])
    size = (original.project / ".backstory" / "sessions.bks").stat().st_size

    def small() -> None:
        setrlimit(RLIMIT_FSIZE, (size + 8192, size + 8192))

    done = original.backstory("merge", "--trust", str(copy.project), limit=small)
    assert done.returncode in (73, 74), done.stderr
    with original.store as store:
        assert store.verify().problems == []
    ok(original.backstory("merge", "--trust", str(copy.project)))
    assert tree(original)["there"] == "second"
