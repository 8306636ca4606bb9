"""Sessions that only an agent's database still holds. The database, and the folder it lies in, stay as they were."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.agents import copilot
from backstory.export.full_form import FullForms
from backstory.ingest import databases
from backstory.ingest.reindex import reindex
from backstory.model import AssistantText, Compacted
from backstory.store import RecordBatch
from backstory.store.intake import append
from backstory.store.tables import logs
from tests.support.clock import NOW
from tests.support.copilot_database import DATABASE, HERE, LOST, ROOT, ROWS, TABLES, changed, folder_content, read
from tests.support.machines import lies, lines, looked_up, prompts, restored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.machines import Machine


@pytest.fixture
def database(machine: Machine) -> Path:
    """A database with two sessions; the log of one of them is there."""
    path = machine.write(DATABASE, b"")
    with closing(sqlite3.connect(path)) as db:
        db.executescript(TABLES + ROWS)
    said = {"type": "session.start", "data": {"sessionId": HERE}, "id": "s", "timestamp": "2026-11-21T21:00:00.000Z"}
    machine.write(ROOT / "session-state" / HERE / "events.jsonl", lines(json.dumps(said).encode()))
    return path


@pytest.fixture
def writer(database: Path) -> Iterator[sqlite3.Connection]:
    """A program that has the database open and has written something that is only in its WAL."""
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("pragma journal_mode = wal")
        db.execute("pragma wal_autocheckpoint = 0")
        db.execute(f"insert into turns(session_id, turn_index, user_message) values ('{LOST}', 2, 'In the WAL')")
        yield db


def the_lost_one(machine: Machine) -> Any:
    return machine.store.session(LOST)


def test_a_session_without_a_log_is_read_from_its_rows(machine: Machine, database: Path) -> None:
    assert read(machine).errors == []
    found = the_lost_one(machine)
    assert (found.title, found.cwd, found.repository, found.branch) == ("Mend it", "/src", "dev/work", "main")
    assert (found.created, found.agents) == ("2026-11-21T21:00:00.000Z", ("copilot",))
    turns = machine.store.turns(found)
    assert [turn.prompt for turn in turns] == ["Mend the gate", "Paint it"]
    assert [turn.started for turn in turns] == [1_795_294_801_000, 1_795_294_802_000]
    said = [each.event for each in machine.store.events(found)]
    assert [each.text for each in said if isinstance(each, AssistantText)] == ["It is mended."]


def test_its_files_and_checkpoints_are_there_too(machine: Machine, database: Path) -> None:
    read(machine)
    files = looked_up(machine.store_path, "select file_path, tool_name, action from session_files order by 1")
    assert files == [("/src/gate.py", "edit", "edit"), ("/src/paint.py", "create", "create")]
    columns = "checkpoint_number, title, overview, next_steps"
    assert looked_up(machine.store_path, f"select {columns} from checkpoints") == [
        (1, "The gate", "We mended.", "Paint.")
    ]
    (summary,) = [e.event for e in machine.store.events(the_lost_one(machine)) if isinstance(e.event, Compacted)]
    assert "We mended." in summary.summary


def test_what_its_rows_name_is_there_too(machine: Machine, database: Path) -> None:
    changed(
        database,
        "insert into session_refs(session_id, ref_type, ref_value, turn_index, created_at) values "
        f"('{LOST}', 'commit', 'fae70fa1c2', 1, '2026-11-21 21:00:03'), ('{LOST}', 'issue', '7', null, null),"
        f"('{LOST}', 'pr', 12, 1, null), ('{LOST}', 'milestone', '1', 0, null)",
    )
    assert read(machine).unknown_records == {"session_refs of type milestone": 1}
    columns = "ref_type, ref_value, repository, turn_index, created_at"
    told = machine.store.execute_read_only(f"select {columns} from session_refs order by 1").rows
    (pull_request,) = [row for row in told if row[0] == "pr"]
    assert pull_request[:4] == ("pr", "12", "dev/work", 0)
    assert [row for row in told if row[0] != "pr"] == [
        ("commit", "fae70fa1c2", "dev/work", 1, "2026-11-21T21:00:03.000Z"),
        ("issue", "7", "dev/work", None, None),
    ]


@pytest.mark.parametrize("tool", ["'apply_patch'", "'some_editor'", "null"])
def test_a_file_is_there_whatever_wrote_it(machine: Machine, database: Path, tool: str) -> None:
    changed(database, f"update session_files set tool_name = {tool} where file_path = '/src/gate.py'")
    read(machine)
    (found,) = looked_up(machine.store_path, "select action from session_files where file_path = '/src/gate.py'")
    assert found == ("edit",)


def test_a_session_whose_log_is_there_is_read_from_that(machine: Machine, database: Path) -> None:
    read(machine)
    assert "Told by its log" not in prompts(machine.store)
    assert len(machine.store.logs()) == 2


def test_a_session_whose_log_says_nothing_yet_is_left_to_it(machine: Machine, database: Path) -> None:
    machine.write(ROOT / "session-state" / HERE / "events.jsonl", b"")
    read(machine)
    assert prompts(machine.store) == ["Mend the gate", "Paint it"]


def test_a_session_whose_log_is_gone_by_now_stays_as_its_log_told_it(machine: Machine, database: Path) -> None:
    read(machine)
    shutil.rmtree(machine.home / ROOT / "session-state")
    changed(database, "update sessions set branch = 'other'")
    assert read(machine).errors == []
    assert "Told by its log" not in prompts(machine.store)


def test_tokens_are_those_of_the_turns(machine: Machine, database: Path) -> None:
    changed(
        database,
        "create table assistant_usage_events(id integer primary key, session_id text, turn_index integer,"
        "agent_id text, model text, input_tokens integer, output_tokens integer, cache_read_tokens integer, later text)"
        ";"
        f"insert into assistant_usage_events values (1, '{LOST}', 0, null, 'm1', 100, 7, 60, 'x'),"
        f"(2, '{LOST}', 0, 'helper', 'm2', 10, 1, 0, 'x'), (3, '{LOST}', 1, null, 'm3', 5, 2, 0, 'x');",
    )
    read(machine)
    first, second = machine.store.turns(the_lost_one(machine))
    assert (first.model, first.tokens.input, first.tokens.output, first.tokens.cache_read) == ("m1", 50, 8, 60)
    assert (second.model, second.tokens.input, second.tokens.output) == ("m3", 5, 2)


def test_its_rows_are_kept_and_given_back_as_lines(machine: Machine, database: Path, tmp_path: Path) -> None:
    read(machine)
    session = the_lost_one(machine)
    (told,) = restored(machine.store, tmp_path / "out", only=session)
    rows = [json.loads(line) for line in lies(told).read_bytes().splitlines()]
    names = ["sessions", "turns", "session_files", "session_refs", "turns", "session_files", "checkpoints"]
    assert [row["table"] for row in rows] == names
    assert rows[3]["row"]["ref_value"] == "12"
    assert lies(told).name == f"session-store.db#{LOST}"
    assert machine.store.verify().problems == []


def test_an_events_full_form_comes_from_its_row(machine: Machine, database: Path) -> None:
    changed(database, f"update turns set assistant_response = '{'long ' * 9_000}' where session_id = '{LOST}'")
    read(machine)
    full = FullForms(machine.store)
    told = [full.expand(each) for each in machine.store.events(the_lost_one(machine))]
    assert [len(each.text) for each in told if isinstance(each, AssistantText)] == [45_000, 45_000]


def test_told_again_its_rows_say_the_same(machine: Machine, database: Path) -> None:
    read(machine)
    before = machine.content()
    assert reindex(machine.store, now=NOW, events_too=True).failed == []
    assert machine.content() == before


def test_what_is_as_it_was_is_not_read_again(machine: Machine, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(machine)
    monkeypatch.setattr(databases, "copied", lambda *_: pytest.fail("it was copied"))
    assert read(machine).errors == []


def test_turns_that_come_later_are_told_once_each(machine: Machine, database: Path) -> None:
    read(machine)
    changed(
        database,
        f"insert into turns(session_id, turn_index, user_message) values ('{LOST}', 2, 'And oil it');"
        f"update sessions set updated_at = '2026-11-22T00:00:00.000Z' where id = '{LOST}';",
    )
    assert read(machine).errors == []
    found = the_lost_one(machine)
    assert [turn.prompt for turn in machine.store.turns(found)] == ["Mend the gate", "Paint it", "And oil it"]
    assert len(machine.store.logs(found)) == 1
    assert machine.store.verify().problems == []


def test_a_removed_session_is_not_brought_back(machine: Machine, database: Path) -> None:
    read(machine)
    machine.store.remove(the_lost_one(machine))
    changed(database, "update sessions set branch = 'other'")
    assert read(machine).errors == []
    assert not machine.store.has(the_uid(machine))


def the_uid(machine: Machine) -> str:
    (uid,) = looked_up(machine.store_path, "select uid from forgotten")[0]
    return str(uid)


# nothing is changed -------------------------------------------------------------------------------------------


def test_what_only_the_wal_holds_is_read(machine: Machine, database: Path, writer: sqlite3.Connection) -> None:
    read(machine)
    assert "In the WAL" in prompts(machine.store)


def test_reading_changes_nothing_while_it_is_open_elsewhere(
    machine: Machine, database: Path, writer: sqlite3.Connection
) -> None:
    before = folder_content(machine.home)
    assert read(machine).errors == []
    assert folder_content(machine.home) == before


def test_reading_changes_nothing_though_another_program_holds_the_lock(
    machine: Machine, database: Path, writer: sqlite3.Connection
) -> None:
    writer.execute("begin exclusive")
    before = folder_content(machine.home)
    assert read(machine).errors == []
    assert folder_content(machine.home) == before
    writer.execute("rollback")


def test_reading_changes_nothing_of_a_wal_that_a_crash_left(
    machine: Machine, database: Path, writer: sqlite3.Connection, tmp_path: Path
) -> None:
    for ending in ("", "-wal"):
        shutil.copy(f"{database}{ending}", tmp_path / f"crashed{ending}")
    writer.close()
    database.unlink()
    for ending in ("", "-wal"):
        shutil.copy(tmp_path / f"crashed{ending}", f"{database}{ending}")
    before = folder_content(machine.home)
    assert read(machine).errors == []
    assert "In the WAL" in prompts(machine.store)
    assert folder_content(machine.home) == before


def test_a_hot_journal_is_undone_in_the_copy_alone(machine: Machine, database: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("pragma cache_size = 1")
        db.execute("begin immediate")
        db.execute("update turns set user_message = 'Half written'")
        for n in range(200):
            db.execute(
                "insert into turns(session_id, turn_index, user_message) values (?, ?, ?)", (LOST, n + 10, "x" * 2000)
            )
        for ending in ("", "-journal"):
            shutil.copy(f"{database}{ending}", tmp_path / f"crashed{ending}")
        db.execute("rollback")
    for ending in ("", "-journal"):
        shutil.copy(tmp_path / f"crashed{ending}", f"{database}{ending}")
    before = folder_content(machine.home)
    assert read(machine).errors == []
    assert prompts(machine.store) == ["Mend the gate", "Paint it"]
    assert folder_content(machine.home) == before


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: b"no database at all" * 100, "not a database"),
        (lambda data: data[:4096] + b"\xff" * (len(data) - 4096), "malformed"),
        (lambda data: data[:100], "not a database|malformed|disk image|no sessions"),
        (lambda data: b"", "no sessions with turns"),
    ],
)
def test_a_damaged_database_is_told_and_left_as_it_is(
    machine: Machine, database: Path, damage: Any, reason: str
) -> None:
    database.write_bytes(damage(database.read_bytes()))
    before = folder_content(machine.home)
    (problem,) = read(machine).errors
    assert problem.path == str(database)
    assert any(each in problem.reason for each in reason.split("|")), problem.reason
    assert folder_content(machine.home) == before
    assert len(machine.store.sessions()) == 1


def test_a_database_of_a_later_version_is_told(machine: Machine, database: Path) -> None:
    changed(database, "update schema_version set version = 99")
    (problem,) = read(machine).errors
    assert "99" in problem.reason
    assert LOST not in {session.native_id for session in machine.store.sessions()}


def test_a_database_of_the_other_lineage_is_read_by_its_columns(machine: Machine, database: Path) -> None:
    changed(
        database,
        "alter table sessions add column agent_name text; alter table sessions drop column host_type;"
        "drop table session_refs; drop table schema_version;",
    )
    assert read(machine).errors == []
    assert prompts(machine.store) == ["Mend the gate", "Paint it"]


def test_a_database_that_is_written_all_the_time_is_left_to_the_next_time(
    machine: Machine, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = databases._copy

    def written_meanwhile(source: Path, target: Path, size: int) -> None:
        copy(source, target, size)
        changed(database, "update sessions set branch = branch || 'x'")

    monkeypatch.setattr(databases, "_copy", written_meanwhile)
    (problem,) = read(machine).errors
    assert "next time" in problem.reason
    monkeypatch.setattr(databases, "_copy", copy)
    assert read(machine).errors == []
    assert prompts(machine.store) == ["Mend the gate", "Paint it"]


def test_a_folder_in_its_place_is_told(machine: Machine) -> None:
    (machine.home / DATABASE).mkdir(parents=True)
    (problem,) = read(machine).errors
    assert problem.reason == "it is no regular file"


def test_agents_without_a_database_have_none() -> None:
    assert agents.load("codex").database is None


@pytest.mark.parametrize("odd", ["../../x", "a/b", "..", "x\ty", "/etc/passwd"])
def test_an_id_that_looks_like_a_path_is_part_of_a_name_only(machine: Machine, database: Path, odd: str) -> None:
    tables = ("turns", "session_files", "session_refs", "checkpoints")
    moved = "".join(f"update {table} set session_id = '{odd}' where session_id = '{LOST}';" for table in tables)
    changed(database, f"pragma foreign_keys = 0; update sessions set id = '{odd}' where id = '{LOST}'; {moved}")
    assert read(machine).errors == []
    assert machine.store.session(odd).title == "Mend it"
    (log,) = machine.store.ask_or([], logs.of_native_id, "copilot", odd)
    assert Path(log.path).parent == database.parent
    assert "/" not in log.relpath
    assert read(machine).total("logs_read") == 0


def test_a_session_of_a_database_that_cannot_be_stored_keeps_no_other_out_and_is_read_once_more(
    machine: Machine, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(database, "insert into sessions(id, summary) values ('another', 'Paint it')")
    update = append._update_session

    def fails(db: object, session_id: int, piece: RecordBatch, **how: bool) -> None:
        if piece.identity.native_id == LOST:
            raise OverflowError("too large")
        update(db, session_id, piece, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(append, "_update_session", fails)
    (error,) = read(machine).errors
    assert error.path.endswith(LOST)
    assert "too large" in error.reason
    assert machine.store.session("another").title == "Paint it"
    monkeypatch.undo()
    assert read(machine).errors == []
    assert the_lost_one(machine).title == "Mend it"
    assert read(machine).total("logs_read") == 0


def test_a_database_that_its_agent_fails_at_keeps_no_other_out(
    machine: Machine, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copilot.database.Databases, "sessions_without_logs", lambda *_: 1 / 0)
    (error,) = read(machine).errors
    assert (error.path, error.reason) == (str(database), "ZeroDivisionError: division by zero")
    assert machine.store.session(HERE)
    monkeypatch.undo()
    assert read(machine).errors == []
    assert the_lost_one(machine).title == "Mend it"
