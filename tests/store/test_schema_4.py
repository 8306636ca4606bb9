"""A store of schema 3 with logs of an agent in it, brought to schema 4: what stood twice of a log stands once."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from backstory import errors
from backstory.store import codec, open_store
from backstory.store.file import migrate
from backstory.store.tables import logs as stored_logs
from tests.support.clock import NOW
from tests.support.machines import Machine, content, conversation, lines, looked_up
from tests.support.make_golden import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ".claude/projects/-w"
TRIES = 12


def a_store_of_schema_3(path: Path, home: Path) -> None:
    """What an earlier version made of three logs below ``home``, one of them removed since, and of an empty file."""
    path.write_bytes(zstandard.ZstdDecompressor().decompress((GOLDEN / "logs-v3.db.zst").read_bytes()))
    with closing(sqlite3.connect(path)) as db, db:
        for table in ("logs", "log_places"):
            db.execute(f"update {table} set path = replace(path, '/golden', ?)", (str(home),))


def a_machine(folder: Path, *, records: int = 0) -> Machine:
    """One with the logs of that store, each longer by so many records."""
    machine = Machine(folder)
    machine.write(f"{FOLDER}/short.jsonl", lines(*conversation(4 + records)))
    machine.write(f"{FOLDER}/long.jsonl", lines(*conversation(200 + records)))
    machine.write(f"{FOLDER}/gone.jsonl", lines(*conversation(4)))
    machine.write(f"{FOLDER}/empty.jsonl", b"")
    return machine


def tables(path: Path) -> set[Any]:
    """Every column and every index and trigger of a store, in no order, but for those of a table's constraints."""
    columns = (
        "select m.name, c.name, c.type, c.[notnull], c.dflt_value from sqlite_schema m, pragma_table_info(m.name) c "
    )
    others = "select name, tbl_name, sql from sqlite_schema where type in ('index', 'trigger') and sql is not null"
    return {*looked_up(path, columns + "where m.type = 'table'"), *looked_up(path, others)}


def test_it_has_the_tables_of_a_new_one(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    a_store_of_schema_3(tmp_path / "old.db", machine.home)
    with open_store(tmp_path / "old.db") as old:
        old.make_ready()
    machine.read("claude")
    machine.close()
    assert tables(tmp_path / "old.db") == tables(machine.store_path)


def test_its_logs_read_as_before(tmp_path: Path) -> None:
    home = tmp_path / "home"
    a_store_of_schema_3(path := tmp_path / "old.db", home)
    before = looked_up(path, "select path, relpath, first_hash, tail_hash, read_to from logs order by id")
    with open_store(path) as store:
        logs = store.logs()
        assert store.verify().problems == []
    assert [(log.path, log.relpath, log.read_to) for log in logs] == [(row[0], row[1], row[4]) for row in before]
    assert [(log.first_hash, log.tail_hash) for log in logs] == [
        (bytes.fromhex(row[2]), bytes.fromhex(row[3])) for row in before
    ]
    assert looked_up(path, "select count(*) from logs where relpath <> ''") == [(0,)]


def test_it_remembers_how_each_file_was_found(tmp_path: Path) -> None:
    home = tmp_path / "home"
    a_store_of_schema_3(path := tmp_path / "old.db", home)
    columns = "device, inode, size, mtime_ns, ctime_ns, reason"
    before = looked_up(path, f"select path, agent, log_id, {columns} from log_places order by path")
    with open_store(path) as store:
        stamps = sorted(store.ask_or({}, stored_logs.file_stamps).values(), key=lambda stamp: stamp.path)
    assert [
        (
            each.path,
            each.agent,
            each.log_id,
            each.device,
            each.inode,
            each.size,
            each.mtime_ns,
            each.ctime_ns,
            each.reason,
        )
        for each in stamps
    ] == before
    assert [row[0].rpartition("/")[2] for row in looked_up(path, "select path from log_places order by path")] == [
        "empty.jsonl", "gone.jsonl",
    ]  # fmt: skip


def test_logs_that_grew_since_go_on_as_if_they_had_been_read_at_once(tmp_path: Path) -> None:
    at_once = a_machine(tmp_path / "new", records=3)
    (at_once.home / FOLDER / "gone.jsonl").unlink()
    at_once.read("claude")
    machine = a_machine(tmp_path / "old", records=3)
    a_store_of_schema_3(machine.store_path, machine.home)
    report = machine.read("claude")
    assert report.errors == []
    assert machine.content() == at_once.content()
    assert looked_up(machine.store_path, "select generation from logs") == [(1,), (1,)]
    assert machine.store.verify().problems == []
    machine.close()
    at_once.close()


def test_what_was_removed_stays_removed(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    a_store_of_schema_3(machine.store_path, machine.home)
    machine.read("claude")
    assert {session.native_id for session in machine.store.sessions()} == {"short", "long"}
    machine.close()


def test_a_process_of_the_version_before_that_still_writes_hurts_no_log(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    machine.read("claude")
    before = machine.content()
    looked_up(machine.store_path, "update logs set first_hash = lower(hex(first_hash)), tail_hash = hex(tail_hash)")
    with (machine.home / FOLDER / "long.jsonl").open("ab") as log:
        log.write(lines(*conversation(201)[200:]))
    machine.read("claude")
    assert looked_up(machine.store_path, "select count(*), max(generation) from logs") == [(3, 1)]
    assert machine.content() != before
    machine.close()


def test_a_hash_that_is_none_is_not_known(tmp_path: Path) -> None:
    machine = a_machine(tmp_path, records=2)
    a_store_of_schema_3(machine.store_path, machine.home)
    looked_up(machine.store_path, "update logs set first_hash = 'no hash', tail_hash = 'abc'")
    machine.read("claude")
    assert looked_up(machine.store_path, "select count(*), max(generation) from logs") == [(2, 1)]
    assert machine.store.verify().problems == []
    machine.close()


@pytest.mark.slow
def test_killed_at_any_moment_it_is_of_one_schema_or_the_other(tmp_path: Path) -> None:
    program = f"from backstory.store import open_store; open_store({str(tmp_path / 'copy.db')!r}).make_ready()"
    a_store_of_schema_3(tmp_path / "old.db", tmp_path)
    with closing(sqlite3.connect(tmp_path / "old.db")) as db, db:
        # More rows than are there, so that it takes long enough to be killed meanwhile.
        db.execute("pragma recursive_triggers = off")
        db.execute(
            "insert into logs(session_id, agent, kind, native_id, relpath, path, first_hash) "
            "with n(i) as (select 1 union all select i + 1 from n where i < 20000) "
            "select 2, 'claude', 'copy file', 'n', 'a/' || i, '/h/a/' || i, hex(zeroblob(32)) from n"
        )
    content_before = (tmp_path / "old.db").read_bytes()
    found, today = [], str(migrate.SCHEMA_VERSION)
    for n in range(TRIES):
        (tmp_path / "copy.db").write_bytes(content_before)
        killed = subprocess.Popen([sys.executable, "-c", program])
        try:
            killed.wait(0.1 + 0.06 * n)
        except subprocess.TimeoutExpired:
            killed.send_signal(signal.SIGKILL)
            killed.wait()
        with closing(sqlite3.connect(tmp_path / "copy.db")) as db:
            ((version,),) = db.execute("select value from meta where key = 'schema_version'")
            columns = {row[1] for row in db.execute("pragma table_info(logs)")}
            assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert ("root_chars" in columns) == (version == today)
        found.append(version)
        with open_store(tmp_path / "copy.db") as store:
            assert len(store.logs()) == 20_002
    assert set(found) <= {"3", today}


def test_an_older_program_would_refuse_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "new.db") as store:
        store.create_session()
    content_before = (tmp_path / "new.db").read_bytes()
    monkeypatch.setattr(migrate, "SCHEMA_VERSION", 3)
    with open_store(tmp_path / "new.db") as store, pytest.raises(errors.StoreTooNew):
        store.sessions()
    assert (tmp_path / "new.db").read_bytes() == content_before


def test_short_logs_that_were_packed_hard_are_packed_again(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    a_store_of_schema_3(path, tmp_path)
    looked_up(path, "update logs set frames = -1")
    before = looked_up(path, "select sum(length(data)) from chunks")
    with open_store(path) as store:
        store.optimize(NOW * 2)
        assert store.verify().problems == []
    assert looked_up(path, "select sum(length(data)) from chunks") < before


# what a log's reader made of it --------------------------------------------------------------------------------------


def test_a_short_log_that_comes_record_by_record_is_as_one_that_came_at_once(tmp_path: Path) -> None:
    records = conversation(12)
    at_once, by_one = Machine(tmp_path / "at once"), Machine(tmp_path / "by one")
    at_once.write(f"{FOLDER}/s.jsonl", lines(*records))
    at_once.read("claude")
    for n in range(1, len(records) + 1):
        by_one.write(f"{FOLDER}/s.jsonl", lines(*records[:n]))
        by_one.read("claude")
        assert looked_up(by_one.store_path, "select state from logs") == [(None,)]
    assert by_one.content() == at_once.content()
    at_once.close()
    by_one.close()


def test_the_state_of_a_longer_log_is_kept(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write(f"{FOLDER}/s.jsonl", lines(*conversation(200)))
    machine.read("claude")
    assert looked_up(machine.store_path, "select count(*) from logs where state is not null") == [(1,)]
    machine.close()


# dictionaries --------------------------------------------------------------------------------------------------------


def with_a_small_chunk(folder: Path) -> Machine:
    machine = Machine(folder)
    machine.write(f"{FOLDER}/s.jsonl", lines(*conversation(4)))
    machine.read("claude")
    return machine


def test_a_small_chunk_names_a_dictionary_that_the_file_holds(tmp_path: Path) -> None:
    machine = with_a_small_chunk(tmp_path)
    ((frame,),) = looked_up(machine.store_path, "select data from chunks")
    used = zstandard.get_frame_parameters(frame).dict_id
    ((dictionary,),) = looked_up(machine.store_path, f"select data from dictionaries where id = {used}")
    unpacking = zstandard.ZstdDecompressor(dict_data=zstandard.ZstdCompressionDict(dictionary))
    assert unpacking.decompress(frame) == lines(*conversation(4))
    machine.close()


def test_without_its_dictionary_a_chunk_is_read_with_ours_and_the_loss_is_reported(tmp_path: Path) -> None:
    machine = with_a_small_chunk(tmp_path)
    looked_up(machine.store_path, "delete from dictionaries where id = 32770")
    (log,) = machine.store.logs()
    assert b"".join(machine.store.stream_log(log.id)) == lines(*conversation(4))
    assert "dictionary 32770 is not in this file" in machine.store.verify().problems
    machine.close()


@pytest.mark.parametrize(
    "change",
    [
        "update dictionaries set data = zeroblob(1000), sha256 = 'x' where id = 32770",
        "update dictionaries set data = x'37a430ec0280000000000000', sha256 = 'x' where id = 32770",
        "update dictionaries set data = zeroblob(100000000), sha256 = 'x' where id = 32770",
        "update dictionaries set data = 'text', sha256 = 'x' where id = 32770",
        "update dictionaries set sha256 = '', data = (select data from dictionaries where id < 32770) where id > 32769",
    ],
    ids=["zeros", "torn", "huge", "text", "another"],
)
def test_a_dictionary_that_is_another_one_is_damage(tmp_path: Path, change: str) -> None:
    machine = with_a_small_chunk(tmp_path)
    (log,) = machine.store.logs()
    looked_up(machine.store_path, change)
    with pytest.raises(errors.StoreDamaged):
        machine.store.read_log(log.id, 0, 100)
    assert any("dictionary 32770" in problem for problem in machine.store.verify().problems)
    machine.close()


def test_a_frame_that_names_a_dictionary_nobody_has_is_damage(tmp_path: Path) -> None:
    machine = with_a_small_chunk(tmp_path)
    (log,) = machine.store.logs()
    strange = zstandard.train_dictionary(
        2_000, [b"%d says hello to %d" % (n, n * 7) * 3 for n in range(500)], dict_id=40_000
    )
    frame = zstandard.ZstdCompressor(dict_data=strange).compress(lines(*conversation(4)))
    looked_up(machine.store_path, "update chunks set data = ?", frame)
    with pytest.raises(errors.StoreDamaged, match="dictionary 40000"):
        machine.store.read_log(log.id, 0, 100)
    machine.close()


def test_chunks_packed_hard_are_read_as_before(tmp_path: Path) -> None:
    machine = with_a_small_chunk(tmp_path)
    before = content(machine.store)
    machine.store.optimize(NOW * 2)
    assert content(machine.store) == before
    assert machine.store.verify().problems == []
    machine.close()


# free pages ----------------------------------------------------------------------------------------------------------


def leave_free_pages(path: Path) -> int:
    """Have much of a file be free, as merging the index does; gives how many pages."""
    looked_up(path, "insert into meta(key, value) values ('large', hex(zeroblob(1000000)))")
    looked_up(path, "delete from meta where key = 'large'")
    return int(looked_up(path, "pragma freelist_count")[0][0])


def test_an_ingest_that_stored_something_gives_the_free_pages_back(tmp_path: Path) -> None:
    machine = with_a_small_chunk(tmp_path)
    assert leave_free_pages(machine.store_path) > 200
    machine.write(f"{FOLDER}/s.jsonl", lines(*conversation(6)))
    machine.read("claude")
    assert looked_up(machine.store_path, "pragma freelist_count") == [(0,)]
    machine.close()


def test_an_ingest_that_finds_nothing_new_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    machine = with_a_small_chunk(tmp_path)
    machine.close()
    leave_free_pages(machine.store_path)
    before = machine.store_path.read_bytes()
    machine.read("claude")
    machine.close()
    assert machine.store_path.read_bytes() == before


def test_the_dictionaries_that_come_with_the_package_are_those_that_their_ids_always_named() -> None:
    shipped = codec.shipped()
    assert {each: codec.text_digest(shipped[each].dictionary) for each in shipped} == codec.SHIPPED_SHA256
