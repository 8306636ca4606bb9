"""An empty, older, newer, foreign, full, read-only or closed database: a sentence and an exit code, nothing half."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from backstory.errors import DatabaseUnusable, ServerBusy
from backstory.exchange.frames import head_of
from backstory.server import codes, database
from backstory.server.database import TeamDatabase, make_own, prepared
from backstory.server.postgres import own_database
from backstory.server.serving import SESSIONS, opened
from backstory.sync.remote import Remote
from tests.support.broken_laptop import BrokenLaptop, same
from tests.support.clock import Clock
from tests.support.counts import IS_LONG
from tests.support.cutting import cutting
from tests.support.going import until
from tests.support.migrations import MIGRATIONS, left_at
from tests.support.senders import LAPTOP, UID, Sender, cut
from tests.support.small_disk import small_disk
from tests.support.team import Team, team_of
from tests.support.typed_home import TypedHome

if TYPE_CHECKING:
    from backstory.server.postgres import OwnDatabase


OF_BEFORE = """
insert into turn (tenant, person, session, machine, number, uid, first_seq, last_seq, agent, is_run, tools, said, words)
select tenant, person, uid, machine, 1, 'T', 1, 1, 'claude', false, '{}', 'planted', 'planted:1A' from session;
insert into derivation (tenant, person, session, machine, version, epoch, frames, listed, heading, name, is_run, agents,
  branches) select tenant, person, uid, machine, 1, epoch, frames, '{}', '', '', false, '{}', '{}' from session;
delete from job
"""


def plant_person(address: str) -> str:
    """A person of an organisation as the first tables have them; return a token."""
    token = codes.new_token(77)
    with psycopg.connect(address) as connection:
        for table in ("organisation", "person", "token"):
            connection.execute(f"alter table backstory.{table} no force row level security".encode())
        connection.execute("insert into backstory.organisation values (77, 'Before', now())")
        connection.execute(
            "insert into backstory.person (tenant, id, name, role, created) values (77, 5, 'anna', 'admin', now())"
        )
        connection.execute(
            "insert into backstory.token"
            " values (77, %s, 5, %s, 'x', '{read,search,sync,admin}', null, now(), '2099-01-01')",
            (token.id, codes.hashed(token.secret)),
        )
        for table in ("organisation", "person", "token"):
            connection.execute(f"alter table backstory.{table} force row level security".encode())
    return str(token)


@pytest.mark.parametrize("count", range(1, len(MIGRATIONS)))
def test_the_tables_of_every_server_of_before_are_brought_up_with_what_they_hold(
    count: int, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_at(count, tmp_path / "before", monkeypatch, empty)
    token = plant_person(empty)
    with team_of(empty, Clock()) as team:
        assert team.ask("GET", "/v1/me", token)[1]["organisation"] == "Before"
        sender = Sender(team, SimpleNamespace(token=token))  # type: ignore[arg-type]
        sent = cut([["a"], ["b"]])
        assert (sender.send(*sent), sender.news()) == (["ok", "ok"], sent)


def test_what_was_derived_before_is_derived_again_to_be_searched(
    empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_at(MIGRATIONS.index("0017_search.sql"), tmp_path / "before", monkeypatch, empty)
    with TeamDatabase(empty) as before:
        sender = Sender(Team(before, Clock(), tmp_path), Team(before, Clock(), tmp_path).founded())
        sender.send(*cut([["needle"]]))
        with before.of(sender.tenant) as rows:
            for each in OF_BEFORE.split(";"):
                rows.execute(each.encode())
    with team_of(empty, Clock()) as team:
        assert team.deriving.begin() == 1
        found = [team.ask("GET", "/v1/search?words=needle", sender.token)[1]]
        team.derive(sender.who)
        found.append(team.ask("GET", "/v1/search?words=needle", sender.token)[1])
        assert [(len(each["hits"]), each["waiting_sessions"]) for each in found] == [(0, 1), (1, 0)]


def test_sessions_of_before_are_there_and_as_private_as_others(
    empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_at(2, tmp_path / "before", monkeypatch, empty)
    token = plant_person(empty)
    (frame,) = cut([["a"]])
    head = head_of(frame)
    with psycopg.connect(empty) as connection:
        for table in ("frame", "session"):
            connection.execute(f"alter table backstory.{table} no force row level security".encode())
        connection.execute(
            "insert into backstory.frame values (77, 5, %s, 1, 1, %s, %s, true, 1, %s, %s)",
            (UID, bytes.fromhex(head.chain), head.events, *(part if number else part.decode() for number, part in
             enumerate(frame.split(b"\n", 1)))),
        )  # fmt: skip
        connection.execute(
            "insert into backstory.session values (77, 5, %s, 'me/app', 1, 1, 1, 'hi', 'claude', null, null, null, 1)",
            (UID,),
        )
        for table in ("frame", "session"):
            connection.execute(f"alter table backstory.{table} force row level security".encode())
    with team_of(empty, Clock()) as team:
        unnamed = "0" * 26
        sender = Sender(team, SimpleNamespace(token=token), machine=unnamed)  # type: ignore[arg-type]
        assert (sender.news(), sender.state()["events"]) == ([frame], 1)
        eve = Sender(team, team.founded("eve"), machine=unnamed)
        assert (eve.news(), eve.state()["events"]) == ([], 0)
        assert sender.forget()[0] == 200


def test_a_postgresql_that_is_too_old_is_refused() -> None:
    old: Any = SimpleNamespace(info=SimpleNamespace(server_version=150_004))
    with pytest.raises(DatabaseUnusable, match="it is PostgreSQL 15; 16 is the least"):
        database._check(old)


# what `backstory serve` says ------------------------------------------------------------------------------------------


def served(tmp_path: Path, address: str) -> tuple[int, str]:
    """The exit code and the words of a start that is refused."""
    machine = TypedHome(tmp_path)
    machine.environ["BACKSTORY_DATABASE_URL"] = address
    done = machine.types("serve", "--port", "0")
    assert done.stdout == ""
    return done.returncode, done.stderr


def refused(tmp_path: Path, address: str, words: str) -> None:
    code, said = served(tmp_path, address)
    assert (code, words in said, said.count("\n")) == (69, True, 1), said
    assert "Traceback" not in said


def test_a_start_on_tables_of_a_newer_server_or_another_program_is_a_sentence(empty: str, tmp_path: Path) -> None:
    with psycopg.connect(empty) as connection:
        connection.execute("create schema backstory")
    refused(tmp_path, empty, "its schema backstory is another program's")
    with psycopg.connect(empty) as connection:
        connection.execute("drop schema backstory")
    with prepared(empty), psycopg.connect(empty) as connection:
        connection.execute("insert into backstory.migration values (9999, now())")
    refused(tmp_path, empty, "a newer backstory made its tables")


def test_a_start_on_a_database_that_is_read_only_is_a_sentence(empty: str, postgres: str, tmp_path: Path) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        name = dict(each.split("=") for each in empty.split())["dbname"]
        connection.execute(f"alter database {name} set default_transaction_read_only = on".encode())
    refused(tmp_path, empty, "read-only")


@pytest.mark.slow
def test_a_start_with_a_wrong_password_is_a_sentence_without_it(folder: Path, tmp_path: Path) -> None:
    own = own_database(folder)
    own.start()
    make_own(own.address)
    with psycopg.connect(own.address, autocommit=True) as connection:
        connection.execute("alter role backstory password 'right'")
        (own.data / "pg_hba.conf").write_text("local all postgres trust\nlocal all all scram-sha-256\n")
        connection.execute("select pg_reload_conf()")
    said = served(tmp_path, f"host={own.data} user=backstory dbname=backstory password=hunter2")
    assert (said[0], "password authentication failed" in said[1], "hunter2" in said[1]) == (69, True, False)
    assert "hunter2" not in own.log.read_text()


# full, and read-only while it is used ---------------------------------------------------------------------------------


def fill(disk: Path) -> None:
    """Leave no room on a disk."""
    with (disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(65_536)):
            pass


def end_log(own: OwnDatabase) -> None:
    """Have PostgreSQL need a new file for its log, without which it ends, and does not start again."""
    with suppress(psycopg.Error), psycopg.connect(own.address, autocommit=True) as connection:
        for _ in range(3):
            connection.execute("select pg_switch_wal()")
            connection.execute("create table filling as select generate_series(1, 100000)")
            connection.execute("drop table filling")


@pytest.mark.slow
@pytest.mark.parametrize("is_log_full", [False, True] if IS_LONG else [False])
def test_a_full_disk_is_a_sentence_loses_nothing_and_goes_on_when_there_is_room(
    is_log_full: bool, folder: Path, tmp_path: Path
) -> None:
    with small_disk(folder, 200):
        folder.chmod(0o711)
        with opened(folder, None) as kept:
            team = Team(kept, Clock(), folder / SESSIONS)
            with team.served() as address, cutting(address) as proxy:
                desk = BrokenLaptop(tmp_path, Sender(team, team.founded()), proxy, 0.05)
                desk.works("aaaaaaaa", "before")
                assert desk.tries_to_sync()
                fill(folder)
                # It is not text that packs well, so that it needs room.
                desk.works("aaaaaaaa", *(os.urandom(40_000).hex() for _ in range(20)))
                assert not desk.tries_to_sync()
                with Remote(proxy.address, desk.sender.token, LAPTOP, wait=lambda _: None) as line:
                    desk.remote = line
                    with pytest.raises(ServerBusy) as refused:
                        desk.sync()
                assert (refused.value.exit_code, "disk is full" in str(refused.value)) == (75, True)
                if is_log_full:
                    end_log(own_database(folder))
                    assert not desk.tries_to_sync()
                (folder / "filler").unlink()
                until(desk.tries_to_sync)
                same(desk)
        shutil.rmtree(folder / "pg")


def test_a_database_that_becomes_read_only_is_told_as_one_to_try_again(empty: str, postgres: str) -> None:
    name = dict(each.split("=") for each in empty.split())["dbname"]
    with team_of(empty, Clock()) as team:
        sender = Sender(team, team.founded())
        with psycopg.connect(postgres, autocommit=True) as admin:
            admin.execute(f"alter database {name} set default_transaction_read_only = on".encode())
            admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))
            status, found = sender.answer(*cut([["a"]]))
            assert (status, found["error"]["kind"]) == (503, "try_again")
            admin.execute(f"alter database {name} reset default_transaction_read_only".encode())
            admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))
        assert sender.send(*cut([["a"]])) == ["ok"]
