"""The server's tables: brought up to date at the start, and used as one tenant at a time.

The account of the connection owns the tables and reads nothing: every request works as ``backstory_app``, to which
row-level security shows the rows of one tenant alone. Each statement names its tenant besides.
"""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors as refusals
from psycopg import sql
from psycopg_pool import ConnectionPool, PoolTimeout

from backstory.errors import DatabaseUnusable
from backstory.server.refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from psycopg import Connection, Cursor

SCHEMA, APPLICATION, SEARCHER, OWNER = "backstory", "backstory_app", "backstory_search", "backstory"
"""The schema of our tables, and the accounts: who asks, who owns functions that find, who owns tables of our own."""
EXTENSION = "btree_gin"
VERSION_LEAST = 160_000
CONNECTIONS_MAX = 8
WAIT_S = 10
MIGRATING = 0x6261636B
"""The number of the lock that a start holds while it changes tables."""
LOCK_WAIT_MS, LOCK_TRIES = 2_000, 15
"""The longest that a migration waits for a table, and how often it tries."""
Row = tuple[Any, ...]


class TeamDatabase:
    """A database that is up to date. ``address``: as libpq has it. It is used by many threads."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._pool = ConnectionPool(
            address, min_size=1, max_size=CONNECTIONS_MAX, timeout=WAIT_S, open=True, configure=_as_application,
            check=ConnectionPool.check_connection, name="backstory",
        )  # fmt: skip

    def in_use(self) -> Self:
        """Return this once it has a connection: whoever looks sees that the database is used. Raises PoolTimeout."""
        self._pool.wait(WAIT_S)
        return self

    @contextmanager
    def of(self, tenant: int) -> Iterator[Cursor[Row]]:
        """A transaction with one tenant's rows: kept at the end, undone by an error.

        Raises DatabaseUnusable, and Refused for a value that no table can have.
        """
        try:
            with self._pool.connection() as connection, connection.cursor() as cursor:
                cursor.execute("select set_config('backstory.tenant', %s, true)", (str(tenant),))
                yield cursor
        except refusals.DiskFull as refused:
            raise Refused(503, "disk_full", "The server's disk is full. What it confirmed is kept.") from refused
        except (psycopg.OperationalError, refusals.ReadOnlySqlTransaction, PoolTimeout) as refused:
            raise DatabaseUnusable(_said(refused)) from refused
        except psycopg.DataError as refused:
            # What it says may be the value.
            raise Refused(400, "request_wrong", "The request has a value that cannot be kept.") from refused

    def state(self) -> str:
        """Return a value that differs once the tables were brought back from a copy, or another machine took over.

        Raises DatabaseUnusable.
        """
        with self.of(0) as rows:
            return str(one(rows.execute(_STATE, (f"{SCHEMA}.organisation",)))[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()


def prepared(address: str) -> TeamDatabase:
    """Bring a database up to date and return it. Raises DatabaseUnusable, and says what an admin has to do."""
    try:
        with psycopg.connect(address, connect_timeout=WAIT_S) as connection:
            _check(connection)
            _migrate(connection)
        return TeamDatabase(address).in_use()
    except psycopg.Error as refused:
        raise DatabaseUnusable(_said(refused)) from refused


def make_own(address: str) -> str:
    """Make the account and the database of a PostgreSQL that is ours, if they are not there; return its address."""
    with psycopg.connect(address, autocommit=True) as connection:
        # Two that start at once make them once; the lock ends with the connection.
        connection.execute("select pg_advisory_lock(%s)", (MIGRATING,))
        found = connection.execute("select from pg_roles where rolname = %s", (OWNER,)).fetchone()
        if found is None:
            connection.execute(sql.SQL("create role {} login createrole").format(sql.Identifier(OWNER)))
        if connection.execute("select from pg_database where datname = %s", (SCHEMA,)).fetchone() is None:
            names = {"name": sql.Identifier(SCHEMA), "owner": sql.Identifier(OWNER)}
            connection.execute(sql.SQL("create database {name} owner {owner}").format(**names))
        host = connection.info.host
    return f"host={host} user={OWNER} dbname={SCHEMA}"


def _as_application(connection: Connection[Row]) -> None:
    connection.execute(f"set role {APPLICATION}")
    connection.execute(f"set search_path to {SCHEMA}")
    connection.commit()


def _check(connection: Connection[Row]) -> None:
    """Refuse a database in which the walls between tenants would not hold, or whose tables are not ours."""
    if connection.info.server_version < VERSION_LEAST:
        raise DatabaseUnusable(f"it is PostgreSQL {connection.info.server_version // 10_000}; 16 is the least")
    who = connection.execute("select rolsuper or rolbypassrls, current_user from pg_roles where rolname = current_user")
    passes, name = one(who)
    if passes:
        raise DatabaseUnusable(
            f"its account {name} passes over row-level security; connect as one without SUPERUSER and BYPASSRLS"
        )
    there = connection.execute(
        "select to_regnamespace(%s) is not null, to_regclass(%s) is not null", (SCHEMA, f"{SCHEMA}.migration")
    )
    has_schema, is_ours = one(there)
    if has_schema and not is_ours:
        raise DatabaseUnusable(f"its schema {SCHEMA} is another program's")


def _migrate(connection: Connection[Row]) -> None:
    """Run the files that were not run yet, each in a transaction, while no other server does."""
    connection.execute("select pg_advisory_lock(%s)", (MIGRATING,))
    make_accounts(connection)
    connection.execute(f"create schema if not exists {SCHEMA}")
    connection.execute(f"set search_path to {SCHEMA}")
    _make_extension(connection)
    connection.execute("create table if not exists migration (number int primary key, at timestamptz not null)")
    connection.commit()
    done = one(connection.execute("select coalesce(max(number), 0) from migration"))[0]
    texts = [each for each in files(__package__).joinpath("migrations").iterdir() if each.name.endswith(".sql")]
    known = dict(enumerate(sorted(texts, key=lambda each: each.name), 1))
    # Two with one number would hide each other.
    assert [each.name[:4] for each in known.values()] == [f"{number:04}" for number in known]
    if done > len(known):
        raise DatabaseUnusable("a newer backstory made its tables; run that one")
    for number, file in known.items():
        if number > done:
            _run_beside_others(connection, number, file.read_text("utf-8"))
    connection.execute("select pg_advisory_unlock(%s)", (MIGRATING,))


def _run_beside_others(connection: Connection[Row], number: int, text: str) -> None:
    """Run a migration while servers answer: it waits for a table only so long that those behind it do not notice."""
    connection.execute("select set_config('lock_timeout', %s, false)", (f"{LOCK_WAIT_MS}ms",))
    connection.commit()
    for tries_left in reversed(range(LOCK_TRIES)):
        try:
            connection.execute(text.encode())
            connection.execute("insert into migration values (%s, now())", (number,))
            _wall(connection)
            _sample_no_words(connection)
            connection.commit()
        except refusals.LockNotAvailable as refused:
            connection.rollback()
            if not tries_left:
                why = f"somebody has held its tables for too long to bring them up to date (migration {number})"
                raise DatabaseUnusable(why) from refused
            time.sleep(random.uniform(0.5, 1) * LOCK_WAIT_MS / 1_000)
        else:
            break
    connection.execute("reset lock_timeout")
    connection.commit()


def make_accounts(connection: Connection[Row]) -> None:
    """Make the accounts to which the tables are open, for the one of a connection. Raises DatabaseUnusable."""
    for name in (APPLICATION, SEARCHER):
        if connection.execute("select from pg_roles where rolname = %s", (name,)).fetchone() is None:
            try:
                connection.execute(f"create role {name} nologin")
            except refusals.InsufficientPrivilege as refused:
                raise DatabaseUnusable(
                    "its account may not create roles; an admin runs once: "
                    + "; ".join(f"create role {each} nologin" for each in (APPLICATION, SEARCHER))
                    + f"; grant {APPLICATION}, {SEARCHER} to {connection.info.user} with inherit false, set true"
                ) from refused
        if connection.execute("select pg_has_role(current_user, %s, 'set')", (name,)).fetchone() == (True,):
            # An admin made it, and only an admin may say so again.
            continue
        connection.execute(
            sql.SQL("grant {} to {} with inherit false, set true").format(
                sql.Identifier(name), sql.Identifier(connection.info.user)
            )
        )


def _make_extension(connection: Connection[Row]) -> None:
    """Have the extension by which words are found in one organisation alone."""
    if connection.execute("select from pg_extension where extname = %s", (EXTENSION,)).fetchone() is not None:
        return
    try:
        connection.execute(f"create extension {EXTENSION}")
    except refusals.InsufficientPrivilege as refused:
        raise DatabaseUnusable(
            f"its account may not make the extension {EXTENSION}; an admin runs once: create extension {EXTENSION}"
        ) from refused
    except (refusals.FeatureNotSupported, refusals.UndefinedFile) as refused:
        raise DatabaseUnusable(
            f"it has no extension {EXTENSION}; an admin installs PostgreSQL's additional modules (contrib)"
        ) from refused


def _wall(connection: Connection[Row]) -> None:
    """Put every table of tenants behind row-level security."""
    connection.execute(f"grant usage on schema {SCHEMA} to {APPLICATION}, {SEARCHER}")
    for (table,) in connection.execute(_TENANTS_TABLES, (SCHEMA,)).fetchall():
        name = sql.Identifier(table)
        for text in _WALL:
            connection.execute(sql.SQL(text).format(name))


def _sample_no_words(connection: Connection[Row]) -> None:
    """Have PostgreSQL keep no samples of texts for its plans: what is erased would stay among them."""
    for table, column in connection.execute(_SAMPLED, (SCHEMA,)).fetchall():
        text = "alter table {} alter column {} set statistics 0"
        connection.execute(sql.SQL(text).format(sql.Identifier(table), sql.Identifier(column)))


_STATE = """
select md5(concat_ws(' ', system_identifier, timeline_id, %s::regclass::oid))
from pg_control_system(), pg_control_checkpoint()
"""
_SAMPLED = """
select c.relname, a.attname from pg_class c join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where n.nspname = %s and c.relkind in ('r', 'p') and c.relname <> 'migration' and coalesce(a.attstattarget, -1) <> 0
  and a.atttypid in ('text'::regtype, 'bytea'::regtype, 'tsvector'::regtype, 'json'::regtype, 'jsonb'::regtype,
    'text[]'::regtype)
"""
_TENANTS_TABLES = """
select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relkind in ('r', 'p') and c.relname <> 'migration'
  and not exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'of_tenant')
"""
_WALL: Sequence[str] = (
    "alter table {} enable row level security",
    "alter table {} force row level security",
    "create policy of_tenant on {} to backstory_app "
    "using (tenant = nullif(current_setting('backstory.tenant', true), '')::bigint)",
    "grant select, insert, update, delete on {} to backstory_app",
)


def one(cursor: Cursor[Row]) -> Row:
    """Return the row of a statement that has one."""
    row = cursor.fetchone()
    assert row is not None
    return row


def is_held(refused: DatabaseUnusable) -> bool:
    """True if somebody held what a statement needs for longer than it waits."""
    return isinstance(refused.__cause__, refusals.LockNotAvailable)


def _said(refused: Exception) -> str:
    """The words of a database, in one line, without an address that may hold a password."""
    primary = refused.diag.message_primary if isinstance(refused, psycopg.Error) else None
    lines = str(primary or refused).strip().splitlines()
    return lines[0] if lines else type(refused).__name__
