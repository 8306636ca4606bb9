"""Databases that a clone or another program brings to do harm. Each costs nobody but itself, and stays as it was."""

from __future__ import annotations

import os
import resource
import sqlite3
import struct
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory import agents
from backstory.agents import ah, foreign
from backstory.agents.contract import SessionRows, UnreadableDatabase
from backstory.ingest import databases
from backstory.ingest.databases import DatabaseRows, Done, Unread, row_log_name
from backstory.ingest.ingest import ingest
from tests.support import azs_files
from tests.support.ah_files import SESSION, AhFile, tree
from tests.support.clock import NOW
from tests.support.copilot_database import DATABASE, HERE, LOST, ROWS, TABLES, changed, folder_content, read
from tests.support.counts import examples
from tests.support.machines import Machine, lies, lines, prompts, restored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.ingest.report import IngestReport

ENDLESS = "with recursive c(x) as (select 1 union all select x + 1 from c) select"


@pytest.fixture
def database(machine: Machine) -> Path:
    """A database with two sessions, whose logs are both gone."""
    path = machine.write(DATABASE, b"")
    changed(path, TABLES + ROWS)
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a database of ah's that nobody tampered with."""
    tree(tmp_path / "project" / ".ah" / f"{SESSION}.db")
    return tmp_path / "project"


def read_all(machine: Machine, project: Path) -> IngestReport:
    both = [agents.load("ah"), agents.load("copilot")]
    return ingest(machine.store, both, environ={"PWD": str(project)}, home=machine.home, now=NOW)


def reasons(report: IngestReport) -> dict[str, str]:
    return {Path(problem.path).name: problem.reason for problem in report.errors}


def sessions(machine: Machine) -> set[str | None]:
    return {session.native_id for session in machine.store.sessions()}


def hot_journal(database: Path, other: Path | None) -> Path:
    """A journal that puts the first page of a database back as it is; it may name another file, as its last words."""
    changed(database, "pragma journal_mode = delete")
    data = database.read_bytes()
    size = struct.unpack(">H", data[16:18])[0]
    page, nonce = data[:size], 7
    checksum = nonce + sum(page[at] for at in range(size - 200, 0, -200))
    journal = (foreign.JOURNAL_MAGIC + struct.pack(">5I", 1, nonce, len(data) // size, 512, size)).ljust(512, b"\0")
    journal += struct.pack(">I", 1) + page + struct.pack(">I", checksum & 0xFFFFFFFF)
    if other is not None:
        name = os.fsencode(other)
        journal += struct.pack(">I", 0x40000000 // size + 1) + name + struct.pack(">2I", len(name), sum(name))
        journal += foreign.JOURNAL_MAGIC
    path = database.with_name(f"{database.name}-journal")
    path.write_bytes(journal)
    return path


# journals -----------------------------------------------------------------------------------------------------


def test_a_journal_that_names_another_file_is_refused_and_that_file_stays(
    machine: Machine, database: Path, project: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("of no concern to SQLite")
    hot_journal(database, precious)
    hot_journal(project / ".ah" / f"{SESSION}.db", precious)
    before = folder_content(machine.home), folder_content(project)
    refused = "its journal names another file, so what was committed is unknown"
    assert reasons(read_all(machine, project)) == {database.name: refused, f"{SESSION}.db": refused}
    assert precious.exists()
    assert (folder_content(machine.home), folder_content(project)) == before


def test_a_queue_whose_journal_names_another_file_is_refused(machine: Machine, project: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("of no concern to SQLite")
    queue = project / ".ah" / f"{SESSION}.queue.db"
    hot_journal(queue, precious)
    assert "another file" in reasons(read_all(machine, project))[f"{SESSION}.db"]
    assert precious.exists()


def test_a_journal_that_names_no_other_file_is_undone(machine: Machine, database: Path) -> None:
    hot_journal(database, None)
    changed_bytes = bytearray(database.read_bytes())
    changed_bytes[100:1000] = b"\xff" * 900
    database.write_bytes(changed_bytes)
    assert read(machine).errors == []
    assert LOST in sessions(machine)


def test_what_a_settled_journal_still_names_is_of_no_interest(machine: Machine, database: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("of no concern to SQLite")
    journal = hot_journal(database, precious)
    journal.write_bytes(b"\0" * 28 + journal.read_bytes()[28:])
    assert read(machine).errors == []
    assert (precious.exists(), LOST in sessions(machine)) == (True, True)


@pytest.mark.parametrize(
    ("first", "last", "asked"),
    [
        (b"", b"", foreign.Journal.NOTHING),
        (b"\0" * 8, foreign.JOURNAL_MAGIC, foreign.Journal.NOTHING),
        (foreign.JOURNAL_MAGIC, b"\0" * 8, foreign.Journal.ROLLBACK),
        (foreign.JOURNAL_MAGIC, foreign.JOURNAL_MAGIC, foreign.Journal.ANOTHER_FILE),
        (b"anything", foreign.JOURNAL_MAGIC, foreign.Journal.ANOTHER_FILE),
    ],
)
def test_a_journals_ends_say_what_it_asks_for(first: bytes, last: bytes, asked: foreign.Journal) -> None:
    assert foreign.asks_for(first, last) is asked


# what is read -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instead", "reason"),
    [
        (f"create view turns(session_id, turn_index) as {ENDLESS} '{LOST}', x from c", "its turns is a view"),
        ("create virtual table turns using fts5(session_id, turn_index)", "its turns is a virtual table"),
    ],
)
def test_what_is_no_real_table_is_refused_and_the_others_are_read(
    machine: Machine, database: Path, project: Path, instead: str, reason: str
) -> None:
    changed(database, f"drop table turns; {instead}")
    assert reasons(read_all(machine, project)) == {database.name: f"{reason}, and only real tables are read"}
    assert sessions(machine) == {SESSION}


def test_an_endless_view_in_place_of_messages_is_refused(machine: Machine, database: Path, project: Path) -> None:
    path = project / ".ah" / "01HZZZZZZZZZZZZZZZZZZZZZZB.db"
    AhFile(path, f"create view messages as {ENDLESS} x id, x - 1 parent_id, 'user' role from c;", queue=False)
    assert reasons(read_all(machine, project)) == {path.name: "its messages is a view, and only real tables are read"}
    assert {SESSION, LOST} < sessions(machine)


def test_what_else_a_database_holds_is_not_looked_at(machine: Machine, database: Path) -> None:
    changed(
        database,
        f"create view more as {ENDLESS} x from c; create virtual table words using fts5(text);"
        "create trigger odd after insert on turns begin delete from sessions; end;",
    )
    assert read(machine).errors == []
    assert LOST in sessions(machine)


def test_what_a_column_would_compute_is_not_computed(machine: Machine, database: Path) -> None:
    changed(database, "alter table turns add column huge text as (hex(zeroblob(400000000)))")
    assert read(machine).errors == []
    assert LOST in sessions(machine)


def test_an_order_of_letters_that_only_its_program_knows_does_not_matter(machine: Machine, database: Path) -> None:
    with closing(sqlite3.connect(database)) as db:
        db.create_collation("odd", lambda one, other: (one > other) - (one < other))
        db.executescript(
            "alter table turns rename to old;"
            "create table turns(id integer primary key, session_id text collate odd, turn_index integer,"
            "user_message text collate odd, assistant_response text, timestamp text, unique(session_id, turn_index));"
            "insert into turns select * from old; drop table old;"
        )
    assert read(machine).errors == []
    assert "Mend the gate" in prompts(machine.store)


def test_texts_of_two_bytes_a_letter_are_read(machine: Machine) -> None:
    path = machine.write(DATABASE, b"")
    changed(path, "pragma encoding = 'utf-16';" + TABLES + ROWS.replace("Mend the gate", "Tör reparieren 門"))
    assert read(machine).errors == []
    assert "Tör reparieren 門" in prompts(machine.store)


# limits -------------------------------------------------------------------------------------------------------


def test_a_value_that_is_too_large_is_left_out_and_told(
    machine: Machine, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "VALUE_BYTES_MAX", 10_000)
    changed(
        database, f"update turns set user_message = '{'x' * 10_001}' where session_id = '{LOST}' and turn_index = 1"
    )
    (problem,) = read(machine).errors
    assert (problem.path, problem.reason) == (f"{database}#{LOST}", "1 value of more than 0 MB left out")
    assert "Mend the gate" in prompts(machine.store)


def test_a_value_that_is_too_large_costs_a_tree_only_that(
    machine: Machine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "VALUE_BYTES_MAX", 10_000)
    file = project / ".ah" / f"{SESSION}.db"
    changed(file, f"update content_blocks set content = '{'x' * 10_001}' where rowid = 1")
    assert reasons(read_all(machine, project)) == {f"{SESSION}.db#{SESSION}": "1 value of more than 0 MB left out"}
    assert sessions(machine) == {SESSION}


def test_a_session_that_is_too_large_is_told_and_the_others_are_read(
    machine: Machine, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "SESSION_BYTES_MAX", 50_000)
    for turn in range(9):
        changed(
            database,
            f"insert into turns(session_id, turn_index, user_message) values ('{LOST}', {turn + 5}, '{'x' * 9_000}')",
        )
    (problem,) = read(machine).errors
    assert (problem.path, problem.reason) == (f"{database}#{LOST}", "it is larger than 0 MB")
    assert sessions(machine) == {HERE}


@pytest.mark.slow
def test_a_database_that_takes_too_long_is_told_and_the_others_are_read(
    machine: Machine, database: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(
        database,
        "with recursive c(x) as (select 10 union all select x + 1 from c limit 20000)"
        f"insert into turns(session_id, turn_index, user_message) select '{LOST}', x, 'again' from c",
    )
    monkeypatch.setattr(foreign, "COMPUTING_S_MAX", 0.0)
    assert reasons(read(machine)) == {database.name: "to read it took longer than 0 s"}
    monkeypatch.undo()
    assert read_all(machine, project).errors == []
    assert {LOST, HERE, SESSION} == sessions(machine)


def test_more_memory_than_it_may_have_is_told(
    machine: Machine, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "HEAP_BYTES", 100_000)
    changed(database, f"update turns set user_message = '{'x' * 300_000}'")
    assert {"memory" in reason for reason in reasons(read(machine)).values()} == {True}


def test_a_database_larger_than_may_be_copied_is_told(
    machine: Machine, database: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "DATABASE_BYTES_MAX", database.stat().st_size - 1)
    assert "it is larger than" in reasons(read(machine))[database.name]


# copies -------------------------------------------------------------------------------------------------------


def found_in(machine: Machine) -> list[DatabaseRows | Unread | Done]:
    return list(databases.sessions_without_logs([agents.load("copilot")], {}, machine.home, {}))


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where copies are made."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_copy_is_its_owners_alone_and_removed(
    machine: Machine, database: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: dict[str, int] = {}

    def look(*_: Any) -> Iterator[Done]:
        modes.update({each.name: each.stat().st_mode & 0o777 for each in scratch.rglob("*") if each.is_file()})
        (folder,) = scratch.iterdir()
        modes["folder"] = folder.stat().st_mode & 0o777
        yield Done(places=[])

    hot_journal(database, None)
    database.chmod(0o644)
    monkeypatch.setattr(databases, "_sessions_in", look)
    before = os.umask(0)
    try:
        found_in(machine)
    finally:
        os.umask(before)
    assert modes == {"session-store.db": 0o600, "session-store.db-journal": 0o600, "folder": 0o700}
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("content", [b"no database" * 100, b""])
def test_a_copy_is_removed_also_where_it_cannot_be_read(
    machine: Machine, database: Path, scratch: Path, content: bytes
) -> None:
    database.write_bytes(content)
    (unread,) = found_in(machine)
    assert isinstance(unread, Unread)
    assert list(scratch.iterdir()) == []


def test_no_room_for_a_copy_is_told(machine: Machine, database: Path, scratch: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        (unread,) = found_in(machine)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(unread, Unread)
    assert unread.reason == "it could not be copied aside: File too large"
    assert list(scratch.iterdir()) == []


# values of any type -------------------------------------------------------------------------------------------


def test_what_nobody_foresaw_in_one_database_is_told_and_the_others_are_read(
    machine: Machine, database: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise TypeError("a blob is no text")

    monkeypatch.setattr(ah.AGENT.database, "sessions_without_logs", fail)
    assert "a blob is no text" in reasons(read_all(machine, project))[f"{SESSION}.db"]
    assert LOST in sessions(machine)


def test_sessions_whose_ids_are_no_text_are_told(machine: Machine, database: Path) -> None:
    changed(
        database,
        "insert into sessions(id) values (null), (x'ff00'); update sessions set id = cast(x'ff' as text) where id = '"
        + HERE
        + "'",
    )
    assert sorted(problem.reason for problem in read(machine).errors) == [
        "2 of its sessions have ids that are no text", "its id is no text",
    ]  # fmt: skip
    assert sessions(machine) == {LOST}


@pytest.mark.parametrize("native_id", ["../../x", "/etc/passwd", "..", "a\x00b", "x" * 5_000, "a\u202eb", "#", "a%2Fb"])
def test_a_session_of_any_id_is_read_and_given_back_inside_the_folder(
    machine: Machine, database: Path, native_id: str, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(database)) as db, db:
        for table, column in (("sessions", "id"), ("turns", "session_id")):
            db.execute(f"update {table} set {column} = ? where {column} = ?", (native_id, LOST))
    assert read(machine).errors == []
    assert native_id in sessions(machine)
    out = tmp_path / "out"
    for told in restored(machine.store, out):
        assert lies(told).resolve().is_relative_to(out)
    assert machine.store.verify().problems == []
    assert read(machine).errors == []
    assert len(machine.store.logs()) == 2


def test_a_database_whose_name_is_no_text_is_told_and_the_others_are_read(
    machine: Machine, database: Path, project: Path
) -> None:
    file = project / ".ah" / f"{SESSION}.db"
    os.link(file, os.fsencode(file.parent) + b"/\xff.db")
    assert reasons(read_all(machine, project)) == {"\ufffd.db": "its name is not UTF-8 text"}
    assert {SESSION, LOST} < sessions(machine)


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=300))
def test_a_log_of_rows_has_a_name_of_its_own_that_a_file_can_have(one: str, other: str) -> None:
    for database in ("session-store.db", "ü" * 120 + ".db"):
        name = row_log_name(database, one)
        assert len(os.fsencode(name)) <= databases.NAME_BYTES_MAX
        assert Path("/folder", name).name == name
        assert name.isprintable()
        assert (name == row_log_name(database, other)) == (one == other)


def test_the_name_of_an_ordinary_session_is_its_id() -> None:
    assert row_log_name("session-store.db", LOST) == f"session-store.db#{LOST}"


ANYTHING = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.binary(max_size=40),
    st.text(max_size=40),
    st.sampled_from([b"\xff\xfe", "9999-12-31T23:59:59.999-14:00", "0001-01-01", 1e308, -(2**63), "{" * 2_000]),
)  # fmt: skip


def values_of(path: Path) -> list[tuple[str, str]]:
    """Every table's every column that takes anything."""
    with closing(sqlite3.connect(path)) as db:
        tables = [row[0] for row in db.execute("select name from sqlite_schema where type = 'table'")]
        return [(table, row[1]) for table in tables for row in db.execute(f"pragma table_info({table})")]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A database of each agent that has some, by its agent."""
    folder = tmp_path_factory.mktemp("templates")
    file = tree(folder / f"{SESSION}.db").path
    changed(file, "pragma journal_mode = delete")
    changed(folder / "session-store.db", TABLES + ROWS)
    azs = azs_files.every_kind(folder / "sessions.azs").path
    return {
        "ah": file.read_bytes(), "azureal": azs.read_bytes(), "copilot": (folder / "session-store.db").read_bytes(),
    }  # fmt: skip


@given(
    # Which column is meant is a number, so that nothing but these draws decides what is drawn.
    name=st.sampled_from(["ah", "azureal", "copilot"]),
    drawn=st.lists(st.tuples(st.integers(0, 999), ANYTHING), min_size=1, max_size=8),
)
@settings(max_examples=examples(60), deadline=None)
def test_values_of_any_type_are_told_or_kept_and_raise_nothing(
    templates: dict[str, bytes], name: str, drawn: list[tuple[int, object]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{SESSION}.db")
        path.write_bytes(templates[name])
        columns = values_of(path)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("pragma synchronous = off")
            for number, value in drawn:
                table, column = columns[number % len(columns)]
                # What a column of numbers refuses cannot stand in it.
                with suppress(sqlite3.IntegrityError):
                    db.execute(f"update or ignore {table} set {column} = ? where rowid % 2", (value,))
        keeper = agents.load(name).database
        assert keeper is not None
        # A number may have become the version of a database that nobody knows yet: it is refused as a whole.
        with suppress(UnreadableDatabase):
            for each in keeper.sessions_without_logs(path, path):
                if isinstance(each, SessionRows):
                    assert lines(*each.content.splitlines()) == each.content
                else:
                    assert each.reason


def test_a_database_that_was_not_read_whole_is_looked_at_again(
    machine: Machine, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(database, f"update turns set user_message = '{'x' * 90_000}' where session_id = '{LOST}'")
    monkeypatch.setattr(foreign, "SESSION_BYTES_MAX", 90_000)
    assert [problem.path for problem in read(machine).errors] == [f"{database}#{LOST}"]
    monkeypatch.undo()
    assert read(machine).errors == []
    assert LOST in sessions(machine)
