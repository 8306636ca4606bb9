"""From any released schema to today's, and no further: a newer store is refused, never stamped down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backstory import errors
from backstory.store import codec, derived, erasing
from backstory.store.connection import APPLICATION_ID

if TYPE_CHECKING:
    import apsw

SCHEMA_VERSION = 3
DERIVED_VERSION = derived.VERSION

MIGRATIONS: dict[int, str] = {
    2: """
    alter table sessions add column root text;
    alter table sessions add column leaf_seq integer;
    alter table turns add column removed integer;
    create index idx_turns_removed on turns(session_id) where removed is not null;
    create index idx_sessions_repo on sessions(repository);
    create index idx_sessions_cwd on sessions(cwd);
    create index idx_sessions_native on sessions(native_id) where native_id is not null;
    alter table logs add column pending blob;
    alter table logs add column derived integer not null default 0;
    alter table logs add column gone integer;
    alter table logs add column cwd text;
    create table companions(
      id       integer primary key,
      log_id   integer not null references logs(id) on delete cascade,
      name     text not null,
      size     integer not null,
      mtime_ns integer not null,
      sha256   blob not null,
      data     blob not null,
      unique (log_id, name)
    );
    create table branches(
      id         integer primary key,
      session_id integer not null references sessions(id) on delete cascade,
      name       text not null,
      leaf_uid   text not null,
      leaf_seq   integer,
      created    integer not null,
      unique (session_id, name)
    );
    drop trigger if exists session_gone;
    create trigger session_gone after delete on sessions begin
      delete from events where session_id = old.id;
      delete from turns where session_id = old.id;
      delete from logs where session_id = old.id;
      delete from branches where session_id = old.id;
      delete from compactions where session_id = old.id;
      update sessions set parent_id = null where parent_id = old.id;
    end;
    drop trigger if exists log_gone;
    create trigger log_gone after delete on logs begin
      delete from chunks where log_id = old.id;
      delete from numbers where log_id = old.id;
      delete from companions where log_id = old.id;
      update log_places set log_id = null where log_id = old.id;
    end;
    create trigger turn_follows after insert on turns when new.parent_uid is not null begin
      update branches set leaf_uid = new.uid, leaf_seq = null
      where session_id = new.session_id and leaf_uid = new.parent_uid and (leaf_seq = new.parent_seq
        or (leaf_seq is null and not exists (select 1 from events e, turns t where t.session_id = new.session_id
          and t.uid = new.parent_uid and e.session_id = new.session_id and e.seq > new.parent_seq
          and e.seq <= t.last_seq and e.kind in ('UserMessage', 'AssistantText', 'Thinking', 'ToolCall', 'ToolResult',
          'Error', 'Plan', 'Compacted'))));
    end;
    """,
    3: """
    alter table logs add column told_to integer;
    alter table log_places add column ctime_ns integer;
    -- What nobody understands is kept, too: it is looked at once more.
    update log_places set reason = null where reason = 'not_a_log';
    alter table sessions add column elsewhere text;
    alter table turns add column cache_write_1h_tokens integer;
    alter table turns add column largest_input_tokens integer;
    """,
}
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


def is_current(db: apsw.Connection, path: Path) -> bool:
    """Whether a store has today's tables; raises as ``schema_version`` does."""
    if schema_version(db, path) != SCHEMA_VERSION:
        return False
    return bool(db.execute("select value = ? from meta where key = 'derived_version'", (str(DERIVED_VERSION),)).get)


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
            (erasing.MARK, "1"),
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
    # Tables of what can be derived are made where they lack; reading a log anew fills them.
    db.execute(Path(__file__).with_name("derived.sql").read_text("utf-8"))
    db.execute("update meta set value = ? where key = 'derived_version'", (str(DERIVED_VERSION),))
