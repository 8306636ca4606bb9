"""Copies of a server's own database in one file, and a server that begins with one."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import psycopg
from msgspec import Struct
from psycopg import sql
from psycopg.errors import ObjectInUse

from backstory.errors import BackupRefused, CannotWrite, DatabaseNotStarted, FileUnreadable
from backstory.server.database import SCHEMA, make_accounts, make_own, one, prepared
from backstory.server.postgres import own_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.server.postgres import OwnDatabase

SIGNATURE = b"PGDMP"
"""The first bytes of a file of pg_dump."""
GONE_S = 2.0
"""The time for which a connection that ended may still be seen."""
_OTHERS = """
select exists (select from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid())
"""


class ServerCopy(Struct, frozen=True, kw_only=True):
    """Counts of what a copy holds, of all organisations."""

    organisations: int
    people: int
    sessions: int
    bytes: int


def back_up(folder: Path, path: Path) -> ServerCopy:
    """Write all that a server keeps into a new file, also while it works.

    Raises BackupRefused, CannotWrite, DatabaseNotStarted.
    """
    if not (folder / "pg" / "PG_VERSION").exists():
        raise BackupRefused(f"there is no server's database in {folder}")
    part = path.with_name(f"{path.name}.part")
    with ExitStack() as ends:
        own = ends.enter_context(running(folder))
        try:
            part.unlink(missing_ok=True)
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                ends.callback(part.unlink, missing_ok=True)
                own.back_up(SCHEMA, file)
                os.fsync(file.fileno())
            _put(part, path)
        except OSError as refused:
            raise CannotWrite(path, refused.strerror or str(refused)) from refused
        return _counted(own, path)


def restore(folder: Path, path: Path) -> ServerCopy:
    """Begin a server in an empty folder with what ``back_up`` wrote.

    Raises BackupRefused where the folder has a server's history, and for a file that is no copy: nothing is left then.
    """
    try:
        file = path.open("rb", buffering=0)
    except OSError as refused:
        raise FileUnreadable(path, refused.strerror or str(refused)) from refused
    with file, running(folder) as own:
        if file.read(len(SIGNATURE)) != SIGNATURE:
            raise BackupRefused(f"{path} is no copy that `serve --backup` wrote")
        file.seek(0)
        with psycopg.connect(own.address, autocommit=True) as admin:
            _drop_unfinished(own, folder)
            address = make_own(own.address)
            try:
                with psycopg.connect(address) as owner:
                    make_accounts(owner)
                own.restore(SCHEMA, file)
                with prepared(address):
                    return _counted(own, path)
            except BaseException as failed:
                admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(SCHEMA)))
                if isinstance(failed, DatabaseNotStarted):
                    raise BackupRefused(f"PostgreSQL cannot read {path}: it may be cut") from failed
                raise


def _put(part: Path, path: Path) -> None:
    """Put a file in its place, never in that of an earlier one. Raises OSError."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:
        # Not every disk has a second name for a file.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            part.replace(path)
        except OSError:
            path.unlink()
            raise


def _drop_unfinished(own: OwnDatabase, folder: Path) -> None:
    """Drop the database that a restore left when it was killed: all comes into one at once. Raises BackupRefused."""
    with psycopg.connect(own.address, autocommit=True) as admin:
        if admin.execute("select from pg_database where datname = %s", (SCHEMA,)).fetchone() is None:
            return
        with psycopg.connect(own.address, dbname=SCHEMA) as there:
            if one(there.execute("select to_regclass(%s) is not null", (f"{SCHEMA}.migration",)))[0]:
                raise BackupRefused(f"a server has its history in {folder}; choose an empty folder")
        try:
            admin.execute(sql.SQL("drop database {}").format(sql.Identifier(SCHEMA)))
        except ObjectInUse as refused:
            raise BackupRefused(f"somebody works in the database of {folder}") from refused


def _is_used(own: OwnDatabase) -> bool:
    """True if somebody else works in it, or ends it."""
    ends = time.monotonic() + GONE_S
    try:
        with psycopg.connect(own.address, autocommit=True) as admin:
            while one(admin.execute(_OTHERS))[0]:
                if time.monotonic() > ends:
                    return True
                time.sleep(0.02)
    except psycopg.Error:
        return True
    return False


@contextmanager
def running(folder: Path) -> Iterator[OwnDatabase]:
    """The database of a folder; it ends again if it did not run, unless a server began meanwhile, which ends it."""
    own = own_database(folder)
    was_running = not own.start()
    try:
        yield own
    finally:
        if not was_running and own.is_running and not _is_used(own):
            own.stop()


def _counted(own: OwnDatabase, path: Path) -> ServerCopy:
    with psycopg.connect(own.address, dbname=SCHEMA) as rows:
        tables = ("organisation", "person", "session")
        asked = ", ".join(f"(select count(*) from {SCHEMA}.{each})" for each in tables)
        organisations, people, sessions = one(rows.execute(f"select {asked}".encode()))
    return ServerCopy(organisations=organisations, people=people, sessions=sessions, bytes=path.stat().st_size)
