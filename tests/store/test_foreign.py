"""A store as an enemy makes it: nothing acts when it is read, and nothing but ours when it is written."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory.errors import NotAStore, NotTrusted, StoreDamaged
from backstory.store import open_store
from backstory.store.file import connection
from backstory.store.tables import sessions

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with open_store(tmp_path / "sessions.bks") as store:
        store.create_session("one")
    return tmp_path / "sessions.bks"


def change(path: Path, *statements: str) -> None:
    with closing(apsw.Connection(str(path))) as db:
        for statement in statements:
            db.execute(statement)


def file_as(path: Path, kind: str, name: str, sql: str) -> None:
    """Put an object into the schema under another kind than it is."""
    with closing(apsw.Connection(str(path))) as db:
        db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        db.execute("pragma writable_schema = on")
        db.execute("insert into sqlite_schema(type, name, tbl_name, rootpage, sql) values (?, ?, ?, 0, ?)",
                   (kind, name, "turns", sql))  # fmt: skip


def test_views_and_tables_of_a_persons_own_disturb_nobody(path: Path) -> None:
    change(path, "create view mine as select * from nowhere", "create table notes(a, b as (a + 1))")
    with open_store(path) as store:
        assert store.ask(sessions.count) == 1
        store.create_session("two")
        assert store.verify().problems == []


def test_what_is_filed_as_a_table_and_is_a_view_is_refused(path: Path) -> None:
    change(path, "drop table compactions")
    file_as(path, "table", "compactions", "CREATE VIEW compactions as select 1")
    with open_store(path) as store, pytest.raises((NotAStore, StoreDamaged)):
        store.sessions()


@pytest.mark.parametrize("kind", ["index", "view"])
def test_a_trigger_that_is_filed_as_something_else_is_refused(path: Path, kind: str) -> None:
    file_as(path, kind, "t", "CREATE TRIGGER t after insert on turns begin delete from turns; end")
    with open_store(path) as store, pytest.raises((NotAStore, StoreDamaged)):
        store.disarm()


def test_our_own_triggers_stay(path: Path) -> None:
    with open_store(path) as store:
        assert store.disarm() == []


def test_a_trigger_of_ours_with_another_body_is_taken_out_and_put_back(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as db:
        before = db.execute("select sql from sqlite_schema where name = 'log_gone'").get
    change(path, "drop trigger log_gone", "create trigger log_gone after delete on logs begin select 1; end")
    with open_store(path) as store:
        assert store.disarm() == ["log_gone"]
    with closing(apsw.Connection(str(path))) as db:
        after = db.execute("select sql from sqlite_schema where name = 'log_gone'").get
    assert " ".join(str(after).split()) == " ".join(str(before).split())


def test_a_trigger_that_ours_had_once_goes_without_a_word(path: Path) -> None:
    change(path, "create trigger turn_follows after insert on turns begin delete from turns; end")
    with open_store(path) as store:
        assert store.disarm() == []
    with closing(apsw.Connection(str(path))) as db:
        assert db.execute("select count(*) from sqlite_schema where name = 'turn_follows'").get == 0


def test_a_store_that_nobody_trusts_is_written_by_no_command_that_forgot_to_ask(path: Path) -> None:
    with open_store(path) as store:
        store.refuses_writes = True
        with pytest.raises(NotTrusted):
            store.rename(1, "x")
        assert store.session(1).name == "one"


@pytest.mark.parametrize("uid", ["../../x", "", "01K0000000000000000000000U", "01k00000000000000000000000", None, 7])
def test_what_is_no_uid_is_none(uid: object) -> None:
    assert not connection.is_uid(uid)
