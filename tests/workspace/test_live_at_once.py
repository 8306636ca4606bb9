"""Commands that read take in what is new in databases that agents have open, where that costs little."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from backstory.config import Config
from backstory.ingest import databases, live_databases
from backstory.workspace.stores.importing import Machine
from backstory.workspace.workspace import Workspace
from tests.support.clock import NOW
from tests.support.recorded import home_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLACE = ".local/share/opencode/opencode.db"
TITLE = "update session set title = '{}', time_updated = time_updated + 1 where title like '%#1)%'"


class Home:
    """A user's home with opencode's database of two sessions, and the home store."""

    def __init__(self, root: Path) -> None:
        self.user, self.ours = home_of(root, "opencode", "fork", raw=False), root / "ours"
        self.database, self.work = self.user / PLACE, root / "work"
        self.work.mkdir()

    def workspace(self) -> Workspace:
        config = Config(self.ours / "config.toml")
        return Workspace(lambda: config, self.ours, self.work, now=lambda: NOW, environ={})

    def ingest(self) -> None:
        with self.workspace() as workspace:
            workspace.ingest(Machine(user_home=self.user), lambda _: None)

    def look(self) -> tuple[tuple[str, ...], list[str]]:
        """What a command that reads remarks, and the titles that it lists."""
        with self.workspace() as workspace:
            update = workspace.bring_up_to_date(self.user)
            store = workspace.home_store
            return update.remarks, sorted(str(each.title) for each in store.sessions()) if store.exists else []

    def change(self, sql: str) -> None:
        with closing(sqlite3.connect(self.database)) as db, db:
            db.execute(sql)

    def beside(self) -> list[tuple[str, int, int]]:
        found = sorted(self.database.parent.iterdir())
        return [(each.name, each.stat().st_size, each.stat().st_mtime_ns) for each in found]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def writer(home: Home) -> Iterator[sqlite3.Connection]:
    """Opencode itself, which has its database open."""
    with closing(sqlite3.connect(home.database, isolation_level=None)) as db:
        db.execute("pragma journal_mode = wal")
        yield db


def test_a_session_that_changed_in_an_open_database_is_listed_as_it_is(home: Home, writer: sqlite3.Connection) -> None:
    home.ingest()
    writer.execute(TITLE.format("Now"))
    before = home.beside()
    assert home.look() == ((), ["Fix the VAT in gross", "Now"])
    assert home.beside() == before


def test_a_large_database_that_is_open_is_looked_into_too(
    home: Home, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.execute("create table large as select zeroblob(5000000)")
    home.ingest()
    monkeypatch.setattr(databases, "copied", lambda *_: pytest.fail("it was copied"))
    writer.execute(TITLE.format("Now"))
    assert home.look() == ((), ["Fix the VAT in gross", "Now"])


def test_a_large_database_that_nobody_has_open_is_left_and_said(home: Home) -> None:
    home.change("create table large as select zeroblob(5000000)")
    home.ingest()
    home.change(TITLE.format("Now"))
    for _ in range(2):
        assert home.look() == (
            ("At least 1 log is newer: backstory ingest",), ["Fix the VAT in gross", "Fix the VAT in gross (fork #1)"]
        )  # fmt: skip
    home.ingest()
    assert home.look() == ((), ["Fix the VAT in gross", "Now"])


def test_a_small_database_that_nobody_has_open_is_read(home: Home) -> None:
    home.ingest()
    home.change(TITLE.format("Now"))
    assert home.look() == ((), ["Fix the VAT in gross", "Now"])
    assert not (home.ours / live_databases.ASIDE).exists()


def test_a_session_too_large_for_a_moment_is_left_and_the_others_are_read(
    home: Home, writer: sqlite3.Connection
) -> None:
    home.ingest()
    large = "json_set(data, '$.text', hex(zeroblob(2500000)))"
    writer.execute("update session set title = 'Now', time_updated = time_updated + 1")
    which = "id = (select min(id) from part where session_id = 'ses_df8db8c30ffeiUSNMzGCWgsZRG')"
    writer.execute(f"update part set data = {large} where {which}")
    assert home.look() == (("At least 1 log is newer: backstory ingest",), ["Fix the VAT in gross", "Now"])
    home.ingest()
    assert home.look() == ((), ["Now", "Now"])


def test_what_is_wrong_with_a_session_is_still_said_by_an_ingest(home: Home, writer: sqlite3.Connection) -> None:
    home.ingest()
    writer.execute("update session set parent_id = id, time_updated = time_updated + 1 where title like '%#1)%'")
    assert home.look()[0] == ()
    with home.workspace() as workspace:
        report = workspace.ingest(Machine(user_home=home.user), lambda _: None)
    assert [each.reason for each in report.errors] == ["its parent_id leads back to itself"]


def test_a_database_that_comes_later_is_found(home: Home) -> None:
    home_of(home.user.parent, "pi", "hello")
    whole = home.database.read_bytes()
    home.database.unlink()
    home.ingest()
    assert len(home.look()[1]) == 1
    home.database.write_bytes(whole)
    assert len(home.look()[1]) == 3


def test_a_home_with_a_database_alone_is_read_the_first_time(home: Home) -> None:
    remarks, titles = home.look()
    assert [each.split(" into ")[0] for each in remarks] == ["Imported 1 database of opencode"]
    assert titles == ["Fix the VAT in gross", "Fix the VAT in gross (fork #1)"]
    assert home.look()[0] == ()


def test_a_database_that_is_excluded_is_not_looked_at(home: Home, writer: sqlite3.Connection, monkeypatch: Any) -> None:
    home.ingest()
    (home.ours / "config.toml").write_text('[ingest]\nexclude = ["*/opencode.db"]\n')
    writer.execute(TITLE.format("Now"))
    monkeypatch.setattr(databases, "files_of", lambda *_: pytest.fail("it was looked at"))
    assert home.look() == ((), ["Fix the VAT in gross", "Fix the VAT in gross (fork #1)"])
