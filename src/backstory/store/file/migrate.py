"""From any released schema to today's, and no further: a newer store is refused, never stamped down.

A changed table is a migration, also one of what is derived: ``derived.sql`` only makes what lacks. A new derived table,
and another content of one, raises ``derived_version``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory import errors
from backstory.lazy import lazy_regex
from backstory.store import codec, moves, schema
from backstory.store.file import connection, erasing
from backstory.store.intake import derived_tables
from backstory.store.tables import logs

if TYPE_CHECKING:
    import apsw

SCHEMA_VERSION = 6
STALE = "stale"
"""Key in ``meta``, there while sessions are left that an earlier version derived."""
OLDEST = 3
"""The first schema that was promised: a file of an earlier one is refused, unchanged."""
LAST_WITH_EARLIER = "ccb6269"
"""The last revision that reads files of earlier schemas."""
DERIVED_VERSION = derived_tables.TABLES_VERSION

MIGRATIONS: dict[int, str] = {4: "to_4.sql", 5: "to_5.sql", 6: "to_6.sql"}
"""The steps to each version from the one before: SQL, or the name of a file of it here."""


def schema_version(db: apsw.Connection, path: Path) -> int:
    """The schema of a store that is open.

    Raises NotAStore when it has none, StoreTooNew when it is beyond ours, StoreTooOld when it is before the first.
    """
    # Another program's file may have a ``meta`` of its own.
    is_told = db.execute("select count(*) = 2 from pragma_table_info('meta') where name in ('key', 'value')").get
    found: Any = db.execute(_VERSION).fetchone() if is_told else None
    if found is None or not _NUMBER.fullmatch(str(found[0])):
        raise errors.NotAStore(path, "it has no schema version")
    version, is_draft = int(found[0]), bool(found[1])
    if version > SCHEMA_VERSION:
        raise errors.StoreTooNew(path, version, SCHEMA_VERSION)
    if version < OLDEST or is_draft:
        raise errors.StoreTooOld(path, version, LAST_WITH_EARLIER)
    return version


_NUMBER = lazy_regex("[0-9]{1,9}")
# Drafts of the first schema had its number already, and a table under a name that no store has had since.
_VERSION = """
select value, exists (select 1 from sqlite_schema where name = 'companions') from meta where key = 'schema_version'
"""


def id_of(db: apsw.Connection, path: Path) -> str:
    """The id of a store that is open; raises NotAStore where there is none."""
    found = db.execute("select value from meta where key = 'store_id'").get
    if found is None:
        raise errors.NotAStore(path, "it has no id")
    return str(found)


def is_derived(db: apsw.Connection) -> bool:
    """Return True if nothing is left that an earlier version derived."""
    return not db.execute(_HAS_EARLIER, (STALE, derived_tables.VERSION)).get


# Who writes notes that something is left. Where nobody wrote since, the store's version and its logs' tell.
_HAS_EARLIER = """
select exists (select 1 from meta where key = ?1)
  or exists (select 1 from meta where key = 'derived_version' and cast(value as integer) < ?2)
  and exists (select 1 from logs where derived < ?2)
"""


def note_derived(db: apsw.Connection) -> None:
    """Note that nothing is left that an earlier version derived."""
    db.execute("delete from meta where key = ?", (STALE,))


def is_current(db: apsw.Connection, path: Path) -> bool:
    """Return True if a store has today's tables; raises as ``schema_version`` does."""
    if schema_version(db, path) != SCHEMA_VERSION:
        return False
    # What a later version derived has the tables that we know: it is not stamped down.
    at_least = "select cast(value as integer) >= ? from meta where key = 'derived_version'"
    return bool(db.execute(at_least, (DERIVED_VERSION,)).get)


def begin(db: apsw.Connection, store_id: str, root: str | None) -> None:
    """Make today's tables in an empty file, inside the caller's transaction. ``root``: its project's, if it has one."""
    for text in schema.texts():
        db.execute(text)
    db.execute(f"pragma application_id = {connection.APPLICATION_ID}")
    db.executemany(
        "insert into meta(key, value) values (?, ?)",
        [
            ("schema_version", str(SCHEMA_VERSION)),
            ("derived_version", str(DERIVED_VERSION)),
            ("store_id", store_id),
            ("next_number", "1"),
            # A new file has nothing to erase.
            (erasing.MARK, "1"),
        ],
    )
    if root is not None:
        moves.write_root(db, root)
    codec.keep_shipped(db)


def upgrade(db: apsw.Connection, path: Path) -> None:
    """Bring an older store to today's schema, inside the caller's transaction."""
    for version in range(schema_version(db, path) + 1, SCHEMA_VERSION + 1):
        change = MIGRATIONS[version]
        db.execute(Path(__file__).with_name(change).read_text("utf-8") if change.endswith(".sql") else change)
        db.execute("update meta set value = ? where key = 'schema_version'", (str(version),))
    codec.keep_shipped(db)
    if not db.execute("select 1 from pragma_table_info('logs') where name = 'path_hash'").get:
        # Earlier versions look by the end of a path, with or without an index.
        db.execute("alter table logs add column path_hash integer; drop index if exists idx_logs_path_end")
    logs.hash_paths(db)
    # Tables of what can be derived are made where they lack; reading a log anew fills them.
    db.execute(schema.texts()[1])
    db.execute("insert or ignore into list_keys(session_id) select id from sessions")
    # Deriving again takes minutes for a large store, so it is noted here and done by the next ingest.
    if db.execute("select exists (select 1 from logs where derived < ?)", (derived_tables.VERSION,)).get:
        db.execute("insert or ignore into meta(key, value) values (?, '1')", (STALE,))
    # Never lowered: a later version's program may share the file.
    raised = "update meta set value = ?1 where key = 'derived_version' and cast(value as integer) < ?1"
    db.execute(raised, (DERIVED_VERSION,))
