"""A look at a store or a queue that changes nothing: no page, no journal, no file beside it.

A reader of ours finishes what a crash interrupted and takes side files away again; who only looks must not. A store
whose WAL another process has open is read through it; where only a writer could say what is in it, that is said.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import apsw
from msgspec import Struct

from backstory import errors
from backstory.model import Unknown
from backstory.store.file import connection, erasing, migrate, waiting
from backstory.store.intake import coverage
from backstory.store.schema import fetch, sql_list
from backstory.store.tables import pruned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.store.file.waiting import LockHolder

WHOLE, MISSING, UNREADABLE, DAMAGED, FOREIGN, NEWER, OLDER, DRAFT, CUT_OFF = (
    "whole", "missing", "unreadable", "damaged", "foreign", "newer", "older", "draft", "cut-off",
)  # fmt: skip
"""States of a store. Cut off: a writer was killed, and whoever opens it next finishes or undoes what that one did."""
USED_BYTE = (128, 1)
"""The byte of a WAL's index that everybody who uses it holds a lock on."""
READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
BUSY_MS = 200
PAGE_SIZE_AT, PAGES_AT = slice(16, 18), slice(28, 32)
NEWEST_UNKNOWN = f"select count(*) from events where session_id = ? and kind in {sql_list([Unknown])}"
"""The records of one session that nobody could read: the index of events leads to them."""


class AgentLogs(Struct, frozen=True, kw_only=True):
    """The logs of one agent that a store holds, and of the newest: its path, session, and records nobody could read."""

    agent: str
    count: int
    newest_path: str
    newest_uid: str
    unknown: int


class StoreLook(Struct, frozen=True, kw_only=True):
    """A store as it lies there. ``newest_ms``: the time of its newest session; other facts need today's tables."""

    path: Path
    state: str
    detail: str = ""
    store_id: str = ""
    schema: int = 0
    bytes: int = 0
    is_cut_off: bool = False
    """Nobody has it open, and what a killed writer left is beside it."""
    is_stale: bool = False
    is_in_bulk: bool = False
    is_index_outdated: bool = False
    is_to_erase: bool = False
    is_prune_due: bool = False
    newest_ms: int = 0
    logs: tuple[AgentLogs, ...] = ()


class QueueLook(Struct, frozen=True, kw_only=True):
    """A queue: its prompts (uid, session, kind) and the sessions that somebody says to run (session, process, host)."""

    texts: tuple[tuple[str, str, str], ...] = ()
    owners: tuple[tuple[str, int, str], ...] = ()


def look(path: Path, *, is_ours: bool = True, rule: coverage.IndexRule | None = None) -> StoreLook:
    """Look at a store. Of one from elsewhere, which may hold anything, only its schema and id are read.

    ``rule``: that of the settings, which the store should follow; None: the one that it follows.
    """
    known: dict[str, Any] = {"path": path}
    try:
        connection.check_path(path)
        known["bytes"] = path.stat().st_size
    except PermissionError:
        return StoreLook(**known, state=UNREADABLE)
    except errors.PathNotText:
        return StoreLook(**known, state=UNREADABLE, detail="its path is not UTF-8: rename the folder")
    except OSError:
        return StoreLook(**known, state=MISSING)
    if not known["bytes"]:
        return StoreLook(**known, state=MISSING)
    try:
        try:
            connection.check_header(path)
        except errors.NotAStore as refused:
            return StoreLook(**known, state=FOREIGN, detail=refused.why)
        is_left = _is_left(path)
        if (lacking := _lacking(path)) and not is_left:
            return StoreLook(**known, state=DAMAGED, detail=lacking)
        with opened(path) as db, connection.translated(path):
            known["schema"] = migrate.schema_version(db, path)
            known["store_id"] = migrate.id_of(db, path)
            if known["schema"] < migrate.SCHEMA_VERSION:
                return StoreLook(**known, state=OLDER, is_cut_off=is_left)
            facts = _facts(db, rule) if is_ours else {}
    except errors.StoreTooNew as refused:
        return StoreLook(**known, state=NEWER, detail=str(refused))
    except errors.StoreTooOld:
        return StoreLook(**known, state=DRAFT)
    except (errors.StoreReadOnly, errors.StoreBusy):
        # A hot journal can be read by nobody who may not write.
        is_journal = connection.is_interrupted(path) or _is_left(path)
        return StoreLook(**known, state=CUT_OFF if is_journal else UNREADABLE, is_cut_off=is_journal)
    except (errors.BackstoryError, apsw.Error) as refused:
        return StoreLook(**known, state=DAMAGED, detail=getattr(refused, "why", "") or str(refused))
    return StoreLook(**known, **facts, state=WHOLE, is_cut_off=is_left)


def look_at_queue(path: Path) -> QueueLook:
    """Look at a queue of ours; one that cannot be read now is empty."""
    if not connection.exists(path):
        return QueueLook()
    try:
        with opened(path) as db:
            texts = fetch(db, tuple[str, str, str], "select uid, session_uid, kind from texts order by position")
            owners = fetch(db, tuple[str, int, str], "select session_uid, pid, host from owners")
    except apsw.Error:
        return QueueLook()
    return QueueLook(texts=tuple(texts), owners=tuple(owners))


@contextmanager
def opened(path: Path) -> Iterator[apsw.Connection]:
    """A connection that leaves a file, and all beside it, as they are."""
    has_wal = _is_there(path.with_name(path.name + "-wal"))
    # Without a WAL there is nothing to wait for; with one, its index is read and never made.
    how = "readonly_shm=1" if has_wal else "immutable=1"
    if _is_there(path.with_name(path.name + "-journal")):
        how = "mode=ro"
    elif has_wal and not _is_there(path.with_name(path.name + "-shm")):
        how = "immutable=1"
    with closing(apsw.Connection(f"file:{quote(os.fsencode(path))}?{how}", flags=READ_ONLY)) as db:
        db.set_busy_timeout(BUSY_MS)
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
        db.execute("pragma query_only = 1").fetchall()
        yield db


def user_of(path: Path) -> LockHolder | None:
    """The process that has a store open, or writes it; None where the system names none."""
    # A process that opens the file a second time, and closes that, loses its locks on it, but not on the WAL's index.
    index = path.with_name(path.name + "-shm")
    return (waiting.holder_of(index, USED_BYTE) if _is_there(index) else None) or waiting.holder_of(path)


def sqlite_version() -> str:
    """The version of the SQLite that is used here."""
    return str(apsw.sqlite_lib_version())


def sqlite_lacks(version: str, options: tuple[str, ...] = tuple(apsw.compile_options)) -> list[str]:
    """Name the needs of a store that a SQLite of this version, built with these options, lacks.

    >>> sqlite_lacks("3.40.0", ("THREADSAFE=1",))
    ['version 3.43', 'FTS5']
    """
    number = tuple(int(each) for each in version.split(".")[:2])
    return [*(["version 3.43"] if number < LEAST else []), *(["FTS5"] if "ENABLE_FTS5" not in options else [])]


LEAST = (3, 43)
"""The first SQLite whose index can forget rows without their content."""


def _is_there(path: Path) -> bool:
    """Return True if a file is there; what may not be asked about is not."""
    try:
        return path.exists()
    except OSError:
        return False


def _facts(db: apsw.Connection, rule: coverage.IndexRule | None) -> dict[str, Any]:
    newest = fetch(db, tuple[int | None], "select max(last_active) from sessions")[0][0]
    return {
        "is_stale": not (migrate.is_derived(db) and _has_todays_tables(db)),
        "is_in_bulk": bool(
            db.execute("select count(*) from search_index_config where k = 'automerge' and v = 0").get
        ),
        "is_index_outdated": coverage.is_outdated(db) or coverage.is_behind(db, rule),
        "is_to_erase": erasing.is_due(db),
        "is_prune_due": bool(pruned.unsettled(db)),
        "newest_ms": newest or 0,
        "logs": tuple(_logs(db)),
    }  # fmt: skip


def _has_todays_tables(db: apsw.Connection) -> bool:
    found = db.execute("select cast(value as integer) from meta where key = 'derived_version'").get
    return found is not None and int(found) >= migrate.DERIVED_VERSION


def _logs(db: apsw.Connection) -> Iterator[AgentLogs]:
    rows = fetch(
        db,
        tuple[str, int, str, int, int | None],
        "select agent, count(*), path, session_id, max(modified) from logs where kind = 'file' group by agent",
    )
    for agent, count, path, session_id, _ in rows:
        uid = str(db.execute("select uid from sessions where id = ?", (session_id,)).get or "")
        unknown = int(db.execute(NEWEST_UNKNOWN, (session_id,)).get)
        yield AgentLogs(agent=agent, count=count, newest_path=path, newest_uid=uid, unknown=unknown)


def _is_left(path: Path) -> bool:
    """Return True if a writer left a journal and nobody has the file open: that one was killed."""
    sides = (path.with_name(path.name + side) for side in ("-wal", "-journal"))
    if not any(connection.exists(each) for each in sides):
        return False
    # Where nobody can be asked about, as in a folder that may not be written, nobody is suspected.
    return os.access(path, os.W_OK) and user_of(path) is None


def _lacking(path: Path) -> str:
    """Return the bytes that a file lacks by its own header, in words; '' for nothing."""
    with path.open("rb") as file:
        header = file.read(connection.SQLITE_HEADER_BYTES)
    size = int.from_bytes(header[PAGE_SIZE_AT], "big")
    wanted = (65_536 if size == 1 else size) * int.from_bytes(header[PAGES_AT], "big")
    has = path.stat().st_size
    return f"it has {has:,} bytes and should have {wanted:,}" if has < wanted else ""
