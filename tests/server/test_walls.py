"""Between organisations stands row-level security, whatever a statement forgets; and no start goes on without it."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import TYPE_CHECKING

import psycopg
import pytest

from backstory.errors import DatabaseUnusable
from backstory.server import database
from backstory.server.database import prepared
from tests.support.team import shared_postgres, tenant_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.team import Team

TABLES = """
select c.relname, c.relrowsecurity and c.relforcerowsecurity,
  exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'of_tenant'),
  (select min(attname) from pg_attribute a join pg_index i on i.indrelid = c.oid and i.indisprimary
   where a.attrelid = c.oid and a.attnum = i.indkey[0])
from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'backstory' and c.relkind in ('r', 'p')
"""


def tables(team: Team) -> dict[str, tuple[bool, bool, str]]:
    with team.database.of(1) as rows:
        return {name: tuple(rest) for name, *rest in rows.execute(TABLES).fetchall()}


def test_every_table_of_tenants_is_behind_the_wall_and_keyed_by_tenant(team: Team) -> None:
    found = tables(team)
    assert found.pop("migration")[1] is False
    assert len(found) >= 6
    assert {name: each for name, each in found.items() if each != (True, True, "tenant")} == {}


def test_a_table_without_a_wall_would_be_found(empty: str, team: Team) -> None:
    with prepared(empty):
        pass
    with psycopg.connect(empty) as connection:
        connection.execute("create table backstory.bare (tenant int primary key)")
        found = {name: tuple(rest) for name, *rest in connection.execute(TABLES.encode()).fetchall()}
    assert found["bare"] == (False, False, "tenant")


def test_no_unique_key_lacks_the_tenant(team: Team) -> None:
    with team.database.of(1) as rows:
        defined = [each for (each,) in rows.execute(
            "select indexdef from pg_indexes where schemaname = 'backstory' and tablename <> 'migration'"
            " and indexdef like 'CREATE UNIQUE%%'", ()).fetchall()]  # fmt: skip
    assert len(defined) >= 6
    assert [each for each in defined if not re.search(r"\(tenant[,)]", each)] == []


def test_no_samples_of_texts_are_kept_for_plans(empty: str) -> None:
    with prepared(empty):
        pass
    with psycopg.connect(empty) as connection:
        connection.execute("create table backstory.bare (tenant int primary key, title text, said tsvector)")
        found = connection.execute(database._SAMPLED.encode(), ("backstory",)).fetchall()
    assert sorted(found) == [("bare", "said"), ("bare", "title")]


def test_a_statement_that_names_no_tenant_sees_its_own_alone(team: Team) -> None:
    anna, eve = tenant_of(team.founded().token), tenant_of(team.founded("eve").token)
    with team.database.of(anna) as rows:
        assert rows.execute("select distinct tenant from person").fetchall() == [(anna,)]
        assert rows.execute("update person set name = 'taken' where tenant = %s", (eve,)).rowcount == 0
        assert rows.execute("delete from token where tenant = %s", (eve,)).rowcount == 0


def test_nothing_is_written_for_another_tenant(team: Team) -> None:
    anna, eve = tenant_of(team.founded().token), tenant_of(team.founded("eve").token)
    with pytest.raises(psycopg.errors.InsufficientPrivilege), team.database.of(anna) as rows:
        rows.execute("insert into organisation values (%s, 'x', now()) on conflict do nothing", (eve + 1,))
    with pytest.raises(psycopg.errors.InsufficientPrivilege), team.database.of(anna) as rows:
        rows.execute("update person set tenant = %s", (eve,))


def test_a_connection_that_was_used_for_a_tenant_keeps_nothing_of_it(team: Team) -> None:
    anna = tenant_of(team.founded().token)
    with team.database.of(anna):
        pass
    with team.database._pool.connection() as connection:
        assert connection.execute("select count(*) from person").fetchone() == (0,)


def test_the_server_may_not_leave_its_walls(team: Team) -> None:
    with team.database.of(1) as rows:
        who = rows.execute(
            "select rolsuper or rolbypassrls or rolcreaterole from pg_roles where rolname = current_user"
        ).fetchone()
        assert who == (False,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            rows.execute("alter table person disable row level security")


def test_an_error_undoes_what_a_request_did(team: Team) -> None:
    anna = tenant_of(team.founded().token)
    with pytest.raises(ZeroDivisionError), team.database.of(anna) as rows:
        rows.execute("delete from person")
        raise ZeroDivisionError
    with team.database.of(anna) as rows:
        assert rows.execute("select count(*) from person").fetchone() == (1,)


# starts ---------------------------------------------------------------------------------------------------------------


def test_an_account_that_passes_over_the_wall_is_refused(postgres: str) -> None:
    with pytest.raises(DatabaseUnusable, match="passes over row-level security"):
        prepared(postgres)


def test_the_tables_of_a_newer_server_are_refused(empty: str) -> None:
    with prepared(empty):
        pass
    with psycopg.connect(empty) as connection:
        connection.execute("insert into backstory.migration values (9999, now())")
    with pytest.raises(DatabaseUnusable, match="a newer backstory made its tables"):
        prepared(empty)


def test_the_schema_of_another_program_is_refused_and_left_as_it_is(empty: str) -> None:
    with psycopg.connect(empty) as connection:
        connection.execute("create schema backstory")
        connection.execute("create table backstory.person (own text)")
    with pytest.raises(DatabaseUnusable, match="another program's"):
        prepared(empty)
    with psycopg.connect(empty) as connection:
        assert connection.execute("select count(*) from pg_tables where schemaname = 'backstory'").fetchone() == (1,)


def test_other_tables_in_the_database_are_left_alone(empty: str) -> None:
    with psycopg.connect(empty) as connection:
        connection.execute("create table public.person (own text)")
        connection.execute("insert into public.person values ('x')")
    with prepared(empty):
        pass
    with psycopg.connect(empty) as connection:
        assert connection.execute("select own from public.person").fetchone() == ("x",)


def migrations() -> list[str]:
    return sorted(each.name for each in files(database.__package__).joinpath("migrations").iterdir())


def test_servers_that_start_at_once_make_the_tables_once(empty: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        for each in threads.map(prepared, [empty] * 4):
            with each:
                pass
    with psycopg.connect(empty) as connection:
        done = connection.execute("select number, count(*) from backstory.migration group by 1").fetchall()
    assert sorted(done) == [(number, 1) for number in range(1, len(done) + 1)]
    assert len(done) == len(list(files("backstory.server").joinpath("migrations").iterdir()))


def test_servers_that_start_at_once_make_the_account_and_the_database_once(tmp_path: Path) -> None:
    with shared_postgres(tmp_path) as admin, ThreadPoolExecutor(6) as threads:
        assert len(set(threads.map(database.make_own, [admin] * 6))) == 1


def test_what_an_older_server_kept_stays_and_is_of_a_machine_without_a_name(
    empty: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = tmp_path / "migrations"
    old.mkdir()
    for name in migrations()[:2]:
        old.joinpath(name).write_bytes(files(database.__package__).joinpath("migrations", name).read_bytes())
    with monkeypatch.context() as patched:
        patched.setattr(database, "files", lambda _: tmp_path)
        with prepared(empty) as before, before.of(7) as rows:
            rows.execute("insert into session values (7, 1, 'u', 'r', 1, 2, 3, 't', 'a', 'b', null, null, 1)")
            for number in (1, 2):
                row = (number, bytes([number]))
                rows.execute("insert into frame values (7, 1, 'u', 1, %s, %s, 1, true, 1, '{}', 'x')", row)
    nobody = "0" * 26
    with prepared(empty) as now, now.of(7) as rows:
        assert rows.execute("select machine, uid, chain from session").fetchall() == [(nobody, "u", b"\2")]
        assert rows.execute("select machine, number from frame order by number").fetchall() == [
            (nobody, 1),
            (nobody, 2),
        ]
        assert rows.execute("select id, name from machine").fetchall() == [(nobody, "")]
    with prepared(empty) as now, now.of(8) as rows:
        assert rows.execute("select count(*) from session").fetchone() == (0,)


def test_a_start_that_fails_in_the_middle_leaves_nothing_half_made(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_WALL", ("alter table {} enable row level security", "nonsense {}"))
    with pytest.raises(DatabaseUnusable):
        prepared(empty)
    with psycopg.connect(empty) as connection:
        assert connection.execute("select to_regclass('backstory.person')").fetchone() == (None,)
    monkeypatch.undo()
    with prepared(empty):
        pass


@pytest.mark.parametrize("address", [
    "host=127.0.0.1 port=9 user=me password=hunter2 dbname=x", "postgresql://me:hunter2@127.0.0.1:9/x", "no address",
])  # fmt: skip
def test_a_database_that_cannot_be_reached_is_a_sentence_without_its_password(address: str) -> None:
    with pytest.raises(DatabaseUnusable) as refused:
        prepared(address)
    assert str(refused.value).startswith("The server's database cannot be used: ")
    assert "hunter2" not in str(refused.value)
