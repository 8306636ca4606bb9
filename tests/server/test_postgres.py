"""The server's own PostgreSQL: made once, found again after a kill, and private."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from backstory.errors import DatabaseNotStarted
from backstory.server.postgres import OwnDatabase, own_database
from tests.support.going import until

if TYPE_CHECKING:
    pass

IS_ROOT = os.geteuid() == 0


def pid(own: OwnDatabase) -> int:
    return int((own.data / "postmaster.pid").read_text().splitlines()[0])


def test_what_was_kept_is_there_after_each_kind_of_end(folder: Path) -> None:
    own = own_database(folder)
    assert own.start()
    with psycopg.connect(own.address) as connection:
        connection.execute("create table kept as select 1 as number")
    # A server that was killed leaves it running.
    first = pid(own)
    assert not own_database(folder).start()
    assert pid(own) == first
    # It is killed itself.
    os.kill(first, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{first}").exists() or "Z" in Path(f"/proc/{first}/stat").read_text())
    assert own.start()
    with psycopg.connect(own.address) as connection:
        assert connection.execute("select number from kept").fetchone() == (1,)
    own.stop()
    assert not (own.data / "postmaster.pid").exists()
    assert own.start()


def test_nobody_else_may_enter_and_nothing_listens_on_a_port(folder: Path) -> None:
    own = own_database(folder)
    own.start()
    assert own.data.stat().st_mode & 0o777 == 0o700
    with psycopg.connect(own.address) as connection:
        said = {name: connection.execute(f"show {name}".encode()).fetchone() for name in (
            "listen_addresses", "log_statement", "log_min_messages", "unix_socket_permissions")}  # fmt: skip
    assert said == {"listen_addresses": ("",), "log_statement": ("none",), "log_min_messages": ("log",),
                    "unix_socket_permissions": ("0700",)}  # fmt: skip


def test_a_statement_that_fails_is_in_no_log(folder: Path) -> None:
    own = own_database(folder)
    own.start()
    with psycopg.connect(own.address) as connection:
        for text in ("select 'planted-one'::int", "planted-two"):
            with pytest.raises(psycopg.Error):
                connection.execute(text.encode())
            connection.rollback()
        with pytest.raises(psycopg.Error):
            connection.execute("select %s::int", ("planted-three",))
    own.stop()
    assert "planted" not in own.log.read_text()


def test_a_start_that_was_killed_while_it_made_the_database_does_no_harm(folder: Path) -> None:
    (folder / "pg.new").mkdir()
    (folder / "pg.new" / "PG_VERSION").write_text("18\n")
    assert own_database(folder).start()


def test_a_long_path_has_its_socket_elsewhere(folder: Path) -> None:
    long = folder / ("long" * 20)
    long.mkdir(mode=0o711)
    own = own_database(long)
    own.start()
    try:
        sockets = Path(own.address.partition(" ")[0].removeprefix("host="))
        assert sockets != own.data
        assert sockets.stat().st_mode & 0o777 == 0o700
        with psycopg.connect(own.address) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
    finally:
        own.stop()
    assert not sockets.exists()


def test_the_database_of_another_release_is_refused_and_left_as_it_is(folder: Path) -> None:
    own = own_database(folder)
    own.data.mkdir(mode=0o700)
    (own.data / "PG_VERSION").write_text("17\n")
    with pytest.raises(DatabaseNotStarted, match="PostgreSQL 17 made it, and this is 18"):
        own.start()
    assert [each.name for each in own.data.iterdir()] == ["PG_VERSION"]


@pytest.mark.skipif(not IS_ROOT, reason="only root has PostgreSQL run as somebody else")
def test_a_folder_that_only_root_may_enter_is_refused_with_what_to_do(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(DatabaseNotStarted, match=r"may not enter .*closed; choose another folder"):
        own_database(closed / "data")
