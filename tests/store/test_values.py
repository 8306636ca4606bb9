"""A store that an enemy wrote: a value that its column cannot hold is named, and no row of its session is taken."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from backstory.bounds import LINE_BYTES_MAX
from backstory.errors import SessionsNotCopied, StoreDamaged
from backstory.exchange import merging, portable, replication
from backstory.exchange.replicate import Taken
from backstory.model import AssistantText, Complete, UserMessage
from backstory.store import open_store, schema
from backstory.store.file import connection
from backstory.store.tables import sessions
from tests.support.one_of_each import fill

NO_TEXT, BLOB, WORD, HUGE, ENDLESS = "cast(x'ff80c0' as text)", "x'ff00'", "'seven'", str(2**63 - 1), "9e999"
ODD = {"text": (NO_TEXT, BLOB), "integer": (WORD, BLOB, HUGE), "real": (WORD, ENDLESS), "blob": (WORD, "7")}
"""What each kind of column cannot hold."""
ANY_NUMBER = {("logs", "device"), ("logs", "inode"), ("log_places", "device"), ("log_places", "inode"),
              ("written_turns", "key")}  # fmt: skip
TAKEN = ("sessions", "logs", "numbers", "chunks", "sidecars", "turns", "events", "compactions", "turn_texts",
         "session_files", "file_touches", "session_refs", "session_branches", "checkpoints")  # fmt: skip
"""The tables of which rows come with a session of a store that nobody trusts."""
GOOD = {"integer": "1", "real": "1.5", "text": "'t'", "blob": "x'00'"}
FIRST, LAST = f"{1:026d}", f"{5:026d}"
ELSEWHERE = Taken(elsewhere="/enemy", project=None, folder="/enemy")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a row in every table, each of the first session."""
    path = tmp_path_factory.mktemp("enemy") / "sessions.bks"
    fill(path)
    with closing(apsw.Connection(str(path))) as db:
        db.execute("pragma foreign_keys = off; update turns set uid = format('%026d', id)")
        db.execute("update sessions set uid = format('%026d', id)")
        for table, columns in schema.columns().items():
            if not db.execute(f"select exists (select 1 from {table})").get:
                names = ", ".join(each.name for each in columns)
                db.execute(f"insert into {table}({names}) values ({', '.join(GOOD[each.kind] for each in columns)})")
    return path


@pytest.fixture
def enemy(made: Path, tmp_path: Path) -> Path:
    return another(made, tmp_path)


def another(made: Path, folder: Path) -> Path:
    return Path(shutil.copy(made, folder / "sessions.bks"))


def set_first(path: Path, table: str, column: str, value: str) -> bool:
    """Set a column of a table's first row; no column that SQLite itself keeps from holding this."""
    with closing(apsw.Connection(str(path))) as db:
        db.execute("pragma foreign_keys = off")
        try:
            has_rowid = next(each.has_rowid for each in schema.tables() if each.name == table)
            first = "rowid = (select min(rowid) from {0})" if has_rowid else f"{column} is (select {column} from {{0}})"
            db.execute(f"update {table} set {column} = {value} where {first.format(table)}")
        except (apsw.MismatchError, apsw.ConstraintError):
            return False
    return True


def named(path: Path) -> str:
    """What is found wrong with a store that is to be merged, or nothing."""
    with open_store(path) as store:
        store.is_elsewhere = True
        try:
            merging.check_rows(store)
        except StoreDamaged as refused:
            return str(refused)
    return ""


def test_the_columns_are_those_that_sqlite_makes(made: Path) -> None:
    with closing(apsw.Connection(str(made))) as db:
        for table, found in schema.columns().items():
            rows = db.execute("select name, lower(type) from pragma_table_info(?)", (table,)).fetchall()
            assert [(each.name, each.kind) for each in found] == rows


def test_a_store_as_ours_are_made_is_whole(enemy: Path) -> None:
    assert named(enemy) == ""


@pytest.mark.slow
@pytest.mark.parametrize("table", [each for each in schema.columns() if each != "meta"])
def test_every_value_that_a_column_cannot_hold_is_named(made: Path, tmp_path: Path, table: str) -> None:
    tried = 0
    for column in schema.columns()[table]:
        for value in ODD[column.kind]:
            if (table, column.name) in ANY_NUMBER and value == HUGE:
                continue
            if (table, column.name, value) == ("events", "data", BLOB):
                continue
            path = another(made, tmp_path)
            if set_first(path, table, column.name, value):
                tried += 1
                assert table in named(path), (column, value)
    assert tried


@pytest.mark.slow
@pytest.mark.parametrize("table", TAKEN)
def test_no_row_of_such_a_session_is_taken_and_the_others_are(made: Path, tmp_path: Path, table: str) -> None:
    with open_store(tmp_path / "home.db", shared=True) as ours:
        for column in schema.columns()[table]:
            if column.name in ("id", "uid", "session_id", "log_id", "turn_id", "file_id"):
                continue
            path = another(made, tmp_path)
            assert set_first(path, table, column.name, ODD[column.kind][0])
            with open_store(path) as store:
                store.is_elsewhere = True
                with pytest.raises(StoreDamaged, match=table):
                    replication.take_elsewhere(ours, store, FIRST, ELSEWHERE)
                assert not ours.exists or not ours.has(FIRST)
        with open_store(path) as store:
            store.is_elsewhere = True
            assert replication.take_elsewhere(ours, store, LAST, ELSEWHERE)


@pytest.mark.parametrize(("table", "column"), [("sessions", "title"), ("turns", "prompt"), ("turn_texts", "answer")])
def test_a_text_longer_than_a_line_of_an_export_is_refused_unread(enemy: Path, table: str, column: str) -> None:
    set_first(enemy, table, column, f"cast(zeroblob({LINE_BYTES_MAX + 1}) as text)")
    assert f"{column} is not text that can be kept" in named(enemy)


def test_a_store_of_ours_may_hold_whatever_an_agent_counted(enemy: Path, tmp_path: Path) -> None:
    set_first(enemy, "turns", "input_tokens", HUGE)
    with open_store(enemy) as ours, open_store(tmp_path / "home.db", shared=True) as home:
        replication.copy_session(home, ours, ours.session(1).uid)
        assert home.ask(sessions.count) == 1


def test_a_session_of_ours_with_such_a_value_is_named_and_the_others_are_copied(enemy: Path, tmp_path: Path) -> None:
    set_first(enemy, "turns", "model", NO_TEXT)
    with open_store(enemy) as ours, open_store(tmp_path / "home.db", shared=True) as home:
        with pytest.raises(SessionsNotCopied, match=r"turns row 1: model is not UTF-8 text"):
            replication.pull_sessions(home, ours)
        assert not home.has(FIRST)
        assert home.has(ours.session(2).uid)


def test_a_store_that_lacks_a_column_and_a_table_of_today_is_whole(enemy: Path, tmp_path: Path) -> None:
    with closing(apsw.Connection(str(enemy))) as db:
        sql = "select type, name from sqlite_schema where type in ('index', 'trigger') and sql like '%path_hash%'"
        for kind, name in db.execute(sql).fetchall():
            db.execute(f"drop {kind} {name}")
        db.execute("alter table logs drop column path_hash; drop table written_turns; drop trigger turn_gone_written")
    assert named(enemy) == ""
    with open_store(enemy) as store, open_store(tmp_path / "home.db", shared=True) as home:
        assert not any("column" in each for each in store.verify().problems)
        assert replication.pull_sessions(home, store) == len(store.ask_or([], sessions.owned_by, store.id)) > 0


def test_a_store_whose_table_has_another_column_is_refused_by_what_checks_it(enemy: Path) -> None:
    with closing(apsw.Connection(str(enemy))) as db:
        db.execute("pragma legacy_alter_table = on; alter table file_touches rename column file_id to file_ix")
    with open_store(enemy) as store:
        store.is_elsewhere = True
        with pytest.raises(StoreDamaged):
            store.verify()


@pytest.mark.parametrize("length", ["-1", "7000000", str(2**63 - 1), WORD])
def test_a_session_with_a_log_of_another_length_than_its_bytes_is_named(enemy: Path, length: str) -> None:
    set_first(enemy, "logs", "read_to", length)
    with open_store(enemy) as store, pytest.raises(StoreDamaged, match="has not the length"):
        store.ask(lambda db: portable.extent(db, 1))


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [("events", "kind", "cast(x'6100ff' as text)"), ("turns", "uid", f"'../{'x' * 23}'"), ("turns", "started", WORD)],
)
def test_many_sessions_that_are_checked_together_are_no_shield_for_one(
    enemy: Path, tmp_path: Path, table: str, column: str, value: str
) -> None:
    with open_store(enemy) as store:
        for _ in range(9):
            store.create_session()
    set_first(enemy, table, column, value)
    with open_store(enemy) as ours, open_store(tmp_path / "home.db", shared=True) as home:
        with pytest.raises(SessionsNotCopied, match=FIRST):
            replication.pull_sessions(home, ours)
        assert not home.has(FIRST)
        assert home.ask(sessions.count) == len(ours.ask(sessions.owned_by, ours.id)) - 1


def test_many_sessions_of_a_good_store_are_checked_in_one_pass_before_the_first_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()
    monkeypatch.setattr(connection, "check_session", lambda db, session_id, *_, **__: asked.append(session_id))
    with open_store(tmp_path / "a.bks") as ours, open_store(tmp_path / "home.db", shared=True) as home:
        for _ in range(9):
            ours.append_events(ours.create_session(), [UserMessage(content="Why?"), AssistantText(text="So.")])
        assert replication.pull_sessions(home, ours) == 9
        assert asked == []
        ours.create_session()
        assert replication.pull_sessions(home, ours) == 1
        assert asked == [10]


@pytest.mark.parametrize(
    "ends",
    [
        [Complete(success=True, duration_ms=-1, cost_usd=1e308)],
        [Complete(success=True, duration_ms=2**63 - 1, cost_usd=9e18)] * 3,
        [Complete(success=True, cost_usd=float("nan"))],
    ],
    ids=["no amount", "a sum that is none", "no number"],
)
def test_whatever_a_program_says_of_an_end_its_session_can_be_copied(tmp_path: Path, ends: list[Complete]) -> None:
    with open_store(tmp_path / "a.db") as theirs, open_store(tmp_path / "home.db", shared=True) as ours:
        session = theirs.create_session()
        for end in ends:
            theirs.append_events(session, [UserMessage(content="go"), end])
        theirs.mark_completed(session, -1, 1e300)
        assert replication.pull_sessions(ours, theirs) == 1
