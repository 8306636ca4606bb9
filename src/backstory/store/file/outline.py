"""The outline of a store for a bug report: rows counted by kind, errors without their texts, records nobody could read.

A store is read as ``untouched`` opens it. Whatever a row says that is no word of ours is ``*`` here.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import apsw
from msgspec import Struct

from backstory.bounds import iso
from backstory.model import KINDS, Error, Unknown
from backstory.store import codec, schema
from backstory.store.file import untouched
from backstory.store.schema import fetch
from backstory.store.tables import logs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

ERRORS_MAX = 50
RECORDS_MAX = 2_000
"""The most records that nobody could read that are looked at, the last ones."""
RECORD_BYTES_MAX = 1024 * 1024
MASK = "*"
DAY_CHARS = 10
LOG_KINDS = (logs.FILE, logs.STREAM, logs.STDERR, logs.API)
"""The kinds of logs that are named; others are copies of these."""


class StoreOutline(Struct, frozen=True, kw_only=True):
    """Counts of a store: rows by table, events by kind, logs by agent and kind; its last errors by day and agent."""

    rows: dict[str, int]
    events: dict[str, int]
    logs: dict[str, int]
    unread_logs: int
    errors: list[dict[str, Any]]


def outline(path: Path, agents: Collection[str]) -> StoreOutline | None:
    """Count what a store holds; None where it cannot be read now. ``agents``: the names that may be told."""
    try:
        with untouched.opened(path) as db:
            return StoreOutline(
                rows=_rows(db),
                events=_events(db),
                logs=_logs(db, agents),
                unread_logs=_count(db, "logs where reason is not null"),
                errors=list(_errors(db, agents)),
            )
    except apsw.Error:
        return None


def strange_records(path: Path, agents: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the last records that nobody could read, each with its agent's name, as they were logged."""
    asked = (
        "select l.agent, e.log_id, e.position, e.length from events e join logs l on l.id = e.log_id "
        f"where e.kind in {schema.sql_list([Unknown])} and e.length <= ? order by e.id desc limit ?"
    )
    with suppress(apsw.Error), untouched.opened(path) as db:
        unpacked = logs.UnpackedChunks()
        for agent, log_id, position, length in fetch(
            db, tuple[object, int, int, int], asked, (RECORD_BYTES_MAX, RECORDS_MAX)
        ):
            with suppress(codec.CodecError):
                yield _known(agent, agents), logs.read(db, log_id, position, length, unpacked)


def _rows(db: apsw.Connection) -> dict[str, int]:
    there = {str(name) for (name,) in db.execute("select name from pragma_table_list where type = 'table'")}
    return {name: _count(db, name) for name in schema.columns() if name in there}


def _events(db: apsw.Connection) -> dict[str, int]:
    found = dict[str, int]()
    for kind, count in db.execute("select kind, count(*) from events group by kind"):
        name = _known(kind, KINDS)
        found[name] = found.get(name, 0) + count
    return found


def _logs(db: apsw.Connection, agents: Collection[str]) -> dict[str, int]:
    found = dict[str, int]()
    for agent, kind, count in db.execute("select agent, kind, count(*) from logs group by 1, 2"):
        name = f"{_known(agent, agents)} {_known(kind, LOG_KINDS)}"
        found[name] = found.get(name, 0) + count
    return found


def _errors(db: apsw.Connection, agents: Collection[str]) -> Iterator[dict[str, Any]]:
    rows = db.execute(
        "select e.at, l.agent, e.char_len from events e left join logs l on l.id = e.log_id "
        f"where e.kind in {schema.sql_list([Error])} order by e.id desc limit ?",
        (ERRORS_MAX,),
    )
    for at, agent, chars in rows:
        day = (iso(at) or "")[:DAY_CHARS] if isinstance(at, int) else ""
        yield {"day": day, "agent": _known(agent, agents), "chars": chars if isinstance(chars, int) else 0}


def _count(db: apsw.Connection, what: str) -> int:
    return int(db.execute(f"select count(*) from {what}").get)


def _known(word: object, words: Collection[str]) -> str:
    return word if isinstance(word, str) and word in words else MASK
