"""From any released schema to today's, and no further: a newer store is refused, never stamped down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backstory import errors
from backstory.store import codec
from backstory.store.connection import APPLICATION_ID

if TYPE_CHECKING:
    import apsw

SCHEMA_VERSION = 1
DERIVED_VERSION = 1

MIGRATIONS: dict[int, str] = {}
"""SQL that takes a store from the version before to the one it is filed under."""


def schema_version(db: apsw.Connection, path: Path) -> int:
    """The schema of a store that is open; raises NotAStore when it has none, StoreTooNew when it is beyond ours."""
    known = db.execute("select count(*) from sqlite_schema where name = 'meta'").get
    found = db.execute("select value from meta where key = 'schema_version'").get if known else None
    if found is None:
        raise errors.NotAStore(path, "it has no schema version")
    version = int(found)
    if version > SCHEMA_VERSION:
        raise errors.StoreTooNew(path, version, SCHEMA_VERSION)
    return version


def begin(db: apsw.Connection, store_id: str) -> None:
    """Make today's tables in an empty file, inside the caller's transaction."""
    for name in ("schema.sql", "derived.sql"):
        db.execute(Path(__file__).with_name(name).read_text("utf-8"))
    db.execute(f"pragma application_id = {APPLICATION_ID}")
    db.executemany(
        "insert into meta(key, value) values (?, ?)",
        [
            ("schema_version", str(SCHEMA_VERSION)),
            ("derived_version", str(DERIVED_VERSION)),
            ("store_id", store_id),
            ("next_number", "1"),
        ],
    )
    shipped = codec.shipped_codec()
    db.execute(
        "insert into dictionaries(id, sha256, data) values (?, ?, ?)",
        (shipped.id, shipped.sha256, shipped.dictionary),
    )


def upgrade(db: apsw.Connection, path: Path) -> None:
    """Bring an older store to today's schema, inside the caller's transaction."""
    for version in range(schema_version(db, path) + 1, SCHEMA_VERSION + 1):
        db.execute(MIGRATIONS[version])
        db.execute("update meta set value = ? where key = 'schema_version'", (str(version),))
