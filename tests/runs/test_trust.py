"""A project's store that came from elsewhere: read and shown, acted in only when a person trusts it."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory.store import Store, open_store
from backstory.store.tables import sessions, turns
from backstory.store.tables.queue import Options, Queue, QueuedKind, QueuedPrompt
from tests.support.bench import Bench, MadeOnce
from tests.support.forked import COMMAND
from tests.support.make_golden import GOLDEN, derived_earlier
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

GOOD = {"result": True}
ACTING = [
    ["run", "-a", "claude", "hi"], ["steer", "hi"], ["followup", "hi"], ["queue", "run"], ["queue", "drop", "X"],
    ["queue", "clear"], ["checkout", "@1"], ["checkout", "S1"], ["branch", "name", "x"], ["branch", "unname", "x"],
    ["branch", "rm", "-y", "@1"], ["branch", "restore"], ["branch", "prune", "-y"], ["rename", "S1", "x"],
    ["context", "set", "ticket", "x"], ["context", "unset", "ticket"],
    ["rm", "-y", "S1"], ["merge", "/nowhere"], ["--followup", "hi"],
]  # fmt: skip
"""Every command that acts, as it is typed in a project."""
ANOTHER = "X" * 26
"""The id of a store that is nobody's here."""


class Clone(Bench):
    """A project in a folder of its own, with a ``.backstory`` that another one's was copied to."""

    def __init__(self, bench: Bench, *, name: str = "clone", home: Path | None = None) -> None:
        self.root, self.bin, self.received = bench.root, bench.bin, bench.received
        self.temporary = bench.temporary
        self.home, self.project = home or bench.home, bench.root / name
        subprocess.run(["git", "init", "-q", str(self.project)], check=True)
        shutil.copytree(bench.project / ".backstory", self.project / ".backstory")


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    bench = Bench(tmp_path_factory.mktemp("trust"))
    ok(bench.run("alpha", GOOD))
    return MadeOnce(bench)


@pytest.fixture
def original(made_once: MadeOnce) -> Bench:
    """A project of ours in which one prompt was run."""
    return made_once.anew_and_noted()


@pytest.fixture
def clone(original: Bench) -> Clone:
    """Its store, copied to another folder of a machine that knows nothing of it."""
    return Clone(original, home=original.root / "other-home")


@pytest.fixture
def here(original: Bench) -> Clone:
    """Its store, copied to another folder of the same machine."""
    return Clone(original)


def ok(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert done.returncode == 0, done.stderr
    return done


def rows(bench: Bench, *words: str) -> Any:
    found = json.loads(ok(bench.backstory(*words, "--json")).stdout)
    lists = {"list": "sessions", "ps": "runs", "queue": "prompts"}
    return found[lists[words[0]]] if words[0] in lists else found


def machine(bench: Bench) -> Store:
    return open_store(bench.home / "store.db", shared=True)


def change(store: Path, *statements: str) -> None:
    with closing(apsw.Connection(str(store))) as db:
        for statement in statements:
            db.execute(statement)


def notes(bench: Bench) -> list[Path]:
    folder = bench.home / "projects"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def bytes_of(bench: Bench) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (bench.project / ".backstory").iterdir()}


# what is ours ----------------------------------------------------------------------------------------------------


def test_a_store_that_we_made_is_never_asked_about(original: Bench) -> None:
    for words in (["checkout", "@1"], ["rename", "S1", "x"], ["run", "-a", "claude", "beta"]):
        assert "elsewhere" not in ok(original.backstory(*words, script=[GOOD])).stderr


def test_a_project_that_was_moved_stays_ours(original: Bench) -> None:
    original.project = original.project.rename(original.root / "moved")
    ok(original.run("beta", GOOD))
    assert [turn.prompt for turn in original.store.turns(1)] == ["alpha", "beta"]


def test_a_project_that_was_moved_is_noted_where_it_is(original: Bench) -> None:
    original.project = original.project.rename(original.root / "moved")
    ok(original.backstory("checkout", "@1"))
    (note,) = notes(original)
    assert note.read_bytes().startswith(os.fsencode(original.store.path))


def test_linked_worktrees_share_a_store_that_is_ours(original: Bench) -> None:
    git = ["git", "-C", str(original.project), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(original.root / "linked")], check=True)
    ok(original.run("beta", GOOD, options=("-S", "S1"), cwd=original.root / "linked"))
    assert original.store.ask(turns.count, 1) == 2


def test_a_note_of_an_earlier_version_counts_and_learns_which_file_it_is(original: Bench) -> None:
    (note,) = notes(original)
    note.write_bytes(os.fsencode(original.store.path))
    ok(original.backstory("checkout", "@1"))
    told = original.store.path.stat()
    assert note.read_bytes() == os.fsencode(original.store.path) + f"\0{told.st_dev} {told.st_ino}".encode()


def test_an_ingest_teaches_a_note_of_an_earlier_version_which_file_it_is(original: Bench) -> None:
    (note,) = notes(original)
    note.write_bytes(os.fsencode(original.store.path))
    ok(original.backstory("ingest", cwd=original.root))
    assert note.read_bytes().endswith(f" {original.store.path.stat().st_ino}".encode())


def test_without_its_note_a_store_is_from_elsewhere(original: Bench) -> None:
    shutil.rmtree(original.home / "projects")
    assert original.run("beta", GOOD).returncode == 77
    assert [each["conflict"] for each in rows(original, "list")] == [False, True]


def test_a_store_that_was_named_and_begun_by_an_ingest_is_ours(original: Bench) -> None:
    log = original.root / ".claude/projects/p/5e55.jsonl"
    log.parent.mkdir(parents=True)
    record = {"type": "user", "uuid": "1", "sessionId": "5e55", "message": {"role": "user", "content": "hi"}}
    log.write_text(json.dumps(record) + "\n")
    ok(original.backstory("ingest", "--store", "new.db"))
    ok(original.backstory("rename", "--store", "new.db", "5e55", "x"))


def test_a_folder_with_settings_alone_asks_nothing(bench: Bench) -> None:
    (bench.project / ".backstory").mkdir()
    (bench.project / ".backstory" / "config.toml").write_text("")
    ok(bench.run("alpha", GOOD))


# what is not -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ACTING, ids=" ".join)
def test_acting_in_a_store_from_elsewhere_is_refused_and_changes_nothing(clone: Clone, words: list[str]) -> None:
    before = bytes_of(clone)
    done = clone.backstory(*words, script=[GOOD])
    assert (done.returncode, "--trust" in done.stderr) == (77, True), done.stderr
    assert (bytes_of(clone), notes(clone), clone.spools()) == (before, [], [])


@pytest.mark.parametrize("command", ["run", "steer", "followup", "checkout", "rename", "rm"])
def test_every_acting_command_has_the_option(bench: Bench, command: str) -> None:
    assert "--trust" in ok(bench.backstory(command, "--help")).stdout


@pytest.mark.parametrize(
    "words", [["queue", "run"], ["queue", "drop"], ["queue", "clear"], ["context", "set"], ["context", "unset"],
              *(["branch", each] for each in ("name", "unname", "rm", "restore", "prune"))], ids=" ".join,
)  # fmt: skip
def test_so_has_every_part_of_those_that_have_parts(bench: Bench, words: list[str]) -> None:
    assert "--trust" in ok(bench.backstory(*words, "--help")).stdout


def test_a_copy_on_the_same_machine_is_not_ours(here: Clone) -> None:
    assert here.run("beta", GOOD).returncode == 77


def test_trust_is_said_once(clone: Clone) -> None:
    assert "trusted from now on" in ok(clone.run("beta", GOOD, options=("--trust",))).stderr
    assert "elsewhere" not in ok(clone.run("gamma", GOOD)).stderr
    assert [turn.prompt for turn in clone.store.turns(1)] == ["alpha", "beta", "gamma"]


def test_trust_has_no_effect_where_nothing_is_to_be_trusted(original: Bench) -> None:
    assert "trusted" not in ok(original.run("beta", GOOD, options=("--trust",))).stderr


def test_trusting_one_copy_does_not_trust_another(clone: Clone) -> None:
    ok(clone.run("beta", GOOD, options=("--trust",)))
    assert Clone(clone, name="second", home=clone.home).run("gamma", GOOD).returncode == 77


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 77)])
def test_at_a_terminal_it_is_asked(clone: Clone, answer: str, code: int) -> None:
    ours, theirs = pty.openpty()
    process = clone.start("checkout", "@1", stdin=theirs)
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    _, told = process.communicate(timeout=60)
    os.close(ours)
    assert (process.returncode, "Trust it from now on?" in told) == (code, True), told


def test_a_store_that_is_named_follows_the_same_rule(clone: Clone) -> None:
    words = ("rename", "--store", str(clone.store.path), "S1", "x")
    assert clone.backstory(*words, cwd=clone.root).returncode == 77
    ok(clone.backstory(*words, "--trust", cwd=clone.root))
    ok(clone.backstory(*words, cwd=clone.root))


def test_the_machines_own_store_may_be_named(original: Bench) -> None:
    ok(original.backstory("rename", "--store", str(original.home / "store.db"), "S1", "x", cwd=original.root))


def test_a_session_of_the_machines_store_can_be_removed_inside_a_clone(clone: Clone) -> None:
    ok(clone.backstory("ingest"))
    uid = machine(clone).sessions()[0].uid
    change(clone.store.path, "delete from sessions")
    ok(clone.backstory("rm", "-y", uid))
    assert machine(clone).ask(sessions.count) == 0


@pytest.mark.parametrize("version", [1, 2])
def test_a_clone_with_a_draft_of_the_schema_is_told_so_and_keeps_it(bench: Bench, version: int) -> None:
    bench.store.path.parent.mkdir()
    shutil.copy(GOLDEN / f"store-v{version}.bks", bench.store.path)
    content = bench.store.path.read_bytes()
    for words in (["list"], ["run", "--trust", "-S", "S1", "hello"]):
        refused = bench.backstory(*words)
        assert refused.returncode == 76
        assert "Move it aside" in refused.stderr
    assert bench.store.path.read_bytes() == content


def test_an_ingest_beside_a_store_that_cannot_be_read_tells_of_it_and_goes_on(bench: Bench) -> None:
    bench.store.path.parent.mkdir()
    shutil.copy(GOLDEN / "store-v2.bks", bench.store.path)
    (problem,) = rows(bench, "ingest")["errors"]
    assert problem["path"] == str(bench.store.path)
    assert "a draft of the schema" in problem["reason"]


def test_of_a_known_store_that_cannot_be_read_an_ingest_in_its_project_tells_once(original: Bench) -> None:
    original.store.path.write_bytes(b"no store")
    done = ok(original.backstory("ingest"))
    assert done.stderr.count("is not a backstory store") == 1


def test_a_store_that_an_earlier_version_derived_is_read_and_can_be_trusted(bench: Bench) -> None:
    bench.store.path.parent.mkdir()
    derived_earlier(bench.store.path)
    assert [each["number"] for each in rows(bench, "list")] == ["S3", "S1"]
    assert rows(bench, "ingest")["errors"] == []
    assert machine(bench).ask(sessions.count) == 2
    ok(bench.run("beta", GOOD, options=("--trust", "-S", "S1")))
    assert bench.store.ask(turns.count, bench.store.session("S1").id) == 2
    assert bench.store.verify().problems == []
    assert machine(bench).verify().problems == []


# what is read of it ----------------------------------------------------------------------------------------------


def test_it_is_listed_and_shown_with_a_mark(clone: Clone) -> None:
    assert "[from elsewhere] alpha" in ok(clone.backstory("list")).stdout
    assert "from elsewhere" in ok(clone.backstory("show", "S1")).stdout
    assert rows(clone, "list")[0]["from_elsewhere"] is True
    assert rows(clone, "show", "S1")["session"]["from_elsewhere"] is True


def test_what_is_ours_bears_no_mark(original: Bench) -> None:
    assert "elsewhere" not in ok(original.backstory("list")).stdout
    assert (rows(original, "list")[0]["from_elsewhere"], rows(original, "list")[0]["conflict"]) == (False, False)


def test_reading_it_notes_nothing_and_changes_nothing(clone: Clone) -> None:
    before = bytes_of(clone)
    for words in (["list"], ["show", "S1"], ["tree"], ["context", "S1"], ["queue", "list"], ["verify"], ["ingest"]):
        ok(clone.backstory(*words))
    assert (bytes_of(clone), notes(clone)) == (before, [])


def test_an_ingest_takes_what_the_machine_lacks_and_marks_it(clone: Clone) -> None:
    ok(clone.backstory("ingest"))
    (taken,) = machine(clone).sessions()
    assert (taken.first_prompt, taken.number, taken.elsewhere) == ("alpha", None, str(clone.store.path))
    (hit,) = rows(clone, "search", "alpha")["hits"]
    assert hit["from_elsewhere"] is True
    assert "from elsewhere" in ok(clone.backstory("search", "alpha")).stdout


def test_a_second_ingest_finds_no_conflict_with_what_it_took(clone: Clone) -> None:
    ok(clone.backstory("ingest"))
    assert rows(clone, "ingest")["errors"] == []
    assert [(each["number"], each["conflict"]) for each in rows(clone, "list")] == [("S1", False)]


def test_what_the_machine_took_keeps_its_mark_when_the_store_is_trusted(clone: Clone) -> None:
    ok(clone.backstory("ingest"))
    ok(clone.run("beta", GOOD, options=("--trust",)))
    (taken,) = machine(clone).sessions()
    assert (taken.turns, taken.number, taken.elsewhere) == (2, 1, str(clone.store.path))


def test_what_came_with_a_store_that_is_trusted_at_once_is_marked_and_what_is_made_then_is_not(clone: Clone) -> None:
    ok(clone.run("beta", GOOD, options=("--trust", "-n")))
    told = {each.first_prompt: each.elsewhere for each in machine(clone).sessions()}
    assert told == {"alpha": str(clone.store.path), "beta": None}


def test_a_clone_with_a_tombstone_and_a_changed_copy_of_ours_changes_nothing(here: Clone, original: Bench) -> None:
    uid = original.store.session("S1").uid
    change(
        here.store.path, "update turns set prompt = 'lies'", "update sessions set name = 'lies'",
        f"insert into forgotten(uid, at) values ('{uid}', 1)", "update meta set value = 'X' where key = 'store_id'",
    )  # fmt: skip
    before = machine(here).session(uid), machine(here).turns(machine(here).session(uid))
    told = rows(here, "ingest")["errors"]
    assert [(each["path"], uid in each["reason"]) for each in told] == [(str(here.store.path), True)]
    assert (machine(here).session(uid), machine(here).turns(machine(here).session(uid))) == before
    assert not machine(here).ask_or(False, sessions.is_forgotten, uid)
    assert rows(here, "show", uid)["turns"][0]["prompt"] == "alpha"


def test_a_session_that_claims_to_be_ours_is_listed_as_a_conflict(here: Clone, original: Bench) -> None:
    uid = original.store.session("S1").uid
    told = [(each["uid"], each["from_elsewhere"], each["conflict"]) for each in rows(here, "list", "--all")]
    assert sorted(told) == [(uid, False, False), (uid, True, True)]
    assert "[conflict] alpha" in ok(here.backstory("list")).stdout
    with Terminal([*COMMAND, "list"], here.project, here.environ([]) | {"PAGER": "cat"}) as terminal:
        assert "alpha  conflict" in terminal.end()


def test_a_session_in_conflict_has_its_own_work_in_a_stand_up_and_none_of_ours(here: Clone, original: Bench) -> None:
    def asked() -> list[tuple[str, str]]:
        report = rows(here, "report", "standup", "--since", "2020-01-01")
        return sorted((each["uid"], each["asked"]) for place in report["places"] for each in place["sessions"])

    uid = original.store.session("S1").uid
    assert asked() == [(uid, "alpha")]
    change(here.store.path, f"update turns set uid = '{ANOTHER}', prompt = 'lies'")
    assert asked() == [(uid, "alpha"), (uid, "lies")]


def test_nothing_is_taken_from_a_store_whose_id_is_ours(here: Clone) -> None:
    with here.store as store:
        store.create_session()
    told = rows(here, "ingest")["errors"]
    assert (len(told), machine(here).ask(sessions.count)) == (1, 1)


def test_a_new_session_with_a_turn_of_ours_is_not_taken(here: Clone) -> None:
    uid = "01K00000000000000000000000"
    change(
        here.store.path, f"update sessions set uid = '{uid}', owner = 'X'",
        "update meta set value = 'X' where key = 'store_id'",
    )  # fmt: skip
    assert uid in rows(here, "ingest")["errors"][0]["reason"]
    assert not machine(here).has(uid)


def test_its_names_name_nothing(clone: Clone) -> None:
    change(clone.store.path, "update sessions set name = 'release'")
    assert rows(clone, "list")[0]["name"] is None
    assert clone.backstory("show", "release").returncode == 66


def test_a_taken_session_gives_way_to_the_agents_own_log_of_it(clone: Clone) -> None:
    log = clone.root / ".claude/projects/p/5e55.jsonl"
    log.parent.mkdir(parents=True)
    record = {"type": "user", "uuid": "1", "sessionId": "5e55", "message": {"role": "user", "content": "mine"}}
    log.write_text(json.dumps(record) + "\n")
    ok(clone.backstory("ingest", "--store", "probe.db"))
    with open_store(clone.project / "probe.db") as probe:
        (uid,) = probe.uids()
    change(clone.store.path, f"update sessions set uid = '{uid}'")
    log.rename(log.with_suffix(".away"))
    ok(clone.backstory("ingest"))
    assert machine(clone).session(uid).first_prompt == "alpha"
    log.with_suffix(".away").rename(log)
    ok(clone.backstory("ingest"))
    assert (machine(clone).session(uid).first_prompt, machine(clone).session(uid).elsewhere) == ("mine", None)


def test_a_trusted_store_does_not_replace_a_session_that_is_anothers(here: Clone, original: Bench) -> None:
    uid = original.store.session("S1").uid
    change(
        here.store.path, "update turns set prompt = 'lies'", f"update sessions set owner = '{ANOTHER}'",
        f"update meta set value = '{ANOTHER}' where key = 'store_id'",
    )  # fmt: skip
    assert uid in ok(here.run("beta", GOOD, options=("--trust", "-n"))).stderr
    ok(here.backstory("ingest"))
    assert machine(here).session(uid).first_prompt == "alpha"


# one made by an enemy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["meta", "sessions", "turns"])
def test_a_view_in_the_place_of_a_table_is_not_read(clone: Clone, table: str) -> None:
    change(
        clone.store.path, f"alter table {table} rename to other",
        f"create view {table} as with recursive c(x) as (select 1 union all select x + 1 from c) select * from c",
    )  # fmt: skip
    done = clone.backstory("list")
    assert (done.returncode, f"its '{table}' is no table" in done.stderr) == (65, True), done.stderr


def test_a_column_that_is_worked_out_when_it_is_read_is_not_read(clone: Clone) -> None:
    change(clone.store.path, "alter table turns add column x as (hex(zeroblob(500000000)))")
    assert "is worked out when it is read" in clone.backstory("list").stderr


def test_an_index_that_reads_something_else_is_not_asked(clone: Clone) -> None:
    change(
        clone.store.path, "drop table search_index", "create table words(x)",
        "create virtual table search_index using fts5(x, content='words')",
    )  # fmt: skip
    assert "search index" in clone.backstory("search", "--store", str(clone.store.path), "x").stderr


@pytest.mark.parametrize(
    "statement",
    [
        "update meta set value = 'three' where key = 'schema_version'",
        "update meta set value = x'ff00' where key = 'schema_version'",
        f"update meta set value = '{'9' * 5_000}' where key = 'schema_version'",
        "delete from meta where key = 'store_id'",
        "alter table meta rename column value to other",
    ],
)
def test_what_does_not_say_what_it_is_is_no_store(clone: Clone, statement: str) -> None:
    change(clone.store.path, statement)
    content = bytes_of(clone)
    refused = clone.backstory("list")
    assert refused.returncode == 65
    assert "is not a backstory store" in refused.stderr
    assert "is not a backstory store" in rows(clone, "ingest")["errors"][0]["reason"]
    assert bytes_of(clone) == content


def test_its_triggers_are_taken_out_before_anything_is_written(clone: Clone) -> None:
    change(
        clone.store.path,
        "create trigger t1 after update on sessions begin insert into forgotten(uid, at) select uid, 1 from sessions; "
        "end",
        "drop trigger turn_gone", "create trigger turn_gone after insert on turns begin delete from turns; end",
    )  # fmt: skip
    told = ok(clone.run("beta", GOOD, options=("--trust",))).stderr
    assert "Removed from it, because it would run by itself: t1, turn_gone" in told
    assert (
        clone.store.ask(turns.count, 1),
        clone.store.ask_or(False, sessions.is_forgotten, clone.store.session("S1").uid),
    ) == (2, False)
    assert clone.store.verify().problems == []
    with closing(apsw.Connection(str(clone.store.path))) as db:
        sql = db.execute("select sql from sqlite_schema where name = 'turn_gone'").get
    assert "after delete on turns" in str(sql)


def test_rows_that_make_no_sense_are_not_taken_and_begin_no_store(clone: Clone) -> None:
    change(clone.store.path, "update turns set first_seq = 'x'")
    assert len(rows(clone, "ingest")["errors"]) == 1
    assert not machine(clone).exists


def test_one_session_that_makes_no_sense_does_not_keep_the_others_out(clone: Clone) -> None:
    with clone.store as store:
        store.create_session("second")
    change(clone.store.path, "update turns set uid = '../../x'")
    assert len(rows(clone, "ingest")["errors"]) == 1
    assert machine(clone).ask(sessions.count) == 1


@pytest.fixture(params=[".backstory", ".backstory/sessions.bks"])
def link(request: pytest.FixtureRequest, original: Bench) -> Iterator[Clone]:
    """A clone whose folder, or store, is a link to that of a project of ours."""
    clone = Clone(original)
    place = clone.project / request.param
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    place.symlink_to(original.project / request.param)
    yield clone


def test_a_link_to_one_of_ours_is_from_elsewhere(link: Clone, original: Bench) -> None:
    before = bytes_of(original)
    assert link.run("beta", GOOD).returncode == 77
    assert bytes_of(original) == before


@pytest.mark.parametrize("words", [["run", "-a", "claude", "x"], ["run", "--trust", "-a", "claude", "x"]])
def test_a_link_to_the_machines_own_store_is_no_projects(original: Bench, words: list[str]) -> None:
    clone = Clone(original)
    clone.store.path.unlink()
    clone.store.path.symlink_to(original.home / "store.db")
    done = clone.backstory(*words, script=[GOOD])
    assert (done.returncode, "home store" in done.stderr) == (77, True)
    assert machine(original).ask(turns.count, 1) == 1
    assert len(rows(clone, "list", "--all")) == 1


def test_nothing_is_made_behind_a_link(original: Bench) -> None:
    clone, elsewhere = Clone(original), original.root / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(clone.project / ".backstory")
    (clone.project / ".backstory").symlink_to(elsewhere)
    assert clone.run("beta", GOOD).returncode == 77
    assert list(elsewhere.iterdir()) == []
    ok(clone.run("beta", GOOD, options=("--trust",)))
    ok(clone.run("gamma", GOOD))


# what waits in it ------------------------------------------------------------------------------------------------


@pytest.fixture
def queued(clone: Clone) -> Clone:
    """A clone with two prompts that wait for S1."""
    uid = clone.store.session("S1").uid
    asked = Options(agent="claude", permissions="all", cwd=str(clone.root))
    with Queue(clone.store.path) as queue:
        queue.add([
            QueuedPrompt(uid=f"01K0000000000000000000000{letter}", session_uid=uid, kind=kind, content=f"evil {letter}",
                 options=asked, queued=1)
            for letter, kind in (("A", QueuedKind.FOLLOWUP), ("B", QueuedKind.STEER))
        ])  # fmt: skip
    return clone


def prompts(clone: Clone) -> list[str]:
    return [turn.prompt for turn in clone.store.turns(1)]


def test_what_waits_in_it_is_listed_as_held(queued: Clone) -> None:
    assert [each["held"] for each in rows(queued, "queue", "list")] == [True, True]


def test_what_waits_in_it_is_not_run_when_it_is_trusted(queued: Clone) -> None:
    ok(queued.run("beta", GOOD, options=("--trust",)))
    ok(queued.run("gamma", GOOD))
    ok(queued.backstory("queue", "run", "S1", script=[GOOD]))
    assert prompts(queued) == ["alpha", "beta", "gamma"]
    assert [each["kind"] for each in rows(queued, "queue", "list")] == ["held", "held"]


def test_what_waits_in_it_is_run_when_it_is_released_without_permissions_of_its_own(queued: Clone) -> None:
    ok(queued.backstory("queue", "run", "--trust", "0000000B", script=[GOOD]))
    assert prompts(queued) == ["alpha", "evil B"]
    assert "--dangerously-skip-permissions" not in queued.argv()
    assert [each["id"][-1] for each in rows(queued, "queue", "list")] == ["A"]


def test_what_waits_in_it_can_be_dropped(queued: Clone) -> None:
    ok(queued.backstory("queue", "drop", "--trust", "0000000A"))
    ok(queued.backstory("queue", "clear"))
    assert rows(queued, "queue", "list") == []


def test_a_queue_that_came_without_a_store_is_held_too(queued: Clone) -> None:
    queued.store.path.unlink()
    assert "2 queued" in ok(queued.run("beta", GOOD)).stderr
    assert [each["held"] for each in rows(queued, "queue", "list")] == [True, True]


def test_a_queue_that_is_a_link_is_refused(queued: Clone) -> None:
    queue = queued.store.path.with_name("sessions.bks.queue.db")
    target = queue.rename(queued.root / "another.queue.db")
    queue.symlink_to(target)
    before = target.read_bytes()
    assert queued.run("beta", GOOD, options=("--trust",)).returncode == 65
    assert target.read_bytes() == before


@pytest.mark.parametrize("ending", ["-wal", "-journal", "-shm"])
def test_what_sqlite_would_write_through_a_link_is_not_opened(clone: Clone, ending: str) -> None:
    precious = clone.root / "precious"
    precious.write_bytes(b"mine")
    clone.store.path.with_name(f"sessions.bks{ending}").symlink_to(precious)
    assert clone.run("beta", GOOD, options=("--trust",)).returncode == 65
    assert precious.read_bytes() == b"mine"


@pytest.mark.parametrize(
    "statement",
    ["update meta set value = '../../x' where key = 'store_id'", "update sessions set uid = '../../../x'"],
)
def test_names_that_would_be_paths_are_not_trusted(clone: Clone, statement: str) -> None:
    change(clone.store.path, statement)
    before = sorted(clone.root.rglob("*"))
    assert clone.run("beta", GOOD, options=("--trust",)).returncode == 65
    assert sorted(clone.root.rglob("*")) == before


def test_a_queued_text_whose_name_would_be_a_path_is_not_trusted(queued: Clone) -> None:
    change(queued.store.path.with_name("sessions.bks.queue.db"), "update texts set uid = '../../' || uid")
    assert queued.run("beta", GOOD, options=("--trust",)).returncode == 65
    assert rows(queued, "ps") == []


def test_a_queue_that_acts_by_itself_is_refused(queued: Clone) -> None:
    queue = queued.store.path.with_name("sessions.bks.queue.db")
    change(queue, "create trigger t after update on texts begin insert into texts select * from texts; end")
    done = queued.run("beta", GOOD, options=("--trust",))
    assert (done.returncode, "acts by itself" in done.stderr) == (65, True)
    assert notes(queued) == []


def test_rm_of_a_session_of_ours_leaves_the_copy_in_a_clone_as_it_is(here: Clone, original: Bench) -> None:
    uid, before = original.store.session("S1").uid, bytes_of(here)
    ok(here.backstory("rm", "-y", uid))
    assert bytes_of(here) == before
    assert not original.store.has(uid)
