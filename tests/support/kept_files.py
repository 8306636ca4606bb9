"""Looks for words in all that a team's server keeps: every value of every table, and every file of its PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from backstory.store import codec
from tests.support.leftovers import FRAME, unpacked_frames

if TYPE_CHECKING:
    from pathlib import Path

    from psycopg import Connection

TABLES = """
select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'm') and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast') order by 1, 2
"""
UNPACKED_MAX = 1 << 26


def in_tables(admin: str, words: list[str]) -> set[str]:
    """Where in the tables words are: ``TABLE: WORD``. ``admin``: the address of the database, past its walls."""
    with psycopg.connect(admin) as connection:
        found = {
            f"{table}: {word}" for schema, table in connection.execute(TABLES).fetchall()
            for each in _values(connection, schema, table) for word in words if word.encode() in each
        }  # fmt: skip
        return found | {f"pg_stats: {word}" for word in words if word.encode() in _statistics(connection)}


def table_values(admin: str) -> list[bytes]:
    """All that the tables hold, frames also unpacked, and what is kept of it for plans."""
    with psycopg.connect(admin) as connection:
        tables = connection.execute(TABLES).fetchall()
        return [each for table in tables for each in _values(connection, *table)] + [_statistics(connection)]


def _statistics(connection: Connection[tuple[object, ...]]) -> bytes:
    return str(connection.execute("select s::text from pg_stats s where schemaname = 'backstory'").fetchall()).encode()


def _values(connection: Connection[tuple[object, ...]], schema: str, table: str) -> list[bytes]:
    """The values of a table, as text and as bytes; a frame also unpacked."""
    found = list[bytes]()
    for row in connection.execute(sql.SQL("select * from {}").format(sql.Identifier(schema, table))):
        for each in row:
            found.append(each if isinstance(each, bytes) else str(each).encode())
            if isinstance(each, bytes) and each.startswith(FRAME):
                found.append(codec.unpack_frame(each, UNPACKED_MAX))
    return found


def in_files(folder: Path, words: list[str]) -> set[str]:
    """Where in the files of a folder words are: ``FILE: how: WORD``. A frame is unpacked as far as it is whole."""
    found = set[str]()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            unpacked = b"\n".join(unpacked_frames(data)) if FRAME in data else b""
            for how, text in (("as it is", data), ("in a frame", unpacked)):
                found |= {f"{path.relative_to(folder)}: {how}: {word}" for word in words if word.encode() in text}
    return found


def cleaned(admin: str) -> None:
    """Have PostgreSQL write all that is left into new files, and end the log of before: as docs/server.md says."""
    with psycopg.connect(admin, autocommit=True) as connection:
        for text in CLEANED:
            connection.execute(text.encode())


CLEANED = ("vacuum (full, analyze)", "vacuum full pg_statistic", "checkpoint", "select pg_switch_wal()", "checkpoint")
