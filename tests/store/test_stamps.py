"""How files were found, noted with a log where its own file lies, and apart of every other file: asked as one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backstory.store import open_store
from backstory.store.tables import logs
from tests.support.machines import Machine, conversation, lines, looked_up

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = ".claude/projects/-w"
SAME_END = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee.jsonl"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """One with the same log in two places, of which one was written last, another log, and an empty file."""
    machine = Machine(tmp_path)
    first = machine.write(f"{FOLDER}/{SAME_END}", lines(*conversation(4)))
    machine.write(f"{FOLDER}-copy/{SAME_END}", first.read_bytes())
    machine.write(f"{FOLDER}/other.jsonl", lines(*conversation(2)))
    machine.write(f"{FOLDER}/empty.jsonl", b"")
    for age, path in enumerate(sorted(machine.home.rglob("*.jsonl"), key=lambda path: path != first)):
        os.utime(path, (1_790_000_000 - age, 1_790_000_000 - age))
    machine.read("claude")
    yield machine
    machine.close()


def paths(machine: Machine) -> list[str]:
    """Those of all files."""
    return sorted(map(str, machine.home.rglob("*.jsonl")))


def test_a_log_has_one_stamp_of_its_own_file_and_the_others_lie_apart(machine: Machine) -> None:
    apart = looked_up(machine.store_path, "select path from log_places")
    assert len(apart) == 2
    assert looked_up(machine.store_path, "select count(*) from logs where size is not null") == [(2,)]


def test_files_are_found_by_their_paths_wherever_their_stamps_lie(machine: Machine) -> None:
    found = machine.store.ask_or({}, logs.stamps_of, paths(machine))
    assert found == machine.store.ask_or({}, logs.file_stamps)
    assert sorted(found) == paths(machine)


def test_a_path_that_only_ends_like_one_is_not_found(machine: Machine) -> None:
    strange = f"/elsewhere{paths(machine)[0]}"
    assert machine.store.ask_or({}, logs.stamps_of, [strange]) == {}
    assert machine.store.ask_or(set(), logs.known_paths, [strange, f"/{SAME_END}"]) == set()


def test_of_two_files_with_the_same_end_each_is_found_alone(machine: Machine) -> None:
    for path in paths(machine):
        assert list(machine.store.ask_or({}, logs.stamps_of, [path])) == [path]
        assert machine.store.ask_or(set(), logs.known_paths, [path, "/none.jsonl"]) == {path}


def test_the_last_written_are_those_of_both_tables_in_order_without_what_gave_nothing(machine: Machine) -> None:
    last = machine.store.ask_or([], logs.recent_stamps, 10)
    assert [stamp.mtime_ns for stamp in last] == sorted((stamp.mtime_ns for stamp in last), reverse=True)
    assert {stamp.path for stamp in last} == {path for path in paths(machine) if "empty" not in path}
    assert machine.store.ask_or([], logs.recent_stamps, 1) == last[:1]


def test_for_a_reason_only_those_are_found_that_gave_nothing_for_it(machine: Machine) -> None:
    assert [path.rpartition("/")[2] for path in machine.store.ask_or({}, logs.file_stamps, "empty")] == ["empty.jsonl"]
    assert machine.store.ask_or({}, logs.file_stamps, "database") == {}


@pytest.mark.parametrize("question", [logs.STAMPS_BY_PATH, logs.LAST_STAMPS], ids=["by path", "last written"])
def test_stamps_of_logs_are_found_without_looking_at_all_of_them(machine: Machine, question: str) -> None:
    with closing(sqlite3.connect(machine.store_path)) as db:
        plan = [row[3] for row in db.execute(f"explain query plan {question}", ("[]",))]
    assert any("INDEX idx_logs" in step for step in plan)


@pytest.mark.parametrize(
    "change",
    [
        "update logs set path = path || '.moved'",
        "insert into logs(session_id, agent, kind, native_id, path, device, inode, size, mtime_ns) "
        "select session_id, agent, kind, native_id || 'x', path || '.moved', device, inode, size, mtime_ns from logs",
    ],
    ids=["moved", "added"],
)
def test_a_path_that_another_program_wrote_is_found(machine: Machine, change: str) -> None:
    (path, *_) = [path for path in paths(machine) if "empty" not in path]
    with closing(sqlite3.connect(machine.store_path)) as db, db:
        db.execute(change)
    assert list(machine.store.ask_or({}, logs.stamps_of, [f"{path}.moved"])) == [f"{path}.moved"]
    assert machine.store.ask_or(set(), logs.known_paths, [f"{path}.moved"]) == {f"{path}.moved"}


def test_another_program_deletes_a_session_with_its_logs(machine: Machine) -> None:
    with closing(sqlite3.connect(machine.store_path)) as db, db:
        db.execute("delete from sessions")
        assert db.execute("select count(*) from logs").fetchone() == (0,)


def test_the_paths_of_a_store_of_an_earlier_version_are_found_by_their_whole_hash(machine: Machine) -> None:
    known = machine.store.ask_or({}, logs.file_stamps)
    with closing(sqlite3.connect(machine.store_path)) as db, db:
        for statement in (
            "drop trigger path_changed", "drop index idx_logs_path_hash", "alter table logs drop column path_hash",
            "create index idx_logs_path_end on logs(substr(path, -24)) where size is not null",
            "update meta set value = '10' where key = 'derived_version'",
        ):  # fmt: skip
            db.execute(statement)
    with open_store(machine.store_path, shared=True) as store:
        store.make_ready()
        assert store.ask_or({}, logs.stamps_of, list(known)) == known
    with closing(sqlite3.connect(machine.store_path)) as db:
        assert db.execute("select count(*) from logs where size is not null and path_hash is null").fetchone() == (0,)
        assert db.execute("select 1 from sqlite_schema where name = 'idx_logs_path_end'").fetchone() is None
